//! What `beads` and `lock` share: a lock that is valid for as long as its process lives.

mod explained;
mod facts;
mod situation;
#[cfg(test)]
mod tests;

use beadlock_checker::Verdict;
use beadlock_checker::internal::dialect::{Rejected, beads};
use beadlock_checker::internal::{Look, facts::Facts};

use super::ClaimWords;
use crate::error::{Code, Error};
use crate::{claim::target::Target, words::to_type};

pub use explained::explain;

pub fn claim_words() -> ClaimWords {
    ClaimWords::new(|holder: &str, id: &str, pid: u32| {
        let made = beads::Record::for_process(pid, holder, env!("CARGO_PKG_VERSION"));
        let mut record = made.map_err(|rejected| match rejected {
            Rejected::Invalid(why) | Rejected::Malformed(why) => {
                Error::new(Code::Io, format!("no record can be made: {why}"))
            }
        })?;
        if let Some(mark) = record.beadlock.as_mut() {
            id.clone_into(&mut mark.id);
        }
        Ok(record.into())
    })
}

/// How a recorded start may differ from the one that is read back and still be the same: in clock ticks.
const TICK: u64 = 1;

/// The lock names the process that has this PID here and now.
pub fn is_held_by(there: &Look, pid: i32) -> bool {
    let (Verdict::Held(_), Some(record), Some(facts)) = (there.verdict, &there.record, &there.facts) else {
        return false;
    };
    record.as_beads().is_some_and(|record| record.pid == i64::from(pid) && is_same_process(record, facts))
}

fn is_same_process(record: &beads::Record, facts: &Facts) -> bool {
    let recorded = record.beadlock.as_ref().and_then(|mark| mark.start_ticks);
    let now = facts.proof.as_ref().and_then(|proof| proof.start_ticks);
    facts.is_same_host(record)
        && facts.other_machine(record) != Some(true)
        && facts.other_boot(record) == Some(false)
        && record.pid_ns().is_some_and(|theirs| facts.ids.pid_ns.as_deref() == Some(theirs))
        && recorded.zip(now).is_some_and(|(then, now)| then.abs_diff(now) <= TICK)
}

/// What follows a release that has failed.
pub fn not_released(target: &Target, error: &Error) -> String {
    let check = to_type("beadlock check {}", &[target.part()]);
    format!("{error}; once this has ended, type: {check}")
}
