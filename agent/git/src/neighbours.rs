//! The other databases in the repository whose files a pull changes. Their gates are held meanwhile, and every git
//! inherits them, so that they stay shut while a git works on alone.

use std::fs;
use std::path::PathBuf;

use beadlock_core::gate::{Gate, PassedOn};
use beadlock_core::{Cycle, Entered};

use crate::{
    Event, GitReason, HindranceKind, Repository, Stop, as_path, escaped_path, is_database_name,
};

/// The cycle of another database, which is dropped first, and the copy of its gate for the gits.
type NeighbourCycle = (Cycle, Option<PassedOn>);

pub(crate) fn enter(
    repository: &Repository,
    paths: &[Vec<u8>],
) -> Result<Vec<NeighbourCycle>, Stop> {
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
                inherited.map_err(|error| Stop::failed(GitReason::Io, error.to_string()))?,
            ))
        }
        Entered::Skipped(decision) => {
            let why = format_args!("it would change {}: {decision}", escaped_path(&dir));
            Err(Stop::notice(
                Event::NotPulling,
                HindranceKind::NotPulling,
                GitReason::Neighbour,
                why,
            ))
        }
    };
    dirs.into_iter().map(enter).collect()
}
