//! A database that has joined a fleet (docs/design.md#the-fleet): a claim of its lock alone keeps the agents of this
//! machine away, and no others.

use crate::error::Problem;
use std::io::ErrorKind;

use beadlock_core::{audit::Event, check::has_fleet_mark};

use super::target::Target;
use crate::error::{Code, Error};
use crate::{
    audit_trail::AuditTrail,
    observe::Notice,
    words::{self, to_type},
};

/// Refuses a claim that nothing could end when the fleet is lost. Fails also when the mark cannot be looked for.
pub fn refuse_joined(target: &Target) -> Result<(), Error> {
    if !has_joined(target)? {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{} has joined a fleet, and nothing could end your script when the fleet is lost; use {}, or claim it on this \
         machine alone with --no-fleet",
        target.given,
        to_type("beadlock hold {} -- script", &[target.part()])
    )))
}

/// The target is a database that has joined a fleet. A directory that may not be searched has no claim either: that is
/// said of its lock.
pub fn has_joined(target: &Target) -> Result<bool, Error> {
    match has_fleet_mark(&target.place) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(false),
        found => found.map_err(|error| Error::from(error).of_code(Code::LockUnreadable)),
    }
}

/// Says and writes down that the fleet of a database is left out.
pub fn waive(target: &Target, trail: &AuditTrail<'_>) -> Result<(), Error> {
    if has_joined(target)? {
        let given = &target.given;
        trail.observer().notice(&Notice::FleetWaived { given });
        let words = words::fleet_waived(given);
        trail.write(Event::FleetWaived, |entry| entry.detail(&words));
    }
    Ok(())
}
