//! Where a database lies: its repository, the branch, and what is in progress there.

use std::cell::{OnceCell, RefCell};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use beadlock_core::Place;
use beadlock_trust::Owners;
use nix::libc::{O_CLOEXEC, O_DIRECTORY};

use crate::blob_cache::BlobCache;
use crate::find::{FoundDirs, git_dirs, look, plain_git_dir};
use crate::owners::LedTo;
use crate::refs::{self, HeadLook, RefLook};
use crate::tree::FileTree;
use crate::{
    ExcludedNames, Git, GitReason, GitSettings, Part, RepositoryFacts, SyncRequest, SyncStop,
    as_path, damage, embedded, escaped, escaped_path, is_database_name, locks, owners, progress,
    to_type, typed_all,
};

/// A repository with a branch that can be committed to.
#[derive(Debug)]
pub struct Repository {
    /// git in its top directory.
    pub git: Git,
    /// The files of the working tree.
    pub files: FileTree,
    /// The git directory of this working tree.
    pub git_dir: PathBuf,
    /// The database's directory, from the top; empty when it is the top.
    pub prefix: PathBuf,
    /// The names that git must not track, and the agent's own files.
    pub names: ExcludedNames,
    /// The request that this sync answers.
    pub request: SyncRequest,
    /// The git directory that all worktrees share.
    pub common_dir: PathBuf,
    /// Blobs that were read or written.
    pub blobs: RefCell<BlobCache>,
    settings: OnceCell<GitSettings>,
    /// The paths that its settings lead git to; set when their owners are checked.
    pub(crate) led_to: OnceCell<LedTo>,
    /// The paths that were refused for their owners or writers; a change of one may end the refusal.
    pub(crate) refused: OnceCell<Vec<PathBuf>>,
}

/// The branch that is checked out, and its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchHead {
    /// The name of the branch, without `refs/heads/`.
    pub branch: String,
    /// The commit's id, in hexadecimal digits.
    pub commit: String,
}

pub(crate) use crate::progress::IN_PROGRESS;

impl Repository {
    /// The repository that the database lies in, as an earlier sync has found it where the request says so.
    pub fn of(request: &SyncRequest) -> Result<Self, SyncStop> {
        embedded::refuse(&request.dir)?;
        owners::refuse_pipes(request)?;
        match request
            .known
            .as_ref()
            .filter(|known| known.settings.is_some())
        {
            Some(known) => Self::known(request, known),
            None => Self::find(request),
        }
    }

    /// The repository that the database lies in, when it may be synced. It is looked for from the directory above the
    /// database, where a cycle's command is started, and never from inside.
    fn find(request: &SyncRequest) -> Result<Self, SyncStop> {
        let dir = escaped_path(&request.dir);
        let FoundDirs {
            top,
            git_dir,
            common_dir,
        } = look(request)?;
        let path =
            fs::canonicalize(&top).map_err(|error| SyncStop::io("cannot look at", &top, &error))?;
        let shown = escaped_path(&path);
        // Before git could start a program of the repository's, or one that its configuration names.
        let open = owned(request, &top, &path)?;
        let Ok(prefix) = request.dir.strip_prefix(&path) else {
            return Err(SyncStop::failed(
                GitReason::Worktree,
                format!("{dir} is not below {shown}, where git sees it"),
            ));
        };
        // With core.worktree it may be any directory, and git started in there finds another repository, or none.
        if fs::symlink_metadata(path.join(".git")).is_err() {
            return Err(SyncStop::failed(
                GitReason::Worktree,
                format!("{shown} is a working tree without .git (core.worktree)"),
            ));
        }
        let open = Arc::new(open);
        let files = FileTree::new(Arc::clone(&open), path.clone());
        let git = Git::in_open(open, path.clone());
        let (git_dir, common_dir) = match plain_git_dir(&path, &git_dir, &common_dir) {
            Some(plain) => (plain.clone(), plain),
            // By a file that leads there: as git sees it in the directory that is open now.
            None => git_dirs(&git)?.ok_or_else(|| {
                SyncStop::failed(
                    GitReason::Worktree,
                    format!("the path of the repository of {dir} has a line break in it"),
                )
            })?,
        };
        for dir in [&git_dir, &common_dir] {
            owned(request, dir, dir)?;
        }
        if git_dir != common_dir && !request.allow_worktree {
            let why = format!(
                "{shown} is a linked worktree: what is committed goes to the branch that is checked out here, and \
                 other worktrees have databases of their own; run the agent on the main one, or give --allow-worktree"
            );
            return Err(SyncStop::failed(GitReason::Worktree, why));
        }
        let names = ExcludedNames::of(request, &path, prefix);
        let (prefix, request) = (prefix.to_owned(), request.clone());
        Ok(Self {
            git,
            files,
            git_dir,
            common_dir,
            prefix,
            names,
            request,
            blobs: RefCell::default(),
            settings: OnceCell::new(),
            led_to: OnceCell::new(),
            refused: OnceCell::new(),
        })
    }

