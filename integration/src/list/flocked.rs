//! Files that somebody has locked by an flock: of all `*.lock` files those that `/proc` shows to be locked now. None
//! is tried, for that would keep others out of it for a moment; whom another PID namespace hides is not seen.

use std::path::Path;

use beadlock_checker::internal::Gates;
use beadlock_checker::internal::dialect::file::locked_by;

use super::Root;
use super::walk::Walk;
use crate::file::{FileTarget, Look};

/// Those that a walk has come upon, by path.
pub fn of(walk: &Walk, roots: &[Root]) -> Vec<Look> {
    let candidates = walk.lock_files();
    if candidates.is_empty() {
        return Vec::new();
    }
    let gates = Gates::now();
    let look = |(lock, root): &(std::path::PathBuf, usize)| {
        let file = locked_by(lock).filter(|_| !gates.holders(lock).is_empty())?;
        let (dir, name) = (file.parent()?, file.file_name()?);
        let named = roots.get(*root).map_or_else(|| file.clone(), |root| root.typed(dir).join(name));
        let named = named.strip_prefix(".").map(Path::to_owned).unwrap_or(named);
        Some(Look::at(FileTarget::exact(file, named)?, &gates))
    };
    candidates.iter().filter_map(look).collect()
}
