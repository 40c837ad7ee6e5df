//! What the upstream has comes here: by a rebase in the object store ([`replay`]), then one step of the working tree,
//! the branch and the index ([`travel`]).

use std::ffi::OsStr;

use beadlock_checker::internal::log_line::Event;

use super::branch::{Move, short};
use super::hooks;
use super::message::{SyncMessage, say};
use super::names::Names;
use super::replay::replay;
use super::repository::{Head, Repository};
use super::request::SyncRequest;
use super::stop::{Stop, counted};
use super::turn::Turn;
use super::upstream::{Distance, Upstream};
use super::{arriving, travel};

/// Puts the branch on top of what the upstream has: `commit`. Returns where it is then.
///
/// # Errors
/// [`Stop::Nothing`] when it cannot be done while things are as they are.
pub(super) fn pull(
    request: &SyncRequest,
    turn: &mut Turn<'_>,
    names: &Names,
    upstream: &Upstream,
    head: &Head,
    distance: &Distance,
) -> Result<Head, Stop> {
    let (repository, commit) = (turn.repository, distance.commit());
    refuse_uncommitted(repository)?;
    let to = replay(repository, &head.commit, commit, upstream.name())?;
    let way = Move { branch: head.branch.clone(), from: head.commit.clone(), to };
    // In what comes of it: one that is untracked by a commit here may still be there.
    arriving::refuse(repository, names, upstream, &way)?;
    if distance.ahead > 0 {
        let args = [OsStr::new(&upstream.tracking), OsStr::new(&head.branch)];
        hooks::ask(repository, "pre-rebase", &args, None)?;
    }
    request.time_for_a_move()?;
    travel::travel(turn, &way)?;
    let (name, from, to) = (upstream.name(), short(&way.from), short(&way.to));
    say(&SyncMessage::Pulled(
        Event::Pulled.line(format_args!("{} from {name} ({from}..{to})", counted(distance.behind, "commit"))),
    ));
    match distance.ahead {
        0 => hooks::tell(repository, "post-merge", &["0"]),
        _ => hooks::tell(repository, "post-checkout", &[&way.from, &way.to, "1"]),
    }
    Ok(Head { branch: way.branch, commit: way.to })
}

/// Changes outside databases that are in no commit.
fn refuse_uncommitted(repository: &Repository) -> Result<(), Stop> {
    let Some(outside) = repository.outside() else { return Ok(()) };
    let status = repository.status(&["--untracked-files=no", "--ignore-submodules=all"], outside)?;
    let path = |entry: &Vec<u8>, fields| {
        entry.splitn(fields, |byte| *byte == b' ').nth(fields - 1).map(<[u8]>::to_vec)
    };
    let is_of = |kind: &'static [u8]| move |entry: &&Vec<u8>| entry.starts_with(kind);
    let conflicts: Vec<_> = status.iter().filter(is_of(b"u ")).filter_map(|entry| path(entry, 11)).collect();
    if !conflicts.is_empty() {
        return Err(repository.unmerged(&conflicts));
    }
    let changed: Vec<_> = status.iter().filter(is_of(b"1 ")).filter_map(|entry| path(entry, 9)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let paths = repository.shown_all(changed.iter().map(Vec::as_slice));
    Err(Stop::nothing(Event::NotPulling, format_args!("uncommitted changes outside .beads ({paths})")))
}

/// The upstream has commits no more that this branch was built on: to put them back would be as wrong as to drop them.
pub(super) fn refuse_rewritten(
    repository: &Repository,
    upstream: &Upstream,
    head: &Head,
    distance: &Distance,
) -> Result<(), Stop> {
    let commit = distance.commit();
    let git = &repository.git;
    let name = upstream.name();
    let Some(base) = git.call(["merge-base", commit, &head.commit]).run()?.ok_text() else {
        return Err(repository.by_hand(&format!("{} and {name} have no commit in common", head.branch)));
    };
    let fork = git.call(["merge-base", "--fork-point", &upstream.tracking, &head.commit]).run()?.ok_text();
    match fork {
        Some(fork) if fork != base => Err(repository.by_hand(&format!("{name} was rewritten"))),
        _ => Ok(()),
    }
}
