//! `beadlock wait file:PATH`: returns when nobody has the file locked. It makes no lock file.

use std::time::{Duration, Instant};

use beadlock_checker::internal::dialect::file::{Mode, WAIT};
use beadlock_checker::internal::duration::shown;
use serde_json::{Value, json};

use super::open::LockFile;
use super::take;
use super::target::FileTarget;
use crate::claim::attendant::{Attending, Stopped};
use crate::claim::signals::Signals;
use crate::error::{Code, Error, Exit};
use crate::output::talk::Talk;
use crate::settings::environment::Environment;
use crate::settings::wait::Wait;
use crate::words::millis;

/// Waits; the answer is the envelope's `data`.
///
/// # Errors
/// Exit 4 when the wait ran out.
pub fn wait(
    target: &FileTarget,
    wait: Option<Wait>,
    environment: &Environment,
    talk: &Talk,
) -> Result<Value, Stopped> {
    let wait = wait.unwrap_or(Wait::UpTo(WAIT));
    let begun = Instant::now();
    if LockFile::find(target)?.is_some() {
        let mut signals = Signals::block()?;
        let mut attending = Attending::wait_of(&mut signals, talk, None);
        let lock = take(target, Mode::Exclusive, wait, Some(environment), &mut attending);
        talk.end_live();
        let lock = lock.map_err(nothing_was_claimed)?;
        if lock.is_nested() {
            let (shown, pid) = (target.shown(), lock.id().pid);
            let message = format!(
                "{shown} is held by the hold that this runs in (PID {pid}): it would wait for itself"
            );
            return Err(Error::new(Code::LockHeld, message).into());
        }
    }
    let waited = begun.elapsed();
    talk.say_more(&format!("{} is free after {}", target.given(), shown(waited)));
    Ok(answer(target, waited))
}

fn answer(target: &FileTarget, waited: Duration) -> Value {
    json!({
        "target": target.given(),
        "path": target.lock().to_string_lossy(),
        "waited_ms": millis(waited),
        "removed": false,
    })
}

/// The same words, and the code of a wait.
fn nothing_was_claimed(stopped: Stopped) -> Stopped {
    match stopped {
        Stopped::Failed(error) if error.exit == Exit::FileHeld => {
            Error { code: Code::LockHeld, exit: Exit::Conflict, ..error }.into()
        }
        stopped => stopped,
    }
}
