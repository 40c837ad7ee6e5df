//! The other databases in the repository whose files a pull changes: their gates are held while it does.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_checker::escape::escaped_path;
use beadlock_checker::{Cycle, Entered};

use super::Stop;
use super::repository::Repository;

/// Enters a cycle of each.
///
/// # Errors
/// When one is claimed or at work.
pub(super) fn enter(repository: &Repository, paths: &[Vec<u8>]) -> Result<Vec<Cycle>, Stop> {
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
            Entered::Cycle(cycle) => entered.push(cycle),
            Entered::Skipped(decision) => {
                let dir = escaped_path(&dir);
                return Err(Stop::Nothing(format!("Not pulling: it would change {dir}: {decision}")));
            }
        }
    }
    Ok(entered)
}
