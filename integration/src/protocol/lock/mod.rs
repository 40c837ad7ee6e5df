//! `lock:PATH`: a lock file of the beads rule at any path, without cycles (docs/design.md#locks-at-a-path).

mod not_a_lock;

use std::path::Path;

use beadlock_checker::Place;
use beadlock_checker::internal::Look;
use beadlock_checker::internal::database::NoDatabase;
use beadlock_checker::internal::dialect::lock;
use beadlock_checker::internal::target::Scheme;

use super::beads::Acceptance;
use super::{Folder, Unfound, process};
use crate::claim::explained::{Explained, Inspected};
use crate::claim::protocol::{NotALock, Protocol, WaitOver};
use crate::claim::target::Target;
use crate::settings::environment::Environment;

/// A lock file at a path.
#[derive(Debug)]
pub struct LockAtPath;

impl Protocol for LockAtPath {
    fn prefix(&self) -> &'static str {
        Scheme::Lock.prefix()
    }

    fn kind(&self) -> &'static str {
        "lock files (lock:PATH)"
    }

    fn is_held_by(&self, look: &Look, pid: i32) -> bool {
        process::is_held_by(look, pid)
    }

    fn not_for_a_guard(&self, _target: &Target) -> Option<String> {
        None
    }

    fn then_unreadable(&self) -> &'static str {
        "every daemon skips"
    }

    fn may_be_committed(&self) -> bool {
        true
    }

    fn not_a_lock(&self, look: &Look, target: &Target) -> Option<NotALock> {
        not_a_lock::at(&target.typed, look)
    }

    fn why_empty(&self, look: &Look) -> Option<&'static str> {
        not_a_lock::why_empty(look)
    }

    fn may_be_data(&self, look: &Look) -> bool {
        not_a_lock::may_be_data(look)
    }

    fn explain(&self, seen: &Inspected<'_>) -> Option<Explained> {
        process::explain(seen)
    }

    fn timed_out(&self, waited: &WaitOver<'_>) -> String {
        let WaitOver { record, age, wait, zombie, .. } = waited;
        record.as_beads().map(|record| lock::timed_out(record, *age, wait.limit())).unwrap_or_default()
            + zombie
    }
}

impl Folder for LockAtPath {
    fn find(
        &self,
        rest: &Path,
        environment: &Environment,
        _acceptance: Acceptance<'_>,
    ) -> Result<Target, Unfound> {
        Ok(target(rest, &environment.of_database().cwd)?)
    }

    fn exact(&self, rest: &Path, given: &str) -> Result<Target, Unfound> {
        Ok(Target { given: given.to_owned(), ..target(rest, Path::new("/"))? })
    }
}

/// The lock file at `path`.
///
/// # Errors
/// As [`Place::of_lock`].
pub fn target(path: &Path, cwd: &Path) -> Result<Target, NoDatabase> {
    Ok(Target::at_path(&LockAtPath, Place::of_lock(path, cwd)?, path))
}
