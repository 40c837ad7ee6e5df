//! The one step in which the working tree, the branch and the index move to another commit.
//!
//! Order: the gates of other databases whose files change; `index.lock`; everything that could hinder it is looked at
//! before anything changes; a note of the move; the working tree and a copy of the index (`read-tree -m -u`, which leaves
//! alone what somebody has changed); the branch, by compare-and-swap; the index.
//! Ended in between, by a kill or a full disk: the next sync finds the note and goes on, files that were cut off
//! included. A file that somebody has changed since is neither the old nor the new one: then it says so, and waits.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::changes::Changes;
use super::commit::{move_branch, short};
use super::conversation::Answer;
use super::index::{self, IndexLock};
use super::neighbours;
use super::repository::{Head, Repository};
use super::turn::{Move, Turn};
use super::word::{Word, say};
use super::{Stop, by_hand, lock_came, typed};

/// Moves everything.
///
/// # Errors
/// Before anything has changed; or in the middle, then the next sync goes on.
pub(super) fn travel(turn: &mut Turn<'_>, way: &Move) -> Result<(), Stop> {
    let repository = turn.repository;
    let _others = neighbours::enter(repository, &paths(repository, way)?)?;
    lock_came(repository)?;
    let lock = IndexLock::take(turn)?;
    repository.check_at(&way.branch, &way.from)?;
    refuse_in_the_way(repository, way)?;
    let scratch = lock.copy()?;
    let could = read_tree(repository, &scratch, &["-n", &way.from, &way.to])?;
    if !could.status.success() {
        return Err(Stop::Nothing(format!("Not pulling: {}", could.last_line())));
    }
    try_branch(repository, way)?;
    turn.note(way)?;
    go(turn, lock, &scratch, way, &way.from)
}

/// Finishes what a sync that was killed has begun. Nothing, when the branch is somewhere else by now.
pub(super) fn finish(turn: &mut Turn<'_>, way: &Move) -> Result<(), Stop> {
    let repository = turn.repository;
    let Head { branch, commit: head } = repository.head()?;
    if branch != way.branch || (head != way.from && head != way.to) {
        turn.forget();
        return Ok(());
    }
    let mut paths = paths(repository, way)?;
    let _others = neighbours::enter(repository, &paths)?;
    lock_came(repository)?;
    let lock = IndexLock::take(turn)?;
    // git removes a file before it writes the new one: what is not there is written again.
    paths.retain(|path| fs::symlink_metadata(here(repository, path)).is_ok_and(|meta| !meta.is_dir()));
    let scratch = prepare(repository, &lock, way, &paths)?;
    go(turn, lock, &scratch, way, &head)?;
    let (from, to) = (short(&way.from), short(&way.to));
    say(&Word::Pulled(format!("Pulled what a sync that was killed had begun to ({from}..{to})")));
    Ok(())
}

fn go(turn: &mut Turn<'_>, lock: IndexLock<'_>, scratch: &Path, way: &Move, head: &str) -> Result<(), Stop> {
    let repository = turn.repository;
    let moved = read_tree(repository, scratch, &["-u", &way.from, &way.to])?;
    if !moved.status.success() {
        moved.show();
        return Err(unfinished(&moved));
    }
    if head != way.to
        && let Err(stop) = move_branch(repository, way, "pull (beadlock-agent)")
    {
        let back = read_tree(repository, scratch, &["-u", &way.to, &way.from])?;
        if !back.status.success() {
            back.show();
            return Err(unfinished(&back));
        }
        turn.forget();
        return Err(stop);
    }
    lock.replace()?;
    turn.forget();
    Ok(())
}

fn unfinished(answer: &Answer) -> Stop {
    Stop::Refused(format!("a pull has stopped in the middle, the next cycle goes on: {}", answer.last_line()))
}

fn read_tree(repository: &Repository, index: &Path, args: &[&str]) -> Result<Answer, Stop> {
    repository.git.call(["read-tree", "-m"].iter().chain(args)).index(index).run()
}

/// Everything that differs.
fn paths(repository: &Repository, way: &Move) -> Result<Vec<Vec<u8>>, Stop> {
    let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", &way.from, &way.to];
    repository.git.call(args).words()
}

