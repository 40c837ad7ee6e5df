//! Where a database lies: its repository, the branch, and what is in progress there.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use beadlock_checker::duration::shown;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::facts;
use beadlock_checker::shell::{Part, to_type};

use super::changes::unmerged;
use super::program::Git;
use super::{Order, Stop};

/// A repository with a branch that can be committed to.
#[derive(Debug)]
pub(super) struct Repository {
    /// git in its top directory.
    pub(super) git: Git,
    /// The git directory of this working tree.
    pub(super) git_dir: PathBuf,
    /// The database's directory, from the top; empty when it is the top.
    pub(super) prefix: PathBuf,
    pub(super) database: PathBuf,
    /// What all worktrees share.
    common_dir: PathBuf,
}

/// The branch, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// Without `refs/heads/`.
    pub(super) branch: String,
    pub(super) commit: String,
}

/// How long an `index.lock` may be there before this sync does without: a prompt's `git status` takes one.
const PATIENCE: Duration = Duration::from_secs(1);

/// From this age on an `index.lock` may be one that nobody has any more.
const OLD: Duration = Duration::from_secs(60);

/// What git leaves in its directory while something is in progress, and what that is.
const IN_PROGRESS: [(&str, &str); 7] = [
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisect"),
    ("sequencer", "a cherry-pick or revert of several commits"),
];

impl Repository {
    /// The repository that the database lies in, when it may be synced.
    pub(super) fn find(order: &Order) -> Result<Self, Stop> {
        let dir = escaped_path(&order.dir);
        let git = Git::in_dir(&order.dir);
        let what = ["--is-bare-repository", "--is-inside-git-dir", "--is-inside-work-tree"];
        let answer = git.call([&["rev-parse"], &what[..]].concat()).in_english().run()?;
        if !answer.status.success() {
            if answer.last_line().starts_with("not a git repository") {
                return Err(Stop::Nothing(format!("Nothing to sync: {dir} is in no git repository")));
            }
            answer.show();
            return Err(Stop::Refused(format!("git does not work in {dir}: {}", answer.last_line())));
        }
        if answer.stdout != b"false\nfalse\ntrue\n" {
            let why = format!("Nothing to sync: {dir} is in no working tree of a git repository");
            return Err(Stop::Nothing(why));
        }
        let where_ = ["--show-toplevel", "--absolute-git-dir", "--path-format=absolute", "--git-common-dir"];
        let answer = git.call([&["rev-parse"], &where_[..]].concat()).done()?;
        let paths: Vec<_> = answer.stdout.trim_ascii_end().split(|byte| *byte == b'\n').map(path).collect();
        let [top, git_dir, common_dir] = paths.as_slice() else {
            return Err(Stop::Refused(format!("the path of the repository of {dir} has a line break in it")));
        };
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (top, git_dir, common_dir) = (real(top), real(git_dir), real(common_dir));
        let Ok(prefix) = order.dir.strip_prefix(&top) else {
            return Err(Stop::Refused(format!(
                "{dir} is not below {}, where git sees it",
                escaped_path(&top)
            )));
        };
        if git_dir != common_dir && !order.allow_worktree {
            return Err(Stop::Refused(format!(
                "{} is a linked worktree: what is committed goes to the branch that is checked out here, and other \
                 worktrees have databases of their own; run the agent on the main one, or give --allow-worktree",
                escaped_path(&top)
            )));
        }
        // With core.worktree it may be any directory, and git started in there finds another repository, or none.
        if fs::symlink_metadata(top.join(".git")).is_err() {
            return Err(Stop::Refused(format!(
                "{} is a working tree without .git (core.worktree)",
                escaped_path(&top)
            )));
        }
        let git = Git::in_dir(&top);
        Ok(Self { git, git_dir, common_dir, prefix: prefix.to_owned(), database: order.dir.clone() })
    }

