//! The ignore files that have a say about the files of one directory, nearest first.

use std::io;
use std::path::{Path, PathBuf};
use std::{borrow::Cow, ffi::OsStr};

use beadlock_base::regular::{self, Links, Unread};
use beadlock_base::{error::system_words, escape::escaped_path};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};

use super::WorkTree;

/// The longest ignore file that is read.
const LIMIT: u64 = 256 * 1024;

/// What git reads in each directory.
pub const GITIGNORE: &str = ".gitignore";

/// The patterns of all ignore files that have a say.
#[derive(Debug)]
pub struct Patterns {
    top: PathBuf,
    files: Vec<(PathBuf, Gitignore)>,
}

impl Patterns {
    /// Those that may match files called `names` in `dir`, or a directory above them.
    /// Fails in words, when one cannot be read.
    pub fn around(
        dir: &Path,
        names: &[impl AsRef<OsStr>],
        tree: &WorkTree,
    ) -> Result<Self, String> {
        let top = &tree.top;
        let parts = dir
            .strip_prefix(top)
            .unwrap_or(dir)
            .iter()
            .chain(names.iter().map(AsRef::as_ref));
        let parts: Vec<Cow<'_, str>> = parts.map(OsStr::to_string_lossy).collect();
        let in_tree = dir.ancestors().take_while(|above| above.starts_with(top));
        let mut sources: Vec<(&Path, PathBuf, Links)> = in_tree
            .map(|above| (above, above.join(GITIGNORE), Links::Refused))
            .collect();
        sources.push((top, tree.common.join("info/exclude"), Links::Followed));
        sources.extend(
            excludes_file(tree)?.map(|file| (top.as_path(), top.join(file), Links::Followed)),
        );
        let parse = |(root, file, links): (&Path, PathBuf, _)| {
            let content = read(&file, links)?;
            Ok(content.map(|content| (root.to_owned(), parsed(root, &content, &parts))))
        };
        let files = sources
            .into_iter()
            .filter_map(|source| parse(source).transpose());
        Ok(Self {
            top: top.clone(),
            files: files.collect::<Result<_, String>>()?,
        })
    }

    /// Git ignores the file at `path`: by its own name, or because it ignores a directory above it.
    pub fn ignore(&self, path: &Path) -> bool {
        let mut above: Vec<&Path> = path
            .ancestors()
            .take_while(|above| *above != self.top)
            .collect();
        above.reverse();
        above.into_iter().any(|part| {
            let applies =
                |(root, _): &&(PathBuf, Gitignore)| part != root && part.starts_with(root);
            let says = self
                .files
                .iter()
                .filter(applies)
                .map(|(_, file)| file.matched(part, part != path));
            says.into_iter()
                .find(|says| !says.is_none())
                .is_some_and(|says| matches!(says, Match::Ignore(_)))
        })
    }
}

