//! The one task that owns all state: which database is due when, which cycles run, when to end.
//!
//! A database is waiting (it has a timer), ready (it is in the queue), or running (its cycle is a task). What
//! makes it due while its cycle runs is looked at when that has ended.

mod reload;
mod serving;
mod signals;
mod status;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::future::{pending, poll_fn};
use std::sync::Arc;

use beadlock_checker::database::Database;
use beadlock_checker::{Reason, Verdict, facts};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use self::reload::Reload;
pub(crate) use self::signals::Signals;
use crate::audit::Trail;
use crate::cli::Typed;
use crate::cycle::{self, Common, Outcome, Subject, Work};
use crate::database::{Due, Told};
use crate::log::{self, own};
use crate::notify::{self, Watchdog};
use crate::outside::{Last, Metrics, Questions};
use crate::roots::Search;
use crate::settings::{Mode, Settings};
use crate::watch::{Marks, News, Watch, Wrong};

/// Everything that happens, in the order it happens.
pub(crate) struct Scheduler {
    settings: Settings,
    common: Arc<Common>,
    work: Arc<Work>,
    reload: Reload,
    search: Search,
    /// By number.
    databases: BTreeMap<usize, Entry>,
    next_number: usize,
    /// Gone, and still watched.
    forgotten: Vec<(usize, Arc<Database>)>,
    timers: DelayQueue<usize>,
    ready: VecDeque<usize>,
    running: JoinSet<(Outcome, Told)>,
    /// Whose task it is, also when it panics.
    tasks: HashMap<Id, usize>,
    is_ending: bool,
    /// What went wrong with the watcher: each is said once.
    said: HashSet<Wrong>,
    /// 0 but with `--once`: the highest of all outcomes.
    code: u8,
}

struct Entry {
    subject: Subject,
    due: Due,
    state: State,
    told: Told,
    /// Its last cycle, for who asks.
    last: Option<Arc<Last>>,
    /// It has gone, and its last cycle has not ended yet.
    is_leaving: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Waiting(Option<Key>),
    Ready,
    Running,
}

impl Scheduler {
    /// Everything that is named is due now; the log knows it.
    pub(crate) fn new(typed: Arc<Typed>, settings: Settings, trail: Trail, metrics: Arc<Metrics>) -> Self {
        let mut said = HashSet::new();
        let watch = match settings.mode {
            Mode::Once | Mode::Clock => Watch::none(),
            Mode::Watch => Watch::new().unwrap_or_else(|error| {
                say(&mut said, Wrong::new(None, &error));
                Watch::none()
            }),
        };
        let common = Common::of(&settings);
        watch.mind(&common.own_files);
        let work = Arc::new(Work { audits_at_once: settings.mode == Mode::Once, watch, trail, metrics });
        let mut scheduler = Self {
            search: Search::new(settings.ground(), settings.defaults.interval),
            settings,
            common: Arc::new(common),
            work,
            reload: Reload::new(typed),
            databases: BTreeMap::new(),
            next_number: 0,
            forgotten: Vec::new(),
            timers: DelayQueue::new(),
            ready: VecDeque::new(),
            running: JoinSet::new(),
            tasks: HashMap::new(),
            is_ending: false,
            said,
            code: 0,
        };
        scheduler.serve();
        // Without a log it goes to stderr, for who waits at the start of a service; one look is no service.
        let has_log = scheduler.settings.log.shared.is_some() || scheduler.served() > 0;
        if has_log || scheduler.settings.mode != Mode::Once {
            log::line_to_all(own::started());
        }
        scheduler
    }

    /// Runs until it is told to end, or with `--once` until every database had its cycle. Returns the exit code.
    pub(crate) async fn run(mut self, mut signals: Signals, mut questions: Questions) -> u8 {
        let mut watchdog = Watchdog::new();
        if self.settings.mode != Mode::Once {
            notify::ready(self.served());
        }
        loop {
            self.start_ready();
            let is_done = self.settings.mode == Mode::Once && !self.search.is_awaited();
            if self.running.is_empty() && (self.is_ending || is_done) {
                return self.code;
            }
            tokio::select! {
                biased;
                told = signals.next(), if !self.is_ending => match told {
                    signals::Told::End(name) => self.end(name),
                    signals::Told::Reload if self.settings.mode == Mode::Once => {}
                    signals::Told::Reload => self.reload.ask(&self.settings),
                },
                () = watchdog.beat() => {}
                question = questions.next() => self.answer(question),
                Some(task) = self.running.join_next_with_id() => self.ended(task),
                read = self.reload.done(), if !self.is_ending => self.reloaded(read),
                news = self.search.news(), if !self.is_ending => self.found(news),
                news = self.work.watch.news() => self.heard(news),
                Some(number) = next_due(&mut self.timers) => {
                    if let Some(entry) = self.databases.get_mut(&number) {
                        entry.state = State::Ready;
                        self.ready.push_back(number);
                    }
                }
                () = pending() => {}
            }
        }
    }

