//! What a sync has found out, for the state of its database (`crate::state`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The result of one sync that ran to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SyncReport {
    /// Commits of this branch that no remote has, as far as is known here.
    pub(crate) unpushed: Unpushed,
    /// Commits of the upstream that are not pulled.
    pub(crate) behind: u64,
    /// This sync has pushed something.
    pub(crate) has_pushed: bool,
    /// Why not everything is at the remote, and everything of the remote here; `None`: nothing is missing.
    pub(crate) hindrance: Option<Hindrance>,
}

/// Commits that wait to be pushed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unpushed {
    pub(crate) commits: u64,
    /// When the oldest of them was committed, in Unix seconds; `None` without commits.
    pub(crate) oldest: Option<i64>,
}

/// What keeps a database from being synced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hindrance {
    pub(crate) kind: HindranceKind,
    /// One word of a short list, for metrics and for comparing: `conflict`, `no_upstream`, `remote_unreachable`, …
    pub(crate) reason: Cow<'static, str>,
    /// One sentence without its full stop, for people.
    pub(crate) why: String,
    /// The command to type, where there is one.
    pub(crate) next: Option<String>,
}

/// Which state a hindrance leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HindranceKind {
    /// The sync failed: somebody has to act before anything is synced.
    Failed,
    /// Nothing is pushed, whatever there is to push.
    NotPushing,
    /// The upstream's commits are not pulled.
    NotPulling,
    /// The remote does not answer, or cannot be asked.
    Unreachable,
}
