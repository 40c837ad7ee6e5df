//! The daemon that asks before every cycle: `beadlock-agent` (docs/design.md#the-agent).
//!
//! It syncs each of its databases through git ([`beadlock_git`]), or runs a command for it, again and again: at every interval,
//! after a change, and at once when a lock goes away. Every cycle holds the database's gate and begins with the check;
//! what is claimed is left alone, and the log says so.
//!
//! One task owns all state ([`scheduler`]). Checks are made beside it, by as many threads as there are processors, and
//! never wait for anybody's work; of that there is `--jobs` at once. A database that waits costs a timer and a watch,
//! no thread and no open file. With those of the scheduler, the log, the diagnostics and the watcher an idle agent has
//! at most five threads more than there are processors; with `--listen` six.
//!
//! # Limits
//! - What changes below a database while its own cycle is at work is taken for the cycle's: the tick is the net.
//! - Without a watcher (no inotify, or its limit reached) the tick is all there is.
//! - Two agents on one database, each with a command that writes into it, start each other for ever: to each the
//!   other's changes are news. One agent is enough.

#![forbid(unsafe_code)]
#![expect(
    rustdoc::private_intra_doc_links,
    reason = "the modules are the map of the house, for who reads the code"
)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

mod audit;
mod command;
mod config;
mod cycle;
mod cycle_end;
mod database;
mod diagnostics;
mod fleet;
mod hang;
mod http;
mod limits;
mod log;
mod notify;
mod outcome;
mod roots;
mod scheduler;
mod stamp;
mod state;
mod watch;

pub use crate::config::{ConfigFailure, print_config};
pub use crate::log::log_of_skips;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use beadlock_base::helper::Helpers;
use nix::sys::signal::Signal;

use crate::audit::AuditTrail;
use crate::config::{AgentSettings, CommandLine, RunMode};
use crate::diagnostics::Diagnostics;
use crate::http::{HttpEndpoint, Metrics, Questions};
use crate::limits::{has_descriptors_for_the_loop, no_events};
use crate::scheduler::{AgentSignals, Scheduler};

/// `beadlock-agent` with its arguments, the program's name first. Returns when it is told to end (SIGTERM,
/// SIGINT) or, with `--once`, when every database had its cycle.
///
/// `helpers` is the proof that the program is the runner of a cycle's command where its command line says so.
///
/// Exit codes: 0; 1 it could not start, or with `--once` a cycle failed or there was none to run; 2 the command line
/// is wrong; 4 and 5 with `--once` as `beadlock check` (docs/design.md#exit-codes).
pub fn main(args: impl IntoIterator<Item = OsString>, helpers: Helpers) -> ExitCode {
    beadlock_base::sys::ignore_size_limit();
    let typed = match CommandLine::read(args) {
        Ok(typed) => typed,
        Err(code) => return code,
    };
    if let Some(done) = config::documentation(&typed.cli) {
        return done.map_or_else(
            |failure| {
                log::complain(&failure);
                ExitCode::from(failure.code)
            },
            |()| ExitCode::SUCCESS,
        );
    }
    match start(typed, helpers) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            log::complain(&failure);
            ExitCode::from(failure.code)
        }
    }
}

fn start(typed: CommandLine, helpers: Helpers) -> Result<u8, ConfigFailure> {
    // It can be ignored, so this cannot fail. It is heard as soon as there is something to reload.
    let _ = beadlock_base::sys::ignore(Signal::SIGHUP);
    let settings = AgentSettings::read(&typed, &[])?;
    if typed.cli.print_config {
        return print(&typed, &settings).map(|()| 0);
    }
    run(typed, settings, helpers)
        .map_err(|error| ConfigFailure::new(1, format!("cannot start: {error}")))
}

fn print(typed: &CommandLine, settings: &AgentSettings) -> Result<(), ConfigFailure> {
    let below = roots::look(&settings.scope(), &[], Vec::new(), &AtomicBool::new(false))
        .unwrap_or_default();
    let text = config::print(settings, &typed.environment.cwd, &below)?;
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader that stops wants no more.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(ConfigFailure::new(
            1,
            format!("cannot print the configuration: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Where the agent can be asked how it fares. Of one look nobody asks.
fn door(
    settings: &AgentSettings,
    metrics: &Arc<Metrics>,
) -> std::io::Result<Option<(HttpEndpoint, Questions)>> {
    match &settings.agent.listen {
        Some(address) if settings.mode != RunMode::Once => {
            HttpEndpoint::open(address, settings.agent.listen_anywhere, Arc::clone(metrics))
                .map(Some)
        }
        _ => Ok(None),
    }
}

/// The agent's own diagnostics are on their way until the end, also of a start that fails.
fn run(typed: CommandLine, settings: AgentSettings, helpers: Helpers) -> std::io::Result<u8> {
    let _diagnostics = Diagnostics::open(settings.agent.log_level)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        databases = settings.named.len(),
        roots = settings.agent.root.len(),
        jobs = settings.agent.jobs,
        "agent starts"
    );
    let ended = serve(typed, settings, helpers);
    match &ended {
        Ok(code) => tracing::info!(code, "agent stops"),
        Err(error) => tracing::info!(%error, "agent cannot start"),
    }
    ended
}

fn serve(typed: CommandLine, settings: AgentSettings, helpers: Helpers) -> std::io::Result<u8> {
    let (trail, auditing) = match &settings.agent.audit {
        Some(path) => AuditTrail::open(path).map(|(trail, worker)| (trail, Some(worker)))?,
        None => (AuditTrail::default(), None),
    };
    has_descriptors_for_the_loop().map_err(no_events)?;
    // One thread: what blocks is done in others ([`scheduler`]), and to wake them costs more than most cycles do.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // What walked the roots is not there any more when nothing happens.
    let runtime = runtime
        .enable_all()
        .thread_keep_alive(Duration::from_secs(1))
        .build()
        .map_err(no_events)?;
    // Before the first line: its reader may send one.
    let signals = {
        let _context = runtime.enter();
        AgentSignals::new().map_err(no_events)?
    };
    let metrics = Arc::new(Metrics::new());
    let (door, questions) = door(&settings, &metrics)?.unzip();
    let listening_at = door.as_ref().map(|door| door.address.clone());
    let log = log::Log::open(settings.log.clone(), listening_at)?;
    let code = runtime.block_on(async {
        let scheduler = Scheduler::new(Arc::new(typed), settings, trail, metrics, helpers);
        scheduler.run(signals, questions.unwrap_or_default()).await
    });
    drop(door);
    // A look below the roots may hang in a file system.
    runtime.shutdown_background();
    if let Some(worker) = auditing {
        worker.close();
    }
    log::line_to_all(log::agent_lines::stopped());
    log.close();
    Ok(code)
}
