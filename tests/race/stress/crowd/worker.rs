//! Those who want the lock: each starts one `beadlock hold` after the other.

use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use beadlock_tests::{Dice, Ended, Running};

use super::commands::{Place, Work};
use super::kills::{Killed, Kind, Plan, Urn, reap};
use super::lock_kind::LockKind;

/// One holder in so many is killed: two thirds of these leave a lock that is taken.
const ONE_IS_KILLED: usize = 60;
/// One in so many in a short run.
const ONE_IS_KILLED_OF_FEW: usize = 20;
/// One in so many works for longer than the lock is valid without being kept up.
const ONE_IS_LONG: usize = 1000;
/// So many are started for each one that is wanted, at most.
const TRIES: usize = 2;
/// Longer than all that goes before.
const BOUND: Duration = Duration::from_secs(150);

/// All of them, and what has become of theirs.
pub struct Crowd {
    wanted: usize,
    urn: Mutex<Urn>,
    started: AtomicUsize,
    done: AtomicUsize,
    long: AtomicUsize,
    lost: AtomicUsize,
    late: AtomicUsize,
    killed: Mutex<Vec<Killed>>,
    broken: Mutex<Vec<String>>,
}

impl Crowd {
    /// Until so many commands have begun.
    pub fn new(wanted: usize, seed: u64) -> Self {
        let urn = Mutex::new(Urn::new(Dice::new(seed, "crowd")));
        let [started, done, long, lost, late] = [const { AtomicUsize::new(0) }; 5];
        let (killed, broken) = (Mutex::default(), Mutex::default());
        Self {
            wanted,
            urn,
            started,
            done,
            long,
            lost,
            late,
            killed,
            broken,
        }
    }

    /// One of them.
    pub fn work(&self, worker: usize, place: &Place<'_>) {
        // What has gone wrong once need not go wrong ten thousand times.
        while self.done.load(SeqCst) < self.wanted
            && self.lost() == 0
            && lock(&self.broken).is_empty()
        {
            let number = self.started.fetch_add(1, SeqCst);
            if number > TRIES * self.wanted {
                return;
            }
            let id = format!("w{worker}-{number}");
            match self.plan(number, place.lock_kind) {
                Some(plan) => self.one_that_is_killed(&id, plan, place),
                None => self.one(&id, number, place),
            }
        }
    }

    /// One of each so many is killed.
    fn plan(&self, number: usize, lock_kind: LockKind) -> Option<Plan> {
        let every = match self.wanted {
            ..ONE_IS_LONG => ONE_IS_KILLED_OF_FEW / lock_kind.few(),
            _ => ONE_IS_KILLED,
        };
        (number % every == every / 2).then(|| lock(&self.urn).draw(lock_kind))
    }

    fn one(&self, id: &str, number: usize, place: &Place<'_>) {
        let is_long = number.is_multiple_of(ONE_IS_LONG);
        let work = if is_long { Work::Long } else { Work::Short };
        let ended = self.start(id, work, place).finish(BOUND).into();
        self.long.fetch_add(usize::from(is_long), SeqCst);
        self.judge(id, &ended);
    }

    fn one_that_is_killed(&self, id: &str, plan: Plan, place: &Place<'_>) {
        let work = match plan.kind {
            Kind::Command => Work::Alone,
            Kind::Beadlock if place.lock_kind.is_the_commands() => Work::Left,
            _ => Work::Endless,
        };
        let mut holder = self.start(id, work, place);
        let Some(command) = plan.carry_out(&mut holder, id, place) else {
            // Nothing else ends it before its time.
            let ended = Ended::from(holder.finish(BOUND));
            lock(&self.broken).push(format!("{id} was to be killed: {ended:?}"));
            return;
        };
        lock(&self.killed).push(Killed {
            id: id.to_owned(),
            kind: plan.kind,
        });
        // The end of its output: whatever it had started has ended too.
        let ended = Ended::from(holder.finish(BOUND));
        reap(command);
        // A command that is killed before it executes has not been started.
        let is_expected = ended.code == 137 || plan.kind == Kind::Command && ended.code == 125;
        if !is_expected {
            lock(&self.broken).push(format!("{id}, {:?} killed: {ended:?}", plan.kind));
        }
        self.done
            .fetch_add(usize::from(place.has_begun(id)), SeqCst);
    }

    fn start(&self, id: &str, work: Work, place: &Place<'_>) -> Running {
        let mut command = place.hold(id, work);
        command.process_group(0);
        Running::start(command)
    }

    fn judge(&self, id: &str, ended: &Ended) {
        match ended.code {
            0 => {
                self.done.fetch_add(1, SeqCst);
            }
            // By itself, before anybody could take it: a machine with no time for a heartbeat.
            9 if ended.err.contains("could not be refreshed in time") => {
                self.late.fetch_add(1, SeqCst);
            }
            9 => {
                println!("{id}: {ended:?}");
                self.lost.fetch_add(1, SeqCst);
            }
            _ => lock(&self.broken).push(format!("{id}: {ended:?}")),
        }
    }

    pub fn killed(&self) -> Vec<Killed> {
        lock(&self.killed).clone()
    }

    pub fn broken(&self) -> Vec<String> {
        lock(&self.broken).clone()
    }

    pub fn long(&self) -> usize {
        self.long.load(SeqCst)
    }

    pub fn lost(&self) -> usize {
        self.lost.load(SeqCst)
    }

    pub fn late(&self) -> usize {
        self.late.load(SeqCst)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
