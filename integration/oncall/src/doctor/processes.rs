//! Trials between processes: the gate's flock (docs/design.md#the-gate), the read lease by which a lock that is taken
//! over is watched (docs/design.md#lease), and the events that wake a waiting process (docs/design.md#waiting).
//!
//! The flock is tried on a directory of the bench: on the one that is examined it would shut the gate.

use std::time::{Duration, Instant};
use std::{fs::File, os::fd::AsFd, thread::sleep};

use beadlock_base::sys::{Flock, drop_lease, flock, lease_unbroken, pidfd_open, take_lease};
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};

use super::bench::{Bench, FILE, GATE};
use super::results::{TrialFailure, TrialOutcome, after, ensure};
use super::second::{LIMIT, SecondProcess, SecondReply, SecondRequest};
use beadlock_base::poll::wait_for;

/// For how long a process must stay blocked to count as blocked.
const BLOCKED: Duration = Duration::from_millis(50);
/// For how long a lease is tried again: an indexer or a backup may have the new file open.
const LEASE_PATIENCE: Duration = Duration::from_millis(50);
const BOTH: &str = "two processes got it at once";

/// Takes a flock that must be free.
fn take(gate: &File) -> Result<(), TrialFailure> {
    ensure(flock(gate, Flock::Try)?, "it was busy though nobody had it")
}

/// Two descriptors of one process exclude each other, as two threads do.
pub fn flock_descriptors(bench: &Bench<'_>) -> TrialOutcome {
    let (one, other) = (bench.open(GATE)?, bench.open(GATE)?);
    take(&one)?;
    ensure(
        !flock(&other, Flock::Try)?,
        "two descriptors of one process got it at once",
    )?;
    flock(&one, Flock::Unlock)?;
    take(&other)?;
    Ok("the second of two descriptors was refused until the first let go".to_owned())
}

/// Two processes exclude each other, both ways.
pub fn flock_processes(bench: &Bench<'_>) -> TrialOutcome {
    let gate = bench.open(GATE)?;
    take(&gate)?;
    let mut second = SecondProcess::start(bench)?;
    ensure(
        second.ask(SecondRequest::TryFlock)? == SecondReply::Busy,
        BOTH,
    )?;
    flock(&gate, Flock::Unlock)?;
    second.must(SecondRequest::TryFlock)?;
    ensure(!flock(&gate, Flock::Try)?, BOTH)?;
    second.must(SecondRequest::Unlock)?;
    take(&gate)?;
    Ok("the second of two processes was refused until the first let go".to_owned())
}

/// A process that is blocked in flock(2) goes on when the lock is released.
pub fn flock_wakes(bench: &Bench<'_>) -> TrialOutcome {
    let gate = bench.open(GATE)?;
    take(&gate)?;
    let mut second = SecondProcess::start(bench)?;
    second.begin(SecondRequest::WaitFlock)?;
    ensure(
        second.reply(BLOCKED)?.is_none(),
        "the second process did not wait",
    )?;
    let released = Instant::now();
    flock(&gate, Flock::Unlock)?;
    let goes_on = second.reply(LIMIT)? == Some(SecondReply::Done);
    ensure(
        goes_on,
        "who was blocked did not go on within 2 s after the release",
    )?;
    Ok(format!(
        "who was blocked went on {} when it was let go",
        after(released.elapsed())
    ))
}

/// A process that is killed leaves no flock behind.
pub fn flock_death(bench: &Bench<'_>) -> TrialOutcome {
    let gate = bench.open(GATE)?;
    let mut second = SecondProcess::start(bench)?;
    second.must(SecondRequest::TryFlock)?;
    ensure(!flock(&gate, Flock::Try)?, BOTH)?;
    let killed = Instant::now();
    second.kill();
    while !flock(&gate, Flock::Try)? {
        ensure(
            killed.elapsed() <= LIMIT,
            "it was still busy 2 s after its holder was killed",
        )?;
        sleep(Duration::from_millis(1));
    }
    Ok("free again when its holder was killed".to_owned())
}

/// A new file that nobody has open for writing.
fn new_file(bench: &Bench<'_>) -> Result<File, TrialFailure> {
    drop(bench.create(FILE)?);
    Ok(bench.open(FILE)?)
}

