//! What the upstream has comes here: by a rebase in the object store ([`replay`]), then one step of the working tree,
//! the branch and the index ([`travel`]).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_checker::{Cycle, Entered};

use super::changes::unmerged;
use super::commit::short;
use super::hooks;
use super::index::Move;
use super::names::Names;
use super::replay::{by_hand, replay};
use super::repository::{Head, Repository};
use super::travel;
use super::upstream::{Distance, Upstream};
use super::word::{Word, say};
use super::{Order, Stop, lock_came, typed};

/// Puts the branch on top of what the upstream has: `commit`. Returns where it is then.
///
/// # Errors
/// [`Stop::Nothing`] when it cannot be done while things are as they are: the branch, the index and the working tree
/// have not changed.
pub(super) fn pull(
    order: &Order,
    repository: &Repository,
    names: &Names,
    upstream: &Upstream,
    head: &Head,
    commit: &str,
    distance: &Distance,
) -> Result<Head, Stop> {
    let git = &repository.git;
    refuse_uncommitted(repository)?;
    let new = replay(repository, &head.commit, commit, upstream.name())?;
    // In what comes of it: one that is untracked by a commit here may still be there.
    refuse_tracked(repository, names, upstream, &new)?;
    let paths =
        git.call(["diff-tree", "-r", "-z", "--name-only", "--no-renames", &head.commit, &new]).words()?;
    refuse_in_the_way(repository, &head.commit, &new)?;
    // What is pulled changes their files too.
    let others = enter_others(order, repository, &paths)?;
    if distance.ahead > 0 {
        let args = [OsStr::new(&upstream.tracking), OsStr::new(&head.branch)];
        hooks::ask(repository, "pre-rebase", &args, None)?;
    }
    lock_came(repository)?;
    order.time_for_a_move()?;
    let way = Move { branch: head.branch.clone(), from: head.commit.clone(), to: new.clone() };
    travel::travel(repository, &way)?;
    drop(others);
    let (count, from, name) = (distance.behind, short(&head.commit), upstream.name());
    let commits = if count == 1 { "commit" } else { "commits" };
    say(&Word::Pulled(format!("Pulled {count} {commits} from {name} ({from}..{})", short(&new))));
    match distance.ahead {
        0 => hooks::tell(repository, "post-merge", &["0"]),
        _ => hooks::tell(repository, "post-checkout", &[&head.commit, &new, "1"]),
    }
    Ok(Head { commit: new, ..head.clone() })
}

