//! Where git finds the repository around a database.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::refs::{self, HeadLook};
use crate::{
    Event, Git, GitReason, HindranceKind, Part, SyncRequest, SyncStop, as_path, damage, embedded,
    escaped, escaped_path, progress, to_type,
};

/// Where git has found a repository.
pub(crate) struct FoundDirs {
    /// The top of the working tree, as a path from the working directory (the one above the database): `..` for each
    /// step.
    pub(crate) top: PathBuf,
    pub(crate) git_dir: PathBuf,
    pub(crate) common_dir: PathBuf,
}

/// Looks for the repository around the database. To find it git starts nothing.
pub(crate) fn look(request: &SyncRequest) -> Result<FoundDirs, SyncStop> {
    let dir = escaped_path(&request.dir);
    let what = [
        "--is-bare-repository",
        "--is-inside-git-dir",
        "--is-inside-work-tree",
        "--show-cdup",
    ];
    // What merely looks like a repository does not count as one.
    let explicit = ["-c", "safe.bareRepository=explicit", "rev-parse"];
    let args = [&explicit, &what[..], &DIRS].concat();
    let answer = Git::in_dir(Path::new(".")).call(args).in_english().run()?;
    if !answer.status.success() {
        let why = answer.last_line();
        return Err(if why.starts_with("not a git repository") {
            no_repository(request, &why)
        } else if why.starts_with("cannot use bare repository") {
            inside(request)
                .unwrap_or_else(|| embedded::around(request.dir.parent().unwrap_or(&request.dir)))
        } else if why.contains("dubious ownership") {
            let above = above(request).unwrap_or(&request.dir);
            let command = "git config --global --add safe.directory {}";
            SyncStop::failed(
                GitReason::WrongOwner,
                format!("git does not work in {dir}: {why}"),
            )
            .next(to_type(command, &[Part::Path(above)]))
        } else {
            answer.refused(&format!("git does not work in {dir}"))
        });
    }
    let Some(found) = answer.stdout.strip_prefix(b"false\nfalse\ntrue\n") else {
        let dirs = answer.stdout.split(|byte| *byte == b'\n');
        let git_dir = dirs.rev().nth(2).map(as_path).unwrap_or(Path::new(""));
        let is_bare = answer.stdout.starts_with(b"true\n");
        return Err(inside(request).unwrap_or_else(|| match is_bare {
            true => without_working_tree(request, git_dir),
            false => working_tree_elsewhere(request),
        }));
    };
    refuse_damaged(request)?;
    let mut lines = found.splitn(2, |byte| *byte == b'\n');
    let top = Path::new(".").join(as_path(lines.next().unwrap_or_default()));
    let (git_dir, common_dir) = two_dirs(lines.next().unwrap_or_default()).unwrap_or_default();
    Ok(FoundDirs {
        top,
        git_dir,
        common_dir,
    })
}

/// The git directory of a working tree, and the one that all working trees share.
const DIRS: [&str; 3] = [
    "--absolute-git-dir",
    "--path-format=absolute",
    "--git-common-dir",
];

/// The two directories of [`DIRS`], as git sees them where it is started; `None` when a path has a line break in it.
pub(crate) fn git_dirs(git: &Git) -> Result<Option<(PathBuf, PathBuf)>, SyncStop> {
    let args = ["rev-parse"].iter().chain(&DIRS);
    Ok(two_dirs(&git.call(args).done()?.stdout))
}

fn two_dirs(printed: &[u8]) -> Option<(PathBuf, PathBuf)> {
    let lines = printed.strip_suffix(b"\n")?.split(|byte| *byte == b'\n');
    let real =
        |path: &[u8]| fs::canonicalize(as_path(path)).unwrap_or_else(|_| as_path(path).to_owned());
    <[PathBuf; 2]>::try_from(lines.map(real).collect::<Vec<_>>())
        .ok()
        .map(Into::into)
}

