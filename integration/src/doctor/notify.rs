//! What wakes a waiting process: inotify on the directory, a pidfd on the holder (docs/design.md#waiting).

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use beadlock_checker::internal::sys::pidfd_open;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};

use super::bench::{Bench, FILE};
use super::outcome::{TrialOutcome, after, ensure};
use super::second::{LIMIT, SecondProcess, SecondRequest};
use crate::claim::event::wait_for;

/// Another process removes a file, as a release does: an event about it comes.
pub fn removal(bench: &Bench<'_>) -> TrialOutcome {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    drop(bench.create(FILE)?);
    inotify.add_watch(bench.path(), AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE)?;
    SecondProcess::start(bench)?.must(SecondRequest::Remove)?;
    let removed = Instant::now();
    let is_about_it = |event: InotifyEvent| event.name.is_some_and(|name| name.as_bytes() == FILE.to_bytes());
    while !inotify.read_events().unwrap_or_default().into_iter().any(is_about_it) {
        let left = LIMIT.saturating_sub(removed.elapsed());
        ensure(!left.is_zero(), "no event within 2 s after another process removed a file")?;
        wait_for([Some(inotify.as_fd())], left);
    }
    Ok(format!("inotify told {} of another process's removal", after(removed.elapsed())))
}

/// A pidfd becomes readable when its process ends, and not before.
pub fn end(bench: &Bench<'_>) -> TrialOutcome {
    let mut second = SecondProcess::start(bench)?;
    let fd = pidfd_open(second.pid())?;
    let is_readable = |limit| wait_for([Some(fd.as_fd())], limit) == [true];
    ensure(!is_readable(Duration::ZERO), "it told of an end before there was one")?;
    second.kill();
    let killed = Instant::now();
    while !is_readable(LIMIT) {
        ensure(killed.elapsed() < LIMIT, "it did not tell of a process's end within 2 s")?;
    }
    Ok("told of a process's end".to_owned())
}
