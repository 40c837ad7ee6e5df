//! Brings here what the upstream has: a rebase in the object store ([`rebase`]), then one step of the working tree, the
//! branch and the index ([`worktree_move`]).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{
    Event, Part, WorktreeMove, escaped, held, incoming, kept, programs, rebase, records, signing,
    to_type, versions, worktree_move,
};
use beadlock_repository::reflog::{self, LogEntry};
use beadlock_repository::{
    BranchHead, Distance, Git, GitReason, HindranceKind, Repository, RepositoryLock, SyncMessage,
    SyncStop, Upstream, as_path, counted, hooks, progress, say, short,
};

/// The branch after a pull.
pub(crate) struct Pulled {
    pub(crate) head: BranchHead,
    /// Whether somebody has written to a record file meanwhile: that is merged in, and in no commit yet.
    pub(crate) is_to_be_committed: bool,
}

/// Puts the branch on top of the upstream's commit. `sources` are the commits to pull: those that the remotes have.
pub(crate) fn pull(
    turn: &RepositoryLock<'_>,
    upstream: &Upstream,
    distance: &Distance,
    sources: &[(&Upstream, &str)],
) -> Result<Pulled, SyncStop> {
    let (repository, head) = (turn.repository, &distance.head);
    refuse_undone(repository, distance)?;
    refuse_uncommitted(repository)?;
    let replayed = rebase::replay(repository, &head.commit, distance.commit(), upstream.name())?;
    let mut way = WorktreeMove {
        branch: head.branch.clone(),
        from: head.commit.clone(),
        to: replayed.commit,
    };
    // The result is looked at: a file that a commit here untracks may still lie there.
    let differences = incoming::refuse(repository, upstream, &way)?;
    programs::refuse(repository, sources, &differences, distance.ahead > 0)?;
    held::refuse_arriving(repository, upstream, (&way.from, &way.to))?;
    if distance.ahead > 0 {
        let args = [OsStr::new(&upstream.tracking), OsStr::new(&head.branch)];
        hooks::ask(repository, "pre-rebase", &args, None)?;
    }
    let known = sources.iter().map(|(_, tip)| (*tip).to_owned());
    way.to = signing::sign(repository, &way.to, known.chain([head.commit.clone()]))?;
    repository.request.time_for_a_move()?;
    let files: Vec<_> = replayed
        .merged
        .iter()
        .flat_map(|tree| &tree.files)
        .collect();
    for file in &files {
        kept::keep_file(repository, file)?;
    }
    // Before the first file has the new text: a program may read it, and the pull may end there.
    versions::note(repository, &way.from);
    versions::note(repository, &way.to);
    let is_to_be_committed = worktree_move::travel(turn, &way)?;
    for file in &files {
        records::tell(repository, &file.path, &file.merged);
    }
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
    Ok(Pulled {
        head: BranchHead {
            branch: way.branch,
            commit: way.to,
        },
        is_to_be_committed,
    })
}

/// Refuses changes outside databases that are in no commit.
fn refuse_uncommitted(repository: &Repository) -> Result<(), SyncStop> {
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
    let top = Part::Path(&repository.git.dir);
    let pop = to_type("git -C {} stash pop", std::slice::from_ref(&top));
    let why = format!(
        "uncommitted changes outside .beads ({paths}); after the pull, {pop} brings them back"
    );
    let mut all_but = OsString::from(":!");
    all_but.push(&repository.prefix);
    let mut all_but = vec![all_but];
    // Another database's files are not stashed from under its tools either.
    let others = [&b":(glob)**/.beads/**"[..], &outside[1]];
    let others = repository.git.call(["ls-files", "-z", "--"]).paths(others);
    if !others.words()?.is_empty() {
        all_but.push(":(exclude,glob)**/.beads/**".into());
    }
    let parts = [top, Part::Words(all_but)];
    Err(not_pulling(GitReason::DirtyTree, why).next(to_type("git -C {} stash push -- {}", &parts)))
}

fn not_pulling(reason: GitReason, why: impl Display) -> SyncStop {
    SyncStop::notice(Event::NotPulling, HindranceKind::NotPulling, reason, why)
}

