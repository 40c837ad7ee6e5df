//! One cycle: the gate, the check, the command, the end (docs/design.md#the-gate). Nothing of it blocks the scheduler.
//!
//! The check is short and blocks; it runs in a thread of its own, however much work there is. The work is long; as many
//! run at once as there are jobs.

mod sync;
mod upkeep;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::helper::Helpers;
use beadlock_base::{error::system_words, open_directory::OpenDirectory};
use beadlock_core::database::Database;
use beadlock_core::record::Record;
use beadlock_core::{Cycle, Decision, Entered, Options, Reason};
use beadlock_core::{gate::Gate, redirect, zombie::Zombie};
use beadlock_git::{FetchLimit, HostLimits, SyncPlan, SyncReport, SyncResult};
use beadlock_supervise::runner;
use beadlock_trust::Owners;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

pub(crate) use self::upkeep::RunningUpkeep;
use crate::audit::AuditTrail;
use crate::command::{self, CycleCommand};
use crate::config::{AgentSettings, CycleAction, Policy, RunMode};
use crate::cycle_end::CycleEnd;
use crate::database::LoggedState;
use crate::diagnostics::events;
use crate::fleet::{NotEntered, Right, Rights};
use crate::http::Metrics;
use crate::log::{self, AgentLine, agent_lines};
use crate::outcome::{CycleFailure, CycleOutcome};
use crate::stamp;
use crate::watch::DatabaseWatch;

/// How many different reasons are logged why a database is not served, until it is served again. Another user who
/// changes something back and forth cannot fill the log.
const REASONS_SAID: usize = 8;

/// A cycle in a fleet takes at most so long: less than the default of a claim's `--drain`.
const LONGEST_IN_A_FLEET: Duration = Duration::from_secs(120);

/// The services that all cycles share until the agent ends.
pub(crate) struct CycleServices {
    /// Proof that this program can start the runners of the cycles' commands.
    pub(crate) helpers: Helpers,
    /// Whether the audit trail also has gates that are busy for less than an interval.
    pub(crate) audits_at_once: bool,
    pub(crate) watch: DatabaseWatch,
    pub(crate) trail: AuditTrail,
    pub(crate) metrics: Arc<Metrics>,
    /// The rights in the fleet; `None` in a program without the fleet feature.
    pub(crate) fleet: Option<Box<dyn Rights>>,
    pub(crate) fetches: Arc<FetchLimit>,
    /// Counts the requests to fetch every database at once.
    pub(crate) fetch_requests: AtomicU64,
    /// How often the hosts of the network are asked.
    pub(crate) hosts: HostLimits,
    /// Random number of this agent: its pauses between fetches differ from those of other agents.
    pub(crate) seed: u64,
}

/// The settings that all cycles share until the next reload.
#[derive(Debug)]
pub(crate) struct CycleSettings {
    pub(crate) owners: Owners,
    /// The log, the audit trail and the socket, without links: never committed.
    pub(crate) own_files: Vec<PathBuf>,
    /// How many fetches there may be at once.
    pub(crate) fetch_jobs: usize,
    /// With `--once`: each database has one cycle.
    pub(crate) is_once: bool,
}

impl CycleSettings {
    /// The files of the settings must be there.
    pub(crate) fn of(settings: &AgentSettings) -> Self {
        let socket = match &settings.agent.listen {
            Some(Address::Unix(path)) => Some(path),
            _ => None,
        };
        let files = [&settings.log.shared, &settings.agent.audit]
            .into_iter()
            .flatten()
            .chain(socket);
        Self {
            owners: settings.agent.owners(),
            own_files: files
                .filter_map(|file| fs::canonicalize(file).ok())
                .collect(),
            fetch_jobs: settings.agent.fetch_jobs.get(),
            is_once: settings.mode == RunMode::Once,
        }
    }
}

/// The database of a cycle, and how it is served.
#[derive(Clone)]
pub(crate) struct Subject {
    /// The number of the database in the log and in the watcher; never given to another one.
    pub(crate) number: usize,
    pub(crate) database: Arc<Database>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) common: Arc<CycleSettings>,
}

/// The result of a check.
pub(crate) enum CheckResult {
    /// The cycle has ended.
    Ended(CycleOutcome),
    /// The database is free, its gate is taken, and there is work to do; of one that has joined a fleet with the right
    /// to it.
    Free(Cycle, Option<Box<dyn Right>>),
    /// The right in the fleet was asked for, and comes soon.
    Asking,
    /// The database's name leads to this directory now, which is the database from here on.
    Redirected(Box<Database>),
}

