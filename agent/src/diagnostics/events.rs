//! What a cycle tells people who look for a fault. Names from files are values in quotes, so that none can speak for
//! the agent; they are cut as in every line.

use std::path::Path;
use std::time::Duration;

use beadlock_core::Decision;
use tracing::{Span, debug, info_span};

/// Characters of an untrusted name that a line shows.
const SHOWN: usize = 200;

/// The span of a cycle: of which database, what its work is, and how many there were. Below `info` it costs nothing.
pub(crate) fn cycle(db: &Path, action: &str, n: u64) -> Span {
    info_span!("cycle", ?db, action, n)
}

/// Traces the decision of a check, the record of the lock behind it, and how long the check took.
pub(crate) fn decided(decision: &Decision, took: Duration) {
    let record = || decision.record();
    debug!(
        decision = if decision.is_skip() {
            "skip"
        } else {
            "proceed"
        },
        reason = decision.reason().as_str(),
        holder = record().map(|record| shown(record.holder())),
        pid = record().map(beadlock_core::record::Record::pid),
        host = record().map(|record| shown(record.hostname())),
        since = record()
            .and_then(|record| record.started_at())
            .map(|since| since.to_string()),
        ?took,
        "checked"
    );
}

fn shown(name: &str) -> &str {
    name.char_indices()
        .nth(SHOWN)
        .map_or(name, |(end, _)| &name[..end])
}
