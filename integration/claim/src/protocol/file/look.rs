//! Whether a process has a file locked, and which: what `check`, `status`, `list`, `break` and `wait` say of the lock.
//! No lock file is made.

use beadlock_core::gate_holders::{GateHolder, GateHolders, flock_of};
use beadlock_core::record::file::{LockId, Mode, held};
use beadlock_core::{Reason, Verdict};
use serde_json::{Value, json};

use super::open::{KernelWait, OpenLockFile, failed, named_inode};
use super::refused::{as_they_are_known, names};
use super::target::FileTarget;
use crate::words::{self, Part, to_type};
use crate::{error::Error, fact::Fact, kernel_lock::Observation};

pub fn at(target: &FileTarget, gates: &GateHolders) -> Observation {
    let holders = as_they_are_known(gates.holders(target.lock()));
    let waiters = gates.waiters(target.lock());
    let (verdict, detail) = match holders.is_empty() {
        false => (Verdict::Held(Reason::FlockHeld), String::new()),
        true => match try_it(target) {
            Ok(verdict) => (verdict, String::new()),
            Err(error) => (Verdict::Unreadable(Reason::Unreadable), error.to_string()),
        },
    };
    let first = holders
        .first()
        .zip(named_inode(target))
        .map(|(holder, inode)| (holder.pid, inode));
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
    let message = if matches!(verdict, Verdict::Held(_)) {
        held(&target.shown())
    } else {
        detail.clone()
    };
    let next = next(target, verdict, &holders);
    let facts = facts(mode, &holders, &waiters);
    Observation {
        verdict,
        detail,
        message,
        id,
        holders,
        headline,
        facts,
        next,
    }
}

fn facts(mode: Option<Mode>, holders: &[GateHolder], waiters: &[GateHolder]) -> Vec<Fact> {
    let all = |processes: &[GateHolder]| -> Value {
        let one =
            |GateHolder { pid, command }: &GateHolder| json!({ "pid": pid, "command": command });
        processes.iter().map(one).collect()
    };
    let mut facts = vec![
        Fact::json("mode", mode.map(Mode::as_str)),
        Fact::json("flock", all(holders)),
    ];
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
            format!(
                "{}   # root sees all processes",
                command("sudo beadlock status {}")
            )
        }
        (Verdict::Unreadable(_), _) => to_type("ls -ld {}", &[Part::Path(target.lock())]),
        _ => command("beadlock hold {} -- CMD"),
    }
}

/// `/proc` may hide a holder of another namespace or machine: the lock is tried, and let go at once.
fn try_it(target: &FileTarget) -> Result<Verdict, Error> {
    let Some(file) = OpenLockFile::find(target)? else {
        return Ok(Verdict::Free);
    };
    let taken = file
        .flock(Mode::Exclusive, KernelWait::Try)
        .map_err(|error| failed(target, &error))?;
    Ok(if taken.is_ok() {
        Verdict::Free
    } else {
        Verdict::Held(Reason::FlockHeld)
    })
}
