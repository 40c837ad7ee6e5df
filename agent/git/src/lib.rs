//! One sync of one database through git, which never harms the repository (docs/design.md#the-git-action). The agent's
//! `--action git`; it carries no stability promise.
//!
//! A sync is a process of its own, this binary with a hidden first argument: so it keeps the gate and comes to its end
//! also without the agent. It reports to the agent in [messages](message). The `git` program does the work
//! ([`program`]).
//!
//! The agent keeps the [`history`] of a database's syncs. It starts none while a [snapshot](unchanged) proves that
//! nothing has changed and its [`clock`] says that no fetch is due; a fetch has its turn in a [`crowd`].
//!
//! Order ([`sync`]): where it is and whether anything is in progress ([`repository`]); what must not be tracked
//! ([`names`]); the commit ([`commit`]); where it is pushed to ([`place`], [`route`]); [`push`], when the remote is where
//! it was. Else fetch ([`upstream`]); the upstream is merged where the place is another branch ([`join`]); then [`pull`], which rebases in the object store ([`replay`]), refuses what must not come in ([`arriving`]) and moves the
//! working tree ([`travel`]), and [`push`]. The [`index`] is changed as git changes it, by one sync at a time
//! ([`turn`]). Obstacles are found before anything changes, and the next sync finishes an interrupted move
//! ([`resume`]).
//!
//! # Limits
//! - When the agent commits while somebody edits the message of `git commit`, git says that the branch has moved, and
//!   that person commits again. A claim keeps the agent away: `beadlock hold -- git commit`.
//! - Conflicts, merges and signed commits ahead are left to a person.
//! - In a linked worktree or a submodule, nothing is pulled into the repository around it.

#![forbid(unsafe_code)]
#![expect(
    rustdoc::private_intra_doc_links,
    reason = "the modules are the map of the house, for who reads the code"
)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

mod arriving;
mod blobs;
mod changes;
mod clock;
mod commit;
mod conversation;
mod crowd;
mod embedded;
mod entries;
mod find;
mod history;
mod hooks;
mod index;
mod join;
mod known;
mod message;
mod names;
mod neighbours;
mod place;
mod program;
mod pull;
mod push;
mod reason;
mod refs;
mod replay;
mod report;
mod repository;
mod request;
mod resume;
mod route;
mod secrets;
mod settings;
mod sqlite;
mod stop;
mod sync;
mod travel;
mod turn;
mod unchanged;
mod upstream;

use std::ffi::OsString;
use std::process::ExitCode;

use beadlock_checker::internal::escape::{escaped, escaped_path};
use beadlock_checker::internal::log_line::Event;
use beadlock_checker::internal::shell::{Part, to_type};

use self::blobs::Beginnings;
use self::changes::DatabaseChanges;
pub use self::clock::FetchPace;
use self::conversation::{GitOutput, KeptOutput, converse};
pub use self::crowd::{FetchCrowd, FetchTurn, guess_host};
use self::entries::TreeEntry;
pub use self::history::{SyncHistory, SyncPlan, SyncResult};
use self::index::IndexLock;
pub use self::known::{KnownRepository, KnownUpstream};
pub use self::message::SyncMessage;
use self::message::say;
use self::names::{ExcludedNames, refuse_databases};
pub use self::names::{LookedIndex, is_own_file};
use self::program::{Git, as_path, nul_separated};
use self::push::Pushed;
pub use self::reason::GitReason;
pub use self::report::{Hindrance, HindranceKind, SyncReport, Unpushed};
use self::repository::{BranchHead, Repository};
pub use self::request::{ARGUMENT, Network, SyncRequest};
use self::resume::begin;
use self::settings::GitSettings;
use self::stop::{Stop, counted, typed_all};
use self::travel::{Move, move_branch, short};
use self::turn::{SyncTurn, remove};
pub use self::unchanged::{Snapshot, Subjects};
use self::upstream::{Distance, Upstream};

/// The sync's `main`, with the arguments after [`ARGUMENT`].
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(request) = SyncRequest::parse(args) else {
        eprintln!("this is for beadlock-agent's own use");
        return ExitCode::from(2);
    };
    program::prepare(request.is_timed);
    sync::report(request);
    say(&SyncMessage::Done);
    ExitCode::SUCCESS
}
