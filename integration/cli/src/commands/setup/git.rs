//! `beadlock setup git`: beadlock as git's merge driver for record files (docs/guide/merging.md).
//!
//! It writes two settings with `git config`, and nothing into a repository's files. Which files git merges so is said by
//! an attribute, which a person commits.

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use beadlock_base::escape::escaped;
use clap::Args;
use serde_json::{Value, json};

use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::words::{Part, quoted, to_type};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{
    Console,
    answers::{conclude, ended, print_answer},
};

const EXAMPLES: &str = "\
Examples:
  beadlock setup git
  echo '/.beads/*.jsonl merge=beadlock' >> .gitattributes";

const HELP: &str = "\
This sets merge.beadlock.name and merge.beadlock.driver in git's configuration. Git uses the driver for files whose \
merge attribute is beadlock, so add a line to .gitattributes in each repository, and commit it. In a clone without this \
setup that line does no harm: git merges as text there. The agent merges record files by id without any setup.

To undo: git config --global --remove-section merge.beadlock

Exit codes:
  0  git is set up, or was before
  1  there is no git, --local is outside a repository, or the configuration cannot be written
  2  the command line is wrong";

/// The attribute that makes git use the driver for the record files of a database at the top of a repository.
const ATTRIBUTE: &str = "/.beads/*.jsonl merge=beadlock";

const NAME: &str = "merge.beadlock.name";
const DRIVER: &str = "merge.beadlock.driver";

/// The name of the driver in git's configuration, which git prints when the driver fails.
const DESCRIPTION: &str = "record files, by id (beadlock)";

/// The first version of git for which a driver can fail: by a code above 128.
const FAILURES_SINCE: (u32, u32) = (2, 42);

/// The first version of git that gives the driver labels of the two sides.
const LABELS_SINCE: (u32, u32) = (2, 44);

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = HELP)]
pub struct SetupGitArgs {
    /// Write the configuration of this repository alone
    #[arg(long, overrides_with = "global")]
    pub local: bool,
    /// Write the configuration of this user (the default)
    #[arg(long, overrides_with = "local")]
    pub global: bool,
}

/// The user's configuration of git, or that of one repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Global,
    Local,
}

impl Scope {
    fn option(self) -> &'static str {
        match self {
            Self::Global => "--global",
            Self::Local => "--local",
        }
    }
}

pub fn run(typed: &SetupGitArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let scope = if typed.local {
        Scope::Local
    } else {
        Scope::Global
    };
    match set_up(scope, environment) {
        Ok(done) => {
            if let Some(warning) = done.overridden() {
                common.talk.warn(&warning);
            }
            let is_printed = print_answer(common, done.json(), None, || done.text());
            ended(is_printed, Exit::Done.code())
        }
        Err(error) => conclude(common, Err((ProgramEnd::Code(error.exit().code()), error))),
    }
}

/// The result of the setup: the settings of git, and whether they were written now.
#[derive(Debug)]
struct SetUp {
    scope: Scope,
    /// The version of git, as git prints it: `2.47.3`.
    git: String,
    driver: OsString,
    /// Whether anything was written.
    changed: bool,
    /// The file of the settings, as git names it.
    file: OsString,
    /// The driver that git uses here, where that is another one.
    other: Option<OsString>,
}

fn set_up(scope: Scope, environment: &Environment) -> Result<SetUp, Error> {
    let git = version()?;
    let program = this_program(environment)?;
    if scope == Scope::Local {
        is_in_repository()?;
    }
    let driver = driver_line(&program, version_numbers(&git));
    // The driver first: with a name and no driver, git refuses every merge that would use it.
    let settings = [
        (DRIVER, driver.as_os_str()),
        (NAME, OsStr::new(DESCRIPTION)),
    ];
    let mut changed = false;
    for (name, value) in settings {
        if values(scope, name)? != [value] {
            let words = [OsStr::new("--replace-all"), OsStr::new(name), value];
            config(scope, &words).and_then(|output| must(&output, "write"))?;
            changed = true;
        }
    }
    let used = value_here()?;
    Ok(SetUp {
        scope,
        git,
        changed,
        file: file_of(scope)?,
        other: used.filter(|used| *used != driver),
        driver,
    })
}

