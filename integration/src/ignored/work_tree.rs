//! The git work tree around a directory.

use std::path::{Path, PathBuf};
use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, os::unix::fs::MetadataExt};

use nix::unistd::geteuid;

use super::patterns::{Links, read};

/// A work tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkTree {
    /// Its topmost directory.
    pub top: PathBuf,
    /// The git directory that all work trees of the repository share.
    pub common: PathBuf,
}

impl WorkTree {
    /// The nearest around `dir`, a path without links, on the same file system: as git looks for it. `None` also
    /// inside a git directory: git adds nothing from there.
    pub fn around(dir: &Path) -> Option<Self> {
        if dir.iter().any(|name| name == ".git") {
            return None;
        }
        let device = |dir: &Path| fs::metadata(dir).map(|meta| meta.dev()).ok();
        let ours = device(dir)?;
        dir.ancestors().take_while(|above| device(above) == Some(ours)).find_map(|top| {
            let common = git_directory(top)?;
            fs::symlink_metadata(common.join("HEAD")).ok()?;
            Some(Self { top: top.to_owned(), common })
        })
    }

    /// Both directories belong to this user: git itself refuses other repositories.
    pub fn is_ours(&self) -> bool {
        let user = geteuid().as_raw();
        [&self.top, &self.common].iter().all(|dir| fs::metadata(dir).is_ok_and(|meta| meta.uid() == user))
    }
}

/// What `.git` in `top` is or leads to.
fn git_directory(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    if fs::metadata(&dot_git).ok()?.is_dir() {
        return Some(dot_git);
    }
    let own = top.join(line(&dot_git, b"gitdir: ")?);
    Some(line(&own.join("commondir"), b"").map_or(own.clone(), |shared| own.join(shared)))
}

/// The path that a file of one line names.
fn line(file: &Path, before: &[u8]) -> Option<PathBuf> {
    let content = read(file, Links::Followed).ok()??;
    let path = content.strip_prefix(before)?.split(|byte| *byte == b'\n').next()?;
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_work_tree_is_found_by_directory_and_by_file() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir_all(top.join("repo/.git/worktrees/side")).unwrap();
        fs::create_dir_all(top.join("repo/sub/.beads")).unwrap();
        fs::create_dir_all(top.join("side/.beads")).unwrap();
        let beads = top.join("repo/sub/.beads");
        assert_eq!(WorkTree::around(&beads), None, "a .git without a HEAD is nothing");
        fs::write(top.join("repo/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let found = WorkTree::around(&beads).unwrap();
        assert_eq!((found.top.as_path(), found.common.as_path()), (&*top.join("repo"), &*top.join("repo/.git")));
        assert!(found.is_ours());
        fs::write(top.join("side/.git"), "gitdir: ../repo/.git/worktrees/side\n").unwrap();
        fs::write(top.join("repo/.git/worktrees/side/commondir"), "../..\n").unwrap();
        let side = WorkTree::around(&top.join("side/.beads")).unwrap();
        assert_eq!(fs::canonicalize(side.common).unwrap(), found.common);
        assert_eq!(WorkTree::around(&top.join("repo/.git/worktrees")), None);
    }
}
