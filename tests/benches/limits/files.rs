//! A file's lock, and a write under it, beside the bare system calls, with every sync that the write has.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use beadlock::file::{FileLock, atomic_write};
use beadlock_base::sys::{Flock, flock};
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open};
use nix::sys::stat::{Mode, fstat, lstat};
use nix::unistd::linkat;
use serde_json::value::RawValue;

use super::ratio::Clock;
use super::shell;
use super::table::{Table, Unit};

/// As many as are kept unless told otherwise.
const BACKUPS: usize = 5;

/// Where a sync is one: the databases of the bench may be in memory, what was built hardly ever is.
pub const DISK: &str = env!("CARGO_TARGET_TMPDIR");

/// How much of an unlocked write its lock may cost: section 8.1 of the document.
pub const SHARE_OF_THE_LOCK: f64 = 0.05;

pub fn measure(table: &mut Table) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let path = root.path().join("todo.json");
    let lock =
        CString::new(path.with_extension("json.lock").as_os_str().as_bytes()).expect("a path");
    let locking = FileLock::on(&path);
    // Made when it is missing; from then on it is there.
    let acquire = || drop(locking.acquire().expect("a free lock"));
    acquire();
    table.ratio(
        "FileLock, acquire and drop",
        "open, flock, close",
        Some(1.5),
        Clock::Thread,
        acquire,
        || drop(bare_lock(&lock)),
    );
    table.ratio(
        "FileLock, acquire and drop, proved",
        "open, fstat, flock, lstat, unlock, close",
        Some(1.2),
        Clock::Thread,
        acquire,
        || bare_proved_lock(&lock),
    );
    table.ratio(
        "FileLock by its path, acquire, and release, which looks again",
        "open, flock, close",
        None,
        Clock::Thread,
        || {
            FileLock::exclusive(&path)
                .expect("a free lock")
                .release()
                .expect("it stood");
        },
        || drop(bare_lock(&lock)),
    );
    acquire();
    let allocations = allocation_counter::measure(acquire).count_total;
    table.value(
        "allocations, FileLock, acquire and drop",
        Unit::Count,
        Some(0.0),
        allocations as f64,
        None,
    );
    let content = format!("[{}0]", "{\"id\": 1, \"done\": false}, ".repeat(40));
    let disk = tempfile::tempdir_in(DISK).expect("a directory on a disk");
    let path = disk.path().join("todo.json");
    let bare = Bare {
        dir: disk.path().to_owned(),
        path: disk.path().join("bare.json"),
    };
    table.ratio(
        "atomic_write: locked, checked, 5 backups, synced",
        "the same without the lock, on a disk",
        Some(1.05),
        Clock::Wall,
        || drop(atomic_write(&path, &content).expect("it is written")),
        || bare.write(content.as_bytes()),
    );
    // Both are small beside a sync, whose time varies: the lock by itself is measured more exactly than a difference.
    table.ratio(
        "the lock of an atomic_write: by its path, acquire and release",
        "a write without it, on a disk",
        Some(SHARE_OF_THE_LOCK),
        Clock::Wall,
        || {
            FileLock::exclusive(&path)
                .expect("a free lock")
                .release()
                .expect("it stood");
        },
        || bare.write(content.as_bytes()),
    );
    shell::measure(table);
}

/// The lock file, open and locked, which is what an flock cannot be had without. It waits: a reader of
/// `/proc/PID/fdinfo` at that moment keeps the file that was closed before open for a little longer, and with it the
/// flock.
fn bare_lock(lock: &CStr) -> OwnedFd {
    let file = open(lock, OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty()).expect("a lock file");
    assert!(flock(&file, Flock::Wait).expect("a flock"));
    file
}

/// That what is locked is what has the name, and the lock is gone though a fork has the file open too.
fn bare_proved_lock(lock: &CStr) {
    let file = bare_lock(lock);
    let [locked, named] = [fstat(&file), lstat(lock)].map(|stat| stat.expect("what it is").st_ino);
    assert_eq!(locked, named);
    flock(&file, Flock::Unlock).expect("an unlock");
}

/// A file that nobody locks.
struct Bare {
    dir: PathBuf,
    path: PathBuf,
}

impl Bare {
    /// The same as ours: the check, an unnamed file, its sync, a name, the rename, the backups, the directory's sync.
    /// What a crash has left, mode, owner and ACL are not looked after.
    fn write(&self, content: &[u8]) {
        let _: &RawValue = serde_json::from_slice(content).expect("JSON");
        let flags = OFlag::O_TMPFILE | OFlag::O_CLOEXEC;
        let mut file = File::options()
            .write(true)
            .custom_flags(flags.bits())
            .open(&self.dir)
            .expect("a file without a name");
        file.write_all(content).expect("written");
        file.sync_all().expect("synced");
        let stage = self.path.with_extension("json.tmp");
        let unnamed = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        linkat(
            AT_FDCWD,
            &unnamed,
            AT_FDCWD,
            &stage,
            AtFlags::AT_SYMLINK_FOLLOW,
        )
        .expect("a name");
        let kept = self.path.with_extension("json.tmp1");
        let _ = fs::hard_link(&self.path, &kept);
        fs::rename(stage, &self.path).expect("renamed");
        for number in (1..BACKUPS).rev() {
            let _ = fs::rename(self.backup(number), self.backup(number + 1));
        }
        let _ = fs::rename(kept, self.backup(1));
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .expect("the directory, synced");
    }

    fn backup(&self, number: usize) -> PathBuf {
        self.path.with_extension(format!("json.{number}"))
    }
}
