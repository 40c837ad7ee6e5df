//! The claim of a database in its fleet is broken by a mark on its session: its holder ends the work, and then the
//! claim. Nothing is revoked, for the work would go on beside others. A holder that never reads the mark loses the
//! claim within 15 s.

use beadlock_base::escape::escaped;
use beadlock_core::audit::Event;
use beadlock_fleet::{Evicted, Fleet, SeenClaim};
use serde_json::Value;

use super::{BreakArgs, choice::Choice};
use crate::commands::fleet::evict::why;
use crate::fleet::Joined;
use crate::fleet::error::fleet_error;
use beadlock_claim::audit_trail::AuditTrail;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::report::{BREAK_IN_FLEET, Report};
use beadlock_claim::target::Target;
use beadlock_console::talk::Talk;

/// Marks the claim that is meant, and returns the envelope's `data`; `None`: it is not the claim in the fleet that is
/// meant.
pub fn run(
    target: &Target,
    choice: &Choice,
    typed: &BreakArgs,
    environment: &Environment,
    trail: &AuditTrail<'_>,
    talk: &Talk,
) -> Result<Option<Value>, Error> {
    let joined = match Joined::of(target, environment) {
        Ok(Some(joined)) => joined,
        Ok(None) => return Ok(None),
        Err(error) => return Ok(not_asked(talk, &error)),
    };
    let seen = match joined.claim() {
        Ok(Some(seen)) => seen,
        Ok(None) => return Ok(None),
        Err(error) => return Ok(not_asked(talk, &error)),
    };
    let SeenClaim { value, session, .. } = &seen.claim;
    let is_meant = match choice {
        Choice::Id(id) => value.id == *id,
        Choice::Holder(name) => value.holder == *name,
        Choice::Malformed | Choice::Unnamed => false,
    };
    if !is_meant {
        return Ok(None);
    }
    let fleet = Fleet::of_mark(&joined.config, &joined.mark).map_err(fleet_error)?;
    let reason = typed.reason.as_deref().unwrap_or("no reason given");
    if fleet.evict(*session, &why(reason)).map_err(fleet_error)? == Evicted::NotThere {
        return Ok(None);
    }
    let (name, holder, host) = (
        &joined.mark.name,
        escaped(&value.holder),
        escaped(&value.host),
    );
    let words = format!(
        "told {holder} (PID {} on {host}) that its claim of {name} in the fleet is broken: it ends its work, and then \
         the claim; a holder that does not hear that loses it within 15s",
        value.pid
    );
    talk.say(&words);
    trail.write(Event::LockBroken, |entry| {
        entry.reason(choice.as_str()).detail(reason).lock(value)
    });
    let report = Report {
        holder: Some(value.holder.clone()),
        id: Some(value.id.clone()),
        reason_given: typed.reason.clone(),
        fleet: Some(seen.json()),
        ..Report::of(target)
    };
    Ok(Some(report.json(BREAK_IN_FLEET)))
}

/// The lock of this machine can be broken all the same.
fn not_asked<T>(talk: &Talk, error: &Error) -> Option<T> {
    talk.warn(&format!(
        "the fleet was not asked, and only this machine's lock is looked at: {error}"
    ));
    None
}