/// The first half of a cycle: takes the gate and checks. Where there is no work, that is all of it. Blocks, for ever in
/// a file system that does not answer. `told` is what the log of the database knows already.
#[expect(
    clippy::too_many_lines,
    reason = "the questions of a check, in their order"
)]
pub(crate) fn check(
    services: &CycleServices,
    subject: &Subject,
    told: &mut LoggedState,
) -> CheckResult {
    let Subject {
        number,
        database,
        policy,
        common,
    } = subject;
    let number = *number;
    let open = || match policy.action() {
        CycleAction::None => common.owners.open_alone(database),
        _ => common.owners.open(database),
    };
    // A directory that is led to elsewhere is not touched: its redirect may have been changed because it hangs.
    let itself = database.is_itself().then(open);
    let is_as_before =
        matches!(&itself, Some(Ok(Ok(dir))) if stamp::has_no_redirect(dir, &mut told.unredirected));
    // Claims follow a redirect as it is now, and so does each cycle, or it would run beside them.
    if !is_as_before && let Some(again) = database.led_elsewhere() {
        let accepted = again.map_err(|error| error.to_string()).and_then(|again| {
            common
                .owners
                .check(&again)
                .map_err(|refusal| refusal.to_string())?;
            // After the owners: this runs git.
            redirect::refuse_tracked(&again).map_err(|error| error.to_string())?;
            Ok(again)
        });
        return match served(accepted, database, told) {
            Ok(again) => CheckResult::Redirected(Box::new(again)),
            Err(why) => CheckResult::Ended(not_served("redirect", why)),
        };
    }
    // Opened anew in each cycle, since another directory may lie there now. All that follows goes by its descriptors.
    let opened = itself
        .unwrap_or_else(open)
        .map_err(|refusal| refusal.to_string());
    let opened = match served(opened, database, told) {
        Ok(opened) => opened,
        Err(why) => return CheckResult::Ended(not_served("wrong_owner", why)),
    };
    told.not_serving.clear();
    // Before the check, so that what happens after it is seen.
    if let Ok(opened) = &opened
        && let Ok(inode) = opened.inode()
    {
        services.watch.ensure_seen(number, &database.dir, inode);
    }
    let (cycle, right) = match enter(services, subject, told, opened) {
        Ok(entered) => entered,
        Err(NotEntered::Asking) => return CheckResult::Asking,
        Err(NotEntered::Skip(decision)) => {
            return CheckResult::Ended(CycleOutcome::Skipped(decision));
        }
    };
    if let Some(error) = cycle.no_gate() {
        if matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ) {
            log::line(number, agent_lines::no_database(error));
            let why = format!("there is no database any more: {error}");
            return CheckResult::Ended(not_served("gone", why));
        }
        if !std::mem::replace(&mut told.no_gate, true) {
            log::line(number, agent_lines::no_gate(error));
        }
    }
    if let Some(removed) = cycle.decision().removed() {
        log::line(number, agent_lines::removed_stale(cycle.decision()));
        services.trail.removed(number, database, removed);
        services.metrics.removed_stale(removed.reason);
        services.watch.forget_lock_gone(number);
    }
    let (end, outcome) = match policy.action() {
        CycleAction::None => (CycleEnd::Complete, CycleOutcome::Ran),
        CycleAction::Git if cycle.no_gate().is_none() => {
            match sync::plan(services, subject, told) {
                SyncPlan::Rest(result) => {
                    (sync::end_of(&result), CycleOutcome::Synced(result.report))
                }
                _ => return CheckResult::Free(cycle, right),
            }
        }
        CycleAction::Git | CycleAction::Exec(_) => return CheckResult::Free(cycle, right),
    };
    let mut lines = begin(told);
    lines.push(agent_lines::ended(&end));
    log::lines(number, lines);
    leave(cycle, right);
    CheckResult::Ended(outcome)
}

/// Lets the gate go, and then the right in the fleet.
pub(crate) fn leave(cycle: Cycle, _right: Option<Box<dyn Right>>) {
    cycle.leave();
}