fn failed(reason: GitReason, why: impl Display) -> SyncStop {
    SyncStop::notice(Event::NotPulling, HindranceKind::Failed, reason, why)
}

/// The refusal for a commit ahead that a rebase would spoil: a merge, or one with a signature. A person merges instead.
pub(crate) fn left_to_a_merge(repository: &Repository, reason: GitReason, why: &str) -> SyncStop {
    let top = Part::Path(&repository.git.dir);
    // Whatever pull.rebase and pull.ff are.
    let command = "git -C {} pull --no-rebase --ff --no-edit && git -C {} push";
    not_pulling(reason, why).next(to_type(command, &[top.clone(), top]))
}

/// The refusal for files that git does not track and that lie where a pull would put others; `blocking` are the files
/// or directories in the way.
pub(crate) fn in_the_way(
    repository: &Repository,
    hindered: &[impl AsRef<[u8]>],
    blocking: &[PathBuf],
) -> SyncStop {
    let paths = repository.shown_all(hindered);
    let why = format!("{paths} would be overwritten, and git does not track it here");
    let stop = not_pulling(GitReason::InTheWay, why);
    // Nothing that has the database in it is moved away.
    let movable = |path: &&PathBuf| !repository.prefix.starts_with(path);
    if !blocking.iter().all(|path| movable(&path)) {
        return stop;
    }
    let moved: Option<Vec<_>> = blocking
        .iter()
        .take(8)
        .map(|path| moved_aside(repository, path))
        .collect();
    match moved {
        Some(moved) => stop.next(moved.join(" && ")),
        None => stop,
    }
}

/// The command that moves aside what git does not track at this path. `None` where two names would become one.
fn moved_aside(repository: &Repository, path: &Path) -> Option<String> {
    let top = &repository.git.dir;
    let from = top.join(path);
    let mut aside = from.clone().into_os_string();
    aside.push(".mine");
    let to = progress::free(Path::new(&aside));
    let whole = || to_type("mv {} {}", &[Part::Path(&from), Part::Path(&to)]);
    if !fs::symlink_metadata(&from).is_ok_and(|meta| meta.is_dir()) {
        return Some(whole());
    }
    let spec = [b":(top,literal)", path.as_os_str().as_encoded_bytes()].concat();
    let others = ["ls-files", "-z", "--others", "--directory", "--"];
    let others = repository.git.call(others).paths([spec]).words().ok()?;
    let others: Vec<_> = others.iter().map(|name| top.join(as_path(name))).collect();
    if others.as_slice() == [from.clone()] {
        return Some(whole());
    }
    let names: BTreeSet<_> = others.iter().filter_map(|path| path.file_name()).collect();
    if names.len() != others.len() {
        return None;
    }
    let files = others.iter().map(PathBuf::as_path).collect();
    let parts = [Part::Path(&to), Part::Paths(files), Part::Path(&to)];
    Some(to_type("mkdir {} && mv {} {}", &parts))
}

/// Refuses to undo what a person has undone: the branch was set back to an ancestor of where it was, and the upstream
/// has what was given up. Whoever commits or pulls after that has decided; what this branch's log does not tell is not
/// known.
fn refuse_undone(repository: &Repository, distance: &Distance) -> Result<(), SyncStop> {
    let git = &repository.git;
    let log = format!("logs/refs/heads/{}", distance.head.branch);
    let log = reflog::entries(&repository.common_dir.join(log));
    // Commits go on from there.
    let goes_on = |entry: &&LogEntry| matches!(entry.verb(), "commit" | "cherry-pick" | "revert");
    let Some(entry) = log.iter().find(|entry| !goes_on(entry)) else {
        return Ok(());
    };
    let is_forward = matches!(entry.verb(), "clone" | "pull" | "merge" | "rebase");
    let is_real = |id: &str| id.bytes().any(|byte| byte != b'0');
    if entry.is_ours() || is_forward || !is_real(&entry.old) || entry.old == entry.new {
        return Ok(());
    }
    if !is_ancestor(git, &entry.new, &entry.old).unwrap_or(false) {
        return Ok(());
    }
    let common = git
        .call(["merge-base", &entry.old, distance.commit()])
        .run()?;
    let Some(common) = common.ok_text() else {
        return Ok(());
    };
    if is_ancestor(git, &common, &entry.new).unwrap_or(true) {
        // What was given up is not at the upstream either.
        return Ok(());
    }
    let how = match entry.verb() {
        "" => String::new(),
        verb => format!(" ({})", escaped(verb)),
    };
    let why = format!(
        "you went back from {} at {}{how}; to go forward, pull",
        short(&entry.old),
        reflog::when(entry.at)
    );
    let top = [Part::Path(&repository.git.dir)];
    let command = match distance.ahead {
        0 => to_type("git -C {} pull", &top),
        _ => to_type("git -C {} pull --rebase", &top),
    };
    Err(not_pulling(GitReason::WentBack, why).next(command))
}

