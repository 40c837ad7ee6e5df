//! What beadlock costs, beside what the work cannot be done without and beside what one would use instead, in one run:
//! `make bench`, or a part of it: `make bench BENCH=calls`.
//!
//! A ratio is how long ours took in a run to how long the other took in the same run, in turn with it. The machine may
//! be slow or busy; both are then. The table shows the median of the runs and their spread, and what is at most
//! allowed. `docs/performance.md` says what the figures mean. With `BENCH_DOCS`, which names `docs`, the run is
//! written there.

mod agents;
mod calls;
mod filelock;
mod files;
mod fleet;
mod git;
mod ground;
mod growth;
mod latency;
mod line;
mod page;
mod plot;
mod programs;
mod ratio;
mod shell;
mod table;
mod travel;

use std::path::Path;

use table::Table;

/// What adds rows to the table.
type Part = fn(&mut Table);

/// In the order of the table.
const PARTS: [(&str, Part); 11] = [
    ("calls", calls::measure),
    ("filelock", filelock::measure),
    ("files", files::measure),
    ("programs", programs::measure),
    ("latency", latency::measure),
    ("line", line::measure),
    ("agents", agents::measure),
    ("git", git::measure),
    ("travel", travel::measure),
    ("fleet", fleet::measure),
    ("growth", growth::measure),
];

fn main() {
    let (switches, names): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with('-'));
    let known = PARTS.map(|(name, _)| name);
    assert!(
        names.iter().all(|name| known.contains(&name.as_str())),
        "{names:?}: there are {known:?}"
    );
    // `cargo test --benches` starts this too, to see whether it runs: as little as shows it is enough for that.
    let mut table = Table::new(!switches.iter().any(|word| word == "--bench"));
    for (name, measure) in PARTS {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            table.begin(name);
            measure(&mut table);
        }
    }
    let (report, text) = table.end();
    if let Some(docs) = std::env::var_os("BENCH_DOCS").filter(|docs| !docs.is_empty()) {
        page::write(Path::new(&docs), &names, &report, &text);
    }
}
