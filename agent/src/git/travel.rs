//! The one step in which the working tree, the branch and the index move to another commit.
//!
//! Order: the gates of other databases whose files change; `index.lock`; everything that could hinder it is looked at
//! before anything changes; a note of the move; the working tree and a copy of the index (`read-tree -m -u`, which
//! leaves alone what somebody has changed); the index; the branch, by compare-and-swap. Ended in between, by a kill
//! or a full disk: the next sync finds the note, and [resumes](super::resume).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use beadlock_checker::internal::log_line::Event;

use super::branch::{self, Move, move_branch};
use super::conversation::GitOutput;
use super::index::IndexLock;
use super::neighbours;
use super::repository::Repository;
use super::stop::Stop;
use super::turn::Turn;

/// Why a sync ends while the working tree moves.
const UNFINISHED: &str = "a pull has stopped in the middle, the next cycle goes on";

/// Moves everything.
///
/// # Errors
/// Before anything has changed; or in the middle, then the next sync goes on.
pub(super) fn travel(turn: &mut Turn<'_>, way: &Move) -> Result<(), Stop> {
    let repository = turn.repository;
    let _others = neighbours::enter(repository, &repository.differing(&way.from, &way.to, None)?)?;
    repository.check_unclaimed()?;
    let lock = IndexLock::take(turn)?;
    repository.check_at(&way.branch, &way.from)?;
    refuse_in_the_way(repository, way)?;
    let scratch = lock.copy()?;
    // A file that was written again as it was is no change; read-tree would take it for one.
    repository.git.call(["update-index", "-q", "--refresh"]).index(&scratch).run()?;
    let could = read_tree(repository, &scratch, &["-n", &way.from, &way.to])?;
    if !could.status.success() {
        return Err(Stop::nothing(Event::NotPulling, could.last_line()));
    }
    try_branch(repository, way)?;
    turn.note(way)?;
    go(turn, lock, &scratch, way)
}

fn go(turn: &mut Turn<'_>, lock: IndexLock<'_>, scratch: &Path, way: &Move) -> Result<(), Stop> {
    let repository = turn.repository;
    let moved = read_tree(repository, scratch, &["-u", &way.from, &way.to])?;
    if !moved.status.success() {
        return Err(moved.refused(UNFINISHED));
    }
    lock.replace()?;
    if let Err(stop) = move_branch(repository, way, "pull (beadlock-agent)") {
        let scratch = lock.copy()?;
        let back = read_tree(repository, &scratch, &["-u", &way.to, &way.from])?;
        if !back.status.success() {
            return Err(back.refused(UNFINISHED));
        }
        lock.put_back()?;
        turn.forget();
        return Err(stop);
    }
    turn.forget();
    Ok(())
}

/// git removes a directory that it has emptied, and makes it anew for the next file in it; but never the one that it
/// was started in (from 2.35 on). The gate is on the database's: claims would take the new one's, and not wait for
/// this sync.
fn read_tree(repository: &Repository, index: &Path, args: &[&str]) -> Result<GitOutput, Stop> {
    let git = repository.git.started_in(&repository.prefix);
    // Started there, git must not take files of the database for a repository.
    let read_tree = ["-c", "safe.bareRepository=explicit", "read-tree", "-m"];
    git.call(read_tree.iter().chain(args)).index(index).run()
}

/// Whether the branch could move: its locks, and the hook that has a say.
fn try_branch(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let words = format!("start\nupdate refs/heads/{} {} {}\nprepare\nabort\n", way.branch, way.to, way.from);
    let tried = repository.git.call(["update-ref", "--stdin"]).stdin(words).run()?;
    if tried.status.success() { Ok(()) } else { Err(branch::cannot_move(way, &tried)) }
}

/// git would overwrite what it was told to ignore, and remove it with a directory that becomes a file.
fn refuse_in_the_way(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let git = &repository.git;
    let added = repository.differing(&way.from, &way.to, Some("--diff-filter=A"))?;
    let lists = |args: &[&str], path: &Path| -> Result<bool, Stop> {
        let spec = [b":(top,literal)", path.as_os_str().as_bytes()].concat();
        Ok(!git.call(args).paths([spec]).words()?.is_empty())
    };
    let mut hindered = Vec::new();
    for name in &added {
        let path = Path::new(OsStr::from_bytes(name));
        for (above, path) in path.ancestors().filter(|path| !path.as_os_str().is_empty()).enumerate() {
            let Ok(meta) = fs::symlink_metadata(git.dir.join(path)) else { continue };
            let is_in_the_way = match (above, meta.is_dir()) {
                (0, true) => {
                    repository.prefix.starts_with(path) || lists(&["ls-files", "-z", "--others", "--"], path)?
                }
                (_, true) => false,
                (_, false) => !lists(&["ls-files", "-z", "--cached", "--"], path)?,
            };
            if is_in_the_way {
                hindered.push(name.as_slice());
                break;
            }
        }
    }
    if hindered.is_empty() {
        return Ok(());
    }
    let paths = repository.shown_all(hindered);
    Err(repository.by_hand(&format!("{paths} would be overwritten, and git does not track it here")))
}