/// Takes a lease, which ends when the file is closed at the latest.
fn lease(file: &File) -> Result<(), TrialFailure> {
    let begun = Instant::now();
    loop {
        match take_lease(file) {
            Ok(()) => return Ok(()),
            Err(Errno::EAGAIN) if begun.elapsed() < LEASE_PATIENCE => {
                sleep(Duration::from_millis(2))
            }
            Err(Errno::EAGAIN) => {
                return Err(TrialFailure::missing("refused although nobody writes"));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A new file with a lease. Without a lease nothing more can be said of leases.
fn leased_file(bench: &Bench<'_>) -> Result<File, TrialFailure> {
    let file = new_file(bench)?;
    lease(&file).map_err(|_| TrialFailure::untried("no lease is granted here"))?;
    Ok(file)
}

/// A lease is granted on a file that nobody has open for writing.
pub fn lease_granted(bench: &Bench<'_>) -> TrialOutcome {
    let file = new_file(bench)?;
    lease(&file)?;
    ensure(lease_unbroken(&file), "it was granted, and there was none")?;
    Ok("a read lease was granted".to_owned())
}

/// A lease is refused while another process has the file open for writing.
pub fn lease_refused(bench: &Bench<'_>) -> TrialOutcome {
    let file = leased_file(bench)?;
    drop_lease(&file);
    let mut second = SecondProcess::start(bench)?;
    second.begin(SecondRequest::Write)?;
    if second.reply(LIMIT) != Ok(Some(SecondReply::Done)) {
        return Err(TrialFailure::untried(
            "the second process could not open a file for writing",
        ));
    }
    match take_lease(&file) {
        Err(Errno::EAGAIN) => {
            Ok("refused while another process had the file open for writing".to_owned())
        }
        Err(errno) => Err(errno.into()),
        Ok(()) => Err(TrialFailure::missing(
            "granted while another process had the file open for writing",
        )),
    }
}

/// A lease is broken when another process opens the file for writing, and that process goes on when it is given up.
pub fn lease_broken(bench: &Bench<'_>) -> TrialOutcome {
    let file = leased_file(bench)?;
    let mut second = SecondProcess::start(bench)?;
    second.begin(SecondRequest::Write)?;
    let begun = Instant::now();
    let mut early = None;
    while lease_unbroken(&file) {
        early = early.or(second.reply(Duration::from_millis(1))?);
        let is_unseen = early == Some(SecondReply::Done) && lease_unbroken(&file);
        ensure(
            !is_unseen,
            "another process opened the file for writing, and the lease stayed",
        )?;
        let is_over = begun.elapsed() > LIMIT;
        ensure(
            !is_over,
            "another process opens the file for writing, and the lease stays",
        )?;
    }
    let took = begun.elapsed();
    drop_lease(&file);
    let goes_on = early.is_some() || second.reply(LIMIT)?.is_some();
    ensure(goes_on, "broken, but the writer did not go on within 2 s")?;
    Ok(format!(
        "broken {} when another process opened the file for writing",
        after(took)
    ))
}

/// Another process removes a file, as a release does: an event about it comes.
pub fn notify(bench: &Bench<'_>) -> TrialOutcome {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    drop(bench.create(FILE)?);
    inotify.add_watch(
        bench.path(),
        AddWatchFlags::IN_DELETE | AddWatchFlags::IN_MOVE,
    )?;
    SecondProcess::start(bench)?.must(SecondRequest::Remove)?;
    let removed = Instant::now();
    let is_about_it = |event: InotifyEvent| event.name.is_some_and(|name| name == FILE);
    while !inotify
        .read_events()
        .unwrap_or_default()
        .into_iter()
        .any(is_about_it)
    {
        let left = LIMIT.saturating_sub(removed.elapsed());
        ensure(
            !left.is_zero(),
            "no event within 2 s after another process removed a file",
        )?;
        wait_for([Some(inotify.as_fd())], left);
    }
    Ok(format!(
        "inotify told {} of another process's removal",
        after(removed.elapsed())
    ))
}

/// A pidfd becomes readable when its process ends, and not before.
pub fn pidfd(bench: &Bench<'_>) -> TrialOutcome {
    let mut second = SecondProcess::start(bench)?;
    let fd = pidfd_open(second.pid())?;
    let is_readable = |limit| wait_for([Some(fd.as_fd())], limit) == [true];
    ensure(
        !is_readable(Duration::ZERO),
        "it told of an end before there was one",
    )?;
    second.kill();
    let killed = Instant::now();
    while !is_readable(LIMIT) {
        ensure(
            killed.elapsed() < LIMIT,
            "it did not tell of a process's end within 2 s",
        )?;
    }
    Ok("told of a process's end".to_owned())
}
