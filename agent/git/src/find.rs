//! Where git finds the repository around a database.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{
    Event, Git, GitReason, HindranceKind, Part, Stop, SyncRequest, as_path, embedded, escaped_path,
    to_type,
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
pub(crate) fn look(request: &SyncRequest) -> Result<FoundDirs, Stop> {
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
        if why.starts_with("not a git repository") {
            return Err(no_repository(request, "is in no git repository"));
        }
        if why.starts_with("cannot use bare repository") {
            return Err(embedded::around(
                request.dir.parent().unwrap_or(&request.dir),
            ));
        }
        return Err(answer.refused(&format!("git does not work in {dir}")));
    }
    let Some(found) = answer.stdout.strip_prefix(b"false\nfalse\ntrue\n") else {
        return Err(no_repository(
            request,
            "is in no working tree of a git repository",
        ));
    };
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

/// As git sees them where it is started; `None` when a path has a line break in it.
pub(crate) fn git_dirs(git: &Git) -> Result<Option<(PathBuf, PathBuf)>, Stop> {
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

fn no_repository(request: &SyncRequest, what: &str) -> Stop {
    let why = format!("{} {what}", escaped_path(&request.dir));
    let around = request.dir.parent().unwrap_or(&request.dir);
    let stop = Stop::notice(
        Event::NothingToSync,
        HindranceKind::Failed,
        GitReason::NoRepository,
        why,
    );
    stop.next(to_type("git -C {} init", &[Part::Path(around)]))
}