    fn start_ready(&mut self) {
        while self.running.len() < self.settings.jobs.get()
            && let Some(number) = self.ready.pop_front()
        {
            let Some(entry) = self.databases.get_mut(&number) else { continue };
            entry.state = State::Running;
            // What happened while it was in the queue, this cycle serves.
            entry.take_marks(&self.work);
            entry.due.begun(Instant::now(), entry.subject.policy.interval);
            let (work, subject) = (Arc::clone(&self.work), entry.subject.clone());
            let mut told = std::mem::take(&mut entry.told);
            let task = self.running.spawn(async move {
                let outcome = work.metrics.cycle(cycle::run(&work, &subject, &mut told)).await;
                (outcome, told)
            });
            self.tasks.insert(task.id(), number);
        }
    }

    fn ended(&mut self, task: Result<(Id, (Outcome, Told)), JoinError>) {
        let (id, outcome) = match task {
            Ok((id, (outcome, told))) => (id, Some((outcome, told))),
            Err(error) => (error.id(), None),
        };
        let Some(number) = self.tasks.remove(&id) else { return };
        let Some(entry) = self.databases.get_mut(&number) else { return };
        let outcome = match outcome {
            Some((outcome, told)) => {
                entry.told = told;
                outcome
            }
            None => {
                log::line(number, own::fault());
                Outcome::Failed
            }
        };
        self.work.metrics.ended(&outcome);
        if self.settings.mode == Mode::Once {
            self.code = self.code.max(exit_code(&outcome));
        }
        if entry.is_leaving {
            self.forget(number);
            self.unwatch_forgotten();
            return;
        }
        let now = Instant::now();
        let marks = entry.take_marks(&self.work);
        let policy = &entry.subject.policy;
        let is_busy = matches!(&outcome, Outcome::Skipped(decision) if decision.reason() == Reason::GateBusy);
        // A command that takes a lock and drops it must not make this spin.
        if is_busy || marks.lock_gone {
            entry.due.again_soon(now, policy.interval);
        } else {
            entry.due.ended(now, policy.interval);
            entry.due.marked(marks, now, policy.debounce);
        }
        let streak = entry.told.streak.running();
        entry.last = Some(Arc::new(Last { outcome, at: facts::now(), streak }));
        entry.state = State::Waiting(None);
        if !self.is_ending && self.settings.mode != Mode::Once {
            self.wait(number);
        }
    }

    fn heard(&mut self, news: News) {
        self.work.metrics.resynced(news.resyncs);
        for wrong in news.wrong {
            say(&mut self.said, wrong);
        }
        if self.is_ending {
            return;
        }
        let now = Instant::now();
        for number in news.marked {
            let Some(entry) = self.databases.get_mut(&number) else { continue };
            if matches!(entry.state, State::Waiting(_)) {
                let marks = entry.take_marks(&self.work);
                entry.due.marked(marks, now, entry.subject.policy.debounce);
                self.wait(number);
            }
        }
    }

    /// Sets the timer of a waiting database, or puts it into the queue when it is due.
    fn wait(&mut self, number: usize) {
        let Some(entry) = self.databases.get_mut(&number) else { return };
        let State::Waiting(key) = entry.state else { return };
        let at = entry.due.at();
        if at <= Instant::now() {
            if let Some(key) = key {
                self.timers.remove(&key);
            }
            entry.state = State::Ready;
            self.ready.push_back(number);
            return;
        }
        match key {
            Some(key) => self.timers.reset_at(&key, at),
            None => entry.state = State::Waiting(Some(self.timers.insert_at(number, at))),
        }
    }

    /// No new cycles; those that run, end.
    fn end(&mut self, signal: &str) {
        self.is_ending = true;
        if self.settings.mode == Mode::Once && !self.ready.is_empty() {
            self.code = self.code.max(1); // Not every cycle ran.
        }
        self.ready.clear();
        self.timers.clear();
        log::line_to_all(own::ending(signal, self.running.len()));
        if self.settings.mode != Mode::Once {
            notify::stopping(self.running.len());
        }
    }
}

impl Entry {
    /// What the watcher has marked since it was last asked.
    fn take_marks(&mut self, work: &Work) -> Marks {
        let marks = work.watch.take(&self.subject.database.dir);
        if marks.lock_gone {
            self.told.streak.lock_gone();
        }
        marks
    }
}

/// The next database whose timer runs out; `None` when there are no timers.
async fn next_due(timers: &mut DelayQueue<usize>) -> Option<usize> {
    poll_fn(|context| timers.poll_expired(context)).await.map(|expired| expired.into_inner())
}

fn say(said: &mut HashSet<Wrong>, wrong: Wrong) {
    let line = own::cannot_watch(&wrong.why);
    let database = wrong.database;
    if said.insert(wrong) {
        match database {
            Some(number) => log::line(number, line),
            None => log::line_to_all(line),
        }
    }
}

/// As `beadlock check`: 4 held, 5 not to be checked or removed; 1 a cycle failed (DESIGN 8).
fn exit_code(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Complete => 0,
        Outcome::Failed => 1,
        Outcome::Skipped(decision) => match decision.verdict() {
            Verdict::Held(_) => 4,
            _ => 5,
        },
    }
}
