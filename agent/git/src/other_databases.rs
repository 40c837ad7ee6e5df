//! The other databases in the repository whose files a pull changes. Their gates are held meanwhile, and every git
//! inherits them, so that they stay shut while a git works on alone.
//!
//! Two syncs that want each other's database at the same time, again and again, would both pull nothing. So the one
//! whose path comes later gives way: it pulls with its next cycle. The other one waits for its end, and syncs again.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use beadlock_core::gate::{Gate, PassedOn};
use beadlock_core::{Cycle, Decision, Entered, Skip};

use crate::{Event, escaped_path};
use beadlock_repository::stop::OtherDatabase;
use beadlock_repository::{
    GitReason, HindranceKind, Repository, SyncStop, as_path, is_database_name, repository_lock,
};

/// The cycle of another database, which is dropped first, and the copy of its gate for the gits.
type NeighbourCycle = (Cycle, Option<PassedOn>);

/// How long the end of a sync that gives way is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A sync that comes upon this one takes its turn in the repository sooner than this. Another one may take much longer.
const QUIET: Duration = Duration::from_millis(500);

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
    let enter = |dir: PathBuf| match Cycle::enter(&dir) {
        Entered::Cycle(cycle) => {
            let inherited = cycle.gate().map(Gate::pass_on).transpose();
            Ok((
                cycle,
                inherited.map_err(|error| SyncStop::failed(GitReason::Io, error.to_string()))?,
            ))
        }
        Entered::Skipped(decision) => {
            let why = format_args!("it would change {}: {decision}", escaped_path(&dir));
            let stop = SyncStop::notice(
                Event::NotPulling,
                HindranceKind::NotPulling,
                GitReason::Neighbour,
                why,
            );
            let gives_way = is_in_progress(&decision) && repository.request.dir < dir;
            Err(stop.before(gives_way.then(|| OtherDatabase {
                database: dir,
                turn: repository_lock::path(repository),
            })))
        }
    };
    dirs.into_iter().map(enter).collect()
}

/// Waits for the end of the sync that gives way, and returns true when that has come. Without this one's turn.
pub(crate) fn ends(neighbour: &OtherDatabase) -> bool {
    let begun = Instant::now();
    let mut moved = begun;
    while let Entered::Skipped(decision) = Cycle::enter(&neighbour.database)
        && is_in_progress(&decision)
    {
        if fs::symlink_metadata(&neighbour.turn).is_ok() {
            moved = Instant::now();
        }
        if begun.elapsed() >= PATIENCE || moved.elapsed() >= QUIET {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

fn is_in_progress(decision: &Decision) -> bool {
    matches!(decision, Decision::Skip(Skip::InProgress))
}
