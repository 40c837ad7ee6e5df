//! The commit of what changed under a database. It takes nothing else from the user's index and changes nothing else
//! there.
//!
//! The tree is built in an index of our own ([`Draft`]), from the last commit and the changes. Then, under
//! `index.lock`, a copy of the real index learns of the same paths, the copy becomes the index, and the branch moves by
//! compare-and-swap. Where nothing else was staged, and the index is still the same, the draft is that copy. When
//! somebody else commits meanwhile, the index is put back. A crash between the last two steps leaves staged paths,
//! which the next sync commits.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::changes::CommitSeen;
use crate::signing::Unsigned;
use crate::{
    DatabaseChanges, Event, HeldBack, IndexLock, WorktreeMove, begin, held, incoming, index,
    move_branch, rebase, versions,
};
use beadlock_repository::names::{LookedIndex, index_now};
use beadlock_repository::{
    BranchHead, GitReason, Repository, SyncMessage, SyncStop, counted, dolt, entries, hooks,
    name_case, repository_lock, say, short,
};

/// The branch after a commit.
pub(crate) struct Committed {
    pub(crate) head: BranchHead,
    /// The commit of the branch before, when one commit of ours was made; else `None`.
    pub(crate) parent: Option<String>,
    /// The files that were left out of the commit or removed, for the proof at the end.
    pub(crate) seen: CommitSeen,
}

impl Committed {
    /// The branch as it is, where there was nothing to commit.
    fn nothing(head: BranchHead, seen: CommitSeen) -> Self {
        Self {
            head,
            parent: None,
            seen,
        }
    }
}

/// Commits the changes; `looked` is the index that an earlier look has found in order.
pub(crate) fn commit(
    repository: &Repository,
    head: BranchHead,
    looked: Option<&LookedIndex>,
) -> Result<Committed, SyncStop> {
    versions::note(repository, &head.commit);
    let mut changes = DatabaseChanges::of(repository)?;
    name_case::refuse(repository, &changes.gone)?;
    tell_left_out(repository, &changes);
    if changes.is_empty() {
        return Ok(Committed::nothing(head, changes.seen(&HeldBack::default())));
    }
    let turn = begin(repository)?;
    let now = repository.head_of(&head.branch)?;
    if now != head {
        // Another database's sync had its turn before this one.
        changes = DatabaseChanges::of(repository)?;
    }
    let head = now;
    let held = HeldBack::take_out(&turn, &head, &mut changes)?;
    held.say(repository);
    let seen = changes.seen(&held);
    if changes.is_empty() {
        return Ok(Committed::nothing(head, seen));
    }
    let draft = Draft::begin(repository, &head, looked)?;
    let new = draft.make(&changes, &head, &held)?;
    let lock = IndexLock::take(&turn)?;
    repository.check_at(&head.branch, &head.commit)?;
    let is_ready = draft.of_index.is_some() && draft.of_index == index_now(repository);
    if !is_ready {
        let scratch = lock.copy()?;
        changes.stage(&repository.git, &scratch)?;
        as_committed(
            repository,
            new.as_ref().map_or(&head.commit, |new| &new.commit),
            &scratch,
            &held,
        )?;
    }
    lock.replace()?;
    let Some(NewCommit { commit, tree }) = new else {
        return Ok(Committed::nothing(head, seen));
    };
    let way = WorktreeMove {
        branch: head.branch.clone(),
        from: head.commit.clone(),
        to: commit.clone(),
    };
    if let Err(stop) = move_branch(repository, &way, "commit (beadlock-agent)") {
        lock.put_back()?;
        return Err(stop);
    }
    let has = |path: &[u8]| changes.present.iter().any(|present| present == path);
    versions::committed(repository, (&way.from, &way.to), has);
    say(&SyncMessage::CommittedFiles(Box::new(
        changes.committed(repository, &tree),
    )));
    if let Some(stamp) = index_now(repository)
        && is_ready
        && looked.is_some_and(|looked| draft.of_index.as_ref() == Some(&looked.stamp))
    {
        say(&SyncMessage::Looked(LookedIndex {
            stamp,
            copy_of: Some((commit.clone(), tree)),
            warning: looked.and_then(|looked| looked.warning.clone()),
        }));
    }
    drop(lock);
    let files = counted(changes.count(), "file");
    say(&SyncMessage::Committed(
        Event::Committed.line(format_args!("{files} ({})", short(&commit))),
    ));
    hooks::tell(repository, "post-commit", &[]);
    Ok(Committed {
        head: BranchHead {
            commit,
            branch: head.branch,
        },
        parent: Some(head.commit),
        seen,
    })
}

/// Tells the agent which new files are never committed.
fn tell_left_out(repository: &Repository, changes: &DatabaseChanges) {
    say(&changes.left_out.message(repository));
    for line in changes.left_out.lines(repository) {
        say(&SyncMessage::NoticeOnce(line));
    }
}

/// Unstages the text that was written to a file since it was read for the commit: the next commit by hand would take
/// it.
fn as_committed(
    repository: &Repository,
    commit: &str,
    index: &Path,
    held: &HeldBack,
) -> Result<(), SyncStop> {
    let diff_index =
        repository
            .git
            .call(["diff-index", "--cached", "-z", "--no-renames", commit, "--"]);
    let differing = diff_index
        .paths([repository.inside()])
        .index(index)
        .words()?;
    // What somebody has staged of a file that is held back stays staged.
    let differing: Vec<_> = differing
        .chunks_exact(2)
        .filter(|entry| !held.has(&entry[1]))
        .flatten()
        .cloned()
        .collect();
    index::set_back(&repository.git, index, &differing)
}