/// The directory `.git` in the top, when that is all there is to the repository: no file or link that leads elsewhere.
pub(crate) fn plain_git_dir(top: &Path, git_dir: &Path, common_dir: &Path) -> Option<PathBuf> {
    let plain = top.join(".git");
    let is_plain = git_dir == plain && common_dir == plain;
    (is_plain && fs::symlink_metadata(&plain).is_ok_and(|meta| meta.is_dir())).then_some(plain)
}

/// The nearest directory above the database that has a `.git`.
fn above(request: &SyncRequest) -> Option<&Path> {
    let mut above = request.dir.ancestors().skip(1);
    above.find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok())
}

/// Refuses where git has passed over a repository whose HEAD is damaged, and has found one further above.
fn refuse_damaged(request: &SyncRequest) -> Result<(), SyncStop> {
    let nearest = above(request).map(|dir| dir.join(".git"));
    let damaged = nearest.filter(|dir| damage::is_git_dir(dir));
    damaged
        .and_then(|dir| damage::of_head(&dir, &dir))
        .map_or(Ok(()), Err)
}

/// The refusal for a database inside the git directory; `None` where it is not there.
fn inside(request: &SyncRequest) -> Option<SyncStop> {
    let mut above = request.dir.ancestors().skip(1);
    let git_dir =
        above.find(|dir| dir.file_name() == Some(OsStr::new(".git")) && damage::is_git_dir(dir))?;
    let (dir, shown) = (escaped_path(&request.dir), escaped_path(git_dir));
    let why = format!("{dir} is inside {shown}, of which git commits nothing");
    let stop = SyncStop::failed(GitReason::Worktree, why);
    let place = git_dir.parent()?.join(request.dir.file_name()?);
    // Where there is one already, a person knows which of the two counts.
    if fs::symlink_metadata(&place).is_ok() {
        return Some(stop);
    }
    let parts = [Part::Path(&request.dir), Part::Path(&place)];
    Some(stop.next(to_type("mv {} {}", &parts)))
}

/// The refusal where the repository is here, and `core.worktree` says that its working tree is elsewhere.
fn working_tree_elsewhere(request: &SyncRequest) -> SyncStop {
    let top = above(request).unwrap_or(&request.dir);
    let set = Git::in_dir(Path::new("."))
        .call(["config", "core.worktree"])
        .run();
    let set = set.ok().and_then(|answer| answer.ok_text());
    let (dir, shown) = (escaped_path(&request.dir), escaped_path(&top.join(".git")));
    let to = set.map_or_else(String::new, |to| format!(" ({})", escaped(&to)));
    let why =
        format!("{dir} is not in the working tree of {shown}: core.worktree leads elsewhere{to}");
    let command = to_type("git -C {} config --unset core.worktree", &[Part::Path(top)]);
    SyncStop::failed(GitReason::Worktree, why).next(command)
}

/// git has found a repository that has no working tree here: a bare one.
fn without_working_tree(request: &SyncRequest, git_dir: &Path) -> SyncStop {
    let around = request.dir.parent().unwrap_or(&request.dir);
    let top = above(request).unwrap_or(around);
    let git_dir = fs::canonicalize(git_dir).unwrap_or_else(|_| top.join(".git"));
    let stop = |why| SyncStop::failed(GitReason::Worktree, why);
    let dir = escaped_path(&request.dir);
    // Where files were checked out once, the setting is wrong.
    if git_dir == top.join(".git") && git_dir.join("index").is_file() {
        let config = escaped_path(&git_dir.join("config"));
        let why = format!("{config} says core.bare, and {dir} is beside checked-out files");
        let command = to_type("git -C {} config core.bare false", &[Part::Path(top)]);
        return stop(why).next(command);
    }
    let shown = escaped_path(&git_dir);
    let Some(tree) = worktree_of(&git_dir) else {
        return stop(format!(
            "{dir} lies beside {shown}, a bare repository, and is in no working tree of it"
        ));
    };
    let why = format!(
        "{dir} lies beside the worktrees of {shown}; put its files into one ({}), and run the agent there with \
         --allow-worktree",
        escaped_path(&tree)
    );
    let place = tree.join(request.dir.file_name().unwrap_or_default());
    let parts = |records| [Part::Path(&request.dir), records];
    if fs::symlink_metadata(&place).is_err() {
        return stop(why).next(to_type("mv {} {}", &parts(Part::Path(&place))));
    }
    let aside = progress::free(&top.join(".beads.moved"));
    let (from, to) = (request.dir.join("issues.jsonl"), place.join("issues.jsonl"));
    let moved = to_type("mv {} {}", &parts(Part::Path(&aside)));
    if !from.is_file() {
        return stop(why).next(moved);
    }
    let joined = to_type("cat {} >>{}", &[Part::Path(&from), Part::Path(&to)]);
    stop(why).next(format!("{joined} && {moved}"))
}

