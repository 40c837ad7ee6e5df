//! Lock files that another git holds, or has left behind when it was killed.
//!
//! git makes `X.lock` beside each file that it replaces, and a kill or a power loss leaves it there. No look can tell
//! whether a git still has it: a lease is granted while one has, and no age is too old for an editor that is open. Two
//! things together are a proof. The lock was last changed before this boot, on a file system of this machine: whoever
//! has made it is gone. And it has not changed for ten minutes of a clock that nobody sets: for where the wall clock
//! was set after the boot, a file of now looks older than it. Then it is removed. (The lock of the index that a sync of
//! ours has made is known by its inode: [`repository_lock`].) Any other one is named, with the command that removes it.
//!
//! What was seen when is noted in the git directory, since each sync is a process of its own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::filesystem::{FileSystem, Reach};
use beadlock_base::regular::{self, Links};
use beadlock_core::facts;
use serde::{Deserialize, Serialize};

use crate::reflog::when;
use crate::stamp::FileStamp;
use crate::{
    Event, GitReason, Part, Repository, RepositoryLock, SyncMessage, SyncStop, escaped_path,
    repository_lock, say, to_type,
};

/// How long a lock may be there before this sync gives up: a prompt's `git status` takes one.
const PATIENCE: Duration = Duration::from_secs(1);
/// From this age on, a lock may have been left behind.
const OLD: i64 = 60;
/// How long a lock from before this boot must stay as it is.
const UNCHANGED: Duration = Duration::from_secs(600);
/// A lock is from before this boot when it is older than it by more than this, in seconds.
const MARGIN: i64 = 60;
/// The name of the notes of locks from before this boot.
const NOTES: &str = "locks";
/// The most locks that are noted.
const NOTED: usize = 64;

/// This machine's clocks.
#[derive(Debug, Clone)]
struct Clocks {
    /// The wall clock, in Unix seconds.
    wall: i64,
    /// The time since boot, by a clock that counts sleep and that nobody sets.
    boottime: Duration,
    /// When this system made its devices, in Unix seconds: not long after the boot, by the clock as it was then.
    devices: i64,
    /// The kernel's boot id. `None` where it cannot be told how long this kernel runs.
    boot: Option<String>,
}

impl Clocks {
    fn now() -> Self {
        // In a time namespace the clock may count from another moment.
        let is_offset = fs::read_to_string("/proc/self/timens_offsets").is_ok_and(|offsets| {
            let mut fields = offsets
                .lines()
                .flat_map(|line| line.split_ascii_whitespace().skip(1));
            fields.any(|field| field != "0")
        });
        Self {
            wall: facts::now().0.as_secs(),
            boottime: facts::boottime(),
            devices: FileStamp::of(Path::new("/dev/null"))
                .map_or(0, |stamp| stamp.changed().as_secs().cast_signed()),
            boot: facts::Ids::current().boot_id.clone().filter(|_| !is_offset),
        }
    }

    /// When this kernel was started at the latest, in Unix seconds. A virtual machine that stood still counts less time
    /// than has passed: then its devices know better.
    fn booted(&self) -> i64 {
        let since = i64::try_from(self.boottime.as_secs()).unwrap_or(i64::MAX);
        self.wall.saturating_sub(since).min(self.devices)
    }
}

/// A lock from before this boot, as it was seen first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NotedLock {
    path: PathBuf,
    stamp: FileStamp,
    boot: String,
    /// When it was seen first, as time since boot.
    seen: Duration,
}

/// Whether the git that has made a lock may still be at work.
#[derive(Debug, PartialEq, Eq)]
enum LockLife {
    /// Nothing is proved: the git may be at work.
    Unknown,
    /// The lock was made before this boot, but has not been watched for [`UNCHANGED`] yet.
    BeforeBoot,
    /// The git is gone: the lock is from before this boot, and has not changed for [`UNCHANGED`].
    Gone,
}

/// Judges a lock that is now as in `lock`, by what was noted of it.
fn judge(lock: &FileStamp, clocks: &Clocks, noted: Option<&NotedLock>) -> LockLife {
    let Some(boot) = &clocks.boot else {
        return LockLife::Unknown;
    };
    if lock
        .changed()
        .as_secs()
        .cast_signed()
        .saturating_add(MARGIN)
        >= clocks.booted()
    {
        return LockLife::Unknown;
    }
    let is_unchanged = noted.is_some_and(|noted| {
        let seen_for = clocks.boottime.checked_sub(noted.seen);
        noted.stamp == *lock
            && noted.boot == *boot
            && seen_for.is_some_and(|seen_for| seen_for >= UNCHANGED)
    });
    match is_unchanged {
        true => LockLife::Gone,
        false => LockLife::BeforeBoot,
    }
}

