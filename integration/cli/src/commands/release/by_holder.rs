//! `release --holder NAME` and `renew --holder NAME`: the id of the one claim that may be named so.

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_claim::error::{Code, Error, Problem};
use beadlock_claim::target::Target;
use beadlock_claim::words::{see, to_type};
use beadlock_core::look::look;
use beadlock_core::target::Scheme;
use beadlock_core::{Options, Verdict};
use nix::unistd::geteuid;

/// The id of the claim of `name` on this target, where `acquire` has made it for this user. A record without an id, one
/// of a hold, or one of a program ends with its process. `command` is `release` or `renew`, for the words of the error.
///
/// # Errors
/// [`Code::LockLost`] when there is no claim of that name, [`Code::LockHeld`] when it is not to be ended so.
pub(in crate::commands) fn id_of(
    name: &str,
    target: &Target,
    command: &str,
) -> Result<String, Error> {
    let given = &target.given;
    if !matches!(target.scheme, Scheme::Beads | Scheme::Dir | Scheme::Lock) {
        return Err(Error::usage(format!(
            "--holder: the lock of {given} does not say whether acquire has made it; use --id ID"
        )));
    }
    let status = to_type("beadlock status {}", &[target.part()]);
    let name_shown = escaped(name);
    let seen = look(&target.place, &Options::default());
    let Some(record) = &seen.record else {
        let what = match (&seen.verdict, seen.side_file) {
            (Verdict::Free, false) => {
                let message =
                    format!("there is no claim of {name_shown} to {command}: {given} is free");
                return Err(Error::new(Code::LockLost, message));
            }
            (Verdict::Free, true) => "is aside for the moment: try again",
            _ => "cannot be understood, and was not touched",
        };
        let message = format!("the lock of {given} {what}; look at it: {status}");
        return Err(Error::new(Code::LockUnreadable, message));
    };
    if record.holder() != name {
        let holder = escaped(record.holder());
        return Err(Error::new(
            Code::LockLost,
            format!(
                "there is no claim of {name_shown} to {command}: {given} is held by {holder} (PID {}), and was left alone",
                record.pid()
            ),
        ));
    }
    let refused = |why: String| {
        let message = format!("{given} is held by {name_shown}, {why}; who and why: {status}");
        let detail = format!("lock_file={}", escaped_path(&target.path()));
        Err(Error::new(Code::LockHeld, message).detailed(detail))
    };
    let is_own = seen
        .on_disk
        .is_some_and(|file| file.owner == geteuid().as_raw());
    if !is_own {
        return refused(format!(
            "and the lock file belongs to another user, who can {command} it"
        ));
    }
    match record.mark() {
        Some(mark) if mark.acquired => Ok(mark.id.clone()),
        _ => {
            let see = see(record.pid());
            refused(format!(
                "and was not made by beadlock acquire: it ends with its process ({see})"
            ))
        }
    }
}
