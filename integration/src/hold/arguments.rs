//! What is typed for `beadlock hold`.

use std::ffi::OsString;
use std::time::Duration;

use beadlock_checker::internal::duration;
use clap::Args;

use crate::protocol;
use crate::settings::OnLoss;
use crate::settings::arguments::ClaimArgs;
use crate::tower::options::{FailureStep, Rollback};

/// `beadlock hold [TARGET] -- CMD [ARG…]`
#[derive(Debug, Args)]
pub struct HoldArgs {
    /// The database's directory, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH [env: BEADLOCK_TARGET]
    /// [default: what --intent names, else the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The name in the lock file and in daemons' logs [env: BEADLOCK_HOLDER] [default: the command's base name]
    #[arg(long, value_name = "NAME")]
    pub holder: Option<String>,
    #[command(flatten)]
    pub claim: ClaimArgs,
    #[command(flatten)]
    pub protocol: protocol::Args,
    /// What to do when the lock is lost: end the command, or only say so [env: BEADLOCK_ON_LOSS] [default: kill]
    #[arg(long, value_name = "kill|warn")]
    pub on_loss: Option<OnLoss>,
    /// How long what is left after a signal or a loss may take before it is killed [env: BEADLOCK_KILL_AFTER]
    /// [default: 10s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub kill_after: Option<Duration>,
    /// Keep the lock until everything that the command started has ended
    #[arg(long)]
    pub wait_group: bool,
    #[command(flatten)]
    pub failure: FailureStep,
    #[command(flatten)]
    pub rollback: Rollback,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
