//! What wakes who waits: inotify on the directory, a pidfd on the holder (docs/design.md#waiting).

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use beadlock_checker::internal::sys::pidfd_open;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::bench::{Bench, FILE};
use super::second::{LIMIT, Order, Second};
use super::trial::{Failure, Outcome, after};
use crate::claim::event::wait_for;

/// Another process removes a file, as a release does: an event about it comes.
pub fn removal(bench: &Bench<'_>) -> Outcome {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    drop(bench.create(FILE)?);
    inotify.add_watch(bench.path(), AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE)?;
    Second::start(bench)?.must(Order::Remove)?;
    let removed = Instant::now();
    loop {
        let events = inotify.read_events().unwrap_or_default();
        if events
            .iter()
            .any(|event| event.name.as_deref().is_some_and(|name| name.as_bytes() == FILE.to_bytes()))
        {
            return Ok(format!("inotify told {} of another process's removal", after(removed.elapsed())));
        }
        let left = LIMIT.saturating_sub(removed.elapsed());
        if left.is_zero() {
            return Err(Failure::missing("no event within 2 s after another process removed a file"));
        }
        wait_for([Some(inotify.as_fd())], left);
    }
}

/// A pidfd becomes readable when its process ends, and not before.
pub fn end(bench: &Bench<'_>) -> Outcome {
    let mut second = Second::start(bench)?;
    let fd = pidfd_open(second.pid())?;
    if wait_for([Some(fd.as_fd())], Duration::ZERO) == [true] {
        return Err(Failure::missing("it told of an end before there was one"));
    }
    second.kill();
    let killed = Instant::now();
    loop {
        if wait_for([Some(fd.as_fd())], LIMIT) == [true] {
            return Ok("told of a process's end".to_owned());
        }
        if killed.elapsed() >= LIMIT {
            return Err(Failure::missing("it did not tell of a process's end within 2 s"));
        }
    }
}
