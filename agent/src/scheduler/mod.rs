//! The one task that owns all state: which database is due when, which cycles run, when to end.
//!
//! A database is waiting (it has a timer), due (it is in the queue), or running (it is being checked, or at work). What
//! makes it due while its cycle runs is looked at when that has ended.
//!
//! A cycle is a check, and then the work ([`cycle`](crate::cycle)). A database that is due is checked at once ([`checks`]): whatever
//! others are at work on, a lock is seen, and the log has its line. A free one goes to work. When there are `--jobs`
//! at it already, it lets the gate go and is ready: it waits, is checked when it is due as ever, and once more when it
//! is its turn. Nobody holds a gate to wait.

mod checks;
mod cycles;
mod fleet;
mod reload;
mod serving;
mod signals;
mod silence;
mod states;
mod status;
mod unserved;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::{pending, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use beadlock_base::helper::Helpers;
use beadlock_core::facts;
use beadlock_core::record::beads::StartedAt;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{Id, JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;
use tracing::{Span, debug, info, trace};

use self::checks::Checks;
use self::reload::Reload;
use self::serving::Changes;
pub(crate) use self::signals::AgentSignals;
use self::states::StateTimers;
use self::unserved::UnservedDatabases;
use crate::audit::AuditTrail;
use crate::config::{AgentSettings, ArrivedDatabase, CommandLine, RunMode};
use crate::cycle::{CheckResult, CycleServices, CycleSettings, RunningUpkeep, Subject};
use crate::database::{Due, LoggedState};
use crate::fleet::FleetUpdates;
use crate::http::{EndedCycle, Metrics, Questions};
use crate::log::{self, agent_lines};
use crate::notify::{self, ServiceWatchdog};
use crate::outcome::CycleOutcome;
use crate::roots::RootSearch;
use crate::state::StateHistory;
use crate::watch::{DatabaseWatch, Marks, WatchProblem, WatchUpdate};

/// How long the end of the session in a fleet is waited for.
const END_OF_FLEET: Duration = Duration::from_secs(3);

/// How long checks may go on after the signal to end. They take a stale lock's grace at most; one that hangs would keep
/// the agent for ever.
const LAST_CHECKS: Duration = Duration::from_secs(3);

/// Everything that happens, in the order it happens.
pub(crate) struct Scheduler {
    settings: AgentSettings,
    common: Arc<CycleSettings>,
    work: Arc<CycleServices>,
    fleet: FleetUpdates,
    reload: Reload,
    search: RootSearch,
    unserved: UnservedDatabases,
    /// The served databases, by number.
    databases: BTreeMap<usize, ServedDatabase>,
    next_number: usize,
    /// The numbers of databases that have gone and are still watched.
    forgotten: Vec<usize>,
    timers: DelayQueue<usize>,
    /// The databases that are due for a check.
    due: VecDeque<usize>,
    /// The databases that were free when all jobs were busy, in the order of their turns.
    ready: VecDeque<usize>,
    checks: Checks<(CheckResult, LoggedState)>,
    /// Those that are checked in their turn, and since when: for each a job is kept, unless its check hangs.
    turns: HashMap<usize, Instant>,
    /// Checks in the order in which they have begun; most have ended by now.
    checking: VecDeque<(Instant, usize)>,
    working: JoinSet<(CycleOutcome, LoggedState)>,
    /// The number of the database of each work task, needed when the task panics.
    tasks: HashMap<Id, usize>,
    /// A repository is tidied up.
    upkeep: Option<RunningUpkeep>,
    is_ending: bool,
    /// Until when checks are waited for.
    end_of_checks: Option<Instant>,
    /// The problems of the watcher that were logged: each is logged once.
    said: HashSet<WatchProblem>,
    /// Why there is no watcher at all: each log says it.
    no_watcher: Option<WatchProblem>,
    timers_of_states: StateTimers,
    /// When this agent has started.
    begun: (Instant, StartedAt),
    /// With `--once`: some database had no cycle.
    has_missed: bool,
}

struct ServedDatabase {
    subject: Subject,
    due: Due,
    state: CycleState,
    told: LoggedState,
    /// The last check found the database free when all jobs were busy. It waits for a job in `ready`.
    is_ready: bool,
    /// When it was last due to be checked.
    begun: Instant,
    /// Since when its gate is busy.
    busy_since: Option<Instant>,
    /// Its state, and since when.
    history: StateHistory,
    /// Its last cycle, for questions from outside.
    last: Option<Arc<EndedCycle>>,
    /// When the check began that is under way.
    checked_since: Option<Instant>,
    /// Why the check under way hangs: its file system does not answer. `None`: it is not known to hang.
    silent: Option<String>,
    /// The database is no longer to be served, and its last cycle has not ended yet.
    is_leaving: bool,
    /// How many cycles it had, and the span of the last one.
    cycles: u64,
    span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum CycleState {
    Waiting(Option<Key>),
    Due,
    /// A check or the work of a cycle is under way.
    Running,
}

impl Scheduler {
    /// Everything that is named is due now; the log knows it.
    pub(crate) fn new(
        typed: Arc<CommandLine>,
        settings: AgentSettings,
        trail: AuditTrail,
        metrics: Arc<Metrics>,
        helpers: Helpers,
    ) -> Self {
        let mut no_watcher = None;
        let watch = match settings.mode {
            RunMode::Once | RunMode::Clock => DatabaseWatch::none(),
            RunMode::Watch => DatabaseWatch::new().unwrap_or_else(|error| {
                no_watcher = Some(WatchProblem::new(None, &error));
                DatabaseWatch::none()
            }),
        };
        let common = CycleSettings::of(&settings);
        watch.mind(&common.own_files);
        let audits_at_once = settings.mode == RunMode::Once;
        let (fleet, fleet_updates) =
            crate::fleet::begin(typed.fleet.clone(), settings.mode == RunMode::Once);
        let (fetches, fetch_requests, hosts) = Default::default();
        let work = CycleServices {
            helpers,
            hosts,
            seed: RandomState::new().hash_one(std::process::id()),
            audits_at_once,
            watch,
            trail,
            metrics,
            fleet,
            fetches,
            fetch_requests,
        };
        let work = Arc::new(work);
        let mut scheduler = Self {
            search: RootSearch::new(settings.scope(), settings.defaults.interval),
            unserved: UnservedDatabases::default(),
            settings,
            common: Arc::new(common),
            work,
            fleet: fleet_updates,
            reload: Reload::new(typed),
            databases: BTreeMap::new(),
            next_number: 0,
            forgotten: Vec::new(),
            timers: DelayQueue::new(),
            due: VecDeque::new(),
            ready: VecDeque::new(),
            checks: Checks::new(available_parallelism().map_or(1, NonZeroUsize::get)),
            turns: HashMap::new(),
            checking: VecDeque::new(),
            working: JoinSet::new(),
            tasks: HashMap::new(),
            upkeep: None,
            is_ending: false,
            end_of_checks: None,
            said: HashSet::new(),
            no_watcher,
            timers_of_states: StateTimers::default(),
            begun: (Instant::now(), facts::now()),
            has_missed: false,
        };
        let Changes { new, .. } = scheduler.serve();
        // Without a log it goes to stderr, for a person that starts a service; one look is not a service.
        let has_log = scheduler.settings.log.shared.is_some() || scheduler.served() > 0;
        if has_log || scheduler.settings.mode != RunMode::Once {
            log::line_to_all(agent_lines::started());
        }
        if let Some(wrong) = &scheduler.no_watcher {
            log::announce(agent_lines::cannot_watch(&wrong.why));
        }
        scheduler.say_others(&new);
        scheduler.say_awaited();
        scheduler
    }

    /// Runs until it is told to end, or with `--once` until every database had its cycle. Returns the exit code.
    pub(crate) async fn run(mut self, mut signals: AgentSignals, mut questions: Questions) -> u8 {
        let mut watchdog = ServiceWatchdog::new();
        if self.settings.mode != RunMode::Once {
            notify::ready(&self.summary());
        }
        loop {
            self.start_due();
            let is_done = self.settings.mode == RunMode::Once && !self.search.is_awaited();
            let are_over = self.end_of_checks.is_some_and(|end| end <= Instant::now());
            let is_idle = self.working.is_empty() && (self.checks.is_idle() || are_over);
            if is_idle && (self.is_ending || is_done) {
                let work = Arc::clone(&self.work);
                // It blocks while etcd does not answer; the rights end by themselves then.
                let _ = timeout(
                    END_OF_FLEET,
                    spawn_blocking(move || work.fleet.as_ref().map(|fleet| fleet.end())),
                )
                .await;
                return self.code_at_the_end();
            }
            let patience = self.end_of_patience();
            let silence = self.end_of_silence();
            let states = self.timers_of_states.next();
            tokio::select! {
                biased;
                told = signals.next(), if !self.is_ending => match told {
                    signals::SignalRequest::End(name) => self.end(name),
                    signals::SignalRequest::Reload if self.settings.mode == RunMode::Once => {}
                    signals::SignalRequest::Reload => self.reload.ask(&self.settings),
                    signals::SignalRequest::Fetch => self.fetch_all(),
                },
                () = watchdog.beat() => {}
                question = questions.next() => self.answer(question),
                Some(task) = self.working.join_next_with_id() => self.worked(task),
                (number, answer) = self.checks.answer() => {
                    self.checked(number, answer);
                    while let Some((number, answer)) = self.checks.heard() {
                        self.checked(number, answer);
                    }
                }
                arrived = arrival(&mut self.settings.arrivals), if !self.is_ending => self.arrived(arrived),
                read = self.reload.done(), if !self.is_ending => self.reloaded(read),
                news = self.search.news(), if !self.is_ending => self.found(news),
                news = self.work.watch.news() => self.heard(news),
                update = self.fleet.next() => self.of_fleet(update),
                Some(due) = next_due(&mut self.timers) => {
                    for number in due {
                        if let Some(entry) = self.databases.get_mut(&number) {
                            entry.state = CycleState::Due;
                            self.due.push_back(number);
                        }
                    }
                }
                () = sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => {}
                () = sleep_until(silence.unwrap_or_else(Instant::now)), if silence.is_some() => self.say_silent(),
                () = sleep_until(states.unwrap_or_else(Instant::now)), if states.is_some() => self.act_for_states(),
                () = pending() => {}
            }
        }
    }

    fn heard(&mut self, news: WatchUpdate) {
        self.work.metrics.resyncs.inc_by(news.resyncs);
        if news.resyncs > 0 {
            debug!(
                times = news.resyncs,
                "the watcher lost events: every database counts as changed"
            );
        }
        for wrong in news.wrong {
            say(&mut self.said, wrong);
        }
        if self.is_ending {
            return;
        }
        let now = Instant::now();
        for number in news.marked {
            let Some(entry) = self.databases.get_mut(&number) else {
                continue;
            };
            if matches!(entry.state, CycleState::Waiting(_)) {
                let mut marks = entry.take_marks(&self.work);
                marks.changed = marks.changed && entry.told.is_news(now);
                let db = &entry.subject.database.dir;
                trace!(
                    ?db,
                    changed = marks.changed,
                    lock_gone = marks.lock_gone,
                    "the watcher has seen"
                );
                entry.due.marked(marks, now, entry.subject.policy.debounce);
                self.wait(number);
            }
        }
    }

    /// Sets the timer of a waiting database, or puts it into the queue when it is due.
    fn wait(&mut self, number: usize) {
        let Some(entry) = self.databases.get_mut(&number) else {
            return;
        };
        let CycleState::Waiting(key) = entry.state else {
            return;
        };
        let at = entry.due.at();
        if at <= Instant::now() {
            if let Some(key) = key {
                self.timers.remove(&key);
            }
            entry.state = CycleState::Due;
            self.due.push_back(number);
            return;
        }
        match key {
            Some(key) => self.timers.reset_at(&key, at),
            None => entry.state = CycleState::Waiting(Some(self.timers.insert_at(number, at))),
        }
    }

    /// Every database has a cycle now, and fetches in it.
    fn fetch_all(&mut self) {
        self.work.fetch_requests.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        for entry in self.databases.values_mut() {
            entry.due.come_by(now);
            if entry.state == CycleState::Running {
                // That cycle has looked for requests already.
                entry.due.once_more(now);
            }
        }
        let waiting = |(number, entry): (&usize, &ServedDatabase)| {
            matches!(entry.state, CycleState::Waiting(_)).then_some(*number)
        };
        let waiting: Vec<usize> = self.databases.iter().filter_map(waiting).collect();
        info!(databases = waiting.len(), "told to fetch");
        if self.settings.mode != RunMode::Once {
            waiting.into_iter().for_each(|number| self.wait(number));
        }
    }

    /// No new cycles; those that run, end.
    fn end(&mut self, signal: &str) {
        self.is_ending = true;
        self.upkeep = None;
        let left = self.due.len() + self.ready.len() + self.checks.clear();
        self.has_missed |= left > 0;
        self.end_of_checks = Some(Instant::now() + LAST_CHECKS);
        self.due.clear();
        self.ready.clear();
        self.turns.clear();
        self.timers.clear();
        log::line_to_all(agent_lines::ending(signal, self.working.len()));
        info!(signal, running = self.working.len(), "told to end");
        if self.settings.mode != RunMode::Once {
            notify::stopping(self.working.len());
        }
    }

    /// Nothing runs any more. With `--once` it is the code of the worst state, and never 0 when a cycle did not run: a
    /// wrong `--root` looks like that.
    fn code_at_the_end(&self) -> u8 {
        if self.settings.mode != RunMode::Once {
            return 0;
        }
        let is_empty = self.next_number == 0;
        if is_empty {
            log::announce(agent_lines::nothing_served(&self.settings.agent.root));
        }
        if !self.settings.awaited.is_empty() {
            return 1; // Of all states the worst: not served.
        }
        self.complain_of_states();
        let has_missed = is_empty || self.has_missed || !self.checks.is_idle();
        self.code_of_states().max(u8::from(has_missed))
    }
}

impl ServedDatabase {
    /// Takes the marks that the watcher has set since the last call, and notes a lock that has gone.
    fn take_marks(&mut self, work: &CycleServices) -> Marks {
        let marks = work.watch.take(self.subject.number);
        if marks.lock_gone {
            self.told.streak.lock_gone();
        }
        marks
    }
}

/// The next awaited database that answers after all; never, where none is awaited. Nothing is lost when the call is.
async fn arrival(arrivals: &mut Option<UnboundedReceiver<ArrivedDatabase>>) -> ArrivedDatabase {
    if let Some(arrivals) = arrivals
        && let Some(arrived) = arrivals.recv().await
    {
        return arrived;
    }
    pending().await
}

/// The databases whose timers run out next; `None` when there are no timers.
async fn next_due(timers: &mut DelayQueue<usize>) -> Option<Vec<usize>> {
    poll_fn(|context| {
        let mut due = Vec::new();
        loop {
            match timers.poll_expired(context) {
                Poll::Ready(Some(expired)) => due.push(expired.into_inner()),
                Poll::Ready(None) if due.is_empty() => return Poll::Ready(None),
                Poll::Pending if due.is_empty() => return Poll::Pending,
                _ => return Poll::Ready(Some(due)),
            }
        }
    })
    .await
}

fn say(said: &mut HashSet<WatchProblem>, wrong: WatchProblem) {
    let line = agent_lines::cannot_watch(&wrong.why);
    let database = wrong.database;
    if said.insert(wrong) {
        match database {
            Some(number) => log::line(number, line),
            None => log::line_to_all(line),
        }
    }
}
