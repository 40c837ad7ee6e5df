//! The end of a tree of processes (docs/design.md#signals): what is decided, without any process, and the loop that
//! carries it out.
//!
//! Each process is asked to end, by TERM or by the signal that ends this program, and then gets CONT: a stopped process
//! has to go on to handle a signal. After the grace, or when a deadline demands it, KILL follows. All of it is over when
//! two looks in a row show nobody, because one scan of `/proc` can miss a process that is just being born.
//!
//! [`Ending`] is the only place where this is decided. It starts no process, sends no signal and reads no clock.
//! [`end_all`] is the loop around it. A program that waits for other events too makes its own steps with it.
//!
//! # Limits
//! A process that is killed may take long to end, and one of another user may not be killed at all. Both get KILL ever
//! more seldom, and are waited for; their end is seen late by a tenth of the time that it has taken, and by 2 s at most.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_base::deadline::{Demand, boottime};
use beadlock_base::process::{self, Stat};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::process_ref::HelperKind;
use crate::process_tree;

/// The first pause between two looks.
const SHORT: Duration = Duration::from_millis(5);
/// The longest pause while the grace runs, where nothing but the clock tells of an end.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The same where each end is an event. The net only: the last process of a subreaper's tree is its child.
const NET: Duration = Duration::from_secs(5);
/// The longest pause between two KILLs to the same processes.
const KILL_AGAIN: Duration = Duration::from_secs(2);

/// Who is asked to end before the grace is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Nobody: they know already, or are not to do anything any more.
    Nobody,
    /// All at the first look that shows any. What these start to tidy up is left alone.
    Present,
    /// Each one when it is first seen.
    EachNew,
    /// Each one when it is first seen, but what was started by one that had been asked by then, while that one lives.
    NewLineages,
}

/// What one look at the processes has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeLook {
    /// These live.
    Living(Vec<Stat>),
    /// Somebody lives whom `/proc` does not show.
    Hidden,
    /// Nobody was seen. One that was being born may have been missed.
    NoneSeen,
    /// Nobody lives, for certain.
    Nobody,
}

impl TreeLook {
    /// That of one scan, which may have missed a process.
    pub fn of_scan(living: Vec<Stat>) -> Self {
        if living.is_empty() {
            Self::NoneSeen
        } else {
            Self::Living(living)
        }
    }

    /// Those that were seen.
    pub fn living(&self) -> &[Stat] {
        match self {
            Self::Living(living) => living,
            Self::Hidden | Self::NoneSeen | Self::Nobody => &[],
        }
    }
}

/// The time of a look.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// For what is measured.
    pub instant: Instant,
    /// In clock ticks after boot, as [`Stat::start_ticks`].
    pub ticks: u64,
}

impl Now {
    /// By the system's clocks.
    pub fn read() -> Self {
        Self {
            instant: Instant::now(),
            // `/proc` counts 100 ticks a second.
            ticks: u64::try_from(boottime().as_millis() / 10).unwrap_or(u64::MAX),
        }
    }
}

/// What is to be done after a look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EndingStep {
    /// To be sent in this order. An empty list is for those who are not seen.
    pub send: Vec<(Signal, Vec<Stat>)>,
    /// When the next look is due.
    pub again_in: Duration,
    /// Nobody is left, or what is left is given up.
    pub done: bool,
}

/// The end of a tree, step by step.
#[derive(Debug, Clone)]
pub struct Ending {
    asks: Asks,
    signal: Signal,
    /// `None`: never.
    kill_at: Option<Instant>,
    /// For how long what gets KILL is waited for; `None`: for as long as it takes.
    give_up: Option<Duration>,
    pause: Duration,
    longest_pause: Duration,
    has_asked: bool,
    /// When each was asked, in clock ticks after boot.
    asked: HashMap<Id, u64>,
    killing: Option<Killing>,
    seen_none: bool,
    is_spared: fn(&Stat) -> bool,
}

/// A PID, and when the process began.
type Id = (i32, u64);

#[derive(Debug, Clone)]
struct Killing {
    since: Instant,
    last: Instant,
    pause: Duration,
    living: Vec<Id>,
}

impl Ending {
    /// One that begins `now`, and kills what is left after the `grace`.
    pub fn new(asks: Asks, grace: Duration, now: Instant) -> Self {
        Self {
            asks,
            kill_at: now.checked_add(grace),
            pause: SHORT,
            longest_pause: LOOK_AGAIN,
            ..Self::waiting()
        }
    }

