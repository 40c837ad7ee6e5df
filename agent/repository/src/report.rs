//! The result of a sync, for the state of its database.

use serde::{Deserialize, Serialize};

use crate::GitReason;

/// The result of one sync that ran to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncReport {
    /// Commits of this branch that no remote has, as far as is known here.
    pub unpushed: Unpushed,
    /// Commits of the upstream that are not pulled.
    pub behind: u64,
    /// This sync has pushed something.
    pub has_pushed: bool,
    /// The remote has told in this sync where it is.
    #[serde(default)]
    pub has_asked: bool,
    /// Why not everything is at the remote, and everything of the remote here; `None`: nothing is missing.
    pub hindrance: Option<Hindrance>,
    /// Files that are not committed because of what they are, from the top, sorted, escaped for people; of many the
    /// last entry says how many more there are. A directory of which all is left out ends in a slash.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// How many files and directories are left out.
    #[serde(default)]
    pub left_out_count: u64,
    /// Files that were being written during this sync, for people; "" without any. The next one looks at them again.
    #[serde(default)]
    pub writing: String,
}

/// Commits that wait to be pushed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unpushed {
    /// How many commits wait.
    pub commits: u64,
    /// When the oldest of them was committed, in Unix seconds; `None` without commits.
    pub oldest: Option<i64>,
}

/// The reason why a database is not synced, and what to type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hindrance {
    /// Which state it leads to.
    pub kind: HindranceKind,
    /// The reason as a word, for metrics and for comparing.
    pub reason: GitReason,
    /// One sentence without its full stop, for people.
    pub why: String,
    /// The command to type, where there is one.
    pub next: Option<String>,
}

/// Which state a hindrance leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HindranceKind {
    /// The sync failed: somebody has to act before anything is synced.
    Failed,
    /// Nothing is pushed, whatever there is to push.
    NotPushing,
    /// The upstream's commits are not pulled.
    NotPulling,
    /// There is nothing to sync: git has no file of the database.
    Idle,
    /// The database is one that the sync cannot serve.
    NotServing,
    /// The remote does not answer, or cannot be asked.
    Unreachable,
}
