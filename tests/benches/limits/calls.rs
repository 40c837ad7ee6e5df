//! The library beside the bare system calls.

use std::ffi::CString;
use std::fs;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_base::sys::{Flock, flock};
use beadlock_checker::{Cycle, Entered, should_skip_database};
use beadlock_core::facts::hostname;
use beadlock_core::record::beads::Record;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, open, openat};
use nix::sys::signal::kill;
use nix::sys::stat::{Mode, fstat, fstatat};
use nix::sys::utsname::uname;
use nix::unistd::{Pid, read};

use super::ratio::Clock;
use super::table::{Table, Unit};

/// As a lock file has to be opened: never blocking, never following a link.
const FLAGS: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY)
    .union(OFlag::O_CLOEXEC);

/// Databases in a sweep.
const SWEEP: usize = 100_000;
const SMALL_SWEEP: usize = 10_000;

/// The paths of one database, ready for the kernel.
pub struct Bare {
    dir: CString,
    lock: CString,
    aside: CString,
    fleet: CString,
}

impl Bare {
    pub fn of(dir: &Path) -> Self {
        let path = |path: PathBuf| CString::new(path.as_os_str().as_bytes()).expect("a path");
        Self {
            dir: path(dir.to_owned()),
            lock: path(dir.join(".exclusive-lock")),
            aside: path(dir.join(".exclusive-lock.aside")),
            fleet: path(dir.join(".exclusive-fleet")),
        }
    }

    /// What "no lock" cannot be known without.
    pub fn no_lock(&self) {
        self.no_fleet();
        let _ = open(self.lock.as_c_str(), FLAGS, Mode::empty()).map_err(drop);
        let _ = fstatat(
            AT_FDCWD,
            self.aside.as_c_str(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        )
        .map_err(drop);
        let _ = open(self.lock.as_c_str(), FLAGS, Mode::empty()).map_err(drop);
    }

    /// Whether the database has joined a fleet.
    fn no_fleet(&self) {
        let _ = fstatat(
            AT_FDCWD,
            self.fleet.as_c_str(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        )
        .map_err(drop);
    }

    /// What a lock cannot be read and judged without; `kill` only where there is a process to ask, which another
    /// host's is not.
    fn lock(&self, pid: Option<i32>) {
        self.no_fleet();
        let file = open(self.lock.as_c_str(), FLAGS, Mode::empty()).expect("a lock");
        let mut bytes = [0; 1024];
        let size = fstat(&file).expect("its size").st_size;
        assert_eq!(read(&file, &mut bytes).map(|count| count as i64), Ok(size));
        drop(file);
        uname().expect("a host name");
        if let Some(pid) = pid {
            kill(Pid::from_raw(pid), None).expect("a process that lives");
        }
    }

    /// What a cycle cannot be without.
    pub fn cycle(&self) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = open(self.dir.as_c_str(), flags, Mode::empty()).expect("a directory");
        assert!(flock(&dir, Flock::Try).expect("a flock"));
        let _ = fstatat(&dir, c".exclusive-fleet", AtFlags::AT_SYMLINK_NOFOLLOW).map_err(drop);
        let _ = fstatat(&dir, c".exclusive-lock.aside", AtFlags::AT_SYMLINK_NOFOLLOW).map_err(drop);
        let _ = openat(&dir, c".exclusive-lock", FLAGS, Mode::empty()).map_err(drop);
        flock(&dir, Flock::Unlock).expect("an unlock");
    }
}

pub fn enter_and_leave(dir: &Path) {
    match Cycle::enter(dir) {
        Entered::Cycle(cycle) => cycle.leave(),
        Entered::Skipped(decision) => panic!("{decision}"),
    }
}

pub fn measure(table: &mut Table) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let dir = root.path().join(".beads");
    fs::create_dir(&dir).expect("a database");
    let bare = Bare::of(&dir);
    let check = |expected: bool| assert_eq!(should_skip_database(&dir).is_skip(), expected);
    table.ratio(
        "should_skip_database, no lock",
        "open, lstat, open",
        Some(1.15),
        Clock::Thread,
        || check(false),
        || bare.no_lock(),
    );
    table.ratio(
        "Cycle::enter and leave, no lock",
        "open, flock, lstat, open, unlock, close",
        Some(1.2),
        Clock::Thread,
        || enter_and_leave(&dir),
        || bare.cycle(),
    );