    /// One that waits for the end alone until [`Self::kill_within`] or [`Self::ask_within`], in a program that hears of
    /// each end.
    pub fn waiting() -> Self {
        Self {
            asks: Asks::Nobody,
            signal: Signal::SIGTERM,
            kill_at: None,
            give_up: None,
            pause: NET,
            longest_pause: NET,
            has_asked: false,
            asked: HashMap::new(),
            killing: None,
            seen_none: false,
            is_spared: |stat| HelperKind::of(stat.pid) == Some(HelperKind::Watchdog),
        }
    }

    /// Asks by this signal in place of TERM.
    #[must_use]
    pub fn asking_by(self, signal: Signal) -> Self {
        Self { signal, ..self }
    }

    /// What lives on for this long after KILL is given up.
    #[must_use]
    pub fn giving_up_after(self, limit: Duration) -> Self {
        Self {
            give_up: Some(limit),
            ..self
        }
    }

    /// Kills what is left after the `grace`, or earlier where that was settled before.
    pub fn kill_within(&mut self, grace: Duration, now: Instant) {
        let kill_at = now.checked_add(grace);
        self.kill_at = [self.kill_at, kill_at].into_iter().flatten().min();
    }

    /// The same, and asks those who are there at the next look, whatever has been asked before.
    pub fn ask_within(&mut self, grace: Duration, now: Instant) {
        (self.asks, self.has_asked) = (Asks::Present, false);
        self.kill_within(grace, now);
    }

