//! The one step in which the working tree, the index and the branch move to another commit.
//!
//! Order: the gates of other databases whose files change; `index.lock`; a look at every obstacle; all new files aside
//! ([`stage`](crate::stage)), and the plan. Then each file is exchanged with the one in its place, so that a reader
//! sees the old one or the new one; the index; the branch, by compare-and-swap.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::stage::{MoveStage, Moving, Source, Stepped};
use crate::{IndexLock, kept, merge, open_files, other_databases, pull, records, versions};
use beadlock_repository::content::FileContent;
use beadlock_repository::entries::{self, Difference};
use beadlock_repository::tree::FileTree;
use beadlock_repository::{GitOutput, GitReason, Repository, RepositoryLock, SyncStop, as_path};

/// The commits that a branch, and for a pull its index and its working tree, move between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorktreeMove {
    /// The name of the branch, without `refs/heads/`.
    pub(crate) branch: String,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// Moves the branch, unless it is no longer where it was.
pub(crate) fn move_branch(
    repository: &Repository,
    way: &WorktreeMove,
    why: &str,
) -> Result<(), SyncStop> {
    let branch = format!("refs/heads/{}", way.branch);
    let moved = repository
        .git
        .call(["update-ref", "-m", why, &branch, &way.to, &way.from])
        .run()?;
    if moved.status.success() {
        return Ok(());
    }
    let stop = cannot_move(way, &moved);
    repository.check_at(&way.branch, &way.from)?;
    Err(stop)
}

fn cannot_move(way: &WorktreeMove, answer: &GitOutput) -> SyncStop {
    answer.refused(&format!("the branch {} cannot move", way.branch))
}

/// Moves. Returns true where somebody has written to a record file meanwhile: that is in the file, and in no commit.
pub(crate) fn travel(turn: &RepositoryLock<'_>, way: &WorktreeMove) -> Result<bool, SyncStop> {
    let repository = turn.repository;
    let differences = entries::both(&repository.git, &way.from, &way.to)?;
    let paths: Vec<_> = differences
        .iter()
        .map(|difference| difference.path.clone())
        .collect();
    let _others = other_databases::enter(repository, &paths)?;
    let lock = IndexLock::take(turn)?;
    repository.check_at(&way.branch, &way.from)?;
    let mut stage = MoveStage::begin(repository, way)?;
    let prepared = prepare(repository, &lock, &mut stage, differences);
    let submodules = match prepared.and_then(|submodules| {
        try_branch(repository, way)?;
        Ok(submodules)
    }) {
        Ok(submodules) => submodules,
        Err(stop) => {
            stage.end()?;
            return Err(stop);
        }
    };
    let mut is_replaced = false;
    let moved = step_all(&stage).and_then(|is_merged| {
        submodules.iter().for_each(|path| {
            let _ = stage.files().make_dir(as_path(path));
        });
        stage.sync_tree()?;
        refresh(repository)?;
        lock.replace()?;
        is_replaced = true;
        move_branch(repository, way, "pull (beadlock-agent)")?;
        let has = |path: &[u8]| stage.moving().iter().any(|moving| moving.path == path);
        versions::pulled(repository, (&way.from, &way.to), has);
        Ok(is_merged)
    });
    if moved.is_err() {
        stage.take_back()?;
        if is_replaced {
            lock.put_back()?;
        }
    }
    drop(lock);
    remove_empty(&stage);
    stage.end()?;
    let is_merged = moved?;
    // A program may have written in the last moment to a file that it had open.
    Ok(open_files::look(turn)? || is_merged)
}

