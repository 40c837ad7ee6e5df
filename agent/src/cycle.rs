//! One cycle: the gate, the check, the command, the end (docs/design.md#the-gate). Nothing of it blocks the scheduler.
//!
//! It has two halves. The check is short and blocks; it is made in a thread for that, however much work there is. The
//! work is long; so many at once as there are jobs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use beadlock_checker::internal::address::Address;
use beadlock_checker::internal::database::Database;
use beadlock_checker::internal::{Gate, Zombie, redirect, runner, system_words};
use beadlock_checker::{Cycle, Decision, Entered};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::audit::Trail;
use crate::command::{self, End};
use crate::config::{AgentSettings, CycleAction, Policy};
use crate::database::LoggedState;
use crate::diagnostics::events;
use crate::git::{self, SyncMessage};
use crate::log::{self, Line, own};
use crate::outcome::Outcome;
use crate::outside::Metrics;
use crate::owner::{Opened, Owners, Refusal};
use crate::unled::Unled;
use crate::watch::DatabaseWatch;

/// So many different reasons are said at most why a database is not served, until it is served again.
const REASONS_SAID: usize = 8;

/// What all cycles have in common.
pub(crate) struct Work {
    /// Whether a gate that is busy for less than an interval is something for the audit trail too.
    pub(crate) audits_at_once: bool,
    pub(crate) watch: DatabaseWatch,
    pub(crate) trail: Trail,
    pub(crate) metrics: Arc<Metrics>,
}

/// What holds for the cycles of all databases, until the next reload.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) owners: Owners,
    /// The log, the audit trail and the socket, without links: never committed.
    pub(crate) own_files: Vec<PathBuf>,
}

impl Common {
    /// Of settings whose files are there.
    pub(crate) fn of(settings: &AgentSettings) -> Self {
        let socket = match &settings.agent.listen {
            Some(Address::Unix(path)) => Some(path),
            _ => None,
        };
        let files = [&settings.log.shared, &settings.agent.audit].into_iter().flatten().chain(socket);
        Self {
            owners: settings.agent.owners(),
            own_files: files.filter_map(|file| fs::canonicalize(file).ok()).collect(),
        }
    }
}

/// What a cycle is about.
#[derive(Clone)]
pub(crate) struct Subject {
    /// Its name in the log and in the watcher; never given to another.
    pub(crate) number: usize,
    pub(crate) database: Arc<Database>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) common: Arc<Common>,
}

/// What a check has come to.
pub(crate) enum Checked {
    /// The cycle has ended with it.
    Ended(Outcome),
    /// The database is free, its gate is ours, and there is work to do.
    Free(Cycle),
    /// Its name leads to another directory now: that is the database from here on.
    Redirected(Box<Database>),
}

/// The first half of a cycle: takes the gate and checks. Where there is nothing to do that is all of it. Blocks, and in
/// a file system that does not answer for ever. `told` is what the log of the database knows already.
pub(crate) fn check(work: &Work, subject: &Subject, told: &mut LoggedState) -> Checked {
    let Subject { number, database, policy, common } = subject;
    let number = *number;
    let open = || match policy.action() {
        CycleAction::None => common.owners.open_alone(database),
        _ => common.owners.open(database),
    };
    // What is led elsewhere is not touched: its redirect may have been changed because that hangs.
    let itself = database.is_itself().then(open);
    let is_as_before = matches!(&itself, Some(Ok(Ok(opened))) if Unled::is(opened, &mut told.unled));
    if !is_as_before {
        match follow(common.owners, database, told) {
            Followed::AsBefore => {}
            Followed::Elsewhere(other) => return Checked::Redirected(other),
            Followed::Nowhere => return Checked::Ended(Outcome::Failed),
        }
    }
    let Some(opened) = opened(itself.unwrap_or_else(open), database, told) else {
        return Checked::Ended(Outcome::Failed);
    };
    // Before the check: what comes after it must be seen.
    if let Ok(opened) = &opened
        && let Ok(inode) = opened.inode()
    {
        work.watch.ensure_seen(number, &database.dir, inode);
    }
    let begun = Instant::now();
    let entered = work.metrics.check(|| Cycle::enter_opened(opened, &policy.check()));
    let decision = match &entered {
        Entered::Cycle(cycle) => cycle.decision(),
        Entered::Skipped(decision) => decision,
    };
    events::decided(decision, begun.elapsed());
    let cycle = match entered {
        Entered::Cycle(cycle) => cycle,
        Entered::Skipped(decision) => {
            let now = Instant::now();
            log::lines(number, told.streak.skipped(&decision, now, policy.interval, Zombie::holder_of));
            let patience = if work.audits_at_once { Duration::ZERO } else { policy.interval };
            if let Decision::Skip(skip) = &decision
                && told.streak.is_news(&decision, now, patience)
            {
                work.trail.blocked(number, database, skip);
            }
            if let Some(took) = told.streak.is_long(now, policy.skip_warn) {
                work.metrics.skip_warnings.inc();
                log::line(number, own::still_skipping(&decision, took, &database.dir));
            }
            return Checked::Ended(Outcome::Skipped(decision));
        }
    };
    if let Some(error) = cycle.no_gate() {
        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
            log::line(number, own::no_database(error));
            return Checked::Ended(Outcome::Failed);
        }
        if !std::mem::replace(&mut told.no_gate, true) {
            log::line(number, own::no_gate(error));
        }
    }
    if let Some(removed) = cycle.decision().removed() {
        log::line(number, own::removed_stale(cycle.decision()));
        work.trail.removed(number, database, removed);
        work.metrics.removed_stale(removed.reason);
        work.watch.forget_lock_gone(number);
    }
    if policy.action() != CycleAction::None {
        return Checked::Free(cycle);
    }
    let mut lines = begin(told);
    lines.push((&End::Complete).into());
    log::lines(number, lines);
    cycle.leave();
    Checked::Ended(Outcome::Complete)
}

