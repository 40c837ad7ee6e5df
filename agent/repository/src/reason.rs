//! Why a database is not synced, in one word.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a database is not synced: the word in the state of the database, in metrics and in JSON.
///
/// Users compare these words, so none may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GitReason {
    /// The database is not in a repository.
    NoRepository,
    /// No branch is checked out.
    DetachedHead,
    /// The branch has no commit yet.
    NoCommit,
    /// A merge, a rebase or the like is not finished, or a pull has stopped in the middle.
    InProgress,
    /// The commits ahead change the same lines as the upstream's.
    Conflict,
    /// Files have conflicts from a merge that nobody has resolved.
    Unmerged,
    /// The upstream has lost commits that this branch was built on.
    Rewritten,
    /// The upstream has no commit in common with the branch.
    Unrelated,
    /// A hook has failed, or has added a file that a sync does not commit.
    Hook,
    /// Git tracks, or would commit, a file that must never be committed.
    Tracked,
    /// The working tree cannot be synced: a linked one without `--allow-worktree`, or one that git sees elsewhere.
    Worktree,
    /// The repository belongs to another user.
    WrongOwner,
    /// The database, or the directory above it, has the files of a repository of its own.
    Embedded,
    /// Not all commits ahead come from a sync.
    ForeignCommits,
    /// The remote refuses the push.
    PushRefused,
    /// Files outside the database have changes that are not committed.
    DirtyTree,
    /// A pull would overwrite files that are in no commit.
    InTheWay,
    /// A program has a file locked, or writes to it all the time.
    InUse,
    /// A record file has lines that are no records, or has lost most of its records.
    Held,
    /// The upstream has a file that must not come in.
    RefusedContent,
    /// There is a merge among the commits ahead.
    MergeAhead,
    /// There is a signed commit among the commits ahead.
    SignedAhead,
    /// The remote does not answer.
    RemoteUnreachable,
    /// The remote answers, and the push fails.
    CannotPush,
    /// The repository has no remote.
    NoRemote,
    /// The branch has no upstream.
    NoUpstream,
    /// Pushing is switched off by a setting of git's.
    PushOff,
    /// `git push` would refuse, or would do more than push this branch.
    NoPlace,
    /// Another program, or another sync, has locked the index for too long.
    IndexLocked,
    /// A call of git has failed, or git is not installed.
    GitFailed,
    /// Git does not know who commits.
    NoIdentity,
    /// A commit or a push is to be signed, and cannot be.
    Signing,
    /// HEAD, a branch, the index or an object is damaged, as after a power loss.
    Damaged,
    /// Another git has locked HEAD or a branch for too long, or has left its lock.
    RefLocked,
    /// A file of the repository belongs to another user, and cannot be written.
    NotWritable,
    /// Git refuses to take in a file, as for a filter that fails.
    GitRefuses,
    /// Somebody has set the branch back, and a pull would undo that.
    WentBack,
    /// The remote had the upstream's branch, and no longer has it.
    UpstreamGone,
    /// The clone is shallow, and what it has does not reach back to the upstream.
    Shallow,
    /// The sync was told to end.
    Killed,
    /// The database was claimed while the sync was at work.
    Claimed,
    /// A pull would change another database in the repository, which is claimed.
    Neighbour,
    /// Others were faster: at the remote, on the branch, or by a switch to another one.
    Raced,
    /// The index tells git not to look at files of the database.
    IndexFlags,
    /// The sparse checkout leaves the database out.
    Sparse,
    /// No file of the database is in git.
    NothingInGit,
    /// The database is in Dolt, and git has no record file of it.
    Dolt,
    /// Git ignores a record file of the database.
    Ignored,
    /// A record file is a link: what it leads to is not in git.
    Link,
    /// Each sync makes something write into the database: it waits before it commits that.
    Loop,
    /// The remote has not told for too long where it is.
    NotAsked,
    /// The host takes no more pushes for a moment.
    Paced,
    /// A filter gives back other bytes than it was given.
    Filter,
    /// A file is for git-lfs, which is not set up here.
    Lfs,
    /// A name in git and the name of the file differ in case alone.
    NameCase,
    /// A directory of the database is a repository of its own.
    NestedRepository,
    /// A file here is not what the remote has, for a reason that is not known.
    NotAtPlace,
    /// A system call on a file has failed.
    Io,
    /// A call of git, or the whole sync, has taken too long.
    TimedOut,
}

