//! The gate's flock, tried on a directory of the bench: never on the one that is examined, where it would shut
//! the gate (docs/design.md#the-gate).

use std::time::{Duration, Instant};

use beadlock_checker::internal::sys::{Flock, flock};

use super::bench::{Bench, GATE};
use super::second::{Answer, LIMIT, Order, Second};
use super::trial::{Failure, Outcome, after};

/// For how long somebody must stay blocked to count as blocked.
const BLOCKED: Duration = Duration::from_millis(50);

/// Takes what must be free.
fn take(gate: &std::fs::File) -> Result<(), Failure> {
    if flock(gate, Flock::Try)? { Ok(()) } else { Err(Failure::missing("it was busy though nobody had it")) }
}

/// Two descriptors of one process exclude each other, as two threads do.
pub fn descriptors(bench: &Bench<'_>) -> Outcome {
    let (one, other) = (bench.open(GATE)?, bench.open(GATE)?);
    take(&one)?;
    if flock(&other, Flock::Try)? {
        return Err(Failure::missing("two descriptors of one process got it at once"));
    }
    flock(&one, Flock::Unlock)?;
    take(&other)?;
    Ok("the second of two descriptors was refused until the first let go".to_owned())
}

/// Two processes exclude each other, both ways.
pub fn processes(bench: &Bench<'_>) -> Outcome {
    let gate = bench.open(GATE)?;
    take(&gate)?;
    let mut second = Second::start(bench)?;
    match second.ask(Order::TryFlock)? {
        Answer::Busy => {}
        Answer::Refused(errno) => return Err(errno.into()),
        _ => return Err(Failure::missing("two processes got it at once")),
    }
    flock(&gate, Flock::Unlock)?;
    second.must(Order::TryFlock)?;
    if flock(&gate, Flock::Try)? {
        return Err(Failure::missing("two processes got it at once"));
    }
    second.must(Order::Unlock)?;
    take(&gate)?;
    Ok("the second of two processes was refused until the first let go".to_owned())
}

/// Who is blocked in flock(2) goes on when it is let go.
pub fn wakes(bench: &Bench<'_>) -> Outcome {
    let gate = bench.open(GATE)?;
    take(&gate)?;
    let mut second = Second::start(bench)?;
    second.tell(Order::WaitFlock)?;
    match second.answer(LIMIT)? {
        Some(Answer::Begun) => {}
        Some(Answer::Refused(errno)) => return Err(errno.into()),
        _ => return Err(Failure::untried("the second process did not begin")),
    }
    match second.answer(BLOCKED)? {
        None => {}
        Some(Answer::Refused(errno)) => return Err(errno.into()),
        Some(_) => return Err(Failure::missing("the second process did not wait")),
    }
    let released = Instant::now();
    flock(&gate, Flock::Unlock)?;
    match second.answer(LIMIT)? {
        Some(Answer::Done) => {
            Ok(format!("who was blocked went on {} when it was let go", after(released.elapsed())))
        }
        Some(Answer::Refused(errno)) => Err(errno.into()),
        _ => Err(Failure::missing("who was blocked did not go on within 2 s after the release")),
    }
}

/// A process that is killed leaves no flock behind.
pub fn death(bench: &Bench<'_>) -> Outcome {
    let gate = bench.open(GATE)?;
    let mut second = Second::start(bench)?;
    second.must(Order::TryFlock)?;
    if flock(&gate, Flock::Try)? {
        return Err(Failure::missing("two processes got it at once"));
    }
    let killed = Instant::now();
    second.kill();
    while !flock(&gate, Flock::Try)? {
        if killed.elapsed() > LIMIT {
            return Err(Failure::missing("it was still busy 2 s after its holder was killed"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok("free again when its holder was killed".to_owned())
}