    /// The repository as an earlier sync has found it, when it still has the right owner. Starts nothing.
    pub fn known(request: &SyncRequest, known: &RepositoryFacts) -> Result<Self, SyncStop> {
        let top = known.top();
        let open = owned(request, top, top)?;
        let (git_dir, common_dir) = (known.git_dir().to_owned(), known.common_dir().to_owned());
        for dir in [&git_dir, &common_dir] {
            owned(request, dir, dir)?;
        }
        let Ok(prefix) = request.dir.strip_prefix(top) else {
            let (dir, top) = (escaped_path(&request.dir), escaped_path(top));
            return Err(SyncStop::failed(
                GitReason::Worktree,
                format!("{dir} is not below {top}, where git saw it"),
            ));
        };
        let names = ExcludedNames::of(request, top, prefix);
        let open = Arc::new(open);
        let files = FileTree::new(Arc::clone(&open), top.to_owned());
        let git = Git::in_open(open, top.to_owned());
        Ok(Self {
            git,
            files,
            git_dir,
            common_dir,
            prefix: prefix.to_owned(),
            names,
            request: request.clone(),
            blobs: RefCell::default(),
            settings: known
                .settings
                .clone()
                .map_or_else(OnceCell::new, OnceCell::from),
            refused: OnceCell::new(),
            led_to: known
                .led_to
                .clone()
                .map_or_else(OnceCell::new, OnceCell::from),
        })
    }

    /// The settings, where the next sync may go on with them.
    pub(crate) fn known_settings(&self) -> Option<GitSettings> {
        self.settings
            .get()
            .filter(|settings| settings.can_be_kept())
            .cloned()
    }

    /// Refuses while somebody else is in the middle of something.
    pub fn check_quiet(&self) -> Result<(), SyncStop> {
        progress::refuse(self)?;
        // A branch cannot move while HEAD is locked: it has a log, too.
        for lock in [self.index_lock(), self.git_dir.join("HEAD.lock")] {
            locks::wait_for(self, &lock)?;
        }
        let others = ["packed-refs.lock", "config.lock", "shallow.lock"];
        locks::look_at(self, others.map(|name| self.common_dir.join(name)));
        Ok(())
    }

    /// Refuses while another git has the branch.
    pub fn check_unlocked(&self, head: &BranchHead) -> Result<(), SyncStop> {
        locks::wait_for(self, &self.lock_of(&format!("refs/heads/{}", head.branch)))
    }

    /// The lock of a ref, by its full name.
    pub(crate) fn lock_of(&self, name: &str) -> PathBuf {
        self.common_dir.join(format!("{name}.lock"))
    }

    /// Waits a little for another git that has the index; gives up when that has taken too long since `begun`.
    pub fn wait_for_index(&self, begun: Instant) -> Result<(), SyncStop> {
        locks::wait(self, &self.index_lock(), begun)
    }

    /// The settings, read once.
    pub fn settings(&self) -> Result<&GitSettings, SyncStop> {
        if self.settings.get().is_none() {
            let _ = self.settings.set(GitSettings::read(&self.git)?);
        }
        self.settings
            .get()
            .ok_or_else(|| SyncStop::failed(GitReason::GitFailed, "git config was not read"))
    }

    /// Refuses without an index, because then everything looks deleted.
    pub fn check_index(&self) -> Result<(), SyncStop> {
        let index = self.index();
        let failed = |error| {
            SyncStop::io(
                "there is nothing checked out: cannot look at",
                &index,
                &error,
            )
        };
        fs::symlink_metadata(&index).map_err(failed).map(|_| ())
    }