    let ours = Record::new("make release", "1.2.3").expect("a record");
    let five = Record {
        beadlock: None,
        ..ours.clone()
    };
    let remote = Record {
        hostname: format!("not-{}", hostname().expect("a name")),
        ..five.clone()
    };
    let me = std::process::id().cast_signed();
    let (local, other) = (
        "open, fstat, read, close, uname, kill",
        "open, fstat, read, close, uname",
    );
    let locks = [
        (
            "should_skip_database, a live lock of five fields",
            local,
            &five,
            Some(me),
        ),
        (
            "should_skip_database, a live lock with our key",
            local,
            &ours,
            Some(me),
        ),
        (
            "should_skip_database, a lock of another host",
            other,
            &remote,
            None,
        ),
    ];
    for (figure, beside, record, pid) in locks {
        fs::write(dir.join(".exclusive-lock"), record.to_json()).expect("a lock");
        table.ratio(
            figure,
            beside,
            Some(1.4),
            Clock::Thread,
            || check(true),
            || bare.lock(pid),
        );
    }
    let mut allocations = |figure: &str, at_most: Option<f64>| {
        let count =
            allocation_counter::measure(|| drop(black_box(should_skip_database(&dir)))).count_total;
        table.value(
            &format!("allocations, {figure}"),
            Unit::Count,
            at_most,
            count as f64,
            None,
        );
    };
    for (figure, record, at_most) in [
        ("a live lock of five fields", &five, Some(5.0)),
        ("a live lock with our key", &ours, None),
    ] {
        fs::write(dir.join(".exclusive-lock"), record.to_json()).expect("a lock");
        allocations(figure, at_most);
    }
    fs::remove_file(dir.join(".exclusive-lock")).expect("it was there");
    allocations("no lock", Some(0.0));
    sweeps(table, root.path(), &five, me);
}

/// One after the other, each once in a batch.
fn sweeps(table: &mut Table, root: &Path, lock: &Record, pid: i32) {
    let (few, many) = if table.is_short {
        (100, 1000)
    } else {
        (SMALL_SWEEP, SWEEP)
    };
    let dirs: Vec<PathBuf> = (0..many)
        .map(|number| root.join(format!("{}/{number}", number % 100)))
        .collect();
    dirs.iter()
        .for_each(|dir| fs::create_dir_all(dir).expect("a directory"));
    let bare: Vec<Bare> = dirs.iter().map(|dir| Bare::of(dir)).collect();
    let sweep = |dirs: &[PathBuf]| {
        dirs.iter()
            .filter(|dir| should_skip_database(dir).is_skip())
            .count()
    };
    table.ratio(
        &format!("a sweep of {many} without locks"),
        "the bare loop",
        Some(1.2),
        Clock::Thread,
        || assert_eq!(sweep(&dirs), 0),
        || bare.iter().for_each(Bare::no_lock),
    );
    let (dirs, bare) = (&dirs[..few], &bare[..few]);
    for dir in dirs.iter().step_by(2) {
        fs::write(dir.join(".exclusive-lock"), lock.to_json()).expect("a lock");
    }
    let bare_sweep = || {
        for (number, bare) in bare.iter().enumerate() {
            if number % 2 == 0 {
                bare.lock(Some(pid))
            } else {
                bare.no_lock()
            }
        }
    };
    table.ratio(
        &format!("a sweep of {few}, half of them locked"),
        "the bare loop",
        Some(1.4),
        Clock::Thread,
        || assert_eq!(sweep(dirs), few / 2),
        bare_sweep,
    );
}