fn here(repository: &Repository, path: &[u8]) -> PathBuf {
    repository.git.dir.join(OsStr::from_bytes(path))
}

/// Whether the branch could move: its locks, and the hook that has a say.
fn try_branch(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let words = format!("start\nupdate refs/heads/{} {} {}\nprepare\nabort\n", way.branch, way.to, way.from);
    let tried = repository.git.call(["update-ref", "--stdin"]).stdin(words).run()?;
    if tried.status.success() {
        return Ok(());
    }
    tried.show();
    Err(Stop::Refused(format!("the branch {} cannot move: {}", way.branch, tried.last_line())))
}

/// git would overwrite what it was told to ignore, and remove it with a directory that becomes a file.
fn refuse_in_the_way(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let git = &repository.git;
    let added =
        ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", &way.from, &way.to];
    let added = git.call(added).words()?;
    let lists = |args: &[&str], path: &Path| -> Result<bool, Stop> {
        let spec = [b":(top,literal)", path.as_os_str().as_bytes()].concat();
        let args = args.iter().map(OsStr::new).chain([OsStr::from_bytes(&spec)]);
        Ok(!git.call(args).words()?.is_empty())
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
    Err(by_hand(repository, &format!("{paths} would be overwritten, and git does not track it here")))
}

/// A copy of the index that knows how far the working tree has come.
fn prepare(
    repository: &Repository,
    lock: &IndexLock<'_>,
    way: &Move,
    paths: &[Vec<u8>],
) -> Result<PathBuf, Stop> {
    let scratch = staged(repository, lock, paths.to_vec())?;
    let differ = |commit: &str| -> Result<BTreeSet<Vec<u8>>, Stop> {
        let args = ["diff-index", "--cached", "--name-only", "--no-renames", "-z", commit];
        Ok(repository.git.call(args).index(&scratch).words()?.into_iter().collect())
    };
    let (from, to) = (differ(&way.from)?, differ(&way.to)?);
    let is_neither = |path: &&Vec<u8>| from.contains(*path) && to.contains(*path);
    // Of a file that was cut off nothing is lost that the new one has not.
    let (cut_off, changed): (Vec<_>, Vec<_>) =
        paths.iter().filter(is_neither).partition(|path| is_beginning(repository, &way.to, path));
    if !changed.is_empty() {
        let (from, to, top) = (short(&way.from), short(&way.to), typed(&repository.git.dir));
        let typed: Vec<_> = changed.iter().map(|path| typed(Path::new(OsStr::from_bytes(path)))).collect();
        return Err(Stop::Refused(format!(
            "a pull has stopped in the middle, and {} is neither as in {from} nor as in {to}; keep what it is now \
             elsewhere, then type: git -C {top} checkout {to} -- {}",
            repository.shown_all(changed.iter().map(|path| path.as_slice())),
            typed.join(" ")
        )));
    }
    if cut_off.is_empty() {
        return Ok(scratch);
    }
    cut_off.iter().for_each(|path| index::remove(&here(repository, path)));
    staged(repository, lock, paths.iter().filter(|path| !cut_off.contains(path)).cloned().collect())
}

fn staged(repository: &Repository, lock: &IndexLock<'_>, present: Vec<Vec<u8>>) -> Result<PathBuf, Stop> {
    let scratch = lock.copy()?;
    Changes { present, ..Changes::default() }.stage(&repository.git, &scratch)?;
    Ok(scratch)
}

/// What is there is how the file in the commit begins.
fn is_beginning(repository: &Repository, commit: &str, path: &[u8]) -> bool {
    let file = here(repository, path);
    let name = [commit.as_bytes(), b":", path].concat();
    let args = ["cat-file", "--filters"].map(OsStr::new).into_iter().chain([OsStr::from_bytes(&name)]);
    let is_file = fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_file());
    match (fs::read(&file), repository.git.call(args).run()) {
        (Ok(here), Ok(whole)) => is_file && whole.status.success() && whole.stdout.starts_with(&here),
        _ => false,
    }
}
