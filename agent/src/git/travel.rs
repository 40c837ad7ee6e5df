//! The one step in which the working tree, the branch and the index move to another commit.
//!
//! Order: `index.lock` with a note of the move; the working tree and a copy of the index (`read-tree -m -u`, which looks
//! at everything before it changes anything, and leaves alone what somebody has changed); the branch, by
//! compare-and-swap; the index. A branch that has moved meanwhile: the working tree goes back.
//! Killed in between: the next sync finds the note and finishes the move. A file that was cut off in the middle is
//! neither the old nor the new one: then it says so and changes nothing.

use std::collections::BTreeSet;
use std::path::Path;

use super::changes::Changes;
use super::commit::move_branch;
use super::index::{self, IndexLock, Move};
use super::repository::{Head, Repository};
use super::{Stop, typed};

/// Moves everything.
pub(super) fn travel(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let lock = IndexLock::take(repository, Some(way))?;
    let scratch = lock.copy()?;
    go(repository, lock, &scratch, way, &way.from, false)
}

/// Finishes what a sync that was killed has begun. Nothing, when the branch is somewhere else by now.
pub(super) fn finish(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let git = &repository.git;
    let Head { branch, commit: head } = repository.head()?;
    if branch != way.branch || (head != way.from && head != way.to) {
        index::forget(repository);
        return Ok(());
    }
    let paths = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", &way.from, &way.to];
    let changes = Changes { present: git.call(paths).words()?, ..Changes::default() };
    let lock = IndexLock::take(repository, Some(way))?;
    let scratch = lock.copy()?;
    if let Err(stop) = changes.stage(git, &scratch) {
        lock.leave_unfinished();
        return Err(stop);
    }
    let differ = |commit: &str| -> Result<BTreeSet<Vec<u8>>, Stop> {
        let args = ["diff-index", "--cached", "--name-only", "--no-renames", "-z", commit];
        Ok(git.call(args).index(&scratch).words()?.into_iter().collect())
    };
    let (from, to) = (differ(&way.from)?, differ(&way.to)?);
    let neither: Vec<_> =
        changes.present.iter().filter(|path| from.contains(*path) && to.contains(*path)).collect();
    if !neither.is_empty() {
        let paths = repository.shown_all(neither.iter().map(|path| path.as_slice()));
        lock.leave_unfinished();
        return Err(Stop::refused(format!(
            "a pull was killed in the middle, and {paths} may be cut off: it is neither as in {} nor as in {}; look at \
             it, then type: git -C {} checkout {} -- {paths}",
            super::commit::short(&way.from),
            super::commit::short(&way.to),
            typed(&git.dir),
            super::commit::short(&way.to),
        )));
    }
    go(repository, lock, &scratch, way, &head, true)
}

fn go(
    repository: &Repository,
    lock: IndexLock<'_>,
    scratch: &Path,
    way: &Move,
    head: &str,
    is_begun: bool,
) -> Result<(), Stop> {
    let git = &repository.git;
    let read = |from: &str, to: &str| git.call(["read-tree", "-m", "-u", from, to]).index(scratch).run();
    let answer = read(&way.from, &way.to)?;
    if !answer.status.success() {
        if is_begun {
            lock.leave_unfinished();
        }
        return Err(Stop::Nothing(format!("Not pulling: {}", answer.last_line())));
    }
    if head != way.to
        && let Err(stop) = move_branch(repository, way, "pull (beadlock-agent)")
    {
        let back = read(&way.to, &way.from)?;
        back.show();
        return Err(stop);
    }
    lock.replace()
}