    /// What the clock and the look ask for, and a deadline that is kept elsewhere. KILL reaches the watchdogs of holds
    /// among the living only when nobody else is left: until then their locks are held.
    pub fn next(&mut self, look: &TreeLook, now: Now, demand: Demand) -> EndingStep {
        let mut send = Vec::new();
        let done = match look {
            TreeLook::Nobody => true,
            TreeLook::NoneSeen => {
                let is_first = !std::mem::replace(&mut self.seen_none, true);
                // A chain of processes may outrun each scan; their group is reached all the same.
                if is_first && self.asks == Asks::Present && !self.has_asked {
                    send = vec![(self.signal, Vec::new()), (Signal::SIGCONT, Vec::new())];
                }
                !is_first
            }
            TreeLook::Living(_) | TreeLook::Hidden => {
                self.seen_none = false;
                return if demand == Demand::Kill || self.is_over(now.instant) {
                    self.kill(look.living(), now.instant)
                } else {
                    self.ask(look.living(), now)
                };
            }
        };
        EndingStep {
            send,
            again_in: SHORT,
            done,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.kill_at.is_some_and(|at| now >= at)
    }

    fn ask(&mut self, living: &[Stat], now: Now) -> EndingStep {
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        let new: Vec<Stat> = match self.asks {
            Asks::Present if is_first => living.to_vec(),
            Asks::Nobody | Asks::Present => Vec::new(),
            Asks::EachNew | Asks::NewLineages => self.new_among(living),
        };
        self.asked
            .extend(new.iter().map(|stat| (id(stat), now.ticks)));
        // Those who are not seen may be reached by their group all the same.
        let is_for_hidden = is_first && living.is_empty() && self.asks != Asks::Nobody;
        let send = if new.is_empty() && !is_for_hidden {
            Vec::new()
        } else {
            vec![(self.signal, new.clone()), (Signal::SIGCONT, new)]
        };
        let pause = self.pause;
        self.pause = (pause * 2).min(self.longest_pause);
        EndingStep {
            send,
            again_in: pause.min(self.left(now.instant)),
            done: false,
        }
    }

    fn new_among(&self, living: &[Stat]) -> Vec<Stat> {
        let by_pid: HashMap<i32, &Stat> = living.iter().map(|stat| (stat.pid, stat)).collect();
        let is_new = |stat: &&Stat| match self.asks {
            Asks::NewLineages => !self.has_heard(stat, &by_pid),
            _ => !self.asked.contains_key(&id(stat)),
        };
        living.iter().filter(is_new).cloned().collect()
    }

    /// It was asked, or was started by one that was asked before.
    fn has_heard(&self, stat: &Stat, by_pid: &HashMap<i32, &Stat>) -> bool {
        let mut ancestor = stat;
        // No more of them than there are: the numbers were read one after the other, and may lead in a circle.
        for _ in 0..by_pid.len() {
            match (self.asked.get(&id(ancestor)), by_pid.get(&ancestor.ppid)) {
                (Some(since), _) => return ancestor == stat || stat.start_ticks >= *since,
                (None, Some(parent)) => ancestor = parent,
                (None, None) => return false,
            }
        }
        false
    }

    /// Processes that are new get KILL at once. Those that stay get it again after a pause, which grows: they may not be
    /// killed at all.
    fn kill(&mut self, living: &[Stat], now: Instant) -> EndingStep {
        let mut ids: Vec<Id> = living.iter().map(id).collect();
        ids.sort_unstable();
        let since = self.killing.as_ref().map_or(now, |killing| killing.since);
        let is_for = now.saturating_duration_since(since);
        let last = self
            .give_up
            .map_or(Duration::MAX, |limit| limit.saturating_sub(is_for));
        let before = self.killing.take();
        let stays = |before: &Killing| before.living.iter().any(|id| ids.contains(id));
        let left = before.as_ref().filter(|before| before.living == ids);
        let left = left.map_or(Duration::ZERO, |before| {
            (before.last + before.pause).saturating_duration_since(now)
        });
        let (killing, send, again_in) = match before {
            Some(before) if !left.is_zero() => (before, Vec::new(), left),
            before => {
                let pause = match before {
                    Some(before) if stays(&before) => (before.pause * 2).min(KILL_AGAIN),
                    _ => SHORT,
                };
                let killing = Killing {
                    since,
                    last: now,
                    pause,
                    living: ids,
                };
                let send = vec![(Signal::SIGKILL, self.to_kill(living))];
                (killing, send, pause)
            }
        };
        self.killing = Some(killing);
        // A look between two KILLs: nothing else may tell of the end.
        let look_in = (is_for / 10).clamp(self.longest_pause, self.longest_pause.max(KILL_AGAIN));
        EndingStep {
            send,
            again_in: again_in.min(look_in).min(last),
            done: last.is_zero(),
        }
    }

    fn to_kill(&self, living: &[Stat]) -> Vec<Stat> {
        let mut meant = living.to_vec();
        meant.retain(|stat| !(self.is_spared)(stat));
        if meant.is_empty() {
            living.to_vec()
        } else {
            meant
        }
    }

    /// How long nothing is to be done, unless a look shows something new: zero when KILL is due.
    pub fn left(&self, now: Instant) -> Duration {
        let next = match &self.killing {
            Some(killing) => killing.last.checked_add(killing.pause),
            None => self.kill_at,
        };
        next.map_or(Duration::MAX, |next| next.saturating_duration_since(now))
    }
}

fn id(stat: &Stat) -> Id {
    (stat.pid, stat.start_ticks)
}

/// Processes that are to end, how they are found, and how they are reached.
pub trait Members {
    /// Who lives of them now.
    fn look(&mut self) -> TreeLook;

    /// Sends the signal to these, which the last look has shown, and where the list is empty to those it has not shown.
    fn signal(&mut self, signal: Signal, to: &[Stat]) {
        process_tree::signal(to, signal);
    }

    /// What a deadline demands that is kept beside the grace.
    fn demand(&mut self) -> Demand {
        Demand::Nothing
    }

    /// Waits before the next look.
    fn wait(&mut self, limit: Duration) {
        sleep(limit);
    }
}

/// Ends the `members`, and returns when nobody of them is left.
pub fn end_all(members: &mut impl Members, mut ending: Ending) {
    loop {
        let look = members.look();
        let step = ending.next(&look, Now::read(), members.demand());
        for (signal, to) in &step.send {
            members.signal(*signal, to);
        }
        if step.done {
            return;
        }
        members.wait(step.again_in);
    }
}

/// A process group whose leader is a child that is not reaped, so that the number is not another group's by now.
#[derive(Debug, Clone, Copy)]
pub struct Group(pub Pid);

impl Members for Group {
    fn look(&mut self) -> TreeLook {
        process::living_in_group(self.0.as_raw()).map_or(TreeLook::Hidden, TreeLook::of_scan)
    }

    /// To the group as one: nobody who is just being born in it is missed.
    fn signal(&mut self, signal: Signal, _to: &[Stat]) {
        let _ = killpg(self.0, signal);
    }
}

#[cfg(test)]
mod tests;
