//! `beadlock break file:PATH`: an flock cannot be taken from who has it. It says whom to end.

use std::ffi::OsString;

use beadlock_checker::internal::Gates;
use serde_json::{Value, json};

use super::look::Look;
use super::refused::names;
use super::target::FileTarget;
use crate::error::{Code, Error};
use crate::output::talk::Talk;
use crate::words::{Part, to_type};

/// The answer where nobody has the lock.
///
/// # Errors
/// Exit 4 where somebody has it; exit 8 where that cannot be told.
pub fn run(target: FileTarget, reason: Option<&str>, talk: &Talk) -> Result<Value, Error> {
    let look = Look::at(target, &Gates::now());
    let given = look.target.given();
    if look.is_held() {
        let names = names(&look.holders);
        let pids: Vec<String> = look.holders.iter().map(|holder| holder.pid.to_string()).collect();
        let end = match pids.is_empty() {
            true => "root sees whose it is: sudo beadlock status".to_owned(),
            false => {
                let pids = pids.iter().map(OsString::from).collect();
                format!("when it is to end: {}", to_type("kill {}", &[Part::Words(pids)]))
            }
        };
        let message = format!(
            "{given} is locked by {names}, and an flock cannot be taken away: it is gone when its process has ended; {end}; \
             or wait: {}",
            to_type("beadlock wait {}", &[look.target.part()])
        );
        return Err(Error::new(Code::LockHeld, message).retry_on_a_lock_of(None));
    }
    if !look.detail().is_empty() {
        return Err(Error::new(Code::LockFailed, look.detail()));
    }
    talk.say(&format!("nobody has {given} locked: there is nothing to break"));
    Ok(json!({
        "target": given,
        "path": look.target.lock().to_string_lossy(),
        "holder": null,
        "id": null,
        "record": null,
        "kept": null,
        "reason_given": reason,
        "was": { "verdict": "free", "reason": "no_lock", "kind": null },
    }))
}
