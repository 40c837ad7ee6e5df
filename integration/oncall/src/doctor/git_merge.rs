//! Trials of how git merges the record files of the directory: their `merge` attribute, and the driver that it names.
//!
//! Git is asked, and starts no program for that: an attribute may come from six files, and a driver from files that
//! others include.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::git::{GitReply, ask};
use beadlock_base::shell::{Part, to_type};

use super::bench::TrialSite;
use super::results::{TrialFailure, TrialOutcome};
use crate::ignored::GitAnswer;

/// The record file of a database that has none yet.
const RECORDS: &str = "issues.jsonl";

/// The most record files of a directory that git is asked about.
const MOST: usize = 200;

/// The merge drivers that git has built in.
const BUILT_IN: [&str; 3] = ["text", "binary", "union"];

/// The driver that `beadlock setup git` sets up.
const OURS: &str = "beadlock";

const SETUP: &str = "beadlock setup git";
const SETUP_HERE: &str = "beadlock setup git --local";

/// The settings by which git merges the record files.
#[derive(Debug, Default)]
struct GitMerge {
    /// The record files, each with the driver's name in its `merge` attribute; `None`: the attribute is not set.
    files: Vec<(String, Option<String>)>,
    drivers: Vec<Driver>,
    /// `merge.default`: for every file without an attribute.
    default: Option<String>,
}

/// A merge driver that a user has configured: a section of git's configuration.
#[derive(Debug)]
struct Driver {
    name: String,
    /// The command of the driver; `None`: the section has only other values, such as a name for people.
    command: Option<String>,
    /// Whether the command stands in the configuration of the repository, which beats the user's.
    is_local: bool,
}

/// Whether git merges neither record files by `union`, which may keep a record twice, nor every file as records.
pub fn attribute(site: &TrialSite<'_>) -> TrialOutcome {
    match GitMerge::asked(site)? {
        Ok(git) => git.judged_attribute(|| {
            let attributes = seen_from(&site.directory.path, site.cwd).join(".gitattributes");
            // A line after the others counts, and the file that is nearest.
            to_type(
                r"printf '\n*.jsonl merge=beadlock\n' >> {}",
                &[Part::Path(&attributes)],
            )
        }),
        Err(why) => Ok(why.to_owned()),
    }
}

/// Whether git can start the merge drivers of the record files.
pub fn driver(site: &TrialSite<'_>) -> TrialOutcome {
    match GitMerge::asked(site)? {
        Ok(git) => git.judged_driver(|word| is_program(word, site.search_path)),
        Err(why) => Ok(why.to_owned()),
    }
}

/// The directory as it is typed from `cwd`.
fn seen_from<'a>(dir: &'a Path, cwd: &Path) -> &'a Path {
    let cwd = fs::canonicalize(cwd);
    cwd.ok()
        .and_then(|cwd| dir.strip_prefix(cwd).ok())
        .unwrap_or(dir)
}