/// A pattern that cannot be understood matches nothing, as with git.
fn parsed(root: &Path, content: &[u8], parts: &[Cow<'_, str>]) -> Gitignore {
    let text = String::from_utf8_lossy(content);
    let mut builder = GitignoreBuilder::new(root);
    for line in text
        .trim_start_matches('\u{feff}')
        .lines()
        .filter(|line| may_match(line, parts))
    {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// The line may match one of these names. Hundreds of patterns would take milliseconds to compile, and hardly one has
/// to do with a lock: what follows the last wildcard of a pattern is how the name ends that it matches.
fn may_match(line: &str, parts: &[Cow<'_, str>]) -> bool {
    if line.contains('\\') {
        return true;
    }
    let pattern = line.trim_end().trim_end_matches('/');
    let name = pattern
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_start_matches('!');
    let end = name.rsplit(['*', '?', ']', '[']).next().unwrap_or_default();
    parts.iter().any(|part| part.ends_with(end))
}

/// `core.excludesFile`: the repository's own comes first.
fn excludes_file(tree: &WorkTree) -> Result<Option<PathBuf>, String> {
    let config = read(&tree.common.join("config"), Links::Followed)?.unwrap_or_default();
    let config = String::from_utf8_lossy(&config);
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        key.trim()
            .eq_ignore_ascii_case("excludesfile")
            .then(|| value.trim().trim_matches('"').to_owned())
    };
    let own =
        config
            .lines()
            .filter_map(value)
            .next_back()
            .map(|value| match value.strip_prefix("~/") {
                Some(rest) => std::env::home_dir().unwrap_or_default().join(rest),
                None => PathBuf::from(value),
            });
    Ok(own.or_else(gitconfig_excludes_path))
}

/// The whole of a small file, or none; fails in words. A link that is not followed is no file: git does not follow a
/// `.gitignore` in a work tree.
pub fn read(file: &Path, links: Links) -> Result<Option<Vec<u8>>, String> {
    match regular::read(file, links, LIMIT) {
        Ok(content) => Ok(Some(content)),
        Err(Unread::Link) => Ok(None),
        Err(Unread::System(error)) if is_absent(&error) => Ok(None),
        Err(Unread::System(error)) => Err(format!(
            "{} cannot be read: {}",
            escaped_path(file),
            system_words(&error)
        )),
        Err(Unread::Directory | Unread::Special | Unread::TooLarge(_)) => Err(format!(
            "{} is not a small regular file",
            escaped_path(file)
        )),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    /// Git's own answer; `None` where there is no git.
    fn of_git(top: &Path, args: &[&str]) -> Option<i32> {
        Command::new("git")
            .arg("-C")
            .arg(top)
            .args(args)
            .output()
            .ok()?
            .status
            .code()
    }

    /// The answer for `a/.beads/.exclusive-lock`, in a repository with these files, here and from git.
    fn asked(files: &[(&str, &str)]) -> Option<(bool, bool)> {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        let dir = top.join("a/.beads");
        fs::create_dir_all(&dir).unwrap();
        if !beadlock_testkit::has_program("git") {
            return None;
        }
        of_git(&top, &["init", "-q"]).unwrap();
        for (name, content) in files {
            fs::write(top.join(name), content).unwrap();
        }
        let tree = WorkTree::around(&dir).unwrap();
        let patterns = Patterns::around(&dir, &[".exclusive-lock"], &tree).unwrap();
        let ours = patterns.ignore(&dir.join(".exclusive-lock"));
        let git = of_git(
            &top,
            &[
                "check-ignore",
                "-q",
                "--no-index",
                "a/.beads/.exclusive-lock",
            ],
        )
        .unwrap();
        assert!(git < 2, "{git}");
        Some((ours, git == 0))
    }

    #[test]
    fn the_answer_is_gits() {
        let exclude = ".git/info/exclude";
        let config = ".git/config";
        let bd = "*.db\n*.db?*\ndaemon.lock\ndaemon.log\nbd.sock\n!issues.jsonl\n";
        let cases: [(&[(&str, &str)], bool); 30] = [
            (&[], false),
            (&[("a/.beads/.gitignore", bd)], false),
            (&[("a/.beads/.gitignore", ".exclusive-lock*\n")], true),
            (&[("a/.beads/.gitignore", ".exclusive-lock")], true),
            (&[("a/.beads/.gitignore", "/.exclusive-lock\n")], true),
            (&[("a/.beads/.gitignore", ".exclusive-lock/\n")], false),
            (
                &[("a/.beads/.gitignore", "\u{feff}.exclusive-lock\n")],
                true,
            ),
            (
                &[(
                    "a/.beads/.gitignore",
                    "# .exclusive-lock\n\n[\n*\n!.gitignore\n",
                )],
                true,
            ),
            (&[("a/.beads/.gitignore", "*\n!.exclusive*\n")], false),
            (&[("a/.beads/.gitignore", ".exclusive-lock \n")], true),
            (&[("a/.beads/.gitignore", ".exclusive-lock\\ \n")], false),
            (&[(".gitignore", "*lock\n")], true),
            (&[(".gitignore", "*-loc[jk]\n")], true),
            (&[(".gitignore", "*-loc?\n")], true),
            (&[(".gitignore", "a//\n")], false),
            (&[(".gitignore", "a/**/\n")], true),
            (&[(".gitignore", ".be[!x]ds/\n")], true),
            (&[(".gitignore", "/a\r\n")], true),
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
            (&[(".gitignore", "**/.beads/.ex*\n")], true),
            (
                &[(".gitignore", "/.beads\n"), ("a/.gitignore", "b\n")],
                false,
            ),
            (&[("a/.gitignore", "/.beads/.exclusive-lock*\n")], true),
            (&[(exclude, ".exclusive-lock*\n")], true),
            (
                &[
                    (exclude, ".exclusive-lock*\n"),
                    (".gitignore", "!.exclusive-lock\n"),
                ],
                false,
            ),
            (
                &[
                    (config, "[core]\n\texcludesFile = all\n"),
                    ("all", ".exclusive-lock*\n"),
                ],
                true,
            ),
            (
                &[
                    (config, "[core]\n\texcludesfile=\"all\"\n"),
                    ("all", "a/**\n"),
                ],
                true,
            ),
            (&[(config, "[core]\n\texcludesFile = none\n")], false),
        ];
        for (files, expected) in cases {
            let Some((ours, git)) = asked(files) else {
                return;
            };
            assert_eq!((ours, git), (expected, expected), "{files:?}");
        }
    }

    #[test]
    fn a_fifo_is_not_waited_for_and_no_answer() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        nix::unistd::mkfifo(&top.join(GITIGNORE), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let tree = WorkTree {
            top: top.clone(),
            common: top.join(".git"),
        };
        let why = Patterns::around(&top, &[GITIGNORE; 0], &tree).unwrap_err();
        assert!(why.ends_with("is not a small regular file"), "{why}");
    }
}
