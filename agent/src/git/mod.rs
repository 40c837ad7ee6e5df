//! `--action git`: a sync that never harms the repository (docs/design.md#the-git-action).
//!
//! A sync is a process of its own, this binary with a hidden first argument: so it keeps the gate and comes to its end
//! also without the agent. It reports to the agent in [messages](message). The `git` program does the work
//! ([`program`]).
//!
//! Order: where it is and whether anything is in progress ([`repository`]); what must not be tracked ([`names`]); the
//! commit ([`commit`]); fetch ([`upstream`]); [`pull`], which rebases in the object store ([`replay`]), refuses what
//! must not come in ([`arriving`]) and moves the working tree ([`travel`]); [`push`]. The [`index`] is changed as git
//! changes it, by one sync at a time ([`turn`]). Obstacles are found before anything changes, and the next sync
//! finishes an interrupted move ([`resume`]).
//!
//! # Limits
//! - When the agent commits while somebody edits the message of `git commit`, git says that the branch has moved, and
//!   that person commits again. A claim keeps the agent away: `beadlock hold -- git commit`.
//! - Conflicts, merges and signed commits ahead are left to a person.
//! - In a linked worktree or a submodule, nothing is pulled into the repository around it.

mod arriving;
mod blobs;
mod changes;
mod commit;
mod conversation;
mod embedded;
mod entries;
pub(crate) mod history;
mod hooks;
mod index;
mod message;
mod names;
mod neighbours;
mod program;
mod pull;
mod push;
mod refs;
mod replay;
mod report;
mod repository;
mod request;
mod resume;
mod secrets;
mod sqlite;
mod stop;
mod travel;
mod turn;
mod upstream;

use std::ffi::OsString;
use std::process::ExitCode;

use beadlock_checker::internal::escape::{escaped, escaped_path};
use beadlock_checker::internal::log_line::Event;
use beadlock_checker::internal::shell::{Part, to_type};

use self::blobs::Beginnings;
use self::changes::DatabaseChanges;
use self::conversation::{GitOutput, KeptOutput, converse};
use self::entries::TreeEntry;
use self::index::IndexLock;
pub(crate) use self::message::SyncMessage;
use self::message::say;
use self::names::{ExcludedNames, refuse_databases};
use self::program::{Git, as_path, nul_separated};
use self::push::Pushed;
pub(crate) use self::report::{Hindrance, HindranceKind, SyncReport, Unpushed};
use self::repository::{BranchHead, Repository};
pub use self::request::ARGUMENT;
pub(crate) use self::request::{Network, SyncRequest};
use self::resume::begin;
use self::stop::{Stop, counted, typed_all};
use self::travel::{Move, move_branch, short};
use self::turn::{SyncTurn, remove};
use self::upstream::{Distance, Upstream, foreign};

/// How a sync that nothing has hindered has ended.
#[derive(Debug, PartialEq)]
enum Ended {
    Pushed,
    /// There was nothing to push, or the network was left alone.
    Unchanged,
}

/// The sync's `main`, with the arguments after [`ARGUMENT`].
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(request) = SyncRequest::parse(args) else {
        eprintln!("this is for beadlock-agent's own use");
        return ExitCode::from(2);
    };
    program::prepare(request.is_timed);
    let mut report = SyncReport::default();
    let mut ended = sync(&request, &mut report);
    if ended.as_ref().is_err_and(Stop::is_moved) {
        ended = sync(&request, &mut report);
    }
    report.hindrance = ended.err().map(Stop::say);
    say(&SyncMessage::Report(report));
    say(&SyncMessage::Done);
    ExitCode::SUCCESS
}

/// One sync. `report` gets what it finds out on the way.
fn sync(request: &SyncRequest, report: &mut SyncReport) -> Result<(), Stop> {
    let repository = Repository::find(request)?;
    let mut is_measured = false;
    let ended = sync_found(&repository, |distance| {
        is_measured = true;
        (report.unpushed, report.behind) = (distance.unpushed(), distance.behind);
    });
    match &ended {
        Ok(Ended::Pushed) => (report.unpushed, report.has_pushed) = (Unpushed::default(), true),
        // It has ended before it came to that.
        _ if !is_measured => (report.unpushed, report.behind) = upstream::waiting(&repository),
        _ => {}
    }
    ended.map(|_| ())
}

fn sync_found(repository: &Repository, mut on_distance: impl FnMut(&Distance)) -> Result<Ended, Stop> {
    let request = &repository.request;
    if turn::is_left(repository) {
        drop(begin(repository)?);
    }
    repository.check_quiet()?;
    let head = repository.head()?;
    repository.check_index()?;
    if let Some(index) = names::refuse_tracked(repository, request.looked.as_deref())? {
        say(&SyncMessage::Looked(index));
    }
    let mut head = commit::commit(repository, head)?;
    let upstream = Upstream::of(repository, &head)?;
    if request.network == Network::Leave {
        return Ok(Ended::Unchanged);
    }
    let network = repository.git.clone().with_batch_ssh()?;
    // The upstream's commit at the rejected push, and the reason.
    let mut rejected: Option<(Option<String>, String)> = None;
    loop {
        let commit = upstream.fetch(repository, &network)?;
        if let Some((known, why)) = &rejected
            && *known == commit
        {
            return Err(upstream.stop(Event::PushRefused, why));
        }
        let mut measure = |head: BranchHead| {
            let distance = upstream.distance(&repository.git, head, commit.clone())?;
            on_distance(&distance);
            Ok::<_, Stop>(distance)
        };
        let mut distance = measure(head)?;
        if distance.ahead > 0 && commit.is_some() {
            pull::refuse_rewritten(repository, &upstream, &distance)?;
        }
        if distance.behind > 0 {
            let mut turn = begin(repository)?;
            // Another database's sync may have had its turn meanwhile.
            distance = measure(repository.head_of(&distance.head.branch)?)?;
            if distance.behind > 0 {
                distance = measure(pull::pull(&mut turn, &upstream, &distance)?)?;
            }
        }
        match push::push(repository, &network, &upstream, &distance)? {
            Pushed::NothingToPush => return Ok(Ended::Unchanged),
            Pushed::Done => return Ok(Ended::Pushed),
            Pushed::Rejected(why) if rejected.is_none() => {
                rejected = Some((distance.upstream, why));
                head = distance.head;
            }
            Pushed::Rejected(_) => {
                let why = format_args!("others were faster at {}, twice", upstream.name());
                return Err(Stop::notice(Event::NotPushing, HindranceKind::NotPushing, "raced", why));
            }
        }
    }
}