/// Looks at a lock that is there: removes it on proof, and notes it where a part of that is missing.
fn look(repository: &Repository, lock: &Path, clocks: &Clocks) -> LockLife {
    let Some(stamp) = FileStamp::of(lock) else {
        return LockLife::Unknown;
    };
    if !is_local_file(lock) {
        return LockLife::Unknown;
    }
    let notes = repository_lock::notes(repository).join(NOTES);
    let mut all: Vec<NotedLock> = fs::read(&notes)
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    let noted = all.iter().find(|noted| noted.path == lock);
    let life = judge(&stamp, clocks, noted);
    match life {
        LockLife::Unknown => {}
        LockLife::BeforeBoot => {
            let is_known = noted.is_some_and(|noted| noted.stamp == stamp)
                && noted.map(|noted| &noted.boot) == clocks.boot.as_ref();
            if let Some(boot) = &clocks.boot
                && !is_known
            {
                all.retain(|noted| {
                    noted.path != lock && FileStamp::of(&noted.path).as_ref() == Some(&noted.stamp)
                });
                all.push(NotedLock {
                    path: lock.to_owned(),
                    stamp,
                    boot: boot.clone(),
                    seen: clocks.boottime,
                });
                let first = all.len().saturating_sub(NOTED);
                let text = serde_json::to_vec(&all[first..]).unwrap_or_default();
                // Without a note it is only never proved.
                let _ = repository_lock::write_whole(&notes, &text);
            }
        }
        LockLife::Gone => {
            if let Ok(true) = remove(repository, lock, &stamp) {
                let why = format!(
                    "{}: it was made before this boot, and has not changed for 10 min",
                    escaped_path(lock)
                );
                say(&SyncMessage::Notice(
                    Event::Notice.line(format_args!("removed {why}")),
                ));
            }
        }
    }
    life
}

/// Removes a lock that is still this one. Another sync of ours does not do so at the same time.
fn remove(repository: &Repository, lock: &Path, stamp: &FileStamp) -> Result<bool, SyncStop> {
    let _turn = RepositoryLock::take(repository)?;
    let aside = repository_lock::own(repository, "dead.lock");
    let failed = |error: std::io::Error| SyncStop::io("cannot remove", lock, &error);
    if FileStamp::of(lock).as_ref() != Some(stamp) {
        return Ok(false);
    }
    // Under another name first: what a git has made in this moment is given back.
    #[expect(
        clippy::disallowed_methods,
        reason = "a lock of git's whose maker is proved to be gone"
    )]
    fs::rename(lock, &aside).map_err(failed)?;
    let is_it = FileStamp::of(&aside).is_some_and(|now| now.is_same_file(stamp));
    if !is_it {
        fs::hard_link(&aside, lock).map_err(failed)?;
    }
    repository_lock::remove(&aside);
    Ok(is_it)
}

/// Whether the lock is a regular file on a file system of this machine alone.
fn is_local_file(lock: &Path) -> bool {
    regular::open(lock, Links::Refused)
        .is_ok_and(|file| FileSystem::of(&file).is_ok_and(|found| found.reach == Reach::Local))
}

/// Looks at locks that are in the way of a part of git's work alone.
pub(crate) fn look_at(repository: &Repository, locks: impl IntoIterator<Item = PathBuf>) {
    for lock in locks {
        if fs::symlink_metadata(&lock).is_ok() {
            look(repository, &lock, &Clocks::now());
        }
    }
}

/// Waits a little for the git that has this lock; refuses when that takes too long, or when it is old.
pub(crate) fn wait_for(repository: &Repository, lock: &Path) -> Result<(), SyncStop> {
    let begun = Instant::now();
    while fs::symlink_metadata(lock).is_ok() {
        wait(repository, lock, begun)?;
    }
    Ok(())
}

/// Waits for a moment, unless that has taken too long since `begun`.
pub(crate) fn wait(repository: &Repository, lock: &Path, begun: Instant) -> Result<(), SyncStop> {
    let Ok(meta) = fs::symlink_metadata(lock) else {
        return Ok(());
    };
    let since = meta.mtime();
    let is_old = facts::now().0.as_secs().saturating_sub(since) >= OLD;
    if !is_old && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(20));
        return Ok(());
    }
    match look(repository, lock, &Clocks::now()) {
        LockLife::Gone if fs::symlink_metadata(lock).is_err() => Ok(()),
        life => Err(refused(lock, since, is_old, &life)),
    }
}

/// The refusal for work that this lock has stopped; `None` where the lock is not there.
pub(crate) fn held(repository: &Repository, lock: &Path) -> Option<SyncStop> {
    let since = fs::symlink_metadata(lock).ok()?.mtime();
    let is_old = facts::now().0.as_secs().saturating_sub(since) >= OLD;
    let life = look(repository, lock, &Clocks::now());
    Some(refused(lock, since, is_old, &life))
}

fn refused(lock: &Path, since: i64, is_old: bool, life: &LockLife) -> SyncStop {
    let is_index = lock.file_name().is_some_and(|name| name == "index.lock");
    let reason = if is_index {
        GitReason::IndexLocked
    } else {
        GitReason::RefLocked
    };
    let (shown, since) = (escaped_path(lock), when(since));
    let why = format!("{shown} has been there since {since}");
    if !is_old {
        return SyncStop::failed(reason, why + ": another git is at work");
    }
    let why = match life {
        LockLife::Unknown => why + ": if no git is at work, a killed one has left it",
        LockLife::BeforeBoot | LockLife::Gone => {
            why + ", from before this boot: it is removed when it stays as it is for 10 min; if no git is at work"
        }
    };
    SyncStop::failed(reason, why).next(to_type("rm {}", &[Part::Path(lock)]))
}

#[cfg(test)]
mod tests;
