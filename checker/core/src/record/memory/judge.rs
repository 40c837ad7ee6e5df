//! The rule of the memory protocol, as a pure function (section 5 in docs/protocols/memory.md). A lock is stale in three
//! cases: its process is gone, which only ESRCH on the recorded host shows; it is older than 30 s; or it names another
//! host and is older than 10 s. A time in the future has no age.
//!
//! By the document a process that is gone is enough. If its descendants live on, and a watchdog of beadlock has still
//! to end them, their work is not over. The lock is held then until the watchdog is gone, or the lock is too old.
//!
//! An age is a difference of wall-clock times, so a step of that clock makes a lock old that its holder refreshes. If
//! the process may live on this host, the age counts only when no refresh can have been missed: the lock is as old by
//! the clock that cannot be set, or earlier looks have seen no refresh for [`UNREFRESHED`]. A lock without beadlock's
//! key is never refreshed, so its age counts at once, as in the document.
//! docs/protocols/memory.md#how-an-age-is-believed has the table.

use std::time::Duration;

use jiff::SignedDuration;

use super::{Limits, Record, UNREFRESHED};
use crate::{
    record::age::Clocks, record::beads, record::facts::Facts, record::facts::Liveness,
    verdict::Reason, verdict::Verdict,
};

/// Evidence that the lock is stale: the reason, and the document's words. The evidence is looked for in the document's
/// order. The host name in the words is untrusted. `None`: the lock is not stale.
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

/// Judges a record. [`Verdict::Stale`] if there is [`evidence`], else [`Verdict::Held`].
pub fn judge(record: &Record, facts: &Facts, limits: &Limits) -> Verdict {
    if let Some((reason, _)) = evidence(record, facts, limits) {
        return Verdict::Stale(reason);
    }
    let refreshed = may_be_refreshed(record, facts, limits);
    if let Some(reason) = refreshed.filter(|_| is_old(record, facts, limits)) {
        return Verdict::Held(reason);
    }
    Verdict::Held(match facts.liveness {
        // A lock with a time becomes stale by its age, so its process alone is not the reason.
        _ if record.acquired_at.is_some() => Reason::AgeFresh,
        Liveness::Alive => Reason::PidAlive,
        Liveness::NotPermitted => Reason::PidNotPermitted,
        _ if other_host(record, facts).is_some() => Reason::OtherHost,
        Liveness::Gone | Liveness::Unknown | Liveness::NotAsked => Reason::PidUnknown,
    })
}

/// True if the lock is older than `limits.age` by the wall clock. [`evidence`] decides whether that age counts.
pub fn is_old(record: &Record, facts: &Facts, limits: &Limits) -> bool {
    record
        .acquired_at
        .is_some_and(|time| is_over(time.age(facts.now), limits.age))
}

/// PID of the watchdog that has still to end the descendants of the lock's process. A lock without a time never becomes
/// too old, so its watchdog does not count: any user may run a process that looks like one, and would keep the lock for
/// ever.
pub fn watchdog(record: &Record, facts: &Facts) -> Option<i32> {
    facts.watchdog.filter(|_| record.acquired_at.is_some())
}

/// Reason for which the lock counts as held although it is too old by the wall clock: its process may have refreshed it
/// since, and that clock was set. `None`: the age counts.
fn may_be_refreshed(record: &Record, facts: &Facts, limits: &Limits) -> Option<Reason> {
    let mark = record.beadlock.as_ref()?;
    let clocks = Clocks {
        wall: facts.now,
        boottime: facts.boottime,
        ids: &facts.ids,
    };
    // During a suspend no holder can refresh, so the time of the suspend does not count.
    let is_as_old = clocks
        .since(mark)
        .is_some_and(|age| age.saturating_sub(facts.standstill) > limits.age.max(UNREFRESHED));
    may_live_here(record, facts).filter(|_| !is_as_old)
}

/// Reason for which the process of the lock counts as alive on this host. `None`: it is of another host, its PID is
/// another process now, or it is a zombie. A process in another PID namespace of this host cannot be probed, and counts
/// as alive.
fn may_live_here(record: &Record, facts: &Facts) -> Option<Reason> {
    let process = record.process()?;
    if watchdog(record, facts).is_some() {
        return Some(Reason::PidUnknown);
    }
    match beads::judge(&process, facts, true) {
        Verdict::Held(reason @ (Reason::PidAlive | Reason::PidNotPermitted)) => Some(reason),
        // No process can have a PID that no kernel gives out.
        Verdict::Held(reason @ (Reason::PidUnknown | Reason::OtherPidNamespace)) => {
            i32::try_from(process.pid).is_ok().then_some(reason)
        }
        _ => None,
    }
}

/// Time until the lock is stale by its age, if it is not refreshed; zero when it is too old. `None`: its age is
/// unknown.
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

/// Host that the record names, if it is another one than this. `None` also when the name of this host is unknown.
fn other_host<'r>(record: &'r Record, facts: &Facts) -> Option<&'r str> {
    let here = facts.hostname.as_deref()?;
    record
        .hostname
        .as_deref()
        .filter(|hostname| !hostname.eq_ignore_ascii_case(here))
}