/// The next commit's tree, in an index of our own.
struct Draft<'a> {
    repository: &'a Repository,
    /// The tree of the last commit.
    before: String,
    /// The user's index of which the draft is a copy: nothing is staged there that is not in the last commit. So with
    /// the changes the draft is also the next index.
    of_index: Option<String>,
}

struct NewCommit {
    commit: String,
    tree: String,
}

impl<'a> Draft<'a> {
    fn begin(
        repository: &'a Repository,
        head: &BranchHead,
        looked: Option<&LookedIndex>,
    ) -> Result<Self, SyncStop> {
        let (git, draft) = (&repository.git, index::scratch(repository));
        let stamp = index_now(repository);
        let known = looked
            .filter(|looked| Some(&looked.stamp) == stamp.as_ref())
            .and_then(|looked| looked.copy_of.clone());
        let known = known.filter(|(commit, _)| *commit == head.commit);
        let is_copy = match &known {
            Some(_) => true,
            None => {
                let staged = git
                    .call(["diff-index", "--cached", "--quiet", &head.commit, "--"])
                    .run()?;
                staged.status.success()
            }
        };
        let before =
            known.map_or_else(|| rebase::tree_of(git, &head.commit), |(_, tree)| Ok(tree))?;
        if is_copy {
            index::copy(repository, &draft)?;
            if repository.request.contents {
                index::forget_age(&draft);
            }
            // Somebody may have staged something meanwhile.
            if stamp.is_some() && stamp == index_now(repository) {
                return Ok(Self {
                    repository,
                    before,
                    of_index: stamp,
                });
            }
        }
        git.call(["read-tree", &head.commit]).index(&draft).done()?;
        Ok(Self {
            repository,
            before,
            of_index: None,
        })
    }

    /// Makes the next commit, on no branch yet; `None` when it would have the tree of the last.
    fn make(
        &self,
        changes: &DatabaseChanges,
        head: &BranchHead,
        held: &HeldBack,
    ) -> Result<Option<NewCommit>, SyncStop> {
        let Self {
            repository, before, ..
        } = self;
        let git = &repository.git;
        let (index, message) = (
            index::scratch(repository),
            repository_lock::own(repository, "message"),
        );
        changes.stage(git, &index)?;
        let are_as_seen = changes.are_as_seen(repository);
        if !are_as_seen {
            held.stage_as_judged(repository, &index)?;
        }
        let write_tree = || git.call(["write-tree"]).index(&index).text();
        let mut tree = write_tree()?;
        if tree == *before {
            return Ok(None);
        }
        let has_hook = hooks::may_be_there(repository, "pre-commit")?;
        if has_hook {
            // The hook may refuse, and may add to the index that it is given.
            hooks::ask(repository, "pre-commit", &[], Some(&index))?;
            held.set_back(repository, &index, &head.commit)?;
            tree = write_tree()?;
        }
        if has_hook || !are_as_seen {
            refuse_strange(repository, before, &tree)?;
            held::refuse_changed(repository, held, (before, &tree))?;
        }
        let text = format!(
            "chore: sync .beads ({})\n",
            counted(changes.count(), "file")
        );
        fs::write(&message, text)
            .map_err(|error| SyncStop::io("cannot write", &message, &error))?;
        let file = message.as_os_str();
        hooks::ask(
            repository,
            "prepare-commit-msg",
            &[file, OsStr::new("message")],
            Some(&index),
        )?;
        hooks::ask(repository, "commit-msg", &[file], Some(&index))?;
        let text =
            fs::read(&message).map_err(|error| SyncStop::io("cannot read", &message, &error))?;
        let unsigned = Unsigned {
            tree: &tree,
            parents: std::slice::from_ref(&head.commit),
            message: &text,
            like: None,
        };
        let commit = unsigned.make(repository)?;
        Ok((tree != *before).then_some(NewCommit { commit, tree }))
    }
}

/// Refuses what a hook has added outside this database, and what has become an SQLite database meanwhile.
fn refuse_strange(repository: &Repository, before: &str, tree: &str) -> Result<(), SyncStop> {
    let entries = entries::changed(&repository.git, before, tree)?;
    let is_strange = |path: &&[u8]| {
        !repository.has(path) || repository.names.is_left_out(path) || dolt::own_dir(path).is_some()
    };
    let strange: Vec<_> = entries
        .iter()
        .map(|entry| entry.path.as_slice())
        .filter(is_strange)
        .collect();
    if !strange.is_empty() {
        let paths = repository.shown_all(strange);
        let why = format!(
            "the hook pre-commit has added {paths}, which is not the agent's to commit; commit that by hand"
        );
        return Err(SyncStop::failed(GitReason::Hook, why));
    }
    let databases = incoming::databases(&repository.git, entries.iter())?;
    let have = match databases.len() {
        0 => return Ok(()),
        1 => "has become an SQLite database",
        _ => "have become SQLite databases",
    };
    let paths = repository.shown_all(databases);
    Err(SyncStop::failed(
        GitReason::Tracked,
        format!("{paths} {have} meanwhile; the next cycle leaves that out"),
    ))
}
