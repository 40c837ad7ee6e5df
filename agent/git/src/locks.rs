//! Lock files that another git holds, or has left behind when it was killed.
//!
//! git makes `X.lock` beside each file that it replaces, and a kill or a power loss leaves it there. No look can tell
//! whether a git still has it: a lease is granted while one has, and a file may be older than the boot by a clock that
//! was set. So none is removed here; an old one is named, with the command that removes it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use beadlock_checker::internal::facts;

use crate::reflog::when;
use crate::{GitReason, Part, Stop, escaped_path, to_type};

/// How long a lock may be there before this sync gives up: a prompt's `git status` takes one.
const PATIENCE: Duration = Duration::from_secs(1);
/// From this age on, a lock may have been left behind.
const OLD: i64 = 60;

/// Waits a little for the git that has this lock; refuses when that takes too long, or when it is old.
pub(crate) fn wait_for(lock: &Path) -> Result<(), Stop> {
    let begun = Instant::now();
    while fs::symlink_metadata(lock).is_ok() {
        wait(lock, begun)?;
    }
    Ok(())
}

/// Waits for a moment, unless that has taken too long since `begun`.
pub(crate) fn wait(lock: &Path, begun: Instant) -> Result<(), Stop> {
    let Ok(meta) = fs::symlink_metadata(lock) else {
        return Ok(());
    };
    let since = meta.mtime();
    let is_old = facts::now().0.as_secs().saturating_sub(since) >= OLD;
    if !is_old && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(20));
        return Ok(());
    }
    Err(refused(lock, since, is_old))
}

/// The lock is there, and something could not be done for it.
pub(crate) fn held(lock: &Path) -> Option<Stop> {
    let since = fs::symlink_metadata(lock).ok()?.mtime();
    let is_old = facts::now().0.as_secs().saturating_sub(since) >= OLD;
    Some(refused(lock, since, is_old))
}

fn refused(lock: &Path, since: i64, is_old: bool) -> Stop {
    let is_index = lock.file_name().is_some_and(|name| name == "index.lock");
    let reason = if is_index {
        GitReason::IndexLocked
    } else {
        GitReason::RefLocked
    };
    let (shown, since) = (escaped_path(lock), when(since));
    let why = format!("{shown} has been there since {since}");
    if !is_old {
        return Stop::failed(reason, why + ": another git is at work");
    }
    let why = why + ": if no git is at work, a killed one has left it";
    Stop::failed(reason, why).next(to_type("rm {}", &[Part::Path(lock)]))
}