/// Puts the new files aside, with the index of afterwards, and writes the plan. Returns the submodules that come.
fn prepare(
    repository: &Repository,
    lock: &IndexLock<'_>,
    stage: &mut MoveStage<'_>,
    differences: Vec<Difference>,
) -> Result<Vec<Vec<u8>>, SyncStop> {
    let way = stage.way();
    // Looked at before git looks: what git then finds unchanged is what was seen.
    let mut seen = BTreeMap::new();
    for difference in &differences {
        let path = as_path(&difference.path);
        let content = stage.files().look(path);
        let content = content.map_err(|error| {
            SyncStop::io("cannot look at", &stage.files().path.join(path), &error)
        })?;
        seen.insert(difference.path.clone(), content);
    }
    let (scratch, changed) = next_index(repository, lock, &differences, &way)?;
    let going: Going = differences
        .iter()
        .filter(|difference| difference.new.is_none())
        .map(|difference| difference.path.clone())
        .collect();
    let skipped = outside_the_sparse_checkout(repository, &scratch, &differences)?;
    let mut differences = differences;
    differences.retain(|difference| !skipped.contains(&difference.path));
    let submodules = differences
        .iter()
        .filter(|difference| difference.becomes_submodule)
        .map(|difference| difference.path.clone())
        .collect();
    differences.retain(|difference| difference.old.is_some() || difference.new.is_some());
    check_out(repository, &scratch, stage, &differences)?;
    let mut files = Vec::new();
    let (mut hindered, mut all_blocking, mut is_untracked) = (Vec::new(), Vec::new(), true);
    for difference in differences {
        let there = seen.remove(&difference.path).flatten();
        let is_changed = changed.contains(&difference.path) || difference.old.is_none();
        let moving = moving(stage, &way, difference, there.clone(), is_changed)?;
        let asked = (repository, &*stage);
        match is_in_the_way(asked, &moving, there.as_ref(), is_changed, &going) {
            Some(blocking) => {
                is_untracked &= moving.old_text == Source::Nowhere;
                hindered.push(moving.path);
                if !all_blocking.contains(&blocking) {
                    all_blocking.push(blocking);
                }
            }
            None => {
                if is_changed
                    && there.is_some()
                    && there != moving.new
                    && moving.new.is_some()
                    && moving.is_record_file
                {
                    refuse_unmergeable(repository, stage, &moving)?;
                }
                files.push(moving);
            }
        }
    }
    if !hindered.is_empty() && is_untracked {
        return Err(pull::in_the_way(repository, &hindered, &all_blocking));
    }
    if !hindered.is_empty() {
        let paths = repository.shown_all(&hindered);
        let why = format!("{paths} changed while the pull looked; the next cycle looks again");
        return Err(SyncStop::not_pulling(GitReason::InTheWay, why));
    }
    dress(repository, stage, &files)?;
    stage.note(in_order(files))?;
    Ok(submodules)
}

/// Makes the index of afterwards, in a copy. Returns it, with the files that are in no commit as they are now.
fn next_index(
    repository: &Repository,
    lock: &IndexLock<'_>,
    differences: &[Difference],
    way: &WorktreeMove,
) -> Result<(PathBuf, BTreeSet<Vec<u8>>), SyncStop> {
    let scratch = lock.copy()?;
    // read-tree would take a file that was written again with the same content for a change.
    let git = &repository.git;
    git.call(["update-index", "-q", "--refresh"])
        .index(&scratch)
        .run()?;
    let changed: BTreeSet<_> = git
        .call(["diff-files", "-z", "--name-only"])
        .index(&scratch)
        .words()?
        .into_iter()
        .collect();
    // The index alone: the files are looked at here.
    let read = git
        .call(["read-tree", "-i", "-m", &way.from, &way.to])
        .index(&scratch)
        .run()?;
    // A tree that git does not take: the same words at each try.
    if !read.status.success() && read.last_line().contains("invalid path") {
        let why = format!("git refuses what a pull would bring: {}", read.last_line());
        return Err(SyncStop::not_pulling(GitReason::RefusedContent, why));
    }
    if !read.status.success() {
        return Err(staged(repository, lock, differences, way)?);
    }
    Ok((scratch, changed))
}