impl GitMerge {
    /// Asks git how it merges the record files. The inner `Err`: why there is nothing to judge, no work tree or no git.
    /// The outer `Err`: git gave no answer.
    fn asked(site: &TrialSite<'_>) -> Result<Result<Self, &'static str>, TrialFailure> {
        let dir = &site.directory.path;
        match GitAnswer::about(dir, &[]) {
            GitAnswer::NoWorkTree => return Ok(Err("it is not in a git work tree")),
            GitAnswer::Unknown(why) => return Err(TrialFailure::untried(why)),
            GitAnswer::Ignored | GitAnswer::NotIgnored(_) => {}
        }
        let names = record_files(dir);
        let words = ["check-attr", "-z", "merge", "--"].into_iter();
        let Some(attributes) = answer(dir, words.chain(names.iter().map(String::as_str)))? else {
            return Ok(Err("there is no git here"));
        };
        let settings = answer(
            dir,
            ["config", "-z", "--show-scope", "--get-regexp", r"^merge\."],
        )?;
        let mut git = Self::default();
        git.read_attributes(&attributes);
        git.read_settings(&settings.unwrap_or_default());
        Ok(Ok(git))
    }

    /// Adds the answer of `git check-attr -z`: for each file `path`, `merge` and the value, each before a NUL.
    fn read_attributes(&mut self, said: &str) {
        let fields: Vec<&str> = said.split('\0').collect();
        for row in fields.chunks_exact(3) {
            let name = match row[2] {
                "unspecified" => None,
                "set" => Some("text".to_owned()),
                "unset" => Some("binary".to_owned()),
                name => Some(name.to_owned()),
            };
            self.files.push((row[0].to_owned(), name));
        }
    }

    /// Adds the answer of `git config -z --show-scope`: the scope and a NUL, then `merge.NAME.driver`, a line break,
    /// the value and a NUL. A later value counts.
    fn read_settings(&mut self, said: &str) {
        let fields: Vec<&str> = said.split('\0').collect();
        for row in fields.chunks_exact(2) {
            let (key, value) = row[1].split_once('\n').unwrap_or((row[1], ""));
            match key
                .strip_prefix("merge.")
                .map(|rest| rest.rsplit_once('.').ok_or(rest))
            {
                Some(Ok((name, variable))) => {
                    let command = (variable == "driver").then_some(value);
                    self.read_driver(name, command, row[0] == "local");
                }
                Some(Err("default")) => self.default = Some(value.to_owned()),
                _ => {}
            }
        }
    }

    fn read_driver(&mut self, name: &str, command: Option<&str>, is_local: bool) {
        let known = match self.drivers.iter().position(|known| known.name == name) {
            Some(known) => known,
            None => {
                self.drivers.push(Driver {
                    name: name.to_owned(),
                    command: None,
                    is_local: false,
                });
                self.drivers.len() - 1
            }
        };
        if let (Some(driver), Some(command)) = (self.drivers.get_mut(known), command) {
            driver.command = Some(command.to_owned());
            driver.is_local = is_local;
        }
    }

    /// The name of the driver for a file with this attribute; without one it is `merge.default`. `None`: neither is
    /// set.
    fn effective<'a>(&'a self, attribute: Option<&'a String>) -> Option<&'a str> {
        attribute.or(self.default.as_ref()).map(String::as_str)
    }

    fn judged_attribute(&self, to_use_ours: impl FnOnce() -> String) -> TrialOutcome {
        if self.default.as_deref() == Some(OURS) {
            return Err(TrialFailure {
                to_type: Some("git config --show-origin --get-all merge.default".to_owned()),
                ..TrialFailure::missing(
                    "merge.default is beadlock, so git merges every file as records, source code too",
                )
            });
        }
        let union = self
            .files
            .iter()
            .find(|(_, name)| self.effective(name.as_ref()) == Some("union"));
        if let Some((file, _)) = union {
            return Err(TrialFailure {
                to_type: Some(to_use_ours()),
                ..TrialFailure::missing(format!("{} has merge=union", escaped(file)))
            });
        }
        let said = self.files.iter().map(|(file, name)| match name {
            Some(name) => format!("{} has merge={}", escaped(file), escaped(name)),
            None => format!("{} has no merge attribute", escaped(file)),
        });
        Ok(first_and_rest(said))
    }

    fn judged_driver(&self, is_there: impl Fn(&str) -> bool) -> TrialOutcome {
        let ours = self
            .drivers
            .iter()
            .map(|driver| (None, driver.name.as_str()));
        let ours = ours.filter(|(_, name)| *name == OURS);
        let used = self
            .files
            .iter()
            .filter_map(|(file, name)| Some((Some(file.as_str()), self.effective(name.as_ref())?)));
        let mut said: Vec<String> = Vec::new();
        for (file, name) in used.chain(ours) {
            let line = self.judged(file, name, &is_there)?;
            if !said.contains(&line) {
                said.push(line);
            }
        }
        match said.is_empty() {
            true => Ok("none is set up; git merges record files as text".to_owned()),
            false => Ok(first_and_rest(said.into_iter())),
        }
    }

    /// Whether git can start the driver `name`; a failure names `file` where the driver is not set.
    fn judged(
        &self,
        file: Option<&str>,
        name: &str,
        is_there: impl Fn(&str) -> bool,
    ) -> TrialOutcome {
        let shown = escaped(name);
        let driver = self.drivers.iter().find(|driver| driver.name == name);
        let failure = |detail: String| {
            let is_local = driver.is_some_and(|driver| driver.is_local);
            let setup = if is_local { SETUP_HERE } else { SETUP };
            let to_type = (name == OURS).then(|| setup.to_owned());
            Err(TrialFailure {
                to_type,
                ..TrialFailure::missing(detail)
            })
        };
        let Some(driver) = driver else {
            if BUILT_IN.contains(&name) {
                return Ok(format!("git's own ({shown})"));
            }
            let file = escaped(file.unwrap_or_default());
            return failure(format!(
                "{file} has merge={shown}, and merge.{shown}.driver is not set"
            ));
        };
        let Some(command) = &driver.command else {
            return failure(format!(
                "merge.{shown} is set without a driver, and git refuses to merge"
            ));
        };
        match first_word(command) {
            Some(program) if !is_there(&program) => failure(format!(
                "merge.{shown}.driver starts {}, which is not there",
                escaped_path(Path::new(&program))
            )),
            Some(program) => Ok(format!(
                "merge.{shown} starts {}",
                escaped_path(Path::new(&program))
            )),
            None => Ok(format!("merge.{shown} is a command of the shell")),
        }
    }
}

/// The first of the lines, and how many others there are.
fn first_and_rest(mut lines: impl Iterator<Item = String>) -> String {
    let first = lines.next().unwrap_or_default();
    match lines.count() {
        0 => first,
        others => format!("{first}, and {others} more"),
    }
}

/// The output of git, called with `words` in `dir`; `None`: there is no git. Fails when git does not answer, or exits
/// with neither 0 nor 1.
fn answer<'a>(
    dir: &Path,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<Option<String>, TrialFailure> {
    match ask(dir, words) {
        GitReply::NoGit => Ok(None),
        // 1: no such setting.
        GitReply::Answered(answer) if matches!(answer.status.code(), Some(0 | 1)) => {
            Ok(Some(String::from_utf8_lossy(&answer.stdout).into_owned()))
        }
        GitReply::Answered(answer) => Err(TrialFailure::untried(answer.error())),
        GitReply::Unanswered(why) => Err(TrialFailure::untried(why)),
    }
}

/// The names of the record files in the directory.
fn record_files(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| name.ends_with(".jsonl"))
        .take(MOST)
        .collect();
    names.sort();
    if names.is_empty() {
        names.push(RECORDS.to_owned());
    }
    names
}

