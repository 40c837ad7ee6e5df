//! One sync of one database through git, which never harms the repository (docs/design.md#the-git-action). The agent's
//! `--action git`; it carries no stability promise.
//!
//! A sync is a process of its own, this binary with a hidden first argument: so it keeps the gate and comes to its end
//! also without the agent. It reports to the agent in [messages](message). The `git` program does the work
//! ([`program`]).
//!
//! The agent keeps the [`history`] of a database's syncs. It starts none while a [snapshot](unchanged) proves that
//! nothing has changed and its [`clock`] says that no fetch is due; a fetch has its turn in a [`crowd`], and at its host
//! ([`hosts`]). A database that talks to itself is slowed down ([`loops`]). What syncs leave is packed beside them
//! ([`upkeep`]).
//!
//! Order ([`sync`]):
//! 1. Where it is ([`repository`], [`find`]), who may change what git is led by there ([`owners`]), whether anything is in
//!    [`progress`] or has its [`locks`], and what a sync that was killed has left ([`stage`], [`open_files`]).
//! 2. A database that bd keeps in [`dolt`]. What must not be tracked ([`names`]) or is hidden from git ([`index_flags`]).
//! 3. The [`commit`], with a [signature](signing) where the person's have one, without what is [left out](left_out) or
//!    [held] back. What a program wrote that did not know what had come in is merged first ([`versions`]).
//! 4. Where it comes from and goes to ([`route`], [`place`]); [`push`], when the remote is where it was.
//! 5. Else fetch ([`upstream`]), and [`pull`]: commits are made anew in the object store ([`replay`]), or the upstream
//!    is merged ([`join`]); record files come together by `id` ([`merge`], [`records`], [`kept`]). What must not come in
//!    is refused ([`arriving`], [`programs`]), and the working tree moves ([`travel`], [`stage`]). Then [`push`].
//! 6. The proof that the bytes are at the place ([`truth`]).
//!
//! The [`index`] is changed as git changes it, by one sync at a time ([`turn`]). Obstacles are found before anything
//! changes. Why a sync could not go on is said in words of git's own ([`cause`], [`damage`], [`stop`]).
//!
//! # Limits
//! - When the agent commits while somebody edits the message of `git commit`, git says that the branch has moved, and
//!   that person commits again. A claim keeps the agent away: `beadlock hold -- git commit`.
//! - Merges and signed commits ahead, and conflicts in files that are no records, are left to a person.
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
mod cause;
mod changes;
mod clock;
mod commit;
mod content;
mod contents;
mod conversation;
mod crowd;
mod damage;
mod dolt;
mod embedded;
mod entries;
mod exclude;
mod filters;
mod find;
mod held;
mod history;
mod hooks;
mod host;
mod hosts;
mod index;
mod index_flags;
mod join;
mod kept;
mod known;
mod left_out;
mod locks;
mod loops;
mod merge;
mod message;
mod name_case;
mod names;
mod neighbours;
mod open_files;
mod owners;
mod place;
mod program;
mod programs;
mod progress;
mod pull;
mod push;
mod reason;
mod records;
mod reflog;
mod refs;
mod replay;
mod report;
mod repository;
mod request;
mod route;
mod settings;
mod signing;
mod sqlite;
mod stage;
mod stamp;
mod stop;
mod sync;
mod travel;
mod tree;
mod truth;
mod turn;
mod unchanged;
mod upkeep;
mod upstream;
mod versions;
mod walk;

use std::ffi::OsString;
use std::process::ExitCode;

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::shell::{Part, to_type};
use beadlock_core::log_line::{Event, EventLine};

use self::blobs::Beginnings;
use self::changes::DatabaseChanges;
pub use self::clock::FetchPace;
use self::conversation::{GitOutput, KeptOutput, converse};
pub use self::crowd::{FetchCrowd, FetchTurn};
use self::entries::TreeEntry;
use self::held::Held;
pub use self::history::{SyncHistory, SyncPlan, SyncResult, next_try};
pub use self::host::{HostRefusal, guess_host, is_of_network};
pub use self::hosts::HostLimits;
use self::index::IndexLock;
pub use self::known::{KnownRepository, KnownUpstream};
use self::left_out::LeftOut;
pub use self::loops::SyncTimes;
use self::message::say;
pub use self::message::{Asking, CommittedFiles, HookRun, SyncMessage};
use self::names::{ExcludedNames, is_above, is_database_name, refuse_databases};
pub use self::names::{LookedIndex, is_own_file};
use self::program::{Git, as_path, nul_separated};
use self::push::Pushed;
pub use self::reason::GitReason;
pub use self::report::{Hindrance, HindranceKind, SyncReport, Unpushed};
use self::repository::{BranchHead, Repository, short};
pub use self::request::{ARGUMENT, Network, SyncRequest, Upkeep};
use self::settings::GitSettings;
use self::stage::begin;
use self::stop::{Stop, counted, steady, typed_all};
use self::travel::{Move, move_branch};
use self::turn::{SyncTurn, remove};
pub use self::unchanged::{Snapshot, Subjects};
use self::upstream::{Distance, Upstream};

/// The longest file of settings, of attributes or of a hook that is looked into.
const TEXT_LIMIT: u64 = 16 * 1024 * 1024;

/// The sync's `main`, with the arguments after [`ARGUMENT`].
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(request) = SyncRequest::read(args) else {
        eprintln!("this is for beadlock-agent's own use");
        return ExitCode::from(2);
    };
    if let Some(upkeep) = request.upkeep {
        let _ = upkeep::run(&request, upkeep);
        return ExitCode::SUCCESS;
    }
    program::prepare(request.is_timed);
    sync::report(request);
    say(&SyncMessage::Done);
    ExitCode::SUCCESS
}