/// Writes the new files aside, as `git checkout` would write them with the attributes of the new commit.
fn check_out(
    repository: &Repository,
    index: &Path,
    stage: &MoveStage<'_>,
    differences: &[Difference],
) -> Result<(), SyncStop> {
    let coming = |difference: &&Difference| difference.new.is_some();
    let mut by_tree: BTreeMap<&Path, (&FileTree, Vec<u8>)> = BTreeMap::new();
    for difference in differences.iter().filter(coming) {
        let tree = stage.new_of(as_path(&difference.path))?;
        let (_, paths) = by_tree.entry(&tree.path).or_insert((tree, Vec::new()));
        paths.extend_from_slice(&difference.path);
        paths.push(0);
    }
    if by_tree.is_empty() {
        return Ok(());
    }
    let attributes = merge::attributes_files(&repository.git, Some(index))?;
    let attributes: Vec<u8> = attributes
        .iter()
        .flat_map(|path| [path, &b"\0"[..]].concat())
        .collect();
    let are_needed = repository.settings()?.has_filters_in(&repository.git.dir);
    for (tree, paths) in by_tree.into_values() {
        if are_needed {
            let coming = paths.split(|byte| *byte == 0);
            let coming = coming.chain(attributes.split(|byte| *byte == 0));
            let coming = coming.map(as_path).collect();
            link_around(&repository.git.dir, &tree.path, Path::new(""), &coming)?;
        }
        let git = repository.git.in_tree(&repository.git_dir, tree);
        let write = |paths: Vec<u8>| {
            git.call(["checkout-index", "-f", "-q", "-z", "--stdin"])
                .index(index)
                .stdin(paths)
                .done()
        };
        if !attributes.is_empty() {
            write(attributes.clone())?;
        }
        write(paths)?;
    }
    Ok(())
}

/// A filter may be a program of the working tree, and may look for other files there: links lead to those that do not
/// come.
fn link_around(
    top: &Path,
    aside: &Path,
    dir: &Path,
    coming: &BTreeSet<&Path>,
) -> Result<(), SyncStop> {
    let failed = |error| SyncStop::io("cannot prepare", &aside.join(dir), &error);
    for entry in std::fs::read_dir(top.join(dir))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = dir.join(entry.file_name());
        if path.as_os_str() == ".git" || coming.contains(path.as_path()) {
            continue;
        }
        let mut below = coming.range(path.as_path()..);
        let has_coming = below.next().is_some_and(|coming| coming.starts_with(&path));
        if has_coming && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            std::fs::create_dir_all(aside.join(&path)).map_err(failed)?;
            link_around(top, aside, &path, coming)?;
        } else if !has_coming {
            std::os::unix::fs::symlink(entry.path(), aside.join(&path)).map_err(failed)?;
        }
    }
    Ok(())
}

/// A file's part of the plan. `there` is the content in its place.
fn moving(
    stage: &MoveStage<'_>,
    way: &WorktreeMove,
    difference: Difference,
    there: Option<FileContent>,
    is_changed: bool,
) -> Result<Moving, SyncStop> {
    let path = as_path(&difference.path);
    let new = match difference.new {
        Some(_) => {
            let tree = stage.new_of(path)?;
            let new = tree.look(path);
            new.map_err(|error| SyncStop::io("cannot read", &tree.path.join(path), &error))?
        }
        None => None,
    };
    let source = |commit: &str, entry: &Option<_>| match entry {
        Some(_) => Source::Commit(commit.to_owned()),
        None => Source::Nowhere,
    };
    Ok(Moving {
        old: there.filter(|_| !is_changed),
        new,
        old_text: source(&way.from, &difference.old),
        new_text: source(&way.to, &difference.new),
        is_record_file: stage.is_of_records(&difference.path),
        path: difference.path,
    })
}

/// Refuses where what is in the place of a record file and in no commit cannot be merged.
fn refuse_unmergeable(
    repository: &Repository,
    stage: &MoveStage<'_>,
    moving: &Moving,
) -> Result<(), SyncStop> {
    let path = moving.path();
    let failed = |error| SyncStop::io("cannot read", &stage.files().path.join(path), &error);
    let here = stage
        .files()
        .read(path)
        .map_err(failed)?
        .unwrap_or_default();
    let new = stage
        .new_of(path)?
        .read(path)
        .map_err(failed)?
        .unwrap_or_default();
    let base = stage.text(&moving.old_text, path)?;
    // A line that is only begun may still be ended.
    let [base, here, new] = [&base, &here, &new].map(|text| records::split_torn(text).0);
    let merged = records::merge(base, here, new)?;
    let Some(conflict) = merged
        .conflicts
        .iter()
        .find(|conflict| kept::is_of_file(conflict))
    else {
        return Ok(());
    };
    let (path, conflict) = (
        repository.shown(&moving.path),
        conflict.told(records::SIDES).to_string(),
    );
    let why = format!("a pull changes {path}, which is in no commit as it is here ({conflict})");
    Err(SyncStop::not_pulling(GitReason::InTheWay, why))
}

