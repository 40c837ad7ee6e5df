//! Whether git ignores a lock file. `git add -A` inside a hold commits a lock that git does not ignore, and every
//! other clone then has a lock that no check may remove.
//!
//! Git itself is asked (`git check-ignore`), and only in a work tree of this user: it starts no other program for that.
//! The index is not read, so a lock that is tracked already counts by its patterns.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fs, os::unix::fs::MetadataExt};

use beadlock_base::escape::{escaped_path, is_harmless};
use beadlock_base::git::{GitReply, ask_with};
use beadlock_base::regular::{self, Links};
use beadlock_base::shell::{self, Part};
use nix::unistd::geteuid;

/// The name of the file with ignore patterns that git reads in each directory.
const GITIGNORE: &str = ".gitignore";

/// The longest file that is read here, in bytes.
const LIMIT: u64 = 256 * 1024;

/// Whether git ignores the files of one directory that it was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GitAnswer {
    NoWorkTree,
    /// Git ignores all of the files.
    Ignored,
    /// The first of the files that git does not ignore, by its name.
    NotIgnored(String),
    /// Why it is not known whether git ignores the files.
    Unknown(String),
}

impl GitAnswer {
    /// Asks git about the files called `names` in `dir`, a path without links. Without names git is not asked, and
    /// `Ignored` means a work tree of this user.
    pub fn about(dir: &Path, names: &[&str]) -> Self {
        let Some(tree) = WorkTree::around(dir) else {
            return Self::NoWorkTree;
        };
        if !tree.is_ours() {
            return Self::Unknown("the repository belongs to another user".to_owned());
        }
        if names.is_empty() {
            return Self::Ignored;
        }
        let answer = match ask_with(dir, QUESTION, &with_nuls(names)) {
            GitReply::NoGit => return Self::Unknown("there is no git here".to_owned()),
            GitReply::Unanswered(why) => return Self::Unknown(why),
            GitReply::Answered(answer) => answer,
        };
        let rules = rules(&answer.stdout);
        if rules.len() != names.len() {
            return Self::Unknown(answer.error());
        }
        let mut named = names.iter().zip(rules);
        let named = named.find(|(_, rule)| *rule == Rule::Keeps);
        named.map_or(Self::Ignored, |(name, _)| {
            Self::NotIgnored((*name).to_owned())
        })
    }
}

/// The effect of git's ignore patterns on one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The last pattern that fits has git ignore the name.
    Ignores,
    /// The last pattern that fits takes the name out again, or none fits.
    Keeps,
}

/// The arguments of git for names on its standard input, relative to its working directory. Git answers with one record
/// for each name, whether it is ignored or not.
pub const QUESTION: [&str; 6] = [
    "check-ignore",
    "--no-index",
    "--verbose",
    "--non-matching",
    "--stdin",
    "-z",
];

/// The names as git reads them: each as a path, which a name that begins with a colon would not be.
pub fn with_nuls<N: AsRef<OsStr>>(names: &[N]) -> Vec<u8> {
    let name = |name: &N| [b"./", name.as_ref().as_bytes(), b"\0"].concat();
    names.iter().flat_map(name).collect()
}

/// The records of an answer: the file of a pattern, its line, the pattern and the name, each with a NUL behind it. One
/// that was cut off is no record.
pub fn rules(answer: &[u8]) -> Vec<Rule> {
    let words: Vec<&[u8]> = answer.split(|byte| *byte == 0).collect();
    let (records, _) = words.as_chunks::<4>();
    let rule = |[source, _, pattern, _]: &[&[u8]; 4]| {
        if source.is_empty() || pattern.starts_with(b"!") {
            Rule::Keeps
        } else {
            Rule::Ignores
        }
    };
    records.iter().map(rule).collect()
}

/// The name whose pattern needs no anchor: no other file has it, in any directory.
const BEADS: &[u8] = b".exclusive-lock";

/// Advice for a lock that git does not ignore: a pattern for the lock and the files beside it.
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
    /// The problem and the command to type, in one line.
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
        let content = regular::read(&ignore, Links::Refused, LIMIT).unwrap_or_default();
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

/// The git work tree around a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkTree {
    top: PathBuf,
    /// The git directory that all work trees of the repository share.
    pub common: PathBuf,
}

impl WorkTree {
    /// The nearest work tree around `dir`, a path without links, on the same file system: as git looks for it. `None`
    /// also inside a git directory: git adds nothing from there.
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

    /// Whether both directories belong to this user: git itself refuses other repositories.
    pub fn is_ours(&self) -> bool {
        let user = geteuid().as_raw();
        [&self.top, &self.common]
            .iter()
            .all(|dir| fs::metadata(dir).is_ok_and(|meta| meta.uid() == user))
    }
}

