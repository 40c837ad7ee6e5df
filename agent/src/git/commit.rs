//! The commit of what changed under a database: nothing else of the user's index goes into it, and nothing else of the
//! index changes.
//!
//! The tree is built in an index of our own, from the last commit and the changes. Then, under `index.lock`, the branch
//! moves by compare-and-swap and the real index learns of the same paths. A commit that somebody else makes meanwhile
//! wins; a crash between the two leaves paths that look staged, which the next sync puts right.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::changes::Changes;
use super::hooks;
use super::index::{self, IndexLock, Move};
use super::names::Names;
use super::repository::{Head, Repository};
use super::word::{Word, say};
use super::{Stop, lock_came};

/// Commits what changed. Returns where the branch is then.
pub(super) fn commit(repository: &Repository, names: &Names, head: Head) -> Result<Head, Stop> {
    let changes = Changes::of(repository, names)?;
    if !changes.repositories.is_empty() {
        let paths = repository.shown_all(changes.repositories.iter().map(Vec::as_slice));
        say(&Word::Notice(format!("Not committing: {paths}, a git repository of its own")));
    }
    if changes.is_empty() {
        return Ok(head);
    }
    let new = tree(repository, &changes, &head)
        .and_then(|tree| tree.map(|tree| make(repository, &changes, &head, &tree)).transpose());
    index::remove(&index::scratch(repository));
    let new = new?;
    lock_came(repository)?;
    let lock = IndexLock::take(repository, None)?;
    if let Some(new) = &new {
        let way = Move { branch: head.branch.clone(), from: head.commit.clone(), to: new.clone() };
        move_branch(repository, &way, "commit (beadlock-agent)")?;
    }
    let scratch = lock.copy()?;
    changes.stage(&repository.git, &scratch)?;
    as_committed(repository, new.as_ref().unwrap_or(&head.commit), &scratch)?;
    lock.replace()?;
    let Some(commit) = new else { return Ok(head) };
    let (count, short) = (changes.count(), short(&commit));
    say(&Word::Committed(format!(
        "Committed {count} {} ({short})",
        if count == 1 { "file" } else { "files" }
    )));
    hooks::tell(repository, "post-commit", &[]);
    Ok(Head { commit, ..head })
}

/// What was written to a file since it was read for the commit is not staged: an index that is ahead of the branch would
/// go into the next commit that somebody makes by hand.
fn as_committed(repository: &Repository, commit: &str, index: &Path) -> Result<(), Stop> {
    let inside = repository.inside();
    let args = ["diff-index", "--cached", "-z", "--no-renames", commit, "--"].map(OsStr::new);
    let args = args.into_iter().chain([OsStr::from_bytes(&inside)]);
    let differing = repository.git.call(args).index(index).words()?;
    let mut entries = Vec::new();
    for entry in differing.chunks_exact(2) {
        // `:MODE MODE HASH HASH STATUS`, the first of each as committed.
        let fields: Vec<_> = entry[0].split(|byte| *byte == b' ').collect();
        if let [mode, _, hash, ..] = fields.as_slice() {
            let mode = mode.strip_prefix(b":").unwrap_or(mode);
            entries.extend([mode, b" ", hash, b"\t", &entry[1], b"\0"].concat());
        }
    }
    if !entries.is_empty() {
        repository.git.call(["update-index", "-z", "--index-info"]).index(index).stdin(entries).done()?;
    }
    Ok(())
}

/// The branch moves, unless it is no longer where it was, or no longer the one that is checked out.
pub(super) fn move_branch(repository: &Repository, way: &Move, why: &str) -> Result<(), Stop> {
    let git = &repository.git;
    let branch = format!("refs/heads/{}", way.branch);
    if git.call(["symbolic-ref", "-q", "HEAD"]).run()?.ok_text().as_ref() != Some(&branch) {
        return Err(Stop::refused(format!(
            "somebody has switched from {} to another branch meanwhile",
            way.branch
        )));
    }
    let moved = git.call(["update-ref", "-m", why, &branch, &way.to, &way.from]).run()?;
    if moved.status.success() {
        return Ok(());
    }
    Err(Stop::refused(format!("somebody else has moved the branch meanwhile: {}", moved.last_line())))
}

/// The first seven digits.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

/// The tree of the next commit; `None` when it is that of the last.
fn tree(repository: &Repository, changes: &Changes, head: &Head) -> Result<Option<String>, Stop> {
    let (git, scratch) = (&repository.git, index::scratch(repository));
    git.call(["read-tree", &head.commit]).index(&scratch).done()?;
    changes.stage(git, &scratch)?;
    let before = git.text(["rev-parse", &format!("{}^{{tree}}", head.commit)])?;
    if git.call(["write-tree"]).index(&scratch).text()? == before {
        return Ok(None);
    }
    // It may refuse, and it may add to the index that it is given.
    hooks::ask(repository, "pre-commit", &[], Some(&scratch))?;
    let tree = git.call(["write-tree"]).index(&scratch).text()?;
    Ok((tree != before).then_some(tree))
}

fn make(repository: &Repository, changes: &Changes, head: &Head, tree: &str) -> Result<String, Stop> {
    let message = repository.git_dir.join(format!("{}.message", repository.key));
    let made = make_with(repository, changes, head, tree, &message);
    index::remove(&message);
    made
}

fn make_with(
    repository: &Repository,
    changes: &Changes,
    head: &Head,
    tree: &str,
    message: &Path,
) -> Result<String, Stop> {
    let count = changes.count();
    let text = format!("chore: sync .beads ({count} {})\n", if count == 1 { "file" } else { "files" });
    index::remove(message);
    fs::write(message, text).map_err(|error| Stop::io("cannot write", message, &error))?;
    let (file, scratch) = (message.as_os_str(), index::scratch(repository));
    hooks::ask(repository, "prepare-commit-msg", &[file, OsStr::new("message")], Some(&scratch))?;
    hooks::ask(repository, "commit-msg", &[file], Some(&scratch))?;
    let args = ["commit-tree", tree, "-p", &head.commit, "-F"].map(OsStr::new);
    repository.git.call(args.into_iter().chain([file])).text()
}
