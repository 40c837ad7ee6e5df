//! One cycle: the gate, the check, the command, the end (DESIGN 5). Nothing of it blocks the scheduler.
//!
//! It has two halves. The check is short and blocks; it is made in a thread for that, however much work there is. The
//! work is long; so many at once as there are jobs.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use beadlock_checker::address::Address;
use beadlock_checker::database::Database;
use beadlock_checker::{Cycle, Decision, Entered, Error, Gate, runner};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::audit::Trail;
use crate::command::{self, End};
use crate::database::Told;
use crate::git::{self, Word};
use crate::log::{self, Line, own};
use crate::outside::Metrics;
use crate::owner::Owners;
use crate::settings::{Action, Policy, Settings};
use crate::watch::Watch;

/// What all cycles have in common.
pub(crate) struct Work {
    /// Whether a gate that is busy for less than an interval is something for the audit trail too.
    pub(crate) audits_at_once: bool,
    pub(crate) watch: Watch,
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
    pub(crate) fn of(settings: &Settings) -> Self {
        let socket = match &settings.listen {
            Some(Address::Unix(path)) => Some(path),
            _ => None,
        };
        let files = [&settings.log.shared, &settings.audit].into_iter().flatten().chain(socket);
        Self {
            owners: settings.owners(),
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

impl Outcome {
    /// Its word in metrics and in `/status`.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Skipped(_) => "skipped",
        }
    }
}

/// What a check has come to.
pub(crate) enum Checked {
    /// The cycle has ended with it.
    Ended(Outcome),
    /// The database is free, its gate is ours, and there is work to do.
    Free(Cycle),
}

/// The first half of a cycle: takes the gate and checks. Where there is nothing to do that is all of it. Blocks, and in
/// a file system that does not answer for ever. `told` is what the log of the database knows already.
pub(crate) fn check(work: &Work, subject: &Subject, told: &mut Told) -> Checked {
    let Subject { number, database, policy, common } = subject;
    let number = *number;
    // Here, and not only when it was found: what lies there now may be another's.
    let seen = fs::metadata(&database.dir).ok();
    if let Err(why) = common.owners.check_seen(database, seen.as_ref()) {
        if told.not_serving.as_ref() != Some(&why) {
            log::announce(own::not_serving(&database.dir, &why));
            told.not_serving = Some(why);
        }
        return Checked::Ended(Outcome::Failed);
    }
    told.not_serving = None;
    // Before the check: what comes after it must be seen.
    if let Some(seen) = &seen {
        work.watch.ensure_seen(number, &database.dir, seen);
    }
    let entered = work.metrics.check(|| Cycle::enter_with(&database.dir, &policy.check()));
    let cycle = match entered {
        Entered::Cycle(cycle) => cycle,
        Entered::Skipped(decision) => {
            let now = Instant::now();
            log::lines(number, &told.streak.skipped(&decision, now, policy.interval));
            let patience = if work.audits_at_once { Duration::ZERO } else { policy.interval };
            if let Decision::Skip(skip) = &decision
                && told.streak.is_news(&decision, now, patience)
            {
                work.trail.blocked(number, database, skip);
            }
            if let Some(took) = told.streak.is_long(now, policy.skip_warn) {
                work.metrics.skip_warned();
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
    if policy.action != Action::None {
        return Checked::Free(cycle);
    }
    let mut lines = begin(told);
    lines.push((&End::Complete).into());
    log::lines(number, &lines);
    cycle.leave();
    Checked::Ended(Outcome::Complete)
}

/// Watches a database before its first cycle. Blocks, as [`check`].
pub(crate) fn watch(work: &Work, Subject { number, database, common, .. }: &Subject) {
    if common.owners.check(database).is_ok() {
        work.watch.ensure(*number, &database.dir);
    }
}

fn begin(told: &mut Told) -> Vec<Line> {
    told.streak.resumed(Instant::now()).into_iter().chain([own::begun()]).collect()
}

/// The second half: the work, under the gate that the check has taken.
pub(crate) async fn run(work: &Arc<Work>, subject: &Subject, told: &mut Told, cycle: Cycle) -> Outcome {
    let number = subject.number;
    log::lines(number, &begin(told));
    let Worked { end, runner, is_whole } = match &subject.policy.action {
        Action::None => Worked::without_runner(End::Complete),
        Action::Exec(command) => {
            let on_line = |line: &str| log::output(number, line);
            let command = runner::for_shell(command.as_os_str());
            execute(work, subject, command, &cycle, on_line).await
        }
        Action::Git => sync(work, subject, &mut told.git, &cycle).await,
    };
    // The line goes first, but the log is written by its worker: whoever waits for the gate may find it not yet there.
    log::line(number, &end);
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
async fn sync(work: &Arc<Work>, subject: &Subject, told: &mut git::told::Told, cycle: &Cycle) -> Worked {
    if let Some(error) = cycle.no_gate() {
        let why = format!("without a gate two syncs could meet in one repository: {error}");
        return Worked::without_runner(End::Refused(why));
    }
    let Subject { number, database, policy, common } = subject;
    let network = told.network(Instant::now());
    let mut order =
        git::Order::new(database.dir.clone(), policy.allow_worktree, network, policy.cycle_timeout);
    order.own_files.clone_from(&common.own_files);
    let mut words = Vec::new();
    let on_line = |line: &str| match Word::parse(line) {
        Word::Output(text) => log::output(*number, &text),
        Word::Committed(text) | Word::Pulled(text) | Word::Pushed(text) => {
            log::line(*number, own::of_sync(&text));
        }
        word => words.push(word),
    };
    let Worked { end, runner, .. } = execute(work, subject, order.command(), cycle, on_line).await;
    for line in told.hear(network, &words, Instant::now()) {
        log::line(*number, own::of_sync(&line));
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
    Worked { end, runner, is_whole: !is_out }
}

async fn execute(
    work: &Arc<Work>,
    subject: &Subject,
    command: Vec<OsString>,
    cycle: &Cycle,
    on_line: impl FnMut(&str),
) -> Worked {
    let gate = match cycle.gate().map(Gate::share).transpose() {
        Ok(gate) => gate,
        Err(error) => return Worked::without_runner(not_started(&error)),
    };
    let dir = subject.database.dir.as_path();
    work.watch.mute(subject.number);
    let (end, runner) = command::run(dir, command, subject.policy.cycle_timeout, gate, on_line).await;
    blocking(work, subject, |work, Subject { number, database, .. }| {
        work.watch.unmute(*number, &database.dir);
    })
    .await;
    Worked { end, runner, is_whole: true }
}

fn not_started(error: &Error) -> End {
    let how = runner::Ended::NotStarted(error.to_string());
    End::Failed { how, took: Duration::ZERO }
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