/// The git directory that the work tree at `top` uses or shares: `.git`, or the one that a file of that name leads to.
/// `None`: there is none.
fn git_directory(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    if fs::metadata(&dot_git).ok()?.is_dir() {
        return Some(dot_git);
    }
    let own = top.join(line(&dot_git, b"gitdir: ")?);
    Some(line(&own.join("commondir"), b"").map_or(own.clone(), |shared| own.join(shared)))
}

/// The path in the first line of `file`, after the bytes `before`; `None`: the file has no such line, or cannot be
/// read.
fn line(file: &Path, before: &[u8]) -> Option<PathBuf> {
    let content = regular::read(file, Links::Followed, LIMIT).ok()?;
    let path = content
        .strip_prefix(before)?
        .split(|byte| *byte == b'\n')
        .next()?;
    (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const NAME: &str = ".exclusive-lock";

    /// The answer for `a/.beads/NAME`, in a repository with these files; `None`: there is no git.
    fn asked(files: &[(&str, &str)], names: &[&str]) -> Option<GitAnswer> {
        if !beadlock_testkit::has_program("git") {
            return None;
        }
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        let dir = top.join("a/.beads");
        fs::create_dir_all(&dir).unwrap();
        let made = Command::new("git")
            .args(["init", "-q"])
            .current_dir(&top)
            .status()
            .unwrap();
        assert!(made.success());
        for (name, content) in files {
            fs::write(top.join(name), content).unwrap();
        }
        Some(GitAnswer::about(&dir, names))
    }

    #[test]
    fn every_file_that_git_reads_has_a_say() {
        let bd = "*.db\n*.db?*\ndaemon.lock\ndaemon.log\nbd.sock\n!issues.jsonl\n";
        let (exclude, config) = (".git/info/exclude", ".git/config");
        let cases: [(&[(&str, &str)], bool); 14] = [
            (&[], false),
            (&[("a/.beads/.gitignore", bd)], false),
            (&[("a/.beads/.gitignore", ".exclusive-lock*\n")], true),
            (&[("a/.beads/.gitignore", ".exclusive-lock")], true),
            (&[("a/.beads/.gitignore", ".exclusive-lock/\n")], false),
            (&[("a/.beads/.gitignore", "*\n!.exclusive*\n")], false),
            (&[(".gitignore", "*-loc[jk]\n")], true),
            (
                &[
                    (".gitignore", "*lock\n"),
                    ("a/.beads/.gitignore", "!.exclusive-lock\n"),
                ],
                false,
            ),
            (
                &[
                    (".gitignore", ".beads/\n"),
                    ("a/.beads/.gitignore", "!.exclusive-lock\n"),
                ],
                true,
            ),
            (&[(".gitignore", ".beads/*\n")], false),
            (&[(".gitignore", "a/.beads/*\n")], true),
            (&[(exclude, ".exclusive-lock*\n")], true),
            (
                &[
                    (config, "[core]\n\texcludesFile = all\n"),
                    ("all", ".exclusive-lock*\n"),
                ],
                true,
            ),
            // A file that includes another: only git itself finds it.
            (
                &[
                    (config, "[include]\n\tpath = more\n"),
                    (".git/more", "[core]\n\texcludesFile = all\n"),
                    ("all", "a/**\n"),
                ],
                true,
            ),
        ];
        for (files, is_ignored) in cases {
            let Some(answer) = asked(files, &[NAME]) else {
                return;
            };
            let expected = match is_ignored {
                true => GitAnswer::Ignored,
                false => GitAnswer::NotIgnored(NAME.to_owned()),
            };
            assert_eq!(answer, expected, "{files:?}");
        }
    }

    #[test]
    fn a_name_is_a_name_and_the_first_that_is_kept_is_told() {
        let ignores = &[(".gitignore", "x\n-*\n:*\n")][..];
        let of = |names: &[&str]| asked(ignores, names);
        let Some(all) = of(&["x", "--help", ":(top)x", "-"]) else {
            return;
        };
        assert_eq!(all, GitAnswer::Ignored);
        let kept = GitAnswer::NotIgnored("*".to_owned());
        assert_eq!(of(&["x", "*", "y"]), Some(kept));
        assert_eq!(of(&[]), Some(GitAnswer::Ignored));
    }

    #[test]
    fn what_git_cannot_answer_is_not_known() {
        let config = &[(".git/config", "[core\n")][..];
        let Some(answer) = asked(config, &[NAME]) else {
            return;
        };
        let GitAnswer::Unknown(why) = answer else {
            panic!("{answer:?}")
        };
        assert!(why.contains("bad config"), "{why}");
    }

    #[test]
    fn a_record_that_was_cut_off_is_none() {
        let answer = b".gitignore\x001\0*lock\0a-lock\0\0\0\0b\0.gitignore\x002\0!c\0c\0.git";
        let rules = rules(answer);
        assert_eq!(rules, [Rule::Ignores, Rule::Keeps, Rule::Keeps]);
    }

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
