//! What beadlock costs, beside what the work cannot be done without, in one run: `make bench`.
//!
//! Each figure is a ratio: how long ours took in a run to how long the other took in the same run, right after it. The
//! machine may be slow or busy; both are then. The table shows the median of the runs and their spread, and what is at
//! most allowed. `docs/performance.md` says what the figures mean.

mod calls;
mod programs;
mod ratio;
mod table;

use table::Table;

fn main() {
    // `cargo test --benches` starts this too, to see whether it runs: one run is enough for that.
    let is_short = !std::env::args().any(|word| word == "--bench");
    let runs = if is_short { 1 } else { ratio::RUNS };
    let mut table = Table::new(runs);
    calls::measure(&mut table);
    programs::measure(&mut table);
    table.end();
}
