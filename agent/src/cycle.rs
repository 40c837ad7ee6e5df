//! One cycle: the gate, the check, the command, the end (DESIGN 5). Nothing of it blocks the scheduler.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use beadlock_checker::{Cycle, Decision, Entered, Error, Gate, Options, runner};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::audit::Trail;
use crate::cli::Action;
use crate::command::{self, End};
use crate::database::Told;
use crate::git::{self, Word};
use crate::log::{self, own};
use crate::watch::Watch;

/// What all cycles have in common.
pub(crate) struct Work {
    pub(crate) interval: Duration,
    pub(crate) action: Action,
    pub(crate) allow_worktree: bool,
    /// The log and the audit trail, without links: never committed.
    pub(crate) own_files: Vec<PathBuf>,
    pub(crate) timeout: Duration,
    pub(crate) check: Options,
    /// For how long a busy gate is nothing for the audit trail.
    pub(crate) patience: Duration,
    pub(crate) watch: Watch,
    pub(crate) trail: Trail,
}

/// How a cycle ended. The log has said it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It ran and did its work.
    Complete,
    /// It ran, and failed, or could not run at all.
    Failed,
    /// It left the database alone.
    Skipped(Decision),
}

/// One cycle of the database with this number, from the gate to the gate. `told` is what its log knows already.
pub(crate) async fn run(work: &Arc<Work>, database: usize, dir: &Arc<Path>, told: &mut Told) -> Outcome {
    let entered = blocking(work, dir, move |work, dir| {
        // Before the check: what comes after it must be seen.
        work.watch.ensure(database, dir);
        Cycle::enter_with(dir, &work.check)
    });
    let Some(entered) = entered.await else { return Outcome::Failed };
    let cycle = match entered {
        Entered::Cycle(cycle) => cycle,
        Entered::Skipped(decision) => {
            let now = Instant::now();
            for line in told.streak.skipped(&decision, now, work.interval) {
                log::line(database, line);
            }
            if let Decision::Skip(skip) = &decision
                && told.streak.is_news(&decision, now, work.patience)
            {
                work.trail.blocked(database, skip);
            }
            return Outcome::Skipped(decision);
        }
    };
    if let Some(error) = cycle.no_gate() {
        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
            log::line(database, own::no_database(error));
            return Outcome::Failed;
        }
        if !std::mem::replace(&mut told.no_gate, true) {
            log::line(database, own::no_gate(error));
        }
    }
    if let Some(removed) = cycle.decision().removed() {
        log::line(database, own::removed_stale(cycle.decision()));
        work.trail.removed(database, removed);
        blocking(work, dir, |work, dir| work.watch.forget_lock_gone(dir)).await;
    }
    if let Some(line) = told.streak.resumed(Instant::now()) {
        log::line(database, line);
    }
    log::line(database, own::begun());
    let (end, is_whole) = match &work.action {
        Action::None => (End::Complete, true),
        Action::Exec(command) => {
            let command = runner::for_shell(command.as_os_str());
            let on_line = |line: &str| log::output(database, line);
            (execute(work, database, dir, command, &cycle, on_line).await, true)
        }
        Action::Git => sync(work, database, dir, &mut told.git, &cycle).await,
    };
    // The line goes first, but the log is written by its worker: whoever waits for the gate may find it not yet there.
    log::line(database, &end);
    cycle.leave();
    if end == End::Complete && is_whole { Outcome::Complete } else { Outcome::Failed }
}

/// One sync through git. True beside its end: the remote, where there is one, has had its turn.
async fn sync(
    work: &Arc<Work>,
    database: usize,
    dir: &Arc<Path>,
    told: &mut git::told::Told,
    cycle: &Cycle,
) -> (End, bool) {
    if let Some(error) = cycle.no_gate() {
        return (
            End::Refused(format!("without a gate two syncs could meet in one repository: {error}")),
            true,
        );
    }
    let network = told.network(Instant::now());
    let mut order = git::Order::new(dir.to_path_buf(), work.allow_worktree, network, work.timeout);
    order.own_files.clone_from(&work.own_files);
    let mut words = Vec::new();
    let on_line = |line: &str| match Word::parse(line) {
        Word::Output(text) => log::output(database, &text),
        Word::Committed(text) | Word::Pulled(text) | Word::Pushed(text) => {
            log::line(database, own::of_sync(&text));
        }
        word => words.push(word),
    };
    let end = execute(work, database, dir, order.command(), cycle, on_line).await;
    for line in told.hear(network, &words, Instant::now()) {
        log::line(database, own::of_sync(&line));
    }
    let refused = words.iter().find_map(|word| match word {
        Word::Refused(why) => Some(End::Refused(why.clone())),
        _ => None,
    });
    let end = match end {
        End::Complete if !words.contains(&Word::Done) => {
            End::Refused("it ended without a last word; what it said is above".to_owned())
        }
        end => refused.filter(|_| end == End::Complete).unwrap_or(end),
    };
    let is_out = words.iter().any(|word| matches!(word, Word::Unreachable(_)));
    (end, !is_out)
}

async fn execute(
    work: &Arc<Work>,
    database: usize,
    dir: &Arc<Path>,
    command: Vec<OsString>,
    cycle: &Cycle,
    on_line: impl FnMut(&str),
) -> End {
    let gate = match cycle.gate().map(Gate::share).transpose() {
        Ok(gate) => gate,
        Err(error) => return not_started(&error),
    };
    work.watch.mute(dir);
    let end = command::run(dir, command, work.timeout, gate, on_line).await;
    blocking(work, dir, move |work, dir| work.watch.unmute(database, dir)).await;
    end
}

fn not_started(error: &Error) -> End {
    let how = runner::Ended::NotStarted(error.to_string());
    End::Failed { how, took: Duration::ZERO }
}

/// `None`: it panicked; whatever it held is let go.
async fn blocking<T: Send + 'static>(
    work: &Arc<Work>,
    dir: &Arc<Path>,
    call: impl FnOnce(&Work, &Path) -> T + Send + 'static,
) -> Option<T> {
    let (work, dir) = (Arc::clone(work), Arc::clone(dir));
    spawn_blocking(move || call(&work, &dir)).await.ok()
}