impl SetUp {
    fn undo(&self) -> String {
        to_type(
            "git config {} --remove-section merge.beadlock",
            &[Part::Words(vec![self.scope.option().into()])],
        )
    }

    fn text(&self) -> String {
        let Self {
            git, file, driver, ..
        } = self;
        let (file, driver) = (shown(file), shown(driver));
        let verb = if self.changed {
            "has now"
        } else {
            "has already"
        };
        let undo = self.undo();
        format!(
            "{file} {verb} (git {git}):\n  {NAME} = {DESCRIPTION}\n  {DRIVER} = {driver}\n\
             Git uses it for files with this attribute. Add the line to .gitattributes, and commit that:\n  {ATTRIBUTE}\n\
             Or, for one clone and without a commit, type:\n  \
             echo '{ATTRIBUTE}' >> \"$(git rev-parse --git-path info/attributes)\"\n\
             To undo this, type:\n  {undo}\n"
        )
    }

    fn json(&self) -> Value {
        json!({
            "changed": self.changed,
            "git": self.git,
            "file": self.file.to_string_lossy(),
            "name": DESCRIPTION,
            "driver": self.driver.to_string_lossy(),
            "attribute": ATTRIBUTE,
            "undo": self.undo(),
        })
    }

    fn overridden(&self) -> Option<String> {
        let other = self.other.as_ref()?;
        Some(format!(
            "git uses another driver here, which is set nearer: {}; type: git config --show-origin --get-all merge.beadlock.driver",
            shown(other)
        ))
    }
}

fn shown(value: &OsStr) -> String {
    escaped(&value.to_string_lossy()).to_string()
}

/// The driver's line in git's configuration. Git replaces the placeholders and hands the line to a shell.
///
/// Git takes every code from 1 to 128 for a conflict whose markers are in the file, also the 127 of a shell that does not
/// find the program, and the 2 of a beadlock that does not know `merge`. These become 129, a failure. An older git takes
/// every code for a conflict. There the sides are merged as text, so that none of them is missing in the file.
fn driver_line(program: &Path, git: Option<(u32, u32)>) -> OsString {
    let program = quoted(program.as_os_str()).replace('%', "%%");
    let knows = |since| git.is_some_and(|version| version >= since);
    let labels = match knows(LABELS_SINCE) {
        true => " --ours=%X --theirs=%Y",
        false => "",
    };
    let or_else = match knows(FAILURES_SINCE) {
        true => "exit $(( $? == 1 ? 1 : 129 ))",
        false => {
            "{ [ $? = 1 ] || git merge-file --marker-size=%L -L ours -L base -L theirs %A %O %B; exit 1; }"
        }
    };
    format!("{program} merge --marker-size=%L{labels} -- %O %A %B %P || {or_else}").into()
}

/// The major and the minor number of `2.39.5 (Apple Git-154)`.
fn version_numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// This program as it was found along PATH: that name stays when another version is installed. Else where it lies.
fn this_program(environment: &Environment) -> Result<PathBuf, Error> {
    let failed = |error: io::Error| Error::failed("find this program", &error);
    let this = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(failed)?;
    let path = environment.get("PATH").unwrap_or_default();
    let along = std::env::split_paths(path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join("beadlock"));
    let found = along
        .into_iter()
        .find(|program| program.canonicalize().is_ok_and(|found| found == this));
    Ok(found.unwrap_or(this))
}

fn git<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<Output, Error> {
    let mut command = Command::new("git");
    command.args(words).env("LC_ALL", "C").stdin(Stdio::null());
    command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::new(
            Code::NoTarget,
            "there is no git in PATH; install it, then type: beadlock setup git",
        ),
        _ => Error::failed("start git", &error),
    })
}