/// The paths of files that go in this move.
type Going = BTreeSet<Vec<u8>>;

/// The path of a file that is in the way: in the place of a file of the move or of a directory above it, in no commit,
/// and not to be merged. `None` where nothing is.
fn is_in_the_way(
    (repository, stage): (&Repository, &MoveStage<'_>),
    moving: &Moving,
    there: Option<&FileContent>,
    is_changed: bool,
    going: &Going,
) -> Option<PathBuf> {
    let path = moving.path();
    if moving.new.is_some()
        && let Some(above) = blocked_above(stage.files(), path, going)
    {
        return Some(above.to_owned());
    }
    let is_hindered = match there {
        None => false,
        Some(there) if Some(there) == moving.new.as_ref() => false,
        Some(FileContent::Other) if moving.new.is_some() => {
            repository.prefix.starts_with(path) || !goes_whole(&stage.files().path, path, going)
        }
        // What git ignores is meant to stay here: a merge of it would be pushed.
        Some(FileContent::File { .. }) if moving.is_record_file => {
            moving.new.is_some()
                && moving.old_text == Source::Nowhere
                && is_ignored(repository, &moving.path)
        }
        Some(_) => is_changed,
    };
    is_hindered.then(|| path.to_owned())
}

/// Whether git ignores this path where it is not tracked.
fn is_ignored(repository: &Repository, path: &[u8]) -> bool {
    let args = ["check-ignore", "--no-index", "-z", "--stdin"];
    let asked = repository.git.call(args).stdin([path, b"\0"].concat());
    asked.run().is_ok_and(|answer| answer.status.success())
}

/// The file that stays in the place of a directory above.
fn blocked_above<'a>(files: &FileTree, path: &'a Path, going: &Going) -> Option<&'a Path> {
    let mut above = path.ancestors().skip(1);
    above.find(|above| {
        let content = if above.as_os_str().is_empty() {
            None
        } else {
            files.look(above).ok().flatten()
        };
        content.is_some_and(|content| content != FileContent::Other)
            && !going.contains(above.as_os_str().as_encoded_bytes())
    })
}

/// Whether every file of a directory goes.
fn goes_whole(top: &Path, dir: &Path, going: &Going) -> bool {
    let Ok(entries) = std::fs::read_dir(top.join(dir)) else {
        return false;
    };
    entries.flatten().all(|entry| {
        let path = dir.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => goes_whole(top, &path, going),
            _ => going.contains(path.as_os_str().as_encoded_bytes()),
        }
    })
}

/// The order of the steps: files that make room, then what comes and goes outside of databases, which may still be in
/// the way; the record files last, for nothing that is written to them meanwhile stops the move.
fn in_order(mut files: Vec<Moving>) -> Vec<Moving> {
    let coming: Vec<_> = files
        .iter()
        .filter(|moving| moving.new.is_some())
        .map(|moving| moving.path().to_owned())
        .collect();
    let makes_room = |moving: &Moving| {
        moving.new.is_none()
            && coming.iter().any(|coming| {
                coming.starts_with(moving.path()) || moving.path().starts_with(coming)
            })
    };
    files.sort_by_cached_key(|moving| {
        (
            !makes_room(moving),
            moving.is_record_file,
            moving.new.is_none(),
            moving.path.clone(),
        )
    });
    files
}

/// Gives each new file the owner and the rights of the old one.
fn dress(repository: &Repository, stage: &MoveStage<'_>, files: &[Moving]) -> Result<(), SyncStop> {
    let replaced = files
        .iter()
        .filter(|moving| moving.new.is_some() && moving.old.is_some() || moving.is_record_file);
    for moving in replaced {
        let path = moving.path();
        let is_as_open = stage.new_of(path)?.dress_as(stage.files(), path);
        let is_as_open = is_as_open.map_err(|error| {
            SyncStop::io("cannot prepare", &stage.files().path.join(path), &error)
        })?;
        if !is_as_open && repository.has(&moving.path) {
            let path = repository.shown(&moving.path);
            let why = format!(
                "{path} would be open to fewer than it is: the agent cannot give it the owner that it has"
            );
            return Err(SyncStop::not_pulling(GitReason::InTheWay, why));
        }
    }
    Ok(())
}