/// Takes the right in the fleet, where the database has joined one, and the gate, and checks. Without a cycle, how it
/// has ended.
fn enter(
    services: &CycleServices,
    subject: &Subject,
    told: &mut LoggedState,
    opened: Result<OpenDirectory, beadlock_base::error::Error>,
) -> Result<(Cycle, Option<Box<dyn Right>>), NotEntered> {
    let Subject { number, policy, .. } = subject;
    let number = *number;
    let begun = Instant::now();
    // Before the gate: a claim in the fleet waits for permits, and its own lock for the gate. Most databases are in
    // none, and the check finds the mark of one that has just joined.
    let fleet = services.fleet.as_deref();
    let fleet = fleet.filter(|fleet| told.has_joined || fleet.is_one_look());
    let right = match opened.as_ref().map(|opened| match fleet {
        Some(fleet) => fleet.enter(number, opened),
        None => Ok(None),
    }) {
        Ok(Ok(right)) => {
            told.has_joined = right.is_some();
            right
        }
        Ok(Err(NotEntered::Asking)) => return Err(NotEntered::Asking),
        Ok(Err(NotEntered::Skip(decision))) => {
            events::decided(&decision, begun.elapsed());
            skipped(services, subject, told, &decision);
            return Err(NotEntered::Skip(decision));
        }
        Err(_) => None,
    };
    let options = Options {
        has_fleet_right: right.is_some(),
        ..policy.check()
    };
    let entered = services
        .metrics
        .check(|| Cycle::enter_opened(opened, &options));
    let decision = match &entered {
        Entered::Cycle(cycle) => cycle.decision(),
        Entered::Skipped(decision) => decision,
    };
    events::decided(decision, begun.elapsed());
    let cycle = match entered {
        Entered::Cycle(cycle) => cycle,
        Entered::Skipped(decision)
            if services.fleet.is_some() && decision.reason() == Reason::FleetUseCycle =>
        {
            told.has_joined = true;
            return Err(NotEntered::Asking);
        }
        Entered::Skipped(decision) => {
            skipped(services, subject, told, &decision);
            return Err(NotEntered::Skip(decision));
        }
    };
    // The right is for what the mark said before the gate was taken.
    if right
        .as_ref()
        .is_some_and(|right| !right.is_of(cycle.gate().map(AsFd::as_fd)))
    {
        return Err(NotEntered::Asking);
    }
    Ok((cycle, right))
}

fn not_served(reason: &'static str, why: String) -> CycleOutcome {
    CycleOutcome::NotServed(CycleFailure::new(reason, why))
}

/// Logs and counts a skipped cycle.
fn skipped(
    services: &CycleServices,
    subject: &Subject,
    told: &mut LoggedState,
    decision: &Decision,
) {
    let Subject {
        number,
        database,
        policy,
        ..
    } = subject;
    let now = Instant::now();
    // The holder of a claim in a fleet is a process of that machine, and nobody here may judge it.
    let is_local = decision.reason() != Reason::FleetHeld;
    let zombie = |record: &Record| {
        if is_local {
            Zombie::holder_of(record)
        } else {
            None
        }
    };
    log::lines(
        *number,
        told.streak.skipped(decision, now, policy.interval, zombie),
    );
    let patience = if services.audits_at_once {
        Duration::ZERO
    } else {
        policy.interval
    };
    if let Decision::Skip(skip) = decision
        && told.streak.is_news(decision, now, patience)
    {
        services.trail.blocked(*number, database, skip);
    }
    if let Some(took) = told.streak.is_long(now, policy.skip_warn) {
        services.metrics.skip_warnings.inc();
        log::line(
            *number,
            agent_lines::still_skipping(decision, took, &database.dir),
        );
    }
}

/// Logs once why a database is not served.
fn served<T>(
    found: Result<T, String>,
    database: &Database,
    told: &mut LoggedState,
) -> Result<T, String> {
    found.inspect_err(|why| {
        if told.not_serving.len() < REASONS_SAID && !told.not_serving.contains(why) {
            log::announce(agent_lines::not_serving(&database.dir, why));
            told.not_serving.push(why.clone());
        }
    })
}

/// Watches a database before its first cycle. Blocks, as [`check`].
pub(crate) fn watch(
    services: &CycleServices,
    Subject {
        number,
        database,
        common,
        ..
    }: &Subject,
) {
    if common.owners.check(database).is_ok() {
        services.watch.ensure(*number, &database.dir);
    }
}

fn begin(told: &mut LoggedState) -> Vec<AgentLine> {
    told.streak
        .resumed(Instant::now())
        .into_iter()
        .chain([agent_lines::begun()])
        .collect()
}

