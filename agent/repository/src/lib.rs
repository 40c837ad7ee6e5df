//! The git repository around a database: where it is, what it says, and why git cannot go on in it
//! (docs/design.md#the-git-action). The sync, `beadlock-git`, stands on it; siblings alone use it and pin it with `=`.
//!
//! - **git.** Each answer is a [call](program) of the `git` program, that asks nobody and comes to an end.
//! - **The repository** is [found](find) around a database, and [known](repository_facts) again by the next sync. Who
//!   may change what git is led by there is asked of its [`owners`]. Its [`settings`] name the [`upstream`], and the
//!   [`place`] that a push goes to.
//! - **Files.** [Names](names) that must not be tracked, files that are [left out](left_out) of a commit or hidden from
//!   git ([`index_flags`]), [filters] and [hooks] that git starts, databases of [SQLite](sqlite) and
//!   [Dolt](dolt). A [`FileTree`](tree) keeps to one directory, whoever swaps what is in it.
//! - **Others.** What is in [`progress`], whose [`locks`] are there, and the [`repository_lock`] of a sync.
//! - **Words.** A [`SyncStop`] says why a sync ends early, in the log's words and in one of the reasons of
//!   [`GitReason`]; the cause is read from what git has said ([`cause`], [`damage`]). A sync talks to the agent in
//!   [messages](message), and answers a [request](SyncRequest) with a [report](SyncReport).
//!
//! Nothing here commits, fetches, pulls or pushes.

#![forbid(unsafe_code)]
#![expect(
    rustdoc::private_intra_doc_links,
    reason = "the modules are the map of the house, for who reads the code"
)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod blob_cache;
pub mod blobs;
mod call;
pub mod cause;
pub mod content;
mod damage;
pub mod dolt;
pub mod embedded;
pub mod entries;
pub mod filters;
mod find;
pub mod hooks;
mod host;
mod index_flags;
mod left_out;
mod locks;
pub mod message;
pub mod name_case;
pub mod names;
pub mod owners;
pub mod place;
pub mod program;
pub mod progress;
mod reason;
pub mod reflog;
mod refs;
mod report;
mod repository;
pub mod repository_facts;
pub mod repository_lock;
mod request;
mod settings;
pub mod sqlite;
pub mod stamp;
pub mod stop;
pub mod tree;
pub mod upstream;
pub mod walk;

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::shell::{Part, to_type};
use beadlock_core::log_line::{Event, EventLine};

use self::blobs::Beginnings;
pub use self::call::GitOutput;
use self::call::{KeptOutput, converse};
pub use self::entries::TreeEntry;
pub use self::host::{HostRefusal, guess_host, is_of_network};
pub use self::left_out::LeftOut;
pub use self::message::{Asking, CommittedFiles, HookRun, SyncMessage, say};
pub use self::names::{
    ExcludedNames, LookedIndex, is_above, is_database_name, is_own_file, refuse_databases,
};
pub use self::program::{Git, as_path, nul_separated};
pub use self::reason::GitReason;
pub use self::report::{Hindrance, HindranceKind, SyncReport, Unpushed};
pub use self::repository::{BranchHead, Repository, short};
pub use self::repository_facts::{RepositoryFacts, UpstreamFacts};
pub use self::repository_lock::{RepositoryLock, remove};
pub use self::request::{ARGUMENT, Network, SyncRequest, Upkeep};
pub use self::settings::GitSettings;
use self::stop::steady;
pub use self::stop::{SyncStop, counted, typed_all};
pub use self::upstream::{Distance, Upstream};

/// The longest file of settings, of attributes or of a hook that is looked into.
pub const TEXT_LIMIT: u64 = 16 * 1024 * 1024;
