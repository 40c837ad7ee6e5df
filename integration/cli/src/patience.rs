//! For how long a command waits for a file system to answer, and what it touches beside its targets.

use std::path::{Path, PathBuf};

use beadlock_base::{beside::Helpers, duration};

use crate::command_line::Command;
use crate::commands::{
    acquire::AcquireArgs, append::AppendArgs, break_lock::BreakArgs, hold::HoldArgs,
    release::ReleaseCommandArgs, update::UpdateArgs, write::WriteArgs,
};
use crate::settings;
use beadlock_claim::{
    environment::Environment,
    remote::{Patience, Remote},
    wait::Wait,
};

/// The guard of a command, whose wait bounds how long an answer is waited for.
pub fn guard(helpers: Helpers, command: Option<&Command>, environment: &Environment) -> Remote {
    let cwd = environment.of_database().cwd;
    Remote::of(
        helpers,
        patience(command, environment),
        besides(command, environment),
        cwd,
    )
}

fn patience(command: Option<&Command>, environment: &Environment) -> Patience {
    let (wait, no_wait, drain) = match command {
        Some(
            Command::Hold(HoldArgs { claim, .. }) | Command::Acquire(AcquireArgs { claim, .. }),
        ) => (claim.wait, claim.no_wait, claim.drain),
        Some(Command::Wait(typed)) => (typed.wait, false, None),
        Some(
            Command::Write(WriteArgs { on, .. })
            | Command::Update(UpdateArgs { on, .. })
            | Command::Append(AppendArgs { on, .. }),
        ) => (on.wait, on.no_wait, None),
        _ => return Patience::Look,
    };
    // A variable that is wrong is said by the command itself.
    let variable = |name| environment.parsed(name, duration::parse).ok().flatten();
    let wait = match no_wait {
        true => Some(Wait::No),
        false => wait.or_else(|| variable("BEADLOCK_WAIT")).map(Wait::UpTo),
    };
    Patience::Waits {
        wait,
        drain: drain.or_else(|| variable("BEADLOCK_DRAIN")),
    }
}

/// The files that the command reads or writes beside its targets, as they were named.
fn besides(command: Option<&Command>, environment: &Environment) -> Vec<PathBuf> {
    let (audit, others) = match command {
        Some(
            Command::Hold(HoldArgs {
                claim, protocol, ..
            })
            | Command::Acquire(AcquireArgs {
                claim, protocol, ..
            }),
        ) => (
            claim.audit.as_deref(),
            [claim.report.as_deref(), protocol.files()],
        ),
        Some(
            Command::Release(ReleaseCommandArgs { audit, .. })
            | Command::Break(BreakArgs { audit, .. }),
        ) => (audit.as_deref(), [None; 2]),
        _ => (None, [None; 2]),
    };
    let others = others.into_iter().flatten().map(Path::to_owned);
    settings::audit(audit, environment)
        .into_iter()
        .chain(others)
        .collect()
}