/// Where the name of a database leads.
enum Followed {
    /// To the directory that it led to before.
    AsBefore,
    /// To another one, or by another redirect.
    Elsewhere(Box<Database>),
    /// To none that is served, which the log says once.
    Nowhere,
}

/// Claims follow a redirect as it is now, and so does each cycle: it would run beside them on the old directory.
fn follow(owners: Owners, database: &Database, told: &mut LoggedState) -> Followed {
    let Some(again) = database.led_elsewhere() else { return Followed::AsBefore };
    let accepted = again.map_err(|error| error.to_string()).and_then(|again| {
        owners.check(&again).map_err(|refusal| refusal.to_string())?;
        // After the owners: git is asked.
        redirect::refuse_tracked(&again).map_err(|error| error.to_string())?;
        Ok(again)
    });
    match served(accepted, database, told) {
        Some(again) => Followed::Elsewhere(Box::new(again)),
        None => Followed::Nowhere,
    }
}

/// A database is opened, and asked whose it is, in each cycle, and not only when it was found, since another one may
/// lie there now. All that follows goes by these descriptors. `None`: it is not served, which the log says once.
fn opened(opened: Result<Opened, Refusal>, database: &Database, told: &mut LoggedState) -> Option<Opened> {
    let opened = served(opened.map_err(|refusal| refusal.to_string()), database, told)?;
    told.not_serving.clear();
    Some(opened)
}

/// Logs why a database is not served. Another user who changes something back and forth cannot fill the logs with it.
fn served<T>(found: Result<T, String>, database: &Database, told: &mut LoggedState) -> Option<T> {
    let log = |why: String| {
        if told.not_serving.len() < REASONS_SAID && !told.not_serving.contains(&why) {
            log::announce(own::not_serving(&database.dir, &why));
            told.not_serving.push(why);
        }
    };
    found.map_err(log).ok()
}

/// Watches a database before its first cycle. Blocks, as [`check`].
pub(crate) fn watch(work: &Work, Subject { number, database, common, .. }: &Subject) {
    if common.owners.check(database).is_ok() {
        work.watch.ensure(*number, &database.dir);
    }
}

fn begin(told: &mut LoggedState) -> Vec<Line> {
    told.streak.resumed(Instant::now()).into_iter().chain([own::begun()]).collect()
}

/// The second half: the work, under the gate that the check has taken.
pub(crate) async fn run(
    work: &Arc<Work>,
    subject: &Subject,
    told: &mut LoggedState,
    cycle: Cycle,
) -> Outcome {
    let number = subject.number;
    log::lines(number, begin(told));
    let begun = Instant::now();
    let Worked { end, runner, is_whole } = match subject.policy.action() {
        CycleAction::None => Worked::without_runner(End::Complete),
        CycleAction::Exec(command) => {
            let on_line = |line: &str| log::output(number, line);
            let command = runner::for_shell(command);
            execute(work, subject, command, &cycle, on_line).await
        }
        CycleAction::Git => sync(work, subject, &mut told.git, &cycle).await,
    };
    // The line goes first, but the log is written by its worker: whoever waits for the gate may find it not yet there.
    log::line(number, &end);
    tracing::debug!(end = end.to_string(), took = ?begun.elapsed(), "work ended");
    cycle.leave();
    // Killed until now, this process leaves it to the runner to let the gate go.
    if let Some(runner) = runner {
        runner.end().await;
    }
    if end == End::Complete && is_whole { Outcome::Complete } else { Outcome::Failed }
}

