//! For how long a command waits for a file system to answer, and what it touches beside its targets.

use std::path::{Path, PathBuf};

use beadlock_checker::internal::duration;

use super::Command;
use crate::protocol;
use crate::settings::{arguments::ClaimArgs, environment::Environment, remote::Patience, remote::Remote, wait::Wait};

/// The guard of a command, whose wait bounds how long an answer is waited for.
pub fn guard(command: Option<&Command>, environment: &Environment) -> Remote {
    let cwd = environment.of_database().cwd;
    Remote::of(patience(command, environment), besides(command, environment), cwd)
}

fn patience(command: Option<&Command>, environment: &Environment) -> Patience {
    let (wait, no_wait, drain) = match command {
        Some(Command::Hold(typed)) => (typed.claim.wait, typed.claim.no_wait, typed.claim.drain),
        Some(Command::Acquire(typed)) => (typed.claim.wait, typed.claim.no_wait, typed.claim.drain),
        Some(Command::Wait(typed)) => (typed.wait, false, None),
        Some(Command::Write(typed)) => (typed.on.wait, typed.on.no_wait, None),
        Some(Command::Update(typed)) => (typed.on.wait, typed.on.no_wait, None),
        Some(Command::Append(typed)) => (typed.on.wait, typed.on.no_wait, None),
        _ => return Patience::Look,
    };
    // A variable that is wrong is said by the command itself.
    let variable = |name| environment.parsed(name, duration::parse).ok().flatten();
    let wait = match (wait, no_wait) {
        (_, true) => Some(Wait::No),
        (wait, false) => wait.or_else(|| variable("BEADLOCK_WAIT")).map(Wait::UpTo),
    };
    Patience::Waits { wait, drain: drain.or_else(|| variable("BEADLOCK_DRAIN")) }
}

/// The files that the command reads or writes beside its targets, as they were named.
fn besides(command: Option<&Command>, environment: &Environment) -> Vec<PathBuf> {
    let (audit, others): (Option<&PathBuf>, Vec<Option<&Path>>) = match command {
        Some(Command::Hold(typed)) => (typed.claim.audit.as_ref(), of_claim(&typed.claim, &typed.protocol)),
        Some(Command::Acquire(typed)) => (typed.claim.audit.as_ref(), of_claim(&typed.claim, &typed.protocol)),
        Some(Command::Release(typed)) => (typed.audit.as_ref(), Vec::new()),
        Some(Command::Break(typed)) => (typed.audit.as_ref(), Vec::new()),
        _ => (None, Vec::new()),
    };
    let audit = audit.cloned().or_else(|| environment.get("BEADLOCK_AUDIT").map(PathBuf::from));
    let others = others.into_iter().flatten().map(Path::to_owned);
    audit.into_iter().chain(others).collect()
}

fn of_claim<'t>(typed: &'t ClaimArgs, protocol: &'t protocol::Args) -> Vec<Option<&'t Path>> {
    vec![typed.report.as_deref(), protocol.files()]
}