/// The second half: the work, under the gate that the check has taken.
pub(crate) async fn run(
    services: &Arc<CycleServices>,
    subject: &Subject,
    told: &mut LoggedState,
    (cycle, right): (Cycle, Option<Box<dyn Right>>),
) -> CycleOutcome {
    let number = subject.number;
    log::lines(number, begin(told));
    let begun = Instant::now();
    let CycleWork {
        end,
        runner,
        report,
    } = match subject.policy.action() {
        CycleAction::None => CycleWork::without_runner(CycleEnd::Complete),
        CycleAction::Exec(command) => {
            let on_line = |line: &str| log::output(number, line);
            execute(
                services,
                subject,
                runner::for_shell(command).into(),
                (&cycle, right.as_deref()),
                on_line,
            )
            .await
        }
        CycleAction::Git => {
            sync::sync(services, subject, told.git(), (&cycle, right.as_deref())).await
        }
    };
    // Before the gate is let go. The log has a writer of its own, so the line may still come later.
    log::line(number, agent_lines::ended(&end));
    tracing::debug!(end = end.to_string(), took = ?begun.elapsed(), ?report, "work ended");
    leave(cycle, right);
    // Last: if this process is killed before, the runner lets the gate go.
    if let Some(runner) = runner {
        runner.end().await;
    }
    match (end, report) {
        (CycleEnd::Complete, None) => CycleOutcome::Ran,
        (CycleEnd::Complete | CycleEnd::Incomplete(_) | CycleEnd::Refused(_), Some(report)) => {
            CycleOutcome::Synced(report)
        }
        (end, _) => CycleOutcome::Failed(CycleFailure::new(end.reason(), end.why())),
    }
}

/// The result of a cycle's work.
struct CycleWork {
    end: CycleEnd,
    /// The runner of the command, which still shares the gate; `None`: no runner is left to wait for.
    runner: Option<command::Runner>,
    /// The report of a sync; `None`: no sync ran to its end.
    report: Option<SyncReport>,
}

impl CycleWork {
    fn of(result: &SyncResult, runner: Option<command::Runner>) -> Self {
        Self {
            end: sync::end_of(result),
            runner,
            report: Some(result.report.clone()),
        }
    }

    fn without_runner(end: CycleEnd) -> Self {
        Self {
            end,
            runner: None,
            report: None,
        }
    }
}

async fn execute(
    services: &Arc<CycleServices>,
    subject: &Subject,
    command: CycleCommand,
    (cycle, right): (&Cycle, Option<&dyn Right>),
    on_line: impl FnMut(&str),
) -> CycleWork {
    let place = match place(subject, cycle, right) {
        Ok(place) => place,
        Err(why) => {
            let how = runner::RunEnd::NotStarted(why);
            return CycleWork::without_runner(CycleEnd::Failed {
                how,
                took: Duration::ZERO,
            });
        }
    };
    services.watch.mute(subject.number);
    let (end, runner) = command::run(
        services.helpers,
        place,
        command,
        timeout_of(subject, right),
        on_line,
    )
    .await;
    let (services, number, database) = (
        Arc::clone(services),
        subject.number,
        Arc::clone(&subject.database),
    );
    // An error is a panic there: then the database stays muted until the next work.
    let _ = spawn_blocking(move || services.watch.unmute(number, &database.dir)).await;
    CycleWork {
        end,
        runner,
        report: None,
    }
}

/// The limit of a command. In a fleet it is shorter than the drain that a claim waits by default.
fn timeout_of(subject: &Subject, right: Option<&dyn Right>) -> Duration {
    let timeout = subject.policy.cycle_timeout;
    if right.is_some() {
        timeout.min(LONGEST_IN_A_FLEET)
    } else {
        timeout
    }
}

fn place<'a>(
    subject: &'a Subject,
    cycle: &Cycle,
    right: Option<&'a dyn Right>,
) -> Result<command::CommandPlace<'a>, String> {
    let gate = cycle
        .gate()
        .map(Gate::share)
        .transpose()
        .map_err(|error| error.to_string())?;
    let above = cycle
        .above()
        .ok_or("the directory above the database cannot be opened")?;
    let above = above
        .try_clone_to_owned()
        .map_err(|error| system_words(&error))?;
    Ok(command::CommandPlace {
        dir: &subject.database.dir,
        above,
        gate,
        right,
    })
}