impl GitReason {
    /// The reason as a word: `no_upstream`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoRepository => "no_repository",
            Self::DetachedHead => "detached_head",
            Self::NoCommit => "no_commit",
            Self::InProgress => "in_progress",
            Self::Conflict => "conflict",
            Self::Unmerged => "unmerged",
            Self::Rewritten => "rewritten",
            Self::Unrelated => "unrelated",
            Self::Hook => "hook",
            Self::Tracked => "tracked",
            Self::Worktree => "worktree",
            Self::WrongOwner => "wrong_owner",
            Self::Embedded => "embedded",
            Self::ForeignCommits => "foreign_commits",
            Self::PushRefused => "push_refused",
            Self::DirtyTree => "dirty_tree",
            Self::InTheWay => "in_the_way",
            Self::InUse => "in_use",
            Self::Held => "held",
            Self::RefusedContent => "refused_content",
            Self::MergeAhead => "merge_ahead",
            Self::SignedAhead => "signed_ahead",
            Self::RemoteUnreachable => "remote_unreachable",
            Self::CannotPush => "cannot_push",
            Self::NoRemote => "no_remote",
            Self::NoUpstream => "no_upstream",
            Self::PushOff => "push_off",
            Self::NoPlace => "no_place",
            Self::IndexLocked => "index_locked",
            Self::GitFailed => "git_failed",
            Self::NoIdentity => "no_identity",
            Self::Signing => "signing",
            Self::Damaged => "damaged",
            Self::RefLocked => "ref_locked",
            Self::NotWritable => "not_writable",
            Self::GitRefuses => "git_refuses",
            Self::WentBack => "went_back",
            Self::UpstreamGone => "upstream_gone",
            Self::Shallow => "shallow",
            Self::Killed => "killed",
            Self::Claimed => "claimed",
            Self::Neighbour => "neighbour",
            Self::Raced => "raced",
            Self::IndexFlags => "index_flags",
            Self::Sparse => "sparse",
            Self::NothingInGit => "nothing_in_git",
            Self::Dolt => "dolt",
            Self::Ignored => "ignored",
            Self::Link => "link",
            Self::Loop => "loop",
            Self::NotAsked => "not_asked",
            Self::Paced => "paced",
            Self::Filter => "filter",
            Self::Lfs => "lfs",
            Self::NameCase => "name_case",
            Self::NestedRepository => "nested_repository",
            Self::NotAtPlace => "not_at_place",
            Self::Io => "io",
            Self::TimedOut => "timed_out",
        }
    }

    /// Whether the reason holds for as long as nothing changes here. Any other may be over by the next sync, without a
    /// change that the agent can see.
    pub fn is_lasting(self) -> bool {
        match self {
            Self::NoRepository
            | Self::DetachedHead
            | Self::NoCommit
            | Self::InProgress
            | Self::Conflict
            | Self::Unmerged
            | Self::Rewritten
            | Self::Unrelated
            | Self::Hook
            | Self::Tracked
            | Self::Worktree
            | Self::WrongOwner
            | Self::Embedded
            | Self::ForeignCommits
            | Self::PushRefused
            | Self::DirtyTree
            | Self::InTheWay
            | Self::Held
            | Self::RefusedContent
            | Self::MergeAhead
            | Self::SignedAhead
            | Self::RemoteUnreachable
            | Self::CannotPush
            | Self::NoRemote
            | Self::NoUpstream
            | Self::NoIdentity
            | Self::WentBack
            | Self::UpstreamGone
            | Self::Shallow
            | Self::PushOff
            | Self::NoPlace
            | Self::IndexFlags
            | Self::Sparse
            | Self::NothingInGit
            | Self::Dolt
            | Self::Ignored
            | Self::Link
            | Self::Filter
            | Self::Lfs
            | Self::NameCase
            | Self::NestedRepository => true,
            Self::IndexLocked
            | Self::InUse
            | Self::GitFailed
            | Self::Damaged
            | Self::RefLocked
            | Self::NotWritable
            | Self::GitRefuses
            | Self::Signing
            | Self::Killed
            | Self::Claimed
            | Self::Neighbour
            | Self::Raced
            | Self::NotAtPlace
            | Self::Loop
            | Self::NotAsked
            | Self::Paced
            | Self::Io
            | Self::TimedOut => false,
        }
    }

    /// Whether a sync goes to the remote when a fetch is due. Without a remote or an upstream there is nothing to ask,
    /// and of a Dolt database nothing is pulled.
    pub fn needs_remote(self) -> bool {
        match self {
            Self::NoRemote | Self::NoUpstream | Self::Dolt => false,
            Self::NoRepository
            | Self::DetachedHead
            | Self::NoCommit
            | Self::InProgress
            | Self::Conflict
            | Self::Unmerged
            | Self::Rewritten
            | Self::Unrelated
            | Self::Hook
            | Self::Tracked
            | Self::Worktree
            | Self::WrongOwner
            | Self::Embedded
            | Self::ForeignCommits
            | Self::PushRefused
            | Self::DirtyTree
            | Self::InTheWay
            | Self::InUse
            | Self::Held
            | Self::RefusedContent
            | Self::MergeAhead
            | Self::SignedAhead
            | Self::RemoteUnreachable
            | Self::CannotPush
            | Self::PushOff
            | Self::NoPlace
            | Self::IndexLocked
            | Self::GitFailed
            | Self::NoIdentity
            | Self::Damaged
            | Self::RefLocked
            | Self::NotWritable
            | Self::GitRefuses
            | Self::Signing
            | Self::WentBack
            | Self::UpstreamGone
            | Self::Shallow
            | Self::Killed
            | Self::Claimed
            | Self::Neighbour
            | Self::Raced
            | Self::IndexFlags
            | Self::Sparse
            | Self::NothingInGit
            | Self::Ignored
            | Self::Link
            | Self::Filter
            | Self::Lfs
            | Self::NameCase
            | Self::NestedRepository
            | Self::NotAtPlace
            | Self::Loop
            | Self::NotAsked
            | Self::Paced
            | Self::Io
            | Self::TimedOut => true,
        }
    }
}

