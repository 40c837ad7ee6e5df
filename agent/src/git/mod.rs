//! `--action git`: a sync that never harms the repository (docs/design.md#the-git-action).
//!
//! A sync is a process of its own, this binary again with a hidden first argument, so that it runs under the gate and
//! comes to its end also when the agent does not. It tells the agent what it does in [messages](message). Everything
//! is done by the `git` program ([`program`]).
//!
//! Order: where it is and whether anything is in progress ([`repository`]); what must not be tracked ([`names`]); the
//! commit ([`commit`], of the [`changes`]); then over the network the upstream ([`upstream`]): fetch, [`pull`] (a
//! rebase of what may come in ([`arriving`]) in the object store, [`replay`], and one step of the working tree,
//! [`travel`]), [`push`]. The [`index`] is changed as git changes it, by one sync at a time ([`turn`]). What hinders
//! it is found before anything has changed; what is ended in the middle is finished by the next sync.
//!
//! # Limits
//! - A person who is in the editor of `git commit` while the agent commits is told by git that the branch has moved,
//!   and commits again. A claim keeps the agent away: `beadlock hold -- git commit`.
//! - It has no merges of its own: a conflict is left to a person, and so are merges and signed commits ahead.
//! - A linked worktree and a submodule are repositories like others; what is in them is not pulled from above.

mod arriving;
mod blobs;
mod branch;
mod changes;
mod commit;
mod conversation;
mod descendants;
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
mod replay;
mod repository;
mod request;
mod resume;
mod secrets;
mod shortened;
mod sqlite;
mod stop;
mod travel;
mod turn;
mod upstream;

use std::ffi::OsString;
use std::process::ExitCode;

use beadlock_checker::internal::log_line::Event;

pub(crate) use self::message::SyncMessage;
use self::message::say;
use self::names::Names;
use self::push::Pushed;
use self::repository::Repository;
pub use self::request::ARGUMENT;
pub(crate) use self::request::{Network, StepReports, SyncRequest};
use self::resume::begin;
use self::stop::Stop;
use self::upstream::Upstream;

/// The sync's `main`, with the arguments after [`ARGUMENT`]. Its last word says how it ended.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(request) = SyncRequest::parse(args) else {
        eprintln!("this is for beadlock-agent's own use");
        return ExitCode::from(2);
    };
    program::end_in_order();
    program::tell_steps(request.steps);
    let once_more = |stop| if matches!(stop, Stop::Moved(_)) { sync(&request) } else { Err(stop) };
    match sync(&request).or_else(once_more) {
        Ok(()) => {}
        Err(Stop::Nothing(why)) => say(&SyncMessage::Notice(why)),
        Err(Stop::Unreachable(why)) => say(&SyncMessage::Unreachable(why)),
        Err(Stop::Refused(why) | Stop::Moved(why)) => say(&SyncMessage::Refused(why)),
    }
    say(&SyncMessage::Done);
    ExitCode::SUCCESS
}

fn sync(request: &SyncRequest) -> Result<(), Stop> {
    let repository = Repository::find(request)?;
    if turn::is_left(&repository) {
        drop(begin(&repository)?);
    }
    repository.check_quiet()?;
    let names = Names::of(&repository, request);
    let head = repository.head()?;
    repository.check_index()?;
    if let Some(index) = names.refuse_tracked(&repository, request.looked.as_deref())? {
        say(&SyncMessage::Looked(index));
    }
    let mut head = commit::commit(&repository, &names, head)?;
    let upstream = Upstream::of(&repository, &head)?;
    if request.network == Network::Leave {
        return Ok(());
    }
    let network = repository.git.clone().with_batch_ssh()?;
    // By which upstream commit, and why.
    let mut rejected: Option<(Option<String>, String)> = None;
    loop {
        let is_quiet = request.network == Network::UseQuietly;
        let commit = upstream.fetch(&network, request.for_the_network(), is_quiet)?;
        if let Some((known, why)) = &rejected
            && *known == commit
        {
            return Err(push::refused(&upstream, why));
        }
        let git = &repository.git;
        let mut distance = upstream.distance(git, &head.commit, commit.clone())?;
        if distance.ahead > 0 && commit.is_some() {
            pull::refuse_rewritten(&repository, &upstream, &head, &distance)?;
        }
        if distance.behind > 0 {
            let mut turn = begin(&repository)?;
            // Another database's sync may have had its turn meanwhile; another branch has another upstream.
            head = repository.head_of(&head.branch)?;
            distance = upstream.distance(git, &head.commit, commit.clone())?;
            if distance.behind > 0 {
                head = pull::pull(request, &mut turn, &names, &upstream, &head, &distance)?;
                distance = upstream.distance(git, &head.commit, commit)?;
            }
        }
        let bound = request.for_the_network();
        match push::push(&repository, &network, &upstream, &head, &distance, bound)? {
            Pushed::Done => return Ok(()),
            Pushed::Rejected { why } if rejected.is_none() => rejected = Some((distance.upstream, why)),
            Pushed::Rejected { .. } => {
                let name = upstream.name();
                let why = format_args!("others were faster at {name}, twice");
                return Err(Stop::nothing(Event::NotPushing, why));
            }
        }
    }
}