/// The program that the shell starts for a command of git's configuration; `None` where that takes a shell to know.
fn first_word(command: &str) -> Option<String> {
    let command = command.trim_start().replace("%%", "%");
    let mut word = String::new();
    let mut rest = command.chars();
    while let Some(character) = rest.next() {
        match character {
            '\'' => loop {
                match rest.next()? {
                    '\'' => break,
                    inside => word.push(inside),
                }
            },
            '\\' => word.push(rest.next()?),
            '"' | '$' | '`' | '~' | '*' | '?' | '[' | '(' | ')' | '{' | '}' | '|' | '&' | ';'
            | '<' | '>' | '=' | '!' | '#' => {
                return None;
            }
            character if character.is_whitespace() => break,
            character => word.push(character),
        }
    }
    (!word.is_empty()).then_some(word)
}

/// Whether the shell finds this program: at its path, or along PATH.
fn is_program(word: &str, search_path: &OsStr) -> bool {
    let is_executable = |path: PathBuf| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if word.starts_with('/') {
        return is_executable(PathBuf::from(word));
    }
    // Git starts a driver at the top of the work tree, and a word of the shell's own is not found anywhere.
    if word.contains('/') || BUILT_IN_OF_SHELLS.contains(&word) {
        return true;
    }
    env::split_paths(search_path).any(|dir| is_executable(dir.join(word)))
}

/// Words that a shell knows by itself.
const BUILT_IN_OF_SHELLS: [&str; 6] = ["true", "false", "exec", "eval", "cd", "test"];

#[cfg(test)]
mod tests {
    use super::*;

    fn git(attributes: &str, settings: &str) -> GitMerge {
        let mut git = GitMerge::default();
        git.read_attributes(attributes);
        git.read_settings(settings);
        git
    }

    fn attributed(attributes: &str, settings: &str) -> TrialOutcome {
        git(attributes, settings).judged_attribute(|| "type this".to_owned())
    }

    fn driven(attributes: &str, settings: &str) -> Result<String, (String, Option<String>)> {
        let judged = git(attributes, settings).judged_driver(|word| word == "/opt/beadlock");
        judged.map_err(|failure| (failure.cause.detail(), failure.to_type))
    }