impl fmt::Display for GitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every word, whether it is lasting, and whether it needs the remote.
    const WORDS: [(&str, bool, bool); 58] = [
        ("no_repository", true, true),
        ("detached_head", true, true),
        ("no_commit", true, true),
        ("in_progress", true, true),
        ("conflict", true, true),
        ("unmerged", true, true),
        ("rewritten", true, true),
        ("unrelated", true, true),
        ("hook", true, true),
        ("tracked", true, true),
        ("worktree", true, true),
        ("wrong_owner", true, true),
        ("embedded", true, true),
        ("foreign_commits", true, true),
        ("push_refused", true, true),
        ("dirty_tree", true, true),
        ("in_the_way", true, true),
        ("held", true, true),
        ("refused_content", true, true),
        ("merge_ahead", true, true),
        ("signed_ahead", true, true),
        ("remote_unreachable", true, true),
        ("cannot_push", true, true),
        ("no_remote", true, false),
        ("no_upstream", true, false),
        ("push_off", true, true),
        ("no_place", true, true),
        ("index_locked", false, true),
        ("git_failed", false, true),
        ("no_identity", true, true),
        ("signing", false, true),
        ("damaged", false, true),
        ("ref_locked", false, true),
        ("not_writable", false, true),
        ("git_refuses", false, true),
        ("went_back", true, true),
        ("upstream_gone", true, true),
        ("shallow", true, true),
        ("killed", false, true),
        ("claimed", false, true),
        ("neighbour", false, true),
        ("raced", false, true),
        ("index_flags", true, true),
        ("sparse", true, true),
        ("nothing_in_git", true, true),
        ("dolt", true, false),
        ("ignored", true, true),
        ("link", true, true),
        ("loop", false, true),
        ("not_asked", false, true),
        ("paced", false, true),
        ("filter", true, true),
        ("lfs", true, true),
        ("name_case", true, true),
        ("nested_repository", true, true),
        ("not_at_place", false, true),
        ("io", false, true),
        ("timed_out", false, true),
    ];

    #[test]
    fn a_word_is_the_same_in_a_message_and_in_the_state() {
        for (word, is_lasting, needs_remote) in WORDS {
            let json = format!("\"{word}\"");
            let reason: GitReason = serde_json::from_str(&json).unwrap();
            assert_eq!(reason.as_str(), word);
            assert_eq!(serde_json::to_string(&reason).unwrap(), json);
            assert_eq!(reason.is_lasting(), is_lasting, "{word}");
            assert_eq!(reason.needs_remote(), needs_remote, "{word}");
        }
        assert!(serde_json::from_str::<GitReason>("\"unheard_of\"").is_err());
    }
}
