//! `beadlock release file:PATH`: ends the keeper that `acquire` has left, and with it the lock.

use std::{os::fd::AsFd, time::Duration};

use beadlock_checker::Verdict;
use beadlock_checker::internal::{
    Gates, dialect::file::LockId, escape::escaped, sys::pidfd_open, system_words,
};
use nix::sys::signal::{Signal, kill};
use nix::{errno::Errno, unistd::Pid};

use super::{look, nested, refused::names, target::FileTarget};
use crate::error::{Code, Error};
use crate::{
    claim::event::wait_for, claim::known_process::HelperKind, claim::nested::NESTED,
    output::talk::Talk,
};

const PATIENCE: Duration = Duration::from_secs(10);

/// Ends the claim with this id, which `acquire` has printed.
pub fn release(target: &FileTarget, id: &str, talk: &Talk) -> Result<bool, Error> {
    let (given, shown) = (target.given(), escaped(id));
    let known: Option<LockId> = id.strip_prefix(NESTED).unwrap_or(id).parse().ok();
    let Some(known) = known.filter(|known| nested::standing(target, *known).is_some()) else {
        let seen = look::at(target, &Gates::now());
        if matches!(seen.verdict, Verdict::Held(_)) {
            let message = format!(
                "{given} was not touched: the claim {shown} was lost, and it is locked by {} now",
                names(&seen.holders)
            );
            return Err(Error::new(Code::LockLost, message));
        }
        talk.warn(&format!(
            "{given} is not locked any more: it was released, or its time was over"
        ));
        return Ok(false);
    };
    if id.starts_with(NESTED) || !is_keeper(known.pid) {
        talk.say(&format!(
            "{given} is still held by the outer claim ({known}), which ends it with its own end"
        ));
        return Ok(false);
    }
    end(target, known)?;
    talk.say(&format!("released {given}"));
    Ok(true)
}

fn is_keeper(pid: i32) -> bool {
    HelperKind::of(pid) == Some(HelperKind::LeaseKeeper)
}

fn end(target: &FileTarget, id: LockId) -> Result<(), Error> {
    let failed = |why: &str| {
        let given = target.given();
        Error::new(
            Code::Io,
            format!(
                "{given} was not released: its keeper, PID {}, {why}",
                id.pid
            ),
        )
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
            return Err(Error {
                code: Code::NotPermitted,
                ..failed(&why)
            });
        }
    }
    let has_ended = ended.is_ok_and(|ended| wait_for([Some(ended.as_fd())], PATIENCE) == [true]);
    if has_ended || nested::standing(target, id).is_none() {
        Ok(())
    } else {
        Err(failed("does not end; try again"))
    }
}