/// The directory that a git directory shares with others, as git notes it.
fn common_dir(git_dir: &Path) -> PathBuf {
    let noted = fs::read_to_string(git_dir.join("commondir")).unwrap_or_default();
    match noted.trim_end() {
        "" => git_dir.to_owned(),
        noted => git_dir.join(noted),
    }
}

/// The worktree of a bare repository with its main branch; else its first.
fn worktree_of(git_dir: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(git_dir.join("worktrees")).ok()?;
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let leads = fs::read_to_string(entry.path().join("gitdir")).ok()?;
            let tree = Path::new(leads.trim_end()).parent()?;
            let tree = fs::canonicalize(entry.path().join(tree)).ok()?;
            Some((refs::head(&entry.path()), tree))
        })
        .collect();
    found.sort_by(|a, b| a.1.cmp(&b.1));
    let main = refs::head(git_dir);
    let is_main = |found: &&(HeadLook, PathBuf)| found.0 == main && main != HeadLook::Unsure;
    let tree = found.iter().find(is_main).or_else(|| found.first())?;
    Some(tree.1.clone())
}

/// git finds no repository: `said` tells whether it has followed a `.git` that leads nowhere.
fn no_repository(request: &SyncRequest, said: &str) -> SyncStop {
    let dir = escaped_path(&request.dir);
    let stop = |why| {
        SyncStop::notice(
            Event::NothingToSync,
            HindranceKind::Failed,
            GitReason::NoRepository,
            why,
        )
    };
    if let Some(top) = above(request) {
        let git_dir = top.join(".git");
        let shown = escaped_path(&git_dir);
        if git_dir.is_file() {
            // Of a linked worktree or of a submodule.
            let led = fs::read_to_string(&git_dir).unwrap_or_default();
            let led = led
                .trim_end()
                .strip_prefix("gitdir: ")
                .map(|to| top.join(to));
            if let Some(led) = led.filter(|led| led.is_dir())
                && let Some(damaged) = damage::of_head(&led, &common_dir(&led))
            {
                return damaged;
            }
            let to = said.split_once(": ").map_or("nowhere", |(_, to)| to);
            return stop(format!(
                "{shown} leads to {}, which is no repository",
                escaped(to)
            ));
        }
        if damage::is_git_dir(&git_dir)
            && let Some(damaged) = damage::of_head(&git_dir, &git_dir)
        {
            return damaged;
        }
        let lost: Vec<_> = ["objects", "refs"]
            .into_iter()
            .filter(|name| !git_dir.join(name).is_dir())
            .collect();
        if git_dir.join("HEAD").exists() && !lost.is_empty() {
            let lost = lost.join(" and ");
            return SyncStop::failed(GitReason::Damaged, format!("{shown} has lost its {lost}"));
        }
    }
    let around = request.dir.parent().unwrap_or(&request.dir);
    // A bare repository with its worktrees around it, as some keep them.
    let entries = fs::read_dir(around).into_iter().flatten().flatten();
    let mut beside = entries.map(|entry| entry.path());
    let is_bare = |path: &PathBuf| damage::is_git_dir(path) && path.join("worktrees").is_dir();
    if let Some(git_dir) = beside.find(is_bare) {
        return without_working_tree(request, &git_dir);
    }
    stop(format!("{dir} is in no git repository"))
        .next(to_type("git -C {} init", &[Part::Path(around)]))
}