/// Exchanges all files. Returns true where what somebody has written meanwhile was merged in.
fn step_all(stage: &MoveStage<'_>) -> Result<bool, SyncStop> {
    let mut is_merged = false;
    for moving in stage.moving() {
        let is_appended_to = stage.is_appended_to(moving);
        let _held = stage.hold(moving)?;
        if is_appended_to && stage.append(moving)? {
            continue;
        }
        match stage.step(moving)? {
            Stepped::Done => {}
            Stepped::Merged => is_merged = true,
            Stepped::InTheWay => {
                let why =
                    "files were changed while the pull looked at them; the next cycle looks again";
                return Err(SyncStop::not_pulling(GitReason::InTheWay, why));
            }
        }
    }
    Ok(is_merged)
}

/// Refreshes the next index, so that it knows the files as they are now.
fn refresh(repository: &Repository) -> Result<(), SyncStop> {
    let call = repository.git.call(["update-index", "-q", "--refresh"]);
    call.index(&crate::index::scratch(repository))
        .run()
        .map(drop)
}

/// Removes directories that are empty now.
fn remove_empty(stage: &MoveStage<'_>) {
    for moving in stage.moving() {
        stage.remove_empty_above(moving.path());
    }
}

/// Paths that a sparse checkout leaves out, now or from now on. They are marked in the index.
fn outside_the_sparse_checkout(
    repository: &Repository,
    index: &Path,
    differences: &[Difference],
) -> Result<BTreeSet<Vec<u8>>, SyncStop> {
    let git = &repository.git;
    if std::fs::symlink_metadata(repository.git_dir.join("info/sparse-checkout")).is_err() {
        return Ok(BTreeSet::new());
    }
    let listed = git.call(["ls-files", "-t", "-z"]).index(index).words()?;
    let left_out: BTreeSet<_> = listed
        .iter()
        .filter_map(|entry| entry.strip_prefix(b"S "))
        .map(<[u8]>::to_vec)
        .collect();
    if left_out.is_empty() {
        return Ok(BTreeSet::new());
    }
    let is_dir = |path: &Path| git.dir.join(path).is_dir();
    let comes_outside = |difference: &&Difference| {
        let dir = as_path(&difference.path).parent().unwrap_or(Path::new(""));
        difference.old.is_none() && !is_dir(dir)
    };
    let coming: Vec<_> = differences
        .iter()
        .filter(comes_outside)
        .map(|difference| difference.path.clone())
        .collect();
    if !coming.is_empty() {
        let stdin: Vec<u8> = coming
            .iter()
            .flat_map(|path| [path, &b"\0"[..]].concat())
            .collect();
        let args = ["update-index", "--skip-worktree", "-z", "--stdin"];
        git.call(args).index(index).stdin(stdin).done()?;
    }
    let listed = differences
        .iter()
        .filter(|difference| left_out.contains(&difference.path))
        .map(|difference| difference.path.clone());
    Ok(listed.chain(coming).collect())
}

/// Whether the branch could move: its locks, and the hook that may refuse.
fn try_branch(repository: &Repository, way: &WorktreeMove) -> Result<(), SyncStop> {
    let words = format!(
        "start\nupdate refs/heads/{} {} {}\nprepare\nabort\n",
        way.branch, way.to, way.from
    );
    let tried = repository
        .git
        .call(["update-ref", "--stdin"])
        .stdin(words)
        .run()?;
    if tried.status.success() {
        Ok(())
    } else {
        Err(cannot_move(way, &tried))
    }
}

/// The refusal where git will not make the new index: something else is staged for files that a pull would change.
fn staged(
    repository: &Repository,
    lock: &IndexLock<'_>,
    differences: &[Difference],
    way: &WorktreeMove,
) -> Result<SyncStop, SyncStop> {
    let index = lock.copy()?;
    let staged: BTreeSet<_> = repository
        .git
        .call([
            "diff-index",
            "-z",
            "--cached",
            "--name-only",
            "--no-renames",
            &way.from,
        ])
        .index(&index)
        .words()?
        .into_iter()
        .collect();
    let paths = differences
        .iter()
        .map(|difference| &difference.path)
        .filter(|path| staged.contains(*path));
    let paths = repository.shown_all(paths);
    let why = format!("a pull would overwrite what is staged and in no commit ({paths})");
    Ok(SyncStop::not_pulling(GitReason::InTheWay, why))
}
