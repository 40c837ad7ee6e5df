//! The one step in which the working tree, the branch and the index move to another commit.
//!
//! Order: `index.lock` with a note of the move; the working tree and a copy of the index (`read-tree -m -u`, which looks
//! at everything before it changes anything, and leaves alone what somebody has changed); the branch, by
//! compare-and-swap; the index. A branch that has moved meanwhile: the working tree goes back.
//! Killed in between: the next sync finds the note and finishes the move, files that were cut off included. A file that
//! somebody has changed since is neither the old nor the new one: then it says so and changes nothing.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::changes::Changes;
use super::commit::{move_branch, short};
use super::index::{self, IndexLock, Move};
use super::repository::{Head, Repository};
use super::word::{Word, say};
use super::{Stop, typed};

/// Moves everything.
pub(super) fn travel(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let lock = IndexLock::take(repository, Some(way))?;
    let scratch = lock.copy()?;
    go(repository, lock, &scratch, way, &way.from, false)
}

/// Finishes what a sync that was killed has begun. Nothing, when the branch is somewhere else by now.
pub(super) fn finish(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let Head { branch, commit: head } = repository.head()?;
    if branch != way.branch || (head != way.from && head != way.to) {
        index::forget(repository);
        return Ok(());
    }
    let lock = IndexLock::take(repository, Some(way))?;
    match prepare(repository, &lock, way) {
        Ok(scratch) => go(repository, lock, &scratch, way, &head, true)?,
        Err(stop) => {
            lock.leave_unfinished();
            return Err(stop);
        }
    }
    let (from, to) = (short(&way.from), short(&way.to));
    say(&Word::Pulled(format!("Pulled what a sync that was killed had begun to ({from}..{to})")));
    Ok(())
}

/// A copy of the index that knows how far the working tree has come.
fn prepare(repository: &Repository, lock: &IndexLock<'_>, way: &Move) -> Result<PathBuf, Stop> {
    let git = &repository.git;
    let paths = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", &way.from, &way.to];
    let mut paths = git.call(paths).words()?;
    let here = |path: &[u8]| git.dir.join(OsStr::from_bytes(path));
    // git removes a file before it writes the new one: what is not there is written again.
    paths.retain(|path| fs::symlink_metadata(here(path)).is_ok());
    let neither = {
        let scratch = staged(repository, lock, &paths)?;
        let differ = |commit: &str| -> Result<BTreeSet<Vec<u8>>, Stop> {
            let args = ["diff-index", "--cached", "--name-only", "--no-renames", "-z", commit];
            Ok(git.call(args).index(&scratch).words()?.into_iter().collect())
        };
        let (from, to) = (differ(&way.from)?, differ(&way.to)?);
        let is_neither = |path: &&Vec<u8>| from.contains(*path) && to.contains(*path);
        paths.iter().filter(is_neither).cloned().collect::<Vec<_>>()
    };
    // Of a file that was cut off nothing is lost that the new one has not.
    let (cut_off, changed): (Vec<_>, Vec<_>) =
        neither.into_iter().partition(|path| is_beginning(repository, &way.to, path));
    if !changed.is_empty() {
        let (from, to, top) = (short(&way.from), short(&way.to), typed(&git.dir));
        let typed: Vec<_> = changed.iter().map(|path| typed(Path::new(OsStr::from_bytes(path)))).collect();
        return Err(Stop::refused(format!(
            "a pull was killed in the middle, and {} is neither as in {from} nor as in {to}; what it is to be is yours \
             to say, as in {to}: git -C {top} checkout {to} -- {}",
            repository.shown_all(changed.iter().map(Vec::as_slice)),
            typed.join(" ")
        )));
    }
    for path in &cut_off {
        index::remove(&here(path));
    }
    paths.retain(|path| !cut_off.contains(path));
    staged(repository, lock, &paths)
}

fn staged(repository: &Repository, lock: &IndexLock<'_>, paths: &[Vec<u8>]) -> Result<PathBuf, Stop> {
    let scratch = lock.copy()?;
    let changes = Changes { present: paths.to_vec(), ..Changes::default() };
    changes.stage(&repository.git, &scratch)?;
    Ok(scratch)
}

/// What is there is how the file in the commit begins.
fn is_beginning(repository: &Repository, commit: &str, path: &[u8]) -> bool {
    let file = repository.git.dir.join(OsStr::from_bytes(path));
    let name = [commit.as_bytes(), b":", path].concat();
    let args = ["cat-file", "--filters"].map(OsStr::new).into_iter().chain([OsStr::from_bytes(&name)]);
    let is_file = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file());
    match (fs::read(&file), repository.git.call(args).done()) {
        (Ok(here), Ok(whole)) => is_file && whole.stdout.starts_with(&here),
        _ => false,
    }
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
