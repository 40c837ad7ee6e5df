//! Code of the protocols whose locks name a process: a lock is valid for as long as its process lives.

use beadlock_core::Verdict;
use beadlock_core::record::beads;
use beadlock_core::{facts::Facts, look::Look};

/// How a recorded start may differ from the one that is read back and still be the same: in clock ticks.
pub const TICK: u64 = 1;

/// The lock names the process that has this PID here and now.
pub fn is_held_by(there: &Look, pid: i32) -> bool {
    let (Verdict::Held(_), Some(record), Some(facts)) =
        (there.verdict, &there.record, &there.facts)
    else {
        return false;
    };
    record
        .process()
        .is_some_and(|record| record.pid == i64::from(pid) && is_same_process(&record, facts))
}

fn is_same_process(record: &beads::Record, facts: &Facts) -> bool {
    let recorded = record.beadlock.as_ref().and_then(|mark| mark.start_ticks);
    let now = facts.proof.as_ref().and_then(|proof| proof.start_ticks);
    facts.is_same_host(record)
        && facts.other_machine(record) != Some(true)
        && facts.other_boot(record) == Some(false)
        && record
            .pid_ns()
            .is_some_and(|theirs| facts.ids.pid_ns.as_deref() == Some(theirs))
        && recorded
            .zip(now)
            .is_some_and(|(then, now)| then.abs_diff(now) <= TICK)
}
