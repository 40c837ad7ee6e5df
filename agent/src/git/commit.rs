//! The commit of what changed under a database. It takes nothing else from the user's index and changes nothing else
//! there.
//!
//! The tree is built in an index of our own, from the last commit and the changes. Then, under `index.lock`, a copy of
//! the real index learns of the same paths, the copy becomes the index, and the branch moves by compare-and-swap. When
//! somebody else commits meanwhile, the index is put back. A crash between the last two steps leaves staged paths,
//! which the next sync commits.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::{
    BranchHead, DatabaseChanges, Event, IndexLock, Move, Repository, Stop, SyncMessage, arriving, begin, counted,
    entries, hooks, index, move_branch, replay, say, short, turn,
};

/// Commits what changed. Returns where the branch is then.
pub(super) fn commit(repository: &Repository, head: BranchHead) -> Result<BranchHead, Stop> {
    let mut changes = DatabaseChanges::of(repository)?;
    if !changes.repositories.is_empty() {
        let paths = repository.shown_all(&changes.repositories);
        let line = Event::NotCommitting.line(format_args!("{paths}, a git repository of its own"));
        say(&SyncMessage::Notice(line));
    }
    if changes.is_empty() {
        return Ok(head);
    }
    let turn = begin(repository)?;
    let now = repository.head_of(&head.branch)?;
    if now != head {
        // Another database's sync had its turn before this one.
        changes = DatabaseChanges::of(repository)?;
    }
    let head = now;
    let new = make(repository, &changes, &head)?;
    let lock = IndexLock::take(&turn)?;
    repository.check_at(&head.branch, &head.commit)?;
    let scratch = lock.copy()?;
    changes.stage(&repository.git, &scratch)?;
    as_committed(repository, new.as_ref().unwrap_or(&head.commit), &scratch)?;
    lock.replace()?;
    let Some(commit) = new else { return Ok(head) };
    let way = Move { branch: head.branch.clone(), from: head.commit, to: commit.clone() };
    if let Err(stop) = move_branch(repository, &way, "commit (beadlock-agent)") {
        lock.put_back()?;
        return Err(stop);
    }
    drop(lock);
    let files = counted(changes.count(), "file");
    say(&SyncMessage::Committed(Event::Committed.line(format_args!("{files} ({})", short(&commit)))));
    hooks::tell(&repository.git, "post-commit", &[]);
    Ok(BranchHead { commit, branch: head.branch })
}

/// Unstages what was written to a file since it was read for the commit: the next commit by hand would take it.
fn as_committed(repository: &Repository, commit: &str, index: &Path) -> Result<(), Stop> {
    let diff_index = repository.git.call(["diff-index", "--cached", "-z", "--no-renames", commit, "--"]);
    let differing = diff_index.paths([repository.inside()]).index(index).words()?;
    index::set_back(&repository.git, index, &differing)
}

/// Makes the next commit, on no branch yet; `None` when it would have the tree of the last.
fn make(repository: &Repository, changes: &DatabaseChanges, head: &BranchHead) -> Result<Option<String>, Stop> {
    let git = &repository.git;
    let (index, message) = (index::scratch(repository), turn::own(repository, "message"));
    git.call(["read-tree", &head.commit]).index(&index).done()?;
    changes.stage(git, &index)?;
    let before = replay::tree_of(git, &head.commit)?;
    let write_tree = || git.call(["write-tree"]).index(&index).text();
    if write_tree()? == before {
        return Ok(None);
    }
    // The hook may refuse, and may add to the index that it is given.
    hooks::ask(git, "pre-commit", &[], Some(&index))?;
    let tree = write_tree()?;
    refuse_strange(repository, &before, &tree)?;
    let text = format!("chore: sync .beads ({})\n", counted(changes.count(), "file"));
    fs::write(&message, text).map_err(|error| Stop::io("cannot write", &message, &error))?;
    let file = message.as_os_str();
    hooks::ask(git, "prepare-commit-msg", &[file, OsStr::new("message")], Some(&index))?;
    hooks::ask(git, "commit-msg", &[file], Some(&index))?;
    let commit_tree = git.call(["commit-tree", &tree, "-p", &head.commit, "-F"]);
    let commit = commit_tree.paths([file.as_encoded_bytes()]).text()?;
    Ok((tree != before).then_some(commit))
}

/// Refuses what a hook has added outside this database, and what has become an SQLite database meanwhile.
fn refuse_strange(repository: &Repository, before: &str, tree: &str) -> Result<(), Stop> {
    let entries = entries::changed(&repository.git, before, tree)?;
    let is_strange = |path: &&[u8]| !repository.has(path) || repository.names.is_left_out(path);
    let strange: Vec<_> = entries.iter().map(|entry| entry.path.as_slice()).filter(is_strange).collect();
    if !strange.is_empty() {
        let paths = repository.shown_all(strange);
        let why =
            format!("the hook pre-commit has added {paths}, which is not the agent's to commit; commit that by hand");
        return Err(Stop::failed("hook", why));
    }
    let databases = arriving::databases(&repository.git, entries.iter())?;
    let have = match databases.len() {
        0 => return Ok(()),
        1 => "has become an SQLite database",
        _ => "have become SQLite databases",
    };
    let paths = repository.shown_all(databases);
    Err(Stop::failed("tracked", format!("{paths} {have} meanwhile; the next cycle leaves that out")))
}