    /// Refuses while somebody else is in the middle of something.
    pub(super) fn check_quiet(&self) -> Result<(), Stop> {
        let top = self.top();
        let in_progress =
            |what: &str| Stop::Refused(format!("{what} is in progress in {top}; finish or abort it"));
        for (name, what) in IN_PROGRESS {
            if fs::symlink_metadata(self.git_dir.join(name)).is_ok() {
                return Err(in_progress(what));
            }
        }
        if self.common_dir.join("reftable").is_dir() {
            // There these are no files.
            for (name, what) in IN_PROGRESS.iter().filter(|(name, _)| name.ends_with("_HEAD")) {
                if self.git.call(["rev-parse", "-q", "--verify", name]).run()?.status.success() {
                    return Err(in_progress(what));
                }
            }
        }
        let lock = self.index_lock();
        let begun = Instant::now();
        while let Ok(meta) = fs::symlink_metadata(&lock) {
            if begun.elapsed() >= PATIENCE {
                return Err(Stop::Refused(other_git(&lock, &meta)));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Refuses without an index, for then everything looks deleted and is not; and while paths anywhere are unmerged,
    /// whatever left them so.
    pub(super) fn check_index(&self) -> Result<(), Stop> {
        if let Err(error) = fs::symlink_metadata(self.index()) {
            return Err(Stop::io("there is nothing checked out: cannot look at", &self.index(), &error));
        }
        let mut paths = self.git.call(["ls-files", "--unmerged", "-z", "--format=%(path)"]).words()?;
        paths.dedup();
        if paths.is_empty() { Ok(()) } else { Err(unmerged(self, &paths)) }
    }

    /// The branch that is checked out.
    pub(super) fn head(&self) -> Result<Head, Stop> {
        let (top, dir) = (self.top(), Part::Path(&self.git.dir));
        let Some(name) = self.git.call(["symbolic-ref", "-q", "HEAD"]).run()?.ok_text() else {
            return Err(Stop::Refused(format!(
                "HEAD is detached in {top}, so a commit would be on no branch; type: {}",
                to_type("git -C {} switch BRANCH", &[dir])
            )));
        };
        let branch = name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned();
        match self.git.call(["rev-parse", "-q", "--verify", "HEAD^{commit}"]).run()?.ok_text() {
            Some(commit) => Ok(Head { branch, commit }),
            None => Err(Stop::Refused(format!(
                "the branch {} in {top} has no commit yet; make the first one: {}",
                escaped(&branch),
                to_type("git -C {} commit", &[dir])
            ))),
        }
    }

    /// The branch as it is now, when it is still this one that is checked out.
    pub(super) fn head_of(&self, branch: &str) -> Result<Head, Stop> {
        let now = self.head()?;
        if now.branch != branch {
            let why = format!(
                "somebody has switched from {} to {} meanwhile",
                escaped(branch),
                escaped(&now.branch)
            );
            // Who does so is in the middle of something: the other branch has its turn in the next cycle.
            return Err(Stop::Refused(why));
        }
        Ok(now)
    }

    /// Refuses when it is another branch now, or the branch has another commit.
    pub(super) fn check_at(&self, branch: &str, commit: &str) -> Result<(), Stop> {
        if self.head_of(branch)?.commit != commit {
            return Err(Stop::Moved(format!("somebody else has moved {} meanwhile", escaped(branch))));
        }
        Ok(())
    }

    /// A path from the top is in the database.
    pub(super) fn has(&self, path: &[u8]) -> bool {
        Path::new(OsStr::from_bytes(path)).starts_with(&self.prefix)
    }

    /// The top directory, for a line.
    pub(super) fn top(&self) -> String {
        escaped_path(&self.git.dir)
    }

    /// The pathspec of the database.
    pub(super) fn inside(&self) -> Vec<u8> {
        match self.prefix.as_os_str().as_bytes() {
            b"" => b":(top)".to_vec(),
            prefix => [b":(top,literal)", prefix].concat(),
        }
    }

    /// The pathspecs of everything but databases, this one and others; `None` when there is nothing else.
    pub(super) fn outside(&self) -> Option<[Vec<u8>; 3]> {
        if self.prefix == Path::new("") {
            return None;
        }
        let this = [b":(top,exclude,literal)", self.prefix.as_os_str().as_bytes()].concat();
        Some([b":(top)".to_vec(), this, b":(top,exclude,glob)**/.beads/**".to_vec()])
    }

    pub(super) fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    pub(super) fn index_lock(&self) -> PathBuf {
        self.git_dir.join("index.lock")
    }

    /// A path for a line, as it is typed.
    pub(super) fn shown(&self, path: &[u8]) -> String {
        escaped_path(Path::new(OsStr::from_bytes(path)))
    }

    /// The same for several: the first three, and how many more.
    pub(super) fn shown_all<'a>(&self, paths: impl IntoIterator<Item = &'a [u8]>) -> String {
        let paths: Vec<_> = paths.into_iter().map(|path| self.shown(path)).collect();
        match paths.as_slice() {
            [first @ .., _] if paths.len() > 3 => {
                format!("{} and {} more", first[..3].join(", "), paths.len() - 3)
            }
            all => all.join(", "),
        }
    }
}

/// Another git has the index.
pub(super) fn other_git(lock: &Path, meta: &fs::Metadata) -> String {
    let since = meta.modified().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    let now = Duration::try_from(facts::now().0).unwrap_or_default();
    let age = now.saturating_sub(since.unwrap_or(now));
    let what_to_do = if age >= OLD { "; if none is, remove that file" } else { "" };
    format!("{} has been there for {}: another git is at work{what_to_do}", escaped_path(lock), shown(age))
}

fn path(bytes: &[u8]) -> PathBuf {
    std::ffi::OsString::from_vec(bytes.to_vec()).into()
}
