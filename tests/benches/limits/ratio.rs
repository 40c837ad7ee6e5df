//! Two ways of doing something, measured in turn.

use std::hint::black_box;
use std::time::{Duration, Instant};

use beadlock_tests::Spread;

/// How often both are measured.
pub const RUNS: usize = 15;

/// How long one of them goes on in a run, so that a tick of the clock is nothing beside it.
const LEAST: Duration = Duration::from_millis(40);

/// Of each, in a run.
const BATCHES: u32 = 10;

/// The ratios of the runs, and how long one time took.
pub struct Ratios {
    pub ratios: Spread,
    /// The quickest of each, in seconds.
    pub ours: f64,
    pub theirs: f64,
}

impl Ratios {
    /// Of so many runs. In each, both go on in turn in short batches, and the quickest batch of each counts: what
    /// disturbs the machine for a moment disturbs neither. Who goes first changes, since the second finds warm what both
    /// need.
    pub fn of(runs: usize, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> Self {
        let (mut ours, mut theirs) = (Batch::of(&mut ours), Batch::of(&mut theirs));
        let batches = if ours.took.max(theirs.took) > LEAST { 1 } else { BATCHES };
        let (mut ratios, mut all) = (Vec::new(), [f64::MAX; 2]);
        for run in 0..runs as u32 {
            let mut quickest = [f64::MAX; 2];
            for turn in run..run + batches {
                if turn % 2 == 0 {
                    quickest[0] = quickest[0].min(ours.seconds());
                    quickest[1] = quickest[1].min(theirs.seconds());
                } else {
                    quickest[1] = quickest[1].min(theirs.seconds());
                    quickest[0] = quickest[0].min(ours.seconds());
                }
            }
            ratios.push(quickest[0] / quickest[1]);
            all = [all[0].min(quickest[0]), all[1].min(quickest[1])];
        }
        Self { ratios: Spread::of(ratios), ours: all[0], theirs: all[1] }
    }
}

/// What is done so often at a time that it can be measured.
struct Batch<'a, F> {
    once: &'a mut F,
    times: u32,
    /// All of them together, warm.
    took: Duration,
}

impl<'a, F: FnMut()> Batch<'a, F> {
    fn of(once: &'a mut F) -> Self {
        let mut batch = Self { once, times: 1, took: Duration::ZERO };
        loop {
            let begun = Instant::now();
            (0..batch.times).for_each(|_| (batch.once)());
            batch.took = begun.elapsed();
            if batch.took >= LEAST / BATCHES || batch.times >= 1 << 20 {
                return batch;
            }
            batch.times *= 2;
        }
    }

    /// Seconds that one time takes.
    fn seconds(&mut self) -> f64 {
        let begun = Instant::now();
        for _ in 0..self.times {
            black_box((self.once)());
        }
        begun.elapsed().as_secs_f64() / f64::from(self.times)
    }
}
