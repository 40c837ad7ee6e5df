//! `beadlock wait file:PATH`: returns when nobody has the file locked. It makes no lock file.

use std::time::{Duration, Instant};

use beadlock_checker::internal::dialect::file::Mode;

use super::{open::LockFile, take, target::FileTarget};
use crate::claim::attendant::{Attending, Stopped};
use crate::error::{Code, Error, Exit};
use crate::{
    claim::signals::Signals, output::talk::Talk, settings::environment::Environment, settings::wait::Wait,
};

/// Waits; the answer is how long that took.
pub fn wait(
    target: &FileTarget,
    wait: Wait,
    environment: &Environment,
    talk: &Talk,
) -> Result<Duration, Stopped> {
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
    Ok(begun.elapsed())
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
