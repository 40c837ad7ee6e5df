//! Two ways of doing something, measured in turn.

use std::time::Duration;

use beadlock_tests::Spread;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};

/// How often both are measured.
pub const RUNS: usize = 11;

/// How long one of them goes on in a run, so that a tick of the clock is nothing beside it.
const LEAST: Duration = Duration::from_millis(40);

/// Of each, in a run.
const BATCHES: u32 = 10;

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The time that goes by for a waiter.
    Wall,
    /// The time that this thread runs, in user space and in the kernel. For what never waits: others on the machine
    /// do not count.
    Thread,
    /// The time that the programs run which were started and have ended, all their threads and children together. What
    /// they wait for does not count.
    Programs,
}

impl Clock {
    /// Since some moment.
    pub fn now(self) -> Duration {
        let read = |clock| Duration::from(clock_gettime(clock).expect("a clock"));
        match self {
            Self::Wall => read(ClockId::CLOCK_MONOTONIC),
            Self::Thread => read(ClockId::CLOCK_THREAD_CPUTIME_ID),
            Self::Programs => {
                let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("what was used");
                [usage.user_time(), usage.system_time()]
                    .map(duration)
                    .iter()
                    .sum()
            }
        }
    }
}

fn duration(time: TimeVal) -> Duration {
    Duration::new(time.tv_sec().unsigned_abs(), time.tv_usec() as u32 * 1000)
}

/// The ratios of the runs, and how long one time took.
pub struct Ratios {
    pub ratios: Spread,
    /// The quickest of each, in seconds.
    pub ours: f64,
    pub theirs: f64,
}

impl Ratios {
    /// Of so many runs of two things that are done so often at a time that they can be measured.
    pub fn of(runs: usize, clock: Clock, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> Self {
        let (mut ours, mut theirs) = (Batch::of(clock, &mut ours), Batch::of(clock, &mut theirs));
        let batches = if ours.took.max(theirs.took) > LEAST {
            1
        } else {
            BATCHES
        };
        Self::between(runs, batches, || ours.seconds(), || theirs.seconds())
    }

    /// Of so many runs of two that measure themselves. In each, both go on in turn in so many batches, and the
    /// quickest batch of each counts: what disturbs the machine for a moment disturbs neither. They take turns at
    /// going first, since the second finds warm what both need.
    pub fn between(
        runs: usize,
        batches: u32,
        mut ours: impl FnMut() -> f64,
        mut theirs: impl FnMut() -> f64,
    ) -> Self {
        let (mut ratios, mut all) = (Vec::new(), [f64::MAX; 2]);
        for run in 0..runs as u32 {
            let mut quickest = [f64::MAX; 2];
            for turn in run..run + batches {
                if turn % 2 == 0 {
                    quickest[0] = quickest[0].min(ours());
                    quickest[1] = quickest[1].min(theirs());
                } else {
                    quickest[1] = quickest[1].min(theirs());
                    quickest[0] = quickest[0].min(ours());
                }
            }
            ratios.push(quickest[0] / quickest[1]);
            all = [all[0].min(quickest[0]), all[1].min(quickest[1])];
        }
        Self {
            ratios: Spread::of(ratios),
            ours: all[0],
            theirs: all[1],
        }
    }
}

/// What is done so often at a time that it can be measured.
pub struct Batch<'a, F> {
    clock: Clock,
    once: &'a mut F,
    times: u32,
    /// All of them together, warm.
    took: Duration,
}

impl<'a, F: FnMut()> Batch<'a, F> {
    /// So often that it takes some milliseconds.
    pub fn of(clock: Clock, once: &'a mut F) -> Self {
        let mut batch = Self {
            clock,
            once,
            times: 1,
            took: Duration::ZERO,
        };
        loop {
            batch.seconds();
            if batch.took >= LEAST / BATCHES || batch.times >= 1 << 20 {
                return batch;
            }
            batch.times *= 2;
        }
    }

    /// Seconds that one time takes.
    pub fn seconds(&mut self) -> f64 {
        let begun = self.clock.now();
        for _ in 0..self.times {
            (self.once)();
        }
        self.took = self.clock.now() - begun;
        self.took.as_secs_f64() / f64::from(self.times)
    }
}
