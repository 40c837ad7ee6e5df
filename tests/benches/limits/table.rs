//! The table, printed row by row.

use super::ratio::Ratios;

pub struct Table {
    pub runs: usize,
    beyond: Vec<String>,
}

impl Table {
    pub fn new(runs: usize) -> Self {
        println!(
            "{:<58} {:>6} {:>15} {:>7}  {:>9} {:>9}",
            "figure", "median", "spread", "at most", "ours", "other"
        );
        Self { runs, beyond: Vec::new() }
    }

    /// Ours, and the same work by others. `at_most` is the limit of the median; `None`: there is none, it is shown.
    pub fn row(&mut self, figure: &str, at_most: Option<f64>, ours: impl FnMut(), theirs: impl FnMut()) {
        let ratios = Ratios::of(self.runs, ours, theirs);
        let (least, greatest) = ratios.spread();
        let limit = at_most.map_or_else(String::new, |limit| format!("{limit:.2}"));
        println!(
            "{figure:<58} {:>6.3} {:>15} {limit:>7}  {:>9} {:>9}",
            ratios.median(),
            format!("{least:.3}..{greatest:.3}"),
            shown(ratios.ours),
            shown(ratios.theirs)
        );
        if at_most.is_some_and(|limit| ratios.median() > limit) {
            self.beyond.push(figure.to_owned());
        }
    }

    /// What cannot be measured here, and why.
    pub fn not_here(&self, figure: &str, why: &str) {
        println!("{figure:<58} not measured: {why}");
    }

    /// Says which figures are beyond their limit.
    pub fn end(self) {
        match self.beyond.as_slice() {
            [] => println!("all within their limits, {} runs each", self.runs),
            beyond => println!("beyond their limit: {}", beyond.join("; ")),
        }
    }
}

fn shown(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
