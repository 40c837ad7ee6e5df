//! A claim that the process of this `acquire` has made already. It would wait for itself.

use beadlock_checker::internal::dialect::beads;
use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::facts::Facts;
use beadlock_checker::internal::{Look, look};
use beadlock_checker::{Options, Verdict};

use crate::error::{Code, Error, Holder};
use crate::target::Found;
use crate::words::{self, quoted};

/// How a recorded start may differ from the one that is read back and still be the same: in clock ticks.
const TICK: u64 = 1;

/// Refuses a claim for the process `pid`, where the lock names this very process: the same host, boot, PID namespace
/// and start.
///
/// Only for locks that name the process of their claim and are judged by it. The document of `memory:` lets the same
/// process in again, and that of `tower:` records no namespace and no start.
///
/// # Errors
/// [`Code::LockHeld`], which no retry changes, with the id to export.
pub fn refuse(target: &Found, pid: i32) -> Result<(), Error> {
    let there = look(&target.place, &Options::default());
    match is_held_by(&there, pid) {
        true => Err(already_held(target, &there)),
        false => Ok(()),
    }
}

fn is_held_by(there: &Look, pid: i32) -> bool {
    let (Verdict::Held(_), Some(record), Some(facts)) = (there.verdict, &there.record, &there.facts) else {
        return false;
    };
    record.as_beads().is_some_and(|record| record.pid == i64::from(pid) && is_same_process(record, facts))
}

/// The process that the record names is the one that has its PID here and now.
fn is_same_process(record: &beads::Record, facts: &Facts) -> bool {
    let recorded = record.beadlock.as_ref().and_then(|mark| mark.start_ticks);
    let now = facts.proof.as_ref().and_then(|proof| proof.start_ticks);
    facts.is_same_host(record)
        && facts.other_machine(record) != Some(true)
        && facts.other_boot(record) == Some(false)
        && record.pid_ns().is_some_and(|theirs| facts.ids.pid_ns.as_deref() == Some(theirs))
        && recorded.zip(now).is_some_and(|(then, now)| then.abs_diff(now) <= TICK)
}

fn already_held(target: &Found, there: &Look) -> Error {
    let path = escaped_path(&target.path());
    let id = quoted(there.id.as_deref().unwrap_or_default().as_ref());
    let holder = words::holder(there).unwrap_or_default();
    let age = there.record.as_ref().map(words::age).unwrap_or_default();
    let message = format!(
        "{path} is held by {holder} for {}; this process holds it already: export BEADLOCK_ID={id}",
        shown(age)
    );
    let pid = there.record.as_ref().map_or(0, |record| record.pid());
    let detail = format!("lock_file={path} holder_pid={pid} holder_age_ms={}", age.as_millis());
    let error = Error::new(Code::LockHeld, message).detailed(detail);
    match &there.record {
        Some(record) => error.held_by(Holder::of_record(&target.path(), record)),
        None => error,
    }
}
