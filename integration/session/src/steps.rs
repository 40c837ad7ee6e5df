//! The step of the work that has failed: where the command says so, and the rollback that hears of it (section 8.2 in
//! docs/protocols/tower.md#the-requirements).

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{ffi::OsString, os::unix::process::CommandExt};

use beadlock_base::regular::{self, Links};
use beadlock_core::facts::random_id;
use beadlock_supervise::runner::for_shell;

use beadlock_claim::environment::Environment;
use beadlock_supervise::watchdog;

/// The variable that names the file for the step that has failed.
pub const RESULT_FILE: &str = "BEADLOCK_RESULT_FILE";
/// The variable in which the rollback gets the step that has failed.
const FAILURE_STEP: &str = "BEADLOCK_FAILURE_STEP";

/// The steps of the work under a claim: which one has failed, and what undoes the work then.
#[derive(Debug)]
pub struct Steps {
    /// The step to report as failed, as it was typed; `None`: the command may write one.
    typed: Option<String>,
    result: ResultFile,
    /// The command that undoes the work; `None`: none was typed.
    pub rollback: Option<OsString>,
}

impl Steps {
    /// `typed` is the step, and `rollback` the command, that were typed.
    pub fn new(
        typed: Option<String>,
        rollback: Option<OsString>,
        environment: &Environment,
    ) -> Self {
        Self {
            typed,
            result: ResultFile::new(environment),
            rollback,
        }
    }

    pub(crate) fn variable(&self) -> (&'static str, OsString) {
        (RESULT_FILE, self.result.path.clone().into())
    }

    /// Which step has failed: what was typed, else what the command has written.
    pub fn failed(&self) -> Option<String> {
        failure_step(self.typed.as_deref(), self.result.written())
    }

    /// Starts the rollback, where there is one, in a group of its own and with the command's environment.
    pub fn start_rollback(
        &self,
        variables: &[(OsString, OsString)],
        step: Option<&str>,
    ) -> Option<io::Result<i32>> {
        let words = for_shell(self.rollback.as_deref()?);
        let (program, args) = words.split_first()?;
        let mut shell = Command::new(program);
        shell.args(args).env_clear().envs(variables.iter().cloned());
        if let Some(step) = step {
            shell.env(FAILURE_STEP, step);
        }
        let child = shell.stdin(Stdio::null()).process_group(0).spawn();
        Some(child.map(|child| child.id().cast_signed()))
    }
}

/// Which step failed: what was typed, else the first line of the regular file `result`, of which 1024 bytes are read.
pub fn failure_step(typed: Option<&str>, result: Option<&Path>) -> Option<String> {
    let step = typed.map(str::to_owned).or_else(|| first_line(result?));
    step.filter(|step| !step.is_empty())
}

fn first_line(path: &Path) -> Option<String> {
    let file = regular::open(path, Links::Refused).ok()?;
    let mut bytes = Vec::new();
    file.take(1024).read_to_end(&mut bytes).ok()?;
    // The rollback's environment cannot have NUL.
    Some(
        String::from_utf8_lossy(&bytes)
            .lines()
            .next()?
            .replace('\0', "")
            .trim()
            .to_owned(),
    )
}

/// The file in which the command says which step has failed. A file that the caller has named stays. Else it is a file
/// that does not exist yet, with a name that nobody can guess; the command may make it. Dropped, that file is removed.
#[derive(Debug)]
struct ResultFile {
    path: PathBuf,
    /// The version of the caller's file before the command, perhaps from an earlier run; `None`: the file is not the
    /// caller's.
    callers: Option<Option<Version>>,
}

/// The identity, size and ctime of a file: they differ when the file was written.
type Version = (u64, u64, u64, i64, i64);

fn version(path: &Path) -> Option<Version> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((
        found.dev(),
        found.ino(),
        found.len(),
        found.ctime(),
        found.ctime_nsec(),
    ))
}

impl ResultFile {
    fn new(environment: &Environment) -> Self {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        // Below another hold on a named lock it is that one's.
        let is_callers = environment.get(watchdog::VARIABLE).is_none();
        let named = environment
            .get(RESULT_FILE)
            .filter(|path| is_callers && !path.is_empty());
        if let Some(path) = named {
            let path = absolute(PathBuf::from(path));
            let callers = Some(version(&path));
            return Self { path, callers };
        }
        let top = environment
            .get("TMPDIR")
            .map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        Self {
            path: absolute(top).join(format!("beadlock-result-{}", random_id())),
            callers: None,
        }
    }

    fn written(&self) -> Option<&Path> {
        let is_as_before = self
            .callers
            .is_some_and(|before| before == version(&self.path));
        (!is_as_before).then_some(&self.path)
    }
}

impl Drop for ResultFile {
    #[expect(clippy::disallowed_methods, reason = "nobody else has its name")]
    fn drop(&mut self) {
        if self.callers.is_none() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failed_step_is_typed_or_written_by_the_command() {
        let top = tempfile::tempdir().unwrap();
        let result = top.path().join("result");
        let of = |typed, text: &str| {
            fs::write(&result, text).unwrap();
            failure_step(typed, Some(&result))
        };
        assert_eq!(of(Some("a"), "b").as_deref(), Some("a"));
        assert_eq!(
            of(None, " deploy_manifests \nmore").as_deref(),
            Some("deploy_manifests")
        );
        assert_eq!((of(None, "\n"), of(None, "")), (None, None));
        assert_eq!(
            (of(None, "\0a\0 b\0\n").as_deref(), of(None, "\0\0")),
            (Some("a b"), None)
        );
        assert_eq!(
            of(None, &"x".repeat(5000)).map(|step| step.len()),
            Some(1024)
        );
        let fifo = top.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [&fifo, top.path(), &top.path().join("none")] {
            assert_eq!(failure_step(None, Some(path)), None);
        }
        assert_eq!(failure_step(None, None), None);
    }
}