/// Changes outside databases that are in no commit.
fn refuse_uncommitted(repository: &Repository) -> Result<(), Stop> {
    let Some(outside) = repository.outside() else { return Ok(()) };
    let options = ["--untracked-files=no", "--ignore-submodules=dirty", "--no-renames", "--"];
    let mut args: Vec<&OsStr> = ["status", "--porcelain=v2", "-z"].map(OsStr::new).to_vec();
    args.extend(options.map(OsStr::new));
    args.extend(outside.iter().map(|spec| OsStr::from_bytes(spec)));
    let status = repository.git.call(args).words()?;
    let path = |entry: &Vec<u8>, fields| {
        entry.splitn(fields, |byte| *byte == b' ').nth(fields - 1).map(<[u8]>::to_vec)
    };
    let is_of = |kind: &'static [u8]| move |entry: &&Vec<u8>| entry.starts_with(kind);
    let conflicts: Vec<_> = status.iter().filter(is_of(b"u ")).filter_map(|entry| path(entry, 11)).collect();
    if !conflicts.is_empty() {
        return Err(unmerged(repository, &conflicts));
    }
    let changed: Vec<_> = status.iter().filter(is_of(b"1 ")).filter_map(|entry| path(entry, 9)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let paths = repository.shown_all(changed.iter().map(Vec::as_slice));
    Err(Stop::Nothing(format!("Not pulling: uncommitted changes outside .beads ({paths})")))
}

/// A pull would put these into the working tree, over whatever is there.
fn refuse_tracked(
    repository: &Repository,
    names: &Names,
    upstream: &Upstream,
    commit: &str,
) -> Result<(), Stop> {
    let tracked = names.tracked_in(repository, commit)?;
    if tracked.is_empty() {
        return Ok(());
    }
    let typed: Vec<_> = tracked.iter().map(|path| typed(Path::new(OsStr::from_bytes(path)))).collect();
    Err(Stop::refused(format!(
        "{} has {}, and a pull would put it over what is live here; where that was committed, type: git rm --cached -- \
         {}",
        upstream.name(),
        repository.shown_all(tracked.iter().map(Vec::as_slice)),
        typed.join(" ")
    )))
}

/// The upstream has commits no more that this branch was built on: to put them back would be as wrong as to drop them.
pub(super) fn refuse_rewritten(
    repository: &Repository,
    upstream: &Upstream,
    head: &Head,
    commit: &str,
) -> Result<(), Stop> {
    let git = &repository.git;
    let name = upstream.name();
    let Some(base) = git.call(["merge-base", commit, &head.commit]).run()?.ok_text() else {
        return Err(by_hand(repository, &format!("{} and {name} have no commit in common", head.branch)));
    };
    let fork = git.call(["merge-base", "--fork-point", &upstream.tracking, &head.commit]).run()?.ok_text();
    match fork {
        Some(fork) if fork != base => Err(by_hand(repository, &format!("{name} was rewritten"))),
        _ => Ok(()),
    }
}

/// git would overwrite what it has been told to ignore.
fn refuse_in_the_way(repository: &Repository, from: &str, to: &str) -> Result<(), Stop> {
    let added = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", from, to];
    let added = repository.git.call(added).words()?;
    let tracked = |path: &Path| {
        let args = ["ls-tree", "-z", "--full-tree", from, "--"]
            .map(OsStr::new)
            .into_iter()
            .chain([path.as_os_str()]);
        repository.git.call(args).words().is_ok_and(|entries| !entries.is_empty())
    };
    let is_in_the_way = |path: &&Vec<u8>| {
        let path = Path::new(OsStr::from_bytes(path));
        path.ancestors().filter(|path| !path.as_os_str().is_empty()).enumerate().any(|(above, path)| {
            match fs::symlink_metadata(repository.git.dir.join(path)) {
                Ok(meta) => !(above > 0 && meta.is_dir() || tracked(path)),
                Err(_) => false,
            }
        })
    };
    let paths: Vec<_> = added.iter().filter(is_in_the_way).collect();
    if paths.is_empty() {
        return Ok(());
    }
    let paths = repository.shown_all(paths.into_iter().map(Vec::as_slice));
    Err(by_hand(repository, &format!("{paths} would be overwritten, and git does not track it here")))
}

/// The gates of the other databases whose files change, held until that is done.
fn enter_others(order: &Order, repository: &Repository, paths: &[Vec<u8>]) -> Result<Vec<Cycle>, Stop> {
    let database = |path: &Vec<u8>| -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(path));
        let dir = path.ancestors().skip(1).find(|dir| dir.file_name() == Some(OsStr::new(".beads")))?;
        let dir = fs::canonicalize(repository.git.dir.join(dir)).ok()?;
        (dir != order.dir).then_some(dir)
    };
    let mut dirs: Vec<_> = paths.iter().filter_map(database).collect();
    dirs.sort();
    dirs.dedup();
    let mut entered = Vec::with_capacity(dirs.len());
    for dir in dirs {
        match Cycle::enter(&dir) {
            Entered::Cycle(cycle) => entered.push(cycle),
            Entered::Skipped(decision) => {
                let shown = beadlock_checker::escape::escaped_path(&dir);
                return Err(Stop::Nothing(format!("Not pulling: it would change {shown}: {decision}")));
            }
        }
    }
    Ok(entered)
}
