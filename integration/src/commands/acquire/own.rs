//! A claim that the process of this `acquire` has made already. It would wait for itself.

use beadlock_checker::Options;
use beadlock_checker::internal::{Look, duration::shown, escape::escaped_path, look};

use crate::claim::target::Target;
use crate::error::{Code, Error, Holder};
use crate::words::{self, quoted};

/// Refuses a claim for the process `pid`, where the lock names this very process: the same host, boot, PID namespace
/// and start.
///
/// Only for locks that name the process of their claim and are judged by it.
///
/// # Errors
/// [`Code::LockHeld`], which no retry changes, with the id to export.
pub fn refuse(target: &Target, pid: i32) -> Result<(), Error> {
    let there = look(&target.place, &Options::default());
    match target.protocol.is_held_by(&there, pid) {
        true => Err(already_held(target, &there)),
        false => Ok(()),
    }
}

fn already_held(target: &Target, there: &Look) -> Error {
    let path = escaped_path(&target.path());
    let id = quoted(there.id.as_deref().unwrap_or_default().as_ref());
    let holder = target.holder(there).unwrap_or_default();
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
