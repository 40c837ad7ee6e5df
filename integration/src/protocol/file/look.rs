//! Whether a process has a file locked, and which: what `check`, `status`, `list`, `break` and `wait` say of the lock.
//! No lock file is made.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use beadlock_checker::internal::dialect::file::{LockId, Mode, held};
use beadlock_checker::internal::{GateHolder, Gates, flock_of};
use beadlock_checker::{Reason, Verdict};
use serde_json::{Value, json};

use super::open::{LockFile, Patience, failed, named_inode};
use super::refused::{as_they_are_known, names};
use super::{take, target::FileTarget};
use crate::claim::attendant::{Attending, Stopped};
use crate::error::{Code, Error, Exit};
use crate::words::{self, Part, to_type};
use crate::{
    claim::kernel_lock::Observation, claim::signals::Signals, output::Fact, output::talk::Talk,
    settings::environment::Environment, settings::wait::Wait,
};

pub fn at(target: &FileTarget, gates: &Gates) -> Observation {
    let holders = as_they_are_known(gates.holders(target.lock()));
    let waiters = gates.waiters(target.lock());
    let (verdict, detail) = match holders.is_empty() {
        false => (Verdict::Held(Reason::FlockHeld), String::new()),
        true => match try_it(target) {
            Ok(verdict) => (verdict, String::new()),
            Err(error) => (Verdict::Unreadable(Reason::Unreadable), error.to_string()),
        },
    };
    let first = holders.first().zip(named_inode(target)).map(|(holder, inode)| (holder.pid, inode));
    let mode = first.and_then(|(pid, inode)| flock_of(pid, target.lock(), inode));
    let id = first.map(|(pid, (device, inode))| LockId { device, inode, pid }.to_string());
    let headline = match verdict {
        Verdict::Held(_) => {
            let mode = mode.map(|mode| format!(", {mode}")).unwrap_or_default();
            format!(" by {}{mode}", names(&holders))
        }
        _ if !detail.is_empty() => format!(": {detail}"),
        _ => String::new(),
    };
    let message = if matches!(verdict, Verdict::Held(_)) { held(&target.shown()) } else { detail.clone() };
    let next = next(target, verdict, &holders);
    let facts = facts(mode, &holders, &waiters);
    Observation { verdict, detail, message, id, holders, headline, facts, next }
}

fn facts(mode: Option<Mode>, holders: &[GateHolder], waiters: &[GateHolder]) -> Vec<Fact> {
    let all = |processes: &[GateHolder]| -> Value {
        let one = |GateHolder { pid, command }: &GateHolder| json!({ "pid": pid, "command": command });
        processes.iter().map(one).collect()
    };
    let mut facts = vec![Fact::json("mode", mode.map(Mode::as_str)), Fact::json("flock", all(holders))];
    facts.push(Fact::json("flock_waiters", all(waiters)));
    if !waiters.is_empty() {
        facts.push(Fact::text("waiting for it", words::names(waiters)));
    }
    facts
}

fn next(target: &FileTarget, verdict: Verdict, holders: &[GateHolder]) -> String {
    let command = |template| to_type(template, &[target.part()]);
    match (verdict, holders.first()) {
        (Verdict::Held(_), Some(holder)) => format!(
            "{}   # waits until it is free; to see its process: {}",
            command("beadlock wait --wait 10m {}"),
            to_type("ps -fp {}", &[Part::Pid(holder.pid.into())])
        ),
        (Verdict::Held(_), None) => {
            format!("{}   # root sees all processes", command("sudo beadlock status {}"))
        }
        (Verdict::Unreadable(_), _) => to_type("ls -ld {}", &[Part::Path(target.lock())]),
        _ => command("beadlock hold {} -- CMD"),
    }
}

/// An flock cannot be taken from the process that has it: the answer says which process to end.
pub fn not_to_break(target: &FileTarget, seen: &Observation) -> Error {
    if !matches!(seen.verdict, Verdict::Held(_)) {
        return Error::new(Code::LockFailed, seen.detail.clone());
    }
    let (given, names) = (target.given(), names(&seen.holders));
    let pids: Vec<OsString> = seen.holders.iter().map(|holder| holder.pid.to_string().into()).collect();
    let end = match pids.is_empty() {
        true => "root sees whose it is: sudo beadlock status".to_owned(),
        false => format!("when it is to end: {}", to_type("kill {}", &[Part::Words(pids)])),
    };
    let message = format!(
        "{given} is locked by {names}, and an flock cannot be taken away: it is gone when its process has ended; \
         {end}; or wait: {}",
        to_type("beadlock wait {}", &[target.part()])
    );
    Error::new(Code::LockHeld, message).retry_on_a_lock_of(None)
}

/// `/proc` may hide a holder of another namespace or machine: the lock is tried, and let go at once.
fn try_it(target: &FileTarget) -> Result<Verdict, Error> {
    let Some(file) = LockFile::find(target)? else { return Ok(Verdict::Free) };
    let taken = file.flock(Mode::Exclusive, Patience::Try).map_err(|error| failed(target, &error))?;
    Ok(if taken.is_ok() { Verdict::Free } else { Verdict::Held(Reason::FlockHeld) })
}

/// Waits; the answer is how long that took.
pub fn wait(target: &FileTarget, wait: Wait, environment: &Environment, talk: &Talk) -> Result<Duration, Stopped> {
    let begun = Instant::now();
    if LockFile::find(target)?.is_some() {
        let mut signals = Signals::block()?;
        let mut attending = Attending::wait_of(&mut signals, talk, None);
        let lock = take(target, Mode::Exclusive, wait, Some(environment), &mut attending);
        talk.end_live();
        let lock = lock.map_err(nothing_was_claimed)?;
        if lock.is_nested() {
            let (shown, pid) = (target.shown(), lock.id().pid);
            let message =
                format!("{shown} is held by the hold that this runs in (PID {pid}): it would wait for itself");
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
