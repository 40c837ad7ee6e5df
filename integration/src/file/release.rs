//! `beadlock release file:PATH`: ends the keeper that `acquire` has left, and with it the lock.

use std::os::fd::AsFd;
use std::time::Duration;

use beadlock_checker::internal::Gates;
use beadlock_checker::internal::dialect::file::LockId;
use beadlock_checker::internal::sys::pidfd_open;
use beadlock_checker::internal::{escape::escaped, system_words};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::look::Look;
use super::nested;
use super::refused::names;
use super::target::FileTarget;
use crate::claim::event::wait_for;
use crate::claim::nested::NESTED;
use crate::error::{Code, Error};
use crate::output::talk::Talk;
use crate::run::request::HelperRequest;

/// How long a keeper may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the claim with this id, which `acquire` has printed.
///
/// # Errors
/// Exit 9 where somebody else has the lock; exit 1 where the keeper could not be ended.
pub fn release(target: FileTarget, id: &str, talk: &Talk) -> Result<Value, Error> {
    let (given, path) = (target.given(), target.lock().to_string_lossy().into_owned());
    let answer = |released: bool| json!({ "target": given, "path": path, "id": id, "released": released, "held_ms": null });
    let shown = escaped(id);
    let known: Option<LockId> = id.strip_prefix(NESTED).unwrap_or(id).parse().ok();
    let Some(known) = known.filter(|known| nested::standing(&target, *known).is_some()) else {
        let look = Look::at(target, &Gates::now());
        if look.is_held() {
            let message = format!(
                "{given} was not touched: the claim {shown} was lost, and it is locked by {} now",
                names(&look.holders)
            );
            return Err(Error::new(Code::LockLost, message));
        }
        talk.warn(&format!("{given} is not locked any more: it was released, or its time was over"));
        return Ok(answer(false));
    };
    if id.starts_with(NESTED) || !is_keeper(known.pid) {
        talk.say(&format!(
            "{given} is still held by the outer claim ({known}), which ends it with its own end"
        ));
        return Ok(answer(false));
    }
    end(&target, known)?;
    talk.say(&format!("released {given}"));
    Ok(answer(true))
}

fn is_keeper(pid: i32) -> bool {
    matches!(HelperRequest::of_process(pid), Some(HelperRequest::LeaseKeeper(_)))
}

/// Tells the keeper to end, and waits until it has.
fn end(target: &FileTarget, id: LockId) -> Result<(), Error> {
    let failed = |why: &str| {
        let given = target.given();
        Error::new(Code::Io, format!("{given} was not released: its keeper, PID {}, {why}", id.pid))
    };
    // Looked at after the descriptor was opened: it is the keeper's then, and stays so.
    let ended = pidfd_open(id.pid);
    if nested::standing(target, id).is_none() || !is_keeper(id.pid) {
        return Ok(());
    }
    match kill(Pid::from_raw(id.pid), Signal::SIGTERM) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => {
            let why = format!("cannot be ended: {}", system_words(&errno.into()));
            return Err(Error { code: Code::NotPermitted, ..failed(&why) });
        }
    }
    let has_ended = ended.is_ok_and(|ended| wait_for([Some(ended.as_fd())], PATIENCE) == [true]);
    if has_ended || nested::standing(target, id).is_none() {
        Ok(())
    } else {
        Err(failed("does not end; try again"))
    }
}
