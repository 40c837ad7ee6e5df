//! The one step in which the working tree, the branch and the index move to another commit.
//!
//! Order: the gates of other databases whose files change; `index.lock`; a look at every obstacle; a note of the move.
//! Then the working tree and a copy of the index (`read-tree -m -u`, which leaves alone what somebody has changed);
//! the index; the branch, by compare-and-swap. After a kill or a full disk in between, the next sync finds the note
//! and [resumes](crate::resume).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::{
    Event, GitOutput, GitReason, HindranceKind, IndexLock, Repository, Stop, SyncTurn, as_path,
    neighbours, pull,
};

const UNFINISHED: &str = "a pull has stopped in the middle, the next cycle goes on";

/// The commits that a branch, and for a pull its index and its working tree, move between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Move {
    /// Without `refs/heads/`.
    pub(crate) branch: String,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// The branch moves, unless it is no longer where it was.
pub(crate) fn move_branch(repository: &Repository, way: &Move, why: &str) -> Result<(), Stop> {
    let branch = format!("refs/heads/{}", way.branch);
    let moved = repository
        .git
        .call(["update-ref", "-m", why, &branch, &way.to, &way.from])
        .run()?;
    if moved.status.success() {
        return Ok(());
    }
    let stop = cannot_move(way, &moved);
    repository.check_at(&way.branch, &way.from)?;
    Err(stop)
}

fn cannot_move(way: &Move, answer: &GitOutput) -> Stop {
    answer.refused(&format!("the branch {} cannot move", way.branch))
}

pub(crate) fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

pub(crate) fn travel(turn: &mut SyncTurn<'_>, way: &Move) -> Result<(), Stop> {
    let repository = turn.repository;
    let _others = neighbours::enter(repository, &repository.differing(&way.from, &way.to, None)?)?;
    let lock = IndexLock::take(turn)?;
    repository.check_at(&way.branch, &way.from)?;
    refuse_in_the_way(repository, way)?;
    let scratch = lock.copy()?;
    // read-tree would take a file that was written again with the same content for a change.
    repository
        .git
        .call(["update-index", "-q", "--refresh"])
        .index(&scratch)
        .run()?;
    let could = read_tree(repository, &scratch, &["-n", &way.from, &way.to])?;
    if !could.status.success() {
        return Err(overwritten(repository, &scratch, way, &could)?);
    }
    try_branch(repository, way)?;
    turn.note(way)?;
    let read_tree = |args: [&str; 3]| {
        let moved = read_tree(repository, &scratch, &args)?;
        if moved.status.success() {
            Ok(())
        } else {
            Err(moved.refused(UNFINISHED))
        }
    };
    read_tree(["-u", &way.from, &way.to])?;
    lock.replace()?;
    let moved = move_branch(repository, way, "pull (beadlock-agent)");
    if moved.is_err() {
        lock.copy()?;
        read_tree(["-u", &way.to, &way.from])?;
        lock.put_back()?;
    }
    turn.forget();
    moved
}

/// Why git will not move the working tree: what has been changed since it was looked at, or in another database.
fn overwritten(
    repository: &Repository,
    index: &Path,
    way: &Move,
    said: &GitOutput,
) -> Result<Stop, Stop> {
    let git = &repository.git;
    let list = |args: &[&str]| git.call(args).index(index).words();
    let changed = list(&["diff-files", "-z", "--name-only"])?;
    let staged = list(&[
        "diff-index",
        "-z",
        "--cached",
        "--name-only",
        "--no-renames",
        &way.from,
    ])?;
    let added = repository.differing(&way.from, &way.to, Some("--diff-filter=A"))?;
    let is_there = |path: &Vec<u8>| fs::symlink_metadata(git.dir.join(as_path(path))).is_ok();
    let in_no_commit: BTreeSet<_> = changed
        .into_iter()
        .chain(staged)
        .chain(added.into_iter().filter(is_there))
        .collect();
    let mut paths = repository.differing(&way.from, &way.to, None)?;
    paths.retain(|path| in_no_commit.contains(path));
    let why = match paths.len() {
        // A tree that git does not take: the same words at each try.
        0 if said.last_line().contains("invalid path") => {
            let why = format!("git refuses what a pull would bring: {}", said.last_line());
            return Ok(Stop::notice(
                Event::NotPulling,
                HindranceKind::NotPulling,
                GitReason::RefusedContent,
                why,
            ));
        }
        0 => "files were changed while the pull looked at them; the next cycle looks again"
            .to_owned(),
        _ => format!(
            "a pull would overwrite what is in no commit ({})",
            repository.shown_all(paths)
        ),
    };
    Ok(Stop::notice(
        Event::NotPulling,
        HindranceKind::NotPulling,
        GitReason::InTheWay,
        why,
    ))
}

/// Runs `git read-tree -m`, started in the database. git removes and remakes a directory that it has emptied, but
/// (from 2.35 on) never the one that it was started in. Claims would take the gate of the new one, and not wait.
fn read_tree(repository: &Repository, index: &Path, args: &[&str]) -> Result<GitOutput, Stop> {
    let git = repository.git.started_in(&repository.prefix);
    // Started there, git must not take files of the database for a repository.
    let read_tree = ["-c", "safe.bareRepository=explicit", "read-tree", "-m"];
    git.call(read_tree.iter().chain(args)).index(index).run()
}

/// Whether the branch could move: its locks, and the hook that may refuse.
fn try_branch(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let words = format!(
        "start\nupdate refs/heads/{} {} {}\nprepare\nabort\n",
        way.branch, way.to, way.from
    );
    let tried = repository
        .git
        .call(["update-ref", "--stdin"])
        .stdin(words)
        .run()?;
    if tried.status.success() {
        Ok(())
    } else {
        Err(cannot_move(way, &tried))
    }
}

/// Refuses where git would overwrite ignored files, or remove them with a directory that becomes a file.
fn refuse_in_the_way(repository: &Repository, way: &Move) -> Result<(), Stop> {
    let git = &repository.git;
    let added = repository.differing(&way.from, &way.to, Some("--diff-filter=A"))?;
    let lists = |which: &str, path: &Path| -> Result<bool, Stop> {
        let spec = [b":(top,literal)", path.as_os_str().as_encoded_bytes()].concat();
        Ok(!git
            .call(["ls-files", "-z", which, "--"])
            .paths([spec])
            .words()?
            .is_empty())
    };
    let (mut hindered, mut blocking) = (Vec::new(), BTreeSet::new());
    for name in &added {
        let path = as_path(name);
        for (above, path) in path
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
            .enumerate()
        {
            let Ok(meta) = fs::symlink_metadata(git.dir.join(path)) else {
                continue;
            };
            let is_in_the_way = match (above, meta.is_dir()) {
                (0, true) => repository.prefix.starts_with(path) || lists("--others", path)?,
                (_, true) => false,
                (_, false) => !lists("--cached", path)?,
            };
            if is_in_the_way {
                hindered.push(name);
                blocking.insert(path.to_owned());
                break;
            }
        }
    }
    if hindered.is_empty() {
        return Ok(());
    }
    let blocking: Vec<_> = blocking.into_iter().collect();
    Err(pull::in_the_way(repository, &hindered, &blocking))
}