/// Refuses when the upstream has lost commits that this branch was built on: to put them back may be as wrong as to
/// drop them. What is in one of the commits `known` was never the upstream's.
pub(crate) fn refuse_rewritten(
    repository: &Repository,
    upstream: &Upstream,
    distance: &Distance,
    known: &[&str],
) -> Result<(), SyncStop> {
    let head = &distance.head;
    let (git, name) = (&repository.git, upstream.name());
    let Some(base) = git
        .call(["merge-base", distance.commit(), &head.commit])
        .run()?
        .ok_text()
    else {
        return Err(unrelated(repository, upstream, head));
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
    let is_known = |fork: &str| {
        known
            .iter()
            .any(|tip| is_ancestor(git, fork, tip) == Ok(true))
    };
    match fork {
        Some(fork)
            if fork != base
                && !is_ancestor(git, &fork, &upstream.tracking)?
                && !is_known(&fork) =>
        {
            let own = git.text(["rev-list", "--count", &format!("{fork}..{}", head.commit)])?;
            let own = own.parse().unwrap_or(0_u64);
            let on_it = match own {
                0 => "nothing of yours is".to_owned(),
                1 => "1 commit of yours is".to_owned(),
                own => format!("{own} commits of yours are"),
            };
            let why = format!("{name} was rewritten; {on_it} on what it gave up");
            let command = to_type("git -C {} pull --rebase", &[Part::Path(&git.dir)]);
            Err(failed(GitReason::Rewritten, why).next(command))
        }
        _ => Ok(()),
    }
}

/// The refusal where the branch and its upstream have no commit in common, as far as is known here.
fn unrelated(repository: &Repository, upstream: &Upstream, head: &BranchHead) -> SyncStop {
    let (top, name) = (Part::Path(&repository.git.dir), upstream.name());
    let branch = escaped(&head.branch);
    if repository.common_dir.join("shallow").exists() {
        let why = format!(
            "this clone is shallow, and {branch} and {name} have no commit in common that is here"
        );
        let parts = [top, Part::Word(OsStr::new(&upstream.remote))];
        let command = to_type("git -C {} fetch --unshallow {}", &parts);
        return failed(GitReason::Shallow, why).next(command);
    }
    let taken = repository.commit_of("refs/heads/mine").ok().flatten();
    let mine = match taken {
        None => "mine".to_owned(),
        Some(_) => format!("mine-{}", short(&head.commit)),
    };
    let why = format!(
        "{branch} and {name} have no commit in common; to go on from {name}, with what is here kept on a branch {mine}"
    );
    let parts = [
        top.clone(),
        Part::Word(OsStr::new(&mine)),
        top,
        Part::Word(OsStr::new(name)),
    ];
    let command = to_type("git -C {} branch {} && git -C {} reset --keep {}", &parts);
    failed(GitReason::Unrelated, why).next(command)
}

/// Whether the ref, as it is now, has this commit. Somebody who has pushed from this clone meanwhile has moved the
/// tracking branch beyond the commit that was fetched.
fn is_ancestor(git: &Git, commit: &str, of: &str) -> Result<bool, SyncStop> {
    let answer = git
        .call(["merge-base", "--is-ancestor", commit, of])
        .run()?;
    match answer.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(answer.refused("git merge-base failed")),
    }
}
