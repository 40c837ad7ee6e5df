//! One sync of one database through git, which never harms the repository (docs/design.md#the-git-action). It is the
//! agent's `--action git`; siblings alone use it and pin it with `=`.
//!
//! A sync is a process of its own, this binary with a hidden first argument: so it keeps the gate and comes to its end
//! also without the agent. It reports to the agent in [messages](SyncMessage). The `git` program does the work; what
//! reads the repository, and knows why git cannot go on, is the crate [`beadlock_repository`].
//!
//! The agent keeps the [`history`] of a database's syncs. It starts none while a [snapshot](unchanged) proves that
//! nothing has changed and its [`fetch_schedule`] says that no fetch is due; a fetch has its turn in a [`fetch_limit`],
//! and at its host ([`hosts`]). A database that talks to itself is slowed down ([`loops`]). The loose objects of syncs
//! are packed beside them ([`upkeep`]).
//!
//! Order ([`sync`]):
//! 1. Where it is ([`Repository`]), who may change what git is led by there ([`owners`]), whether anything is in
//!    [`progress`] or has its locks, and what a sync that was killed has left ([`stage`], [`open_files`]).
//! 2. A database that bd keeps in [`dolt`]. What must not be tracked ([`names`]) or is hidden from git.
//! 3. The [`commit`], with a [signature](signing) where the person's have one, without what is left out ([`LeftOut`])
//!    or [held] back. What a program wrote that did not know what had come in is merged first ([`versions`]).
//! 4. Where it comes from and goes to ([`route`], [`place`]); [`push`], when the remote is where it was.
//! 5. Else fetch ([`upstream`]), and [`pull`]: commits are made anew in the object store ([`rebase`]), or the upstream
//!    is merged ([`join`]); record files come together by `id` ([`merge`], [`records`], [`kept`]). What must not come
//!    in is refused ([`incoming`], [`programs`]), and the working tree moves ([`worktree_move`], [`stage`]). Then
//!    [`push`].
//! 6. The proof that the bytes are at the place ([`truth`]).
//!
//! The [`index`] is changed as git changes it, by one sync at a time ([`repository_lock`]). Obstacles are found before
//! anything changes.
//!
//! [`Repository`]: beadlock_repository::Repository
//! [`LeftOut`]: beadlock_repository::LeftOut
//! [`owners`]: beadlock_repository::owners
//! [`progress`]: beadlock_repository::progress
//! [`dolt`]: beadlock_repository::dolt
//! [`names`]: beadlock_repository::names
//! [`place`]: beadlock_repository::place
//! [`upstream`]: beadlock_repository::upstream
//! [`repository_lock`]: beadlock_repository::repository_lock
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

mod changes;
mod commit;
mod contents;
mod exclude;
mod fetch_limit;
mod fetch_schedule;
#[cfg(test)]
mod for_tests;
mod held;
mod history;
mod hosts;
mod incoming;
mod index;
mod join;
mod kept;
mod loops;
mod merge;
mod open_files;
mod other_databases;
mod programs;
mod pull;
mod push;
mod rebase;
mod records;
mod route;
mod signing;
mod stage;
mod sync;
mod truth;
mod unchanged;
mod upkeep;
mod versions;
mod worktree_move;

use std::ffi::OsString;
use std::process::ExitCode;

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::shell::{Part, to_type};
use beadlock_core::log_line::{Event, EventLine};
use beadlock_repository::message::say;
use beadlock_repository::program;
pub use beadlock_repository::{
    ARGUMENT, Asking, CommittedFiles, GitReason, Hindrance, HindranceKind, HookRun, HostRefusal,
    LookedIndex, Network, RepositoryFacts, SyncMessage, SyncReport, SyncRequest, Unpushed, Upkeep,
    UpstreamFacts, guess_host, is_of_network, is_own_file,
};

use self::changes::DatabaseChanges;
pub use self::fetch_limit::{FetchLimit, FetchTurn};
pub use self::fetch_schedule::FetchPace;
use self::held::HeldBack;
pub use self::history::{SyncHistory, SyncPlan, SyncResult, next_try};
pub use self::hosts::HostLimits;
use self::index::IndexLock;
pub use self::loops::SyncTimes;
use self::push::Pushed;
use self::stage::begin;
pub use self::unchanged::{Snapshot, Subjects};
use self::worktree_move::{WorktreeMove, move_branch};

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
