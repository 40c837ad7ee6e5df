//! The other databases in the repository whose files a pull changes: their gates are held while it does, also by each
//! git that it starts, so that they stay shut while a git works on alone.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::log_line::Event;
use beadlock_checker::internal::{Gate, PassedOn};
use beadlock_checker::{Cycle, Entered};

use super::repository::Repository;
use super::stop::Stop;

/// The cycle of another database. Its gate is let go first.
#[derive(Debug)]
pub(super) struct NeighbourCycle {
    _cycle: Cycle,
    _inherited: Option<PassedOn>,
}

/// Enters a cycle of each.
///
/// # Errors
/// When one is claimed or at work.
pub(super) fn enter(repository: &Repository, paths: &[Vec<u8>]) -> Result<Vec<NeighbourCycle>, Stop> {
    let database = |path: &Vec<u8>| -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path));
        let dir = path.ancestors().skip(1).find(|dir| dir.file_name() == Some(OsStr::new(".beads")))?;
        let dir = fs::canonicalize(repository.git.dir.join(dir)).ok()?;
        (dir != repository.database).then_some(dir)
    };
    let mut dirs: Vec<_> = paths.iter().filter_map(database).collect();
    dirs.sort();
    dirs.dedup();
    let mut entered = Vec::with_capacity(dirs.len());
    for dir in dirs {
        match Cycle::enter(&dir) {
            Entered::Cycle(cycle) => {
                let inherited = cycle.gate().map(Gate::pass_on).transpose();
                let inherited = inherited.map_err(|error| Stop::Refused(error.to_string()))?;
                entered.push(NeighbourCycle { _cycle: cycle, _inherited: inherited });
            }
            Entered::Skipped(decision) => {
                let dir = escaped_path(&dir);
                let why = format_args!("it would change {dir}: {decision}");
                return Err(Stop::nothing(Event::NotPulling, why));
            }
        }
    }
    Ok(entered)
}
