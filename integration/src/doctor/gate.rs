//! The gate's flock, tried on a directory of the bench: never on the one that is examined, where it would shut
//! the gate (docs/design.md#the-gate).

use std::fs::File;
use std::time::{Duration, Instant};

use beadlock_checker::internal::sys::{Flock, flock};

use super::bench::{Bench, GATE};
use super::outcome::{TrialFailure, TrialOutcome, after, ensure};
use super::second::{LIMIT, SecondProcess, SecondReply, SecondRequest};

/// For how long a process must stay blocked to count as blocked.
const BLOCKED: Duration = Duration::from_millis(50);

/// Takes what must be free.
fn take(gate: &File) -> Result<(), TrialFailure> {
    ensure(flock(gate, Flock::Try)?, "it was busy though nobody had it")
}

/// What two processes must not do.
const BOTH: &str = "two processes got it at once";

/// Two descriptors of one process exclude each other, as two threads do.
pub fn descriptors(bench: &Bench<'_>) -> TrialOutcome {
    let (one, other) = (bench.open(GATE)?, bench.open(GATE)?);
    take(&one)?;
    ensure(!flock(&other, Flock::Try)?, "two descriptors of one process got it at once")?;
    flock(&one, Flock::Unlock)?;
    take(&other)?;
    Ok("the second of two descriptors was refused until the first let go".to_owned())
}

/// Two processes exclude each other, both ways.
pub fn processes(bench: &Bench<'_>) -> TrialOutcome {
    let gate = bench.open(GATE)?;
    take(&gate)?;
    let mut second = SecondProcess::start(bench)?;
    ensure(second.ask(SecondRequest::TryFlock)? == SecondReply::Busy, BOTH)?;
    flock(&gate, Flock::Unlock)?;
    second.must(SecondRequest::TryFlock)?;
    ensure(!flock(&gate, Flock::Try)?, BOTH)?;
    second.must(SecondRequest::Unlock)?;
    take(&gate)?;
    Ok("the second of two processes was refused until the first let go".to_owned())
}

/// A process that is blocked in flock(2) goes on when the lock is released.
pub fn wakes(bench: &Bench<'_>) -> TrialOutcome {
    let gate = bench.open(GATE)?;
    take(&gate)?;
    let mut second = SecondProcess::start(bench)?;
    second.begin(SecondRequest::WaitFlock)?;
    ensure(second.reply(BLOCKED)?.is_none(), "the second process did not wait")?;
    let released = Instant::now();
    flock(&gate, Flock::Unlock)?;
    let goes_on = second.reply(LIMIT)? == Some(SecondReply::Done);
    ensure(goes_on, "who was blocked did not go on within 2 s after the release")?;
    Ok(format!("who was blocked went on {} when it was let go", after(released.elapsed())))
}

/// A process that is killed leaves no flock behind.
pub fn death(bench: &Bench<'_>) -> TrialOutcome {
    let gate = bench.open(GATE)?;
    let mut second = SecondProcess::start(bench)?;
    second.must(SecondRequest::TryFlock)?;
    ensure(!flock(&gate, Flock::Try)?, BOTH)?;
    let killed = Instant::now();
    second.kill();
    while !flock(&gate, Flock::Try)? {
        ensure(killed.elapsed() <= LIMIT, "it was still busy 2 s after its holder was killed")?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok("free again when its holder was killed".to_owned())
}
