//! `beadlock release file:PATH`: ends the keeper that `acquire` has left, and with it the lock.

use crate::error::Problem;
use std::{os::fd::AsFd, time::Duration};

use beadlock_base::process::Stat;
use beadlock_base::{deadline::boottime, error::system_words, escape::escaped, sys::pidfd_open};
use beadlock_core::Verdict;
use beadlock_core::{gate_holders::GateHolders, record::file::LockId};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::{kernel::record_of, look, outer, refused::names, target::FileTarget};
use crate::error::{Code, Error};
use crate::kernel_lock::KernelRelease;
use crate::{
    observe::{Notice, Observer},
    outer::NESTED,
};
use beadlock_base::poll::wait_for;
use beadlock_supervise::process_ref::HelperKind;

const PATIENCE: Duration = Duration::from_secs(10);

/// The claim that `acquire` has printed the id of, or that a nested one stands under.
pub fn claim_of(id: &str) -> Option<LockId> {
    id.strip_prefix(NESTED).unwrap_or(id).parse().ok()
}

/// Ends the claim with this id, which `acquire` has printed.
pub fn release(
    target: &FileTarget,
    id: &str,
    observer: &dyn Observer,
) -> Result<KernelRelease, Error> {
    let given = target.given();
    let known = claim_of(id).and_then(|known| Some((known, outer::standing(target, known)?)));
    let Some((known, mode)) = known else {
        let seen = look::at(target, &GateHolders::now());
        return Ok(KernelRelease::Gone(match seen.verdict {
            Verdict::Held(_) => format!(
                "{given} was not touched: the claim {} was lost, and it is locked by {} now",
                escaped(id),
                names(&seen.holders)
            ),
            _ => format!(
                "{given} is not locked any more: it was released, its time was over, or its keeper was killed"
            ),
        }));
    };
    if id.starts_with(NESTED) || !is_keeper(known.pid) {
        let (given, id) = (&given, &known.to_string());
        observer.notice(&Notice::StillHeld { given, id });
        return Ok(KernelRelease::Outer);
    }
    let held = age_of_process(known.pid).unwrap_or_default();
    end(target, known)?;
    observer.notice(&Notice::Released {
        given: &given,
        held: None,
        document: None,
    });
    Ok(KernelRelease::Released {
        keeper: known.pid,
        held,
        lock: record_of(&known.to_string(), mode),
    })
}

/// How long the process has been there, to a hundredth of a second.
fn age_of_process(pid: i32) -> Option<Duration> {
    let ticks = u32::try_from(sysconf(SysconfVar::CLK_TCK).ok()??).ok()?;
    let start = Duration::from_secs(Stat::read(pid)?.start_ticks).checked_div(ticks)?;
    boottime().checked_sub(start)
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
    if outer::standing(target, id).is_none() || !is_keeper(id.pid) {
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
    if has_ended || outer::standing(target, id).is_none() {
        Ok(())
    } else {
        Err(failed("does not end; try again"))
    }
}
