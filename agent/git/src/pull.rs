//! Brings here what the upstream has: a rebase in the object store ([`replay`]), then one step of the working tree, the
//! branch and the index ([`travel`]).

use std::ffi::OsStr;

use crate::{
    BranchHead, Distance, Event, Git, GitReason, HindranceKind, Move, Repository, Stop,
    SyncMessage, SyncTurn, Upstream, arriving, counted, held, hooks, replay, say, short, travel,
};

/// Puts the branch on top of the upstream's commit. Returns where it is then.
pub(crate) fn pull(
    turn: &mut SyncTurn<'_>,
    upstream: &Upstream,
    distance: &Distance,
) -> Result<BranchHead, Stop> {
    let (repository, head) = (turn.repository, &distance.head);
    refuse_uncommitted(repository)?;
    let to = replay::replay(repository, &head.commit, distance.commit(), upstream.name())?;
    let way = Move {
        branch: head.branch.clone(),
        from: head.commit.clone(),
        to,
    };
    // The result is looked at: a file that a commit here untracks may still lie there.
    arriving::refuse(repository, upstream, &way)?;
    held::refuse_arriving(repository, upstream, (&way.from, &way.to))?;
    if distance.ahead > 0 {
        let args = [OsStr::new(&upstream.tracking), OsStr::new(&head.branch)];
        hooks::ask(repository, "pre-rebase", &args, None)?;
    }
    repository.request.time_for_a_move()?;
    travel::travel(turn, &way)?;
    let (commits, from, to) = (
        counted(distance.behind, "commit"),
        short(&way.from),
        short(&way.to),
    );
    let line = Event::Pulled.line(format_args!(
        "{commits} from {} ({from}..{to})",
        upstream.name()
    ));
    say(&SyncMessage::Pulled(line));
    match distance.ahead {
        0 => hooks::tell(repository, "post-merge", &["0"]),
        _ => hooks::tell(repository, "post-checkout", &[&way.from, &way.to, "1"]),
    }
    Ok(BranchHead {
        branch: way.branch,
        commit: way.to,
    })
}

/// Refuses changes outside databases that are in no commit.
fn refuse_uncommitted(repository: &Repository) -> Result<(), Stop> {
    let Some(outside) = repository.outside() else {
        return Ok(());
    };
    let status = repository.status(
        &["--untracked-files=no", "--ignore-submodules=all"],
        &outside,
    )?;
    let paths = |kind: &[u8], fields: usize| -> Vec<&[u8]> {
        let entries = status.iter().filter(|entry| entry.starts_with(kind));
        entries
            .filter_map(|entry| entry.splitn(fields, |byte| *byte == b' ').nth(fields - 1))
            .collect()
    };
    let conflicts = paths(b"u ", 11);
    if !conflicts.is_empty() {
        return Err(repository.unmerged(conflicts));
    }
    let changed = paths(b"1 ", 9);
    if changed.is_empty() {
        return Ok(());
    }
    let paths = repository.shown_all(changed);
    let why = format!("uncommitted changes outside .beads ({paths})");
    Err(Stop::notice(
        Event::NotPulling,
        HindranceKind::NotPulling,
        GitReason::DirtyTree,
        why,
    ))
}

/// Refuses when the upstream has lost commits that this branch was built on: to put them back may be as wrong as to
/// drop them.
pub(crate) fn refuse_rewritten(
    repository: &Repository,
    upstream: &Upstream,
    distance: &Distance,
) -> Result<(), Stop> {
    let head = &distance.head;
    let (git, name) = (&repository.git, upstream.name());
    let Some(base) = git
        .call(["merge-base", distance.commit(), &head.commit])
        .run()?
        .ok_text()
    else {
        return Err(repository.by_hand(
            HindranceKind::Failed,
            GitReason::Unrelated,
            &format!("{} and {name} have no commit in common", head.branch),
        ));
    };
    let fork = git
        .call([
            "merge-base",
            "--fork-point",
            &upstream.tracking,
            &head.commit,
        ])
        .run()?
        .ok_text();
    match fork {
        Some(fork) if fork != base && !is_ancestor(git, &fork, &upstream.tracking)? => {
            Err(repository.by_hand(
                HindranceKind::Failed,
                GitReason::Rewritten,
                &format!("{name} was rewritten"),
            ))
        }
        _ => Ok(()),
    }
}

/// Whether the ref, as it is now, has this commit. Somebody who has pushed from this clone meanwhile has moved the
/// tracking branch beyond the commit that was fetched.
fn is_ancestor(git: &Git, commit: &str, of: &str) -> Result<bool, Stop> {
    let answer = git
        .call(["merge-base", "--is-ancestor", commit, of])
        .run()?;
    match answer.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(answer.refused("git merge-base failed")),
    }
}