    /// The branch that is checked out.
    ///
    /// # Errors
    /// When HEAD is detached or damaged, or the branch has no commit.
    pub fn head(&self) -> Result<BranchHead, SyncStop> {
        let (top, dir) = (self.top(), Part::Path(&self.git.dir));
        let name = match refs::head(&self.git_dir) {
            HeadLook::Branch(name) => Some(name),
            HeadLook::Detached => None,
            HeadLook::Unsure => self
                .git
                .call(["symbolic-ref", "-q", "HEAD"])
                .run()?
                .ok_text(),
        };
        let Some(name) = name else {
            return Err(
                damage::of_head(&self.git_dir, &self.common_dir).unwrap_or_else(|| self.detached())
            );
        };
        let branch = name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned();
        match self.commit_of(&name)? {
            Some(commit) => Ok(BranchHead { branch, commit }),
            None => Err(damage::of_branch(self, &name).unwrap_or_else(|| {
                let why = format!("the branch {} in {top} has no commit yet", escaped(&branch));
                let command = "git -C {} commit --allow-empty -m 'first commit'";
                SyncStop::failed(GitReason::NoCommit, why).next(to_type(command, &[dir]))
            })),
        }
    }

    /// No branch is checked out. What is at HEAD alone, and in the files of the database, must not be lost by a switch.
    fn detached(&self) -> SyncStop {
        let (top, dir) = (self.top(), Part::Path(&self.git.dir));
        let why = format!("HEAD is detached in {top}, so a commit would be on no branch");
        let stop = |why: String| SyncStop::failed(GitReason::DetachedHead, why);
        let Some(branch) = damage::left_branch(self) else {
            return stop(why).next(to_type("git -C {} switch BRANCH", &[dir]));
        };
        let name = format!("refs/heads/{branch}");
        let asked = |args: &[&str]| self.git.call(args).run().ok();
        // What some ref has is not lost.
        let alone = asked(&["for-each-ref", "--count=1", "--contains", "HEAD"])
            .filter(|answer| answer.status.success() && answer.stdout.is_empty())
            .and_then(|_| asked(&["rev-parse", "--verify", "HEAD"])?.ok_text());
        let differs = |args: &[&str]| {
            let call = self.git.call(args).paths([self.inside()]).run();
            call.is_ok_and(|answer| answer.status.code() == Some(1))
        };
        let must_merge = differs(&["diff", "--quiet", "HEAD", "--"])
            && differs(&["diff", "--quiet", "HEAD", &name, "--"]);
        let word = Part::Word(OsStr::new(&branch));
        let switch = match must_merge {
            true => to_type("git -C {} switch --merge {}", &[dir.clone(), word]),
            false => to_type("git -C {} switch {}", &[dir.clone(), word]),
        };
        match alone {
            Some(commit) => {
                let mine = format!("mine-{}", short(&commit));
                let why = format!("{why}; its commits are on no branch, and {mine} keeps them");
                let keep = to_type("git -C {} branch {}", &[dir, Part::Word(OsStr::new(&mine))]);
                stop(why).next(format!("{keep} && {switch}"))
            }
            None => stop(why).next(switch),
        }
    }

    /// The commit that a ref names; `None` when there is no such ref.
    pub fn commit_of(&self, name: &str) -> Result<Option<String>, SyncStop> {
        Ok(match refs::read(&self.common_dir, name) {
            RefLook::Object(commit) => Some(commit),
            RefLook::Absent => None,
            RefLook::Unsure => {
                let commit = format!("{name}^{{commit}}");
                self.git
                    .call(["rev-parse", "-q", "--verify", &commit])
                    .run()?
                    .ok_text()
            }
        })
    }

    /// The branch as it is now. Refuses when somebody has switched to another one: that one's turn is the next cycle.
    pub fn head_of(&self, branch: &str) -> Result<BranchHead, SyncStop> {
        let now = self.head()?;
        if now.branch == branch {
            return Ok(now);
        }
        let (from, to) = (escaped(branch), escaped(&now.branch));
        Err(SyncStop::failed(
            GitReason::Raced,
            format!("somebody has switched from {from} to {to} meanwhile"),
        ))
    }

    /// Refuses when it is another branch now, or the branch has another commit.
    pub fn check_at(&self, branch: &str, commit: &str) -> Result<(), SyncStop> {
        if self.head_of(branch)?.commit != commit {
            return Err(SyncStop::moved(format!(
                "somebody else has moved {} meanwhile",
                escaped(branch)
            )));
        }
        Ok(())
    }

