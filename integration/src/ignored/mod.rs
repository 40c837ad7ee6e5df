//! Whether git ignores a lock file. `git add -A` inside a hold commits a lock that git does not ignore, and every
//! other clone then has a lock that no check may remove.
//!
//! No git is started: the answer comes from the ignore files alone, so that a repository cannot run code in our name.
//! Limits: the index is not read, so a lock that is tracked already counts by its patterns. `core.excludesFile` is
//! found in the repository's, the user's and the system's configuration, but not in files that these include.

mod patterns;
mod reminder;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fs, os::unix::fs::MetadataExt};

use beadlock_base::escape::{escaped_path, is_harmless};
use beadlock_base::regular::Links;
use beadlock_base::shell::{self, Part};
use nix::unistd::geteuid;

use patterns::{GITIGNORE, Patterns, read};
pub use reminder::{Reminder, Reminding};

/// What git makes of some files of one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GitAnswer {
    NoWorkTree,
    /// It ignores all of them.
    Ignored,
    /// It does not ignore this one.
    NotIgnored(String),
    /// It cannot be told, and why.
    Unknown(String),
}

impl GitAnswer {
    /// For files called `names` in `dir`, a path without links.
    pub fn about(dir: &Path, names: &[&str]) -> Self {
        let Some(tree) = WorkTree::around(dir) else {
            return Self::NoWorkTree;
        };
        if !tree.is_ours() {
            return Self::Unknown("the repository belongs to another user".to_owned());
        }
        let patterns = match Patterns::around(dir, names, &tree) {
            Ok(patterns) => patterns,
            Err(why) => return Self::Unknown(why),
        };
        let named = names.iter().find(|name| !patterns.ignore(&dir.join(name)));
        named.map_or(Self::Ignored, |name| Self::NotIgnored((*name).to_owned()))
    }
}

/// The name whose pattern needs no anchor: no other file has it, in any directory.
const BEADS: &[u8] = b".exclusive-lock";

/// What makes git ignore a lock and the files beside it.
#[derive(Debug)]
pub struct IgnoreAdvice<'a> {
    /// The directory of the lock, without links.
    pub dir: &'a Path,
    /// The lock file's name.
    pub name: &'a OsStr,
    /// The working directory.
    pub cwd: &'a Path,
}

impl IgnoreAdvice<'_> {
    /// What is wrong and what to type, in one line.
    pub fn sentence(&self) -> String {
        let lock = escaped_path(&self.seen().join(self.name));
        format!(
            "git does not ignore {lock}, and git add -A would commit it; type: {}",
            self.to_type()
        )
    }

    /// The command that adds the pattern.
    pub fn to_type(&self) -> String {
        let ignore = self.dir.join(GITIGNORE);
        let content = read(&ignore, Links::Refused)
            .ok()
            .flatten()
            .unwrap_or_default();
        // A last line without its end would swallow the pattern.
        let template = match content.last() {
            None | Some(b'\n') => r"printf '%s\n' {} >> {}",
            Some(_) => r"printf '\n%s\n' {} >> {}",
        };
        let (pattern, file) = (pattern(self.name), self.seen().join(GITIGNORE));
        shell::to_type(template, &[Part::Words(vec![pattern]), Part::Path(&file)])
    }

    /// The directory as it is typed from here.
    fn seen(&self) -> &Path {
        let cwd = fs::canonicalize(self.cwd);
        cwd.ok()
            .and_then(|cwd| self.dir.strip_prefix(cwd).ok())
            .unwrap_or(self.dir)
    }
}

/// The one pattern for a lock, its side file, its drafts and the records that `break` keeps.
fn pattern(name: &OsStr) -> OsString {
    if name.as_bytes() == BEADS {
        return ".exclusive-lock*".into();
    }
    let escaped = name.as_bytes().iter().flat_map(|byte| match byte {
        b'*' | b'?' | b'[' | b']' | b'\\' => vec![b'\\', *byte],
        // A pattern is a line.
        byte if byte.is_ascii_control() => vec![b'?'],
        byte => vec![*byte],
    });
    let mut pattern: Vec<u8> = [b'/'].into_iter().chain(escaped).chain([b'*']).collect();
    if !String::from_utf8_lossy(&pattern).chars().all(is_harmless) {
        pattern = pattern
            .into_iter()
            .map(|byte| if byte.is_ascii() { byte } else { b'?' })
            .collect();
    }
    OsString::from_vec(pattern)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct WorkTree {
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
        dir.ancestors()
            .take_while(|above| device(above) == Some(ours))
            .find_map(|top| {
                let common = git_directory(top)?;
                fs::symlink_metadata(common.join("HEAD")).ok()?;
                Some(Self {
                    top: top.to_owned(),
                    common,
                })
            })
    }

    /// Both directories belong to this user: git itself refuses other repositories.
    pub fn is_ours(&self) -> bool {
        let user = geteuid().as_raw();
        [&self.top, &self.common]
            .iter()
            .all(|dir| fs::metadata(dir).is_ok_and(|meta| meta.uid() == user))
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
    let path = content
        .strip_prefix(before)?
        .split(|byte| *byte == b'\n')
        .next()?;
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
        assert_eq!(
            WorkTree::around(&beads),
            None,
            "a .git without a HEAD is nothing"
        );
        fs::write(top.join("repo/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
        let found = WorkTree::around(&beads).unwrap();
        assert_eq!(
            (found.top.as_path(), found.common.as_path()),
            (&*top.join("repo"), &*top.join("repo/.git"))
        );
        assert!(found.is_ours());
        fs::write(
            top.join("side/.git"),
            "gitdir: ../repo/.git/worktrees/side\n",
        )
        .unwrap();
        fs::write(top.join("repo/.git/worktrees/side/commondir"), "../..\n").unwrap();
        let side = WorkTree::around(&top.join("side/.beads")).unwrap();
        assert_eq!(fs::canonicalize(side.common).unwrap(), found.common);
        assert_eq!(WorkTree::around(&top.join("repo/.git/worktrees")), None);
    }
}
