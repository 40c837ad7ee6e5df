//! A branch that moves from one commit to another.

use super::conversation::GitOutput;
use super::repository::Repository;
use super::stop::Stop;

/// Commits that a branch, and for a pull its index and its working tree, move between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    /// Without `refs/heads/`.
    pub(super) branch: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// The branch moves, unless it is no longer where it was.
pub(super) fn move_branch(repository: &Repository, way: &Move, why: &str) -> Result<(), Stop> {
    let branch = format!("refs/heads/{}", way.branch);
    let moved = repository.git.call(["update-ref", "-m", why, &branch, &way.to, &way.from]).run()?;
    if moved.status.success() {
        return Ok(());
    }
    let stop = cannot_move(way, &moved);
    repository.check_at(&way.branch, &way.from)?;
    Err(stop)
}

/// git does not move the branch; its words go to the log.
pub(super) fn cannot_move(way: &Move, answer: &GitOutput) -> Stop {
    answer.refused(&format!("the branch {} cannot move", way.branch))
}

/// The first seven digits.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}
