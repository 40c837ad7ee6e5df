//! The other databases in the repository whose files a pull changes. Their gates are held meanwhile, and every git
//! inherits them, so that they stay shut while a git works on alone.
//!
//! Two syncs that want each other's database at the same time, again and again, would both pull nothing. So the one
//! whose path comes later gives way: it pulls with its next cycle. The other one waits for its end, keeps that gate,
//! and syncs again: to let it go in between would be to lose it to the next cycle there.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_core::gate::{Gate, PassedOn};
use beadlock_core::{Cycle, Decision, Entered, Skip};

use crate::{Event, escaped_path};
use beadlock_repository::{
    GitReason, HindranceKind, Repository, SyncStop, as_path, is_database_name,
};

/// The cycle of another database, which is dropped first, and the copy of its gate for the gits.
pub(crate) type NeighbourCycle = (Cycle, Option<PassedOn>);

/// How long the end of a sync that gives way is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Enters the databases that have these paths, but for those that the sync has entered before.
pub(crate) fn enter(
    repository: &Repository,
    paths: &[Vec<u8>],
) -> Result<Vec<NeighbourCycle>, SyncStop> {
    let database = |path: &Vec<u8>| -> Option<PathBuf> {
        let mut above = as_path(path).ancestors().skip(1);
        let dir = above.find(|dir| dir.file_name().is_some_and(is_database_name))?;
        let dir = fs::canonicalize(repository.git.dir.join(dir)).ok()?;
        (dir != repository.request.dir).then_some(dir)
    };
    let mut dirs: Vec<_> = paths.iter().filter_map(database).collect();
    dirs.sort();
    dirs.dedup();
    dirs.retain(|dir| !repository.request.entered.contains(dir));
    let enter = |dir: PathBuf| match Cycle::enter(&dir) {
        Entered::Cycle(cycle) => inherited(cycle),
        Entered::Skipped(decision) => {
            let why = format_args!("it would change {}: {decision}", escaped_path(&dir));
            let stop = SyncStop::notice(
                Event::NotPulling,
                HindranceKind::NotPulling,
                GitReason::Neighbour,
                why,
            );
            let gives_way = is_in_progress(&decision) && repository.request.dir < dir;
            Err(stop.before(gives_way.then_some(dir)))
        }
    };
    dirs.into_iter().map(enter).collect()
}

/// The cycle, with the copy of its gate that gits inherit.
fn inherited(cycle: Cycle) -> Result<NeighbourCycle, SyncStop> {
    let gate = cycle.gate().map(Gate::pass_on).transpose();
    let gate = gate.map_err(|error| SyncStop::failed(GitReason::Io, error.to_string()))?;
    Ok((cycle, gate))
}

/// Waits, without this one's turn, for the end of the sync that gives way, and enters its database. `None` where that
/// takes too long, or the database is claimed.
pub(crate) fn enter_after(neighbour: &Path) -> Option<NeighbourCycle> {
    let begun = Instant::now();
    loop {
        match Cycle::enter(neighbour) {
            Entered::Cycle(cycle) => return inherited(cycle).ok(),
            Entered::Skipped(decision)
                if is_in_progress(&decision) && begun.elapsed() < PATIENCE =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            Entered::Skipped(_) => return None,
        }
    }
}

fn is_in_progress(decision: &Decision) -> bool {
    matches!(decision, Decision::Skip(Skip::InProgress))
}
