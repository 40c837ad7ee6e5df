//! Two ways of doing something, measured in turn.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How often both are measured.
pub const RUNS: usize = 15;

/// How long one of them goes on in a run, so that a tick of the clock is nothing beside it.
const LEAST: Duration = Duration::from_millis(40);

/// The ratios of the runs, and how long one time took.
#[derive(Debug, Clone)]
pub struct Ratios {
    /// Sorted.
    ratios: Vec<f64>,
    /// The quickest of each, in seconds.
    pub ours: f64,
    pub theirs: f64,
}

impl Ratios {
    /// Of so many runs. In each, both go on in turn in short batches, and the quickest batch of each counts: what
    /// disturbs the machine for a moment disturbs neither.
    pub fn of(runs: usize, mut ours: impl FnMut(), mut theirs: impl FnMut()) -> Self {
        let (batch, took) = batch_of(&mut ours);
        let batches = if took > LEAST { 1 } else { BATCHES };
        let (mut ratios, mut all) = (Vec::new(), [f64::MAX; 2]);
        for _ in 0..runs.max(1) {
            let mut quickest = [f64::MAX; 2];
            for _ in 0..batches {
                quickest[0] = quickest[0].min(time(batch, &mut ours));
                quickest[1] = quickest[1].min(time(batch, &mut theirs));
            }
            ratios.push(quickest[0] / quickest[1]);
            all = [all[0].min(quickest[0]), all[1].min(quickest[1])];
        }
        ratios.sort_by(f64::total_cmp);
        Self { ratios, ours: all[0], theirs: all[1] }
    }

    pub fn median(&self) -> f64 {
        self.ratios[self.ratios.len() / 2]
    }

    /// The least and the greatest.
    pub fn spread(&self) -> (f64, f64) {
        (self.ratios[0], self.ratios[self.ratios.len() - 1])
    }
}

/// In one run.
const BATCHES: usize = 10;

/// How many times make a batch, and how long it takes.
fn batch_of(once: &mut impl FnMut()) -> (u32, Duration) {
    let mut times = 1_u32;
    loop {
        let begun = Instant::now();
        (0..times).for_each(|_| once());
        let took = begun.elapsed();
        if took >= LEAST / BATCHES as u32 || times >= 1 << 20 {
            return (times, took);
        }
        times *= 2;
    }
}

/// Seconds that one time takes.
fn time(times: u32, once: &mut impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..times {
        black_box(once());
    }
    begun.elapsed().as_secs_f64() / f64::from(times)
}
