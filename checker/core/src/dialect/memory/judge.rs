//! The rule of the memory dialect as a pure function. A lock is stale when its process is gone, which only ESRCH on
//! the host that it names shows; when it is older than 30 s; or than 10 s, where it names another host. A time in the
//! future has no age.
//!
//! By the document a process that is gone is enough. Where what it has started lives on, and a watchdog of beadlock's
//! has still to end it, that work is not done: the lock is then held until the watchdog is gone, or by its age.
//!
//! An age is a difference of wall-clock times, and a step of that clock makes a lock old that its holder refreshes.
//! So where its process may live on this host, its age counts only where no refresh can have been missed: by the clock
//! that nobody sets it is as old, or it was seen to stay unrefreshed for [`UNREFRESHED`]. A lock without beadlock's key
//! is never refreshed: its age counts, as in the document.

use std::time::Duration;

use jiff::SignedDuration;

use super::{Limits, Record, UNREFRESHED};
use crate::{
    dialect::age::Clocks, dialect::beads, dialect::facts::Facts, dialect::facts::Liveness,
    verdict::Reason, verdict::Verdict,
};

/// What makes the lock stale, if anything does, in the document's order: the word of the contract, and the document's
/// words. The host's name in them is untrusted.
pub fn evidence(record: &Record, facts: &Facts, limits: &Limits) -> Option<(Reason, String)> {
    if let (Some(pid), Liveness::Gone, None) = (record.pid, facts.liveness, watchdog(record, facts))
    {
        return Some((Reason::PidGone, format!("process {pid} is dead")));
    }
    let age = record.acquired_at?.age(facts.now);
    let seconds = age.as_secs_f64();
    if is_over(age, limits.age) {
        let is_believed =
            facts.unrefreshed >= UNREFRESHED || may_be_refreshed(record, facts, limits).is_none();
        let words = || format!("lock is {seconds:.1}s old (>{}s)", limits.age.as_secs_f64());
        return is_believed.then(|| (Reason::AgeExceeded, words()));
    }
    let hostname = other_host(record, facts).filter(|_| is_over(age, limits.remote_age))?;
    Some((
        Reason::AgeExceeded,
        format!("cross-machine lock from {hostname}, {seconds:.1}s old"),
    ))
}

/// Judges a record.
pub fn judge(record: &Record, facts: &Facts, limits: &Limits) -> Verdict {
    if let Some((reason, _)) = evidence(record, facts, limits) {
        return Verdict::Stale(reason);
    }
    let refreshed = may_be_refreshed(record, facts, limits);
    if let Some(reason) = refreshed.filter(|_| is_old(record, facts, limits)) {
        return Verdict::Held(reason);
    }
    Verdict::Held(match facts.liveness {
        // It will not stay so by its process alone.
        _ if record.acquired_at.is_some() => Reason::AgeFresh,
        Liveness::Alive => Reason::PidAlive,
        Liveness::NotPermitted => Reason::PidNotPermitted,
        _ if other_host(record, facts).is_some() => Reason::OtherHost,
        Liveness::Gone | Liveness::Unknown | Liveness::NotAsked => Reason::PidUnknown,
    })
}

/// It is older than a lock of its host may be, by the wall clock. Whether that counts is another question.
pub fn is_old(record: &Record, facts: &Facts, limits: &Limits) -> bool {
    record
        .acquired_at
        .is_some_and(|time| is_over(time.age(facts.now), limits.age))
}

/// Which process has still to end what the process of the lock has started. Where nothing makes the lock too old it
/// does not count: anybody may run a process that looks like one.
pub fn watchdog(record: &Record, facts: &Facts) -> Option<i32> {
    facts.watchdog.filter(|_| record.acquired_at.is_some())
}

/// How its process counts as alive that may have refreshed it so lately that the wall clock's age is not its own.
fn may_be_refreshed(record: &Record, facts: &Facts, limits: &Limits) -> Option<Reason> {
    let mark = record.beadlock.as_ref()?;
    let clocks = Clocks {
        wall: facts.now,
        boottime: facts.boottime,
        ids: &facts.ids,
    };
    // After a suspend the holder goes on when we do: the time asleep is not time without a refresh.
    let is_as_old = clocks
        .since(mark)
        .is_some_and(|age| age.saturating_sub(facts.standstill) > limits.age.max(UNREFRESHED));
    may_live_here(record, facts).filter(|_| !is_as_old)
}

/// How its process counts as alive, where it is one of this host: no other may have the PID now, nor is it a zombie. In
/// another PID namespace of this host there is no telling, so it may live.
fn may_live_here(record: &Record, facts: &Facts) -> Option<Reason> {
    let process = record.process()?;
    if watchdog(record, facts).is_some() {
        return Some(Reason::PidUnknown);
    }
    match beads::judge(&process, facts, true) {
        Verdict::Held(reason @ (Reason::PidAlive | Reason::PidNotPermitted)) => Some(reason),
        // No process has a PID that no kernel gives.
        Verdict::Held(reason @ (Reason::PidUnknown | Reason::OtherPidNamespace)) => {
            i32::try_from(process.pid).is_ok().then_some(reason)
        }
        _ => None,
    }
}

/// How long from now until it is stale by its age, if it is not refreshed; `None`: its age is not known.
pub fn fresh_for(record: &Record, facts: &Facts, limits: &Limits) -> Option<Duration> {
    let limit = match other_host(record, facts) {
        Some(_) => limits.age.min(limits.remote_age),
        None => limits.age,
    };
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    let left = limit.saturating_sub(record.acquired_at?.age(facts.now));
    let left = Duration::try_from(left).unwrap_or_default();
    Some(match may_be_refreshed(record, facts, limits) {
        Some(_) => left.max(UNREFRESHED.saturating_sub(facts.unrefreshed)),
        None => left,
    })
}

fn is_over(age: SignedDuration, limit: Duration) -> bool {
    Duration::try_from(age).is_ok_and(|age| age > limit)
}

/// The host that the record names, where that is another one. Where this one has no name there is no telling.
fn other_host<'r>(record: &'r Record, facts: &Facts) -> Option<&'r str> {
    let here = facts.hostname.as_deref()?;
    record
        .hostname
        .as_deref()
        .filter(|hostname| !hostname.eq_ignore_ascii_case(here))
}