    /// The entries of `git status --porcelain=v2 -z` for these pathspecs.
    ///
    /// # Errors
    /// When git fails, or cannot be started.
    pub fn status(&self, options: &[&str], specs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, SyncStop> {
        let args = ["status", "--porcelain=v2", "-z", "--no-renames"]
            .iter()
            .chain(options)
            .chain(&["--"]);
        self.git.call(args).paths(specs).words()
    }

    /// Why nothing is synced while a merge has left conflicts in these files.
    pub fn unmerged(&self, paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> SyncStop {
        let paths: Vec<_> = paths.into_iter().collect();
        let why = format!(
            "a merge has left conflicts in {}; resolve them, then git add",
            self.shown_all(&paths)
        );
        let command = to_type(
            "git -C {} add -- {}",
            &[Part::Path(&self.git.dir), typed_all(&paths)],
        );
        SyncStop::failed(GitReason::Unmerged, why).next(command)
    }

    /// Refuses when a lock has come meanwhile, from a tool that does not ask for the gate.
    pub fn check_unclaimed(&self) -> Result<(), SyncStop> {
        let lock = Place::beads(self.request.dir.as_path()).path();
        if fs::symlink_metadata(&lock).is_err() {
            return Ok(());
        }
        let lock = escaped_path(&lock);
        Err(SyncStop::failed(
            GitReason::Claimed,
            format!("{lock} has come meanwhile; the next cycle looks at it"),
        ))
    }

    /// Whether a path from the top is in this database.
    pub fn has(&self, path: &[u8]) -> bool {
        as_path(path).starts_with(&self.prefix)
    }

    /// Whether a path from the top is in a database, this one or another.
    pub fn has_anywhere(&self, path: &[u8]) -> bool {
        let mut above = as_path(path).ancestors().skip(1);
        self.has(path) || above.any(|dir| dir.file_name().is_some_and(is_database_name))
    }

    /// The top directory, for a line.
    pub fn top(&self) -> String {
        escaped_path(&self.git.dir)
    }

    /// The pathspec of the database.
    pub fn inside(&self) -> Vec<u8> {
        match self.prefix.as_os_str().as_encoded_bytes() {
            b"" => b":(top)".to_vec(),
            prefix => [b":(top,literal)", prefix].concat(),
        }
    }

    /// The database as it is typed behind `git -C TOP … --`.
    pub fn typed(&self) -> OsString {
        match self.prefix.as_os_str() {
            prefix if prefix.is_empty() => ".".into(),
            prefix => prefix.to_owned(),
        }
    }

    /// The pathspecs of everything but databases, this one and others; `None` when there is nothing else.
    pub fn outside(&self) -> Option<[Vec<u8>; 3]> {
        if self.prefix == Path::new("") {
            return None;
        }
        let this = [
            b":(top,exclude,literal)",
            self.prefix.as_os_str().as_encoded_bytes(),
        ]
        .concat();
        Some([
            b":(top)".to_vec(),
            this,
            b":(top,exclude,glob)**/.beads/**".to_vec(),
        ])
    }

    /// The index of this working tree.
    pub fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// The lock of that index, as git makes it.
    pub fn index_lock(&self) -> PathBuf {
        self.git_dir.join("index.lock")
    }

    /// A path from the top, for a line.
    pub fn shown(&self, path: &[u8]) -> String {
        escaped_path(as_path(path))
    }

    /// The first three paths for a line, and how many more.
    pub fn shown_all(&self, paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> String {
        let paths: Vec<_> = paths
            .into_iter()
            .map(|path| self.shown(path.as_ref()))
            .collect();
        match paths.len() {
            ..=3 => paths.join(", "),
            count => format!("{} and {} more", paths[..3].join(", "), count - 3),
        }
    }
}

/// Opens a directory, and refuses another user's as the database's; `path` is for lines.
fn owned(request: &SyncRequest, dir: &Path, path: &Path) -> Result<File, SyncStop> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(O_DIRECTORY | O_CLOEXEC)
        .open(dir);
    let opened = opened.map_err(|error| SyncStop::io("cannot open", path, &error))?;
    let owners = Owners::of_this_user(request.any_owner);
    owners
        .check_open(&opened, path)
        .map_err(|why| SyncStop::failed(GitReason::WrongOwner, why))?;
    Ok(opened)
}

/// The first digits of a commit, as git shows it.
pub fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}