/// Fails with what git said.
fn must(output: &Output, doing: &str) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().next().unwrap_or("it did not say why");
    let message = format!("git failed to {doing} its configuration: {}", escaped(why));
    Err(Error::new(Code::Io, message))
}

fn version() -> Result<String, Error> {
    let output = git(["version"])?;
    must(&output, "read")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.trim().trim_start_matches("git version ");
    Ok(escaped(version).to_string())
}

fn is_in_repository() -> Result<(), Error> {
    let output = git(["rev-parse", "--git-dir"])?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said.lines().next().unwrap_or_default();
    let message = format!(
        "--local is for a repository ({}); go into one, or leave --local out",
        escaped(why.trim_start_matches("fatal: "))
    );
    Err(Error::new(Code::NoTarget, message))
}

fn config<S: AsRef<OsStr>>(scope: Scope, words: &[S]) -> Result<Output, Error> {
    let all = ["config", scope.option()].into_iter().map(OsStr::new);
    git(all.chain(words.iter().map(AsRef::as_ref)))
}

/// The values of a setting; none where it is not there.
fn values(scope: Scope, name: &str) -> Result<Vec<OsString>, Error> {
    let output = config(scope, &["-z", "--get-all", name])?;
    // 1: not there.
    if output.status.code() == Some(1) {
        return Ok(Vec::new());
    }
    must(&output, "read")?;
    Ok(fields(&output.stdout))
}

/// The driver that git uses in this directory.
fn value_here() -> Result<Option<OsString>, Error> {
    let output = git(["config", "-z", "--get", DRIVER])?;
    Ok(fields(&output.stdout).pop())
}

/// The file that the driver stands in.
fn file_of(scope: Scope) -> Result<OsString, Error> {
    let output = config(scope, &["-z", "--show-origin", "--get", DRIVER])?;
    must(&output, "read")?;
    let origin = fields(&output.stdout)
        .into_iter()
        .next()
        .unwrap_or_default();
    // Behind what kind of place it is.
    let at = origin.as_bytes().iter().position(|byte| *byte == b':');
    let path = &origin.as_bytes()[at.map_or(0, |at| at + 1)..];
    Ok(OsStr::from_bytes(path).to_owned())
}

fn fields(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let fields = bytes.split(|byte| *byte == 0).filter(|_| !bytes.is_empty());
    fields
        .map(|field| OsString::from_vec(field.to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_git_is_given_the_placeholders_that_it_knows() {
        let line = |git: &str| {
            let line = driver_line(Path::new("/opt/beadlock"), version_numbers(git));
            line.into_string().unwrap()
        };
        let old = "/opt/beadlock merge --marker-size=%L -- %O %A %B %P || { [ $? = 1 ] || git merge-file \
                   --marker-size=%L -L ours -L base -L theirs %A %O %B; exit 1; }";
        for git in ["2.39.5", "2.39.5 (Apple Git-154)", "1.99", "", "unknown"] {
            assert_eq!(line(git), old, "{git}");
        }
        let fails =
            "/opt/beadlock merge --marker-size=%L -- %O %A %B %P || exit $(( $? == 1 ? 1 : 129 ))";
        assert_eq!(line("2.42.0"), fails);
        assert_eq!(line("2.43.7"), fails);
        let labelled = fails.replace("%L", "%L --ours=%X --theirs=%Y");
        for git in ["2.44.0", "2.47.3", "2.50.1.windows.1", "2.45.GIT", "3.0.0"] {
            assert_eq!(line(git), labelled, "{git}");
        }
    }

    #[test]
    fn the_program_survives_git_and_a_shell() {
        let line = |path: &str| driver_line(Path::new(path), None).into_string().unwrap();
        assert!(line("/a b/it's/beadlock").starts_with(r"'/a b/it'\''s/beadlock' merge "));
        assert!(
            line("/100%/beadlock").starts_with("/100%%/beadlock merge ")
                || line("/100%/beadlock").starts_with("'/100%%/beadlock' merge ")
        );
    }
}