/// What the work of a cycle has come to.
struct Worked {
    end: End,
    /// It still shares the gate.
    runner: Option<command::Runner>,
    /// The remote, where there is one, has had its turn.
    is_whole: bool,
}

impl Worked {
    fn without_runner(end: End) -> Self {
        Self { end, runner: None, is_whole: true }
    }
}

/// One sync through git.
async fn sync(
    work: &Arc<Work>,
    subject: &Subject,
    told: &mut git::history::SyncHistory,
    cycle: &Cycle,
) -> Worked {
    if let Some(error) = cycle.no_gate() {
        let why = format!("without a gate two syncs could meet in one repository: {error}");
        return Worked::without_runner(End::Refused(why));
    }
    let Subject { number, database, policy, common } = subject;
    let network = told.network(Instant::now());
    let is_debug = tracing::enabled!(tracing::Level::DEBUG);
    let request = git::SyncRequest {
        dir: database.dir.clone(),
        allow_worktree: policy.allow_worktree,
        owners: common.owners,
        network,
        timeout: policy.cycle_timeout,
        own_files: common.own_files.clone(),
        looked: told.looked.clone(),
        steps: if is_debug { git::StepReports::Sent } else { git::StepReports::Off },
        begun: None,
    };
    let mut words = Vec::new();
    let on_line = |line: &str| match SyncMessage::parse(line) {
        SyncMessage::Output(text) => log::output(*number, &text),
        SyncMessage::Committed(text) | SyncMessage::Pulled(text) | SyncMessage::Pushed(text) => {
            log::line(*number, own::worded(text));
        }
        SyncMessage::Step { name, millis } => {
            tracing::debug!(step = name, took = ?Duration::from_millis(millis), "git")
        }
        word => words.push(word),
    };
    let Worked { end, runner, .. } = execute(work, subject, request.command(), cycle, on_line).await;
    for line in told.hear(network, &words, Instant::now()) {
        log::line(*number, own::worded(line));
    }
    let refused = words.iter().find_map(|word| match word {
        SyncMessage::Refused(why) => Some(End::Refused(why.clone())),
        _ => None,
    });
    let end = match end {
        End::Complete if !words.contains(&SyncMessage::Done) => {
            End::Refused("it ended without a last word; what it said is above".to_owned())
        }
        end => refused.filter(|_| end == End::Complete).unwrap_or(end),
    };
    let is_out = words.iter().any(|word| matches!(word, SyncMessage::Unreachable(_)));
    Worked { end, runner, is_whole: !is_out }
}

async fn execute(
    work: &Arc<Work>,
    subject: &Subject,
    command: Vec<OsString>,
    cycle: &Cycle,
    on_line: impl FnMut(&str),
) -> Worked {
    let place = match place(subject, cycle) {
        Ok(place) => place,
        Err(why) => {
            let how = runner::Ended::NotStarted(why);
            return Worked::without_runner(End::Failed { how, took: Duration::ZERO });
        }
    };
    work.watch.mute(subject.number);
    let (end, runner) = command::run(place, command, subject.policy.cycle_timeout, on_line).await;
    blocking(work, subject, |work, Subject { number, database, .. }| {
        work.watch.unmute(*number, &database.dir);
    })
    .await;
    Worked { end, runner, is_whole: true }
}

fn place<'a>(subject: &'a Subject, cycle: &Cycle) -> Result<command::Place<'a>, String> {
    let gate = cycle.gate().map(Gate::share).transpose().map_err(|error| error.to_string())?;
    let above = cycle.above().ok_or("the directory above the database cannot be opened")?;
    let above = above.try_clone_to_owned().map_err(|error| system_words(&error))?;
    Ok(command::Place { dir: &subject.database.dir, above, gate })
}

/// `None`: it panicked; whatever it held is let go.
async fn blocking<T: Send + 'static>(
    work: &Arc<Work>,
    subject: &Subject,
    call: impl FnOnce(&Work, &Subject) -> T + Send + 'static,
) -> Option<T> {
    let (work, subject) = (Arc::clone(work), subject.clone());
    spawn_blocking(move || call(&work, &subject)).await.ok()
}