    const NONE: &str = "issues.jsonl\0merge\0unspecified\0";
    const UNION: &str = "a.jsonl\0merge\0unset\0b.jsonl\0merge\0union\0";
    const BEADLOCK: &str = "a.jsonl\0merge\0beadlock\0b.jsonl\0merge\0beadlock\0";
    const SET_UP: &str = "global\0merge.beadlock.name\nx\0global\0merge.beadlock.driver\n/opt/beadlock merge %O %A %B\0";

    #[test]
    fn union_and_a_default_for_every_file_are_named() {
        assert_eq!(
            attributed(NONE, "").unwrap(),
            "issues.jsonl has no merge attribute"
        );
        assert_eq!(
            attributed(BEADLOCK, SET_UP).unwrap(),
            "a.jsonl has merge=beadlock, and 1 more"
        );
        for (attributes, settings) in [(UNION, ""), (NONE, "global\0merge.default\nunion\0")] {
            let failure = attributed(attributes, settings).unwrap_err();
            assert!(
                failure.cause.detail().ends_with(" has merge=union"),
                "{failure:?}"
            );
            assert_eq!(failure.to_type.as_deref(), Some("type this"));
        }
        let failure = attributed(BEADLOCK, "global\0merge.default\nbeadlock\0").unwrap_err();
        assert!(
            failure.cause.detail().contains("source code"),
            "{failure:?}"
        );
    }

    #[test]
    fn a_driver_that_is_not_there_is_named_with_what_sets_it_up() {
        let none = "none is set up; git merges record files as text";
        assert_eq!(
            driven(NONE, "local\0merge.conflictstyle\ndiff3\0").unwrap(),
            none
        );
        assert_eq!(
            driven(NONE, SET_UP).unwrap(),
            "merge.beadlock starts /opt/beadlock"
        );
        assert_eq!(
            driven(BEADLOCK, SET_UP).unwrap(),
            "merge.beadlock starts /opt/beadlock"
        );
        assert_eq!(driven(UNION, "").unwrap(), "git's own (binary), and 1 more");
        let setup = Some(SETUP.to_owned());
        let failed =
            |words: &str, to_type: &Option<String>| Err((words.to_owned(), to_type.clone()));
        assert_eq!(
            driven(BEADLOCK, ""),
            failed(
                "a.jsonl has merge=beadlock, and merge.beadlock.driver is not set",
                &setup
            )
        );
        assert_eq!(
            driven(NONE, "global\0merge.beadlock.name\nx\0"),
            failed(
                "merge.beadlock is set without a driver, and git refuses to merge",
                &setup
            )
        );
        assert_eq!(
            driven(NONE, &SET_UP.replace("/opt/", "'/op t'/")),
            failed(
                "merge.beadlock.driver starts /op t/beadlock, which is not there",
                &setup
            )
        );
        let local = SET_UP.replace("global", "local").replace("/opt", "/gone");
        let (_, to_type) = driven(NONE, &local).unwrap_err();
        assert_eq!(to_type.as_deref(), Some(SETUP_HERE));
        assert_eq!(
            driven("a.jsonl\0merge\0ours\0", SET_UP),
            failed(
                "a.jsonl has merge=ours, and merge.ours.driver is not set",
                &None
            )
        );
        let later = "system\0merge.a.b.driver\nfalse\0global\0merge.a.b.driver\n/opt/beadlock\0local\0merge.a.b.name\nx\0";
        assert_eq!(
            driven("a.jsonl\0merge\0a.b\0", later).unwrap(),
            "merge.a.b starts /opt/beadlock"
        );
    }

    #[test]
    fn the_first_word_is_the_shells() {
        for (command, word) in [
            ("/opt/beadlock merge", "/opt/beadlock"),
            (r"  '/it'\''s/100%%'/x y", "/it's/100%/x"),
            (r"/a\ b", "/a b"),
            ("true", "true"),
        ] {
            assert_eq!(first_word(command).as_deref(), Some(word), "{command}");
        }
        for command in [
            "",
            "  ",
            "$HOME/x",
            "\"a b\" c",
            "'open",
            "A=1 x",
            "~/x",
            "(x)",
            "\\",
        ] {
            assert_eq!(first_word(command), None, "{command}");
        }
    }

    #[test]
    fn a_program_is_at_its_path_or_along_path() {
        let is = |word| is_program(word, OsStr::new("/usr/bin:/bin"));
        assert!(is("/bin/sh") && is("sh") && is("exec") && is("scripts/merge.sh"));
        assert!(!is("/bin") && !is("/nowhere/sh") && !is("no-such-program"));
    }
}
