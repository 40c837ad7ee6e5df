//! What a command under a named lock has besides: who ends it when beadlock is killed, where it says which step has
//! failed, and what undoes it (section 8.2 in docs/protocols/tower.md#the-requirements).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::request::AtEnd;
use crate::run::watchdog::{self, Watchdog};
use beadlock_checker::internal::facts::random_id;
use beadlock_checker::internal::runner::for_shell;
use beadlock_checker::internal::system_words;

use super::fields::failure_step;
use crate::claim::keeping::Keeping;
use crate::claim::supervise::Running;
use crate::claim::tree::KnownCommand;
use crate::error::Error;
use crate::settings::OnLoss;
use crate::settings::environment::Environment;

/// The variable that names the file for the step that has failed.
pub const RESULT_FILE: &str = "BEADLOCK_RESULT_FILE";
/// The same step, for the rollback.
const FAILURE_STEP: &str = "BEADLOCK_FAILURE_STEP";

/// The work under one lock that is judged by time.
#[derive(Debug)]
pub struct Work {
    token: String,
    /// Of a named lock.
    result: Option<ResultFile>,
    /// Which step fails, if one does.
    step: Option<String>,
}

impl Work {
    /// `step` is what was typed.
    pub fn new(step: Option<&str>, environment: &Environment) -> Self {
        let step = step.map(str::to_owned);
        Self { token: random_id(), result: Some(ResultFile::new(environment)), step }
    }

    /// Under a lock of another kind, whose document knows no steps.
    pub fn without_steps() -> Self {
        Self { token: random_id(), result: None, step: None }
    }

    /// What the command's environment has besides.
    pub fn variables(&self, environment: &Environment) -> Vec<(&'static str, OsString)> {
        let wards = watchdog::variable(&self.token, environment.get(watchdog::VARIABLE));
        let result = self.result.as_ref().map(|result| (RESULT_FILE, result.path.clone().into()));
        [(watchdog::VARIABLE, wards)].into_iter().chain(result).collect()
    }

    /// Whoever ends the command and all that it has started when beadlock is killed, and stops it for as long as
    /// there is no heartbeat: before the lock may be taken as stale. `names` are the command's and the target's.
    ///
    /// # Errors
    /// When it could not be started.
    pub fn watchdog(
        &self,
        running: &Running,
        keeping: &Keeping,
        names: (&str, &str),
    ) -> Result<Watchdog, Error> {
        let limits = keeping.limits();
        let grace = limits.map_or(running.kill_after, |limits| running.kill_after.min(limits.ttl() / 2));
        // After it was given up, and before it is stale.
        let silence = limits.filter(|_| running.on_loss == OnLoss::Kill);
        let silence = silence.map(|limits| limits.give_up + limits.rest / 2);
        let command = KnownCommand::of(running.pid, running.own_group);
        let at_end = AtEnd::EndTree { token: self.token.clone(), grace, silence };
        let watchdog = Watchdog::start(command, at_end, names, None);
        let watchdog = watchdog.and_then(|watchdog| keeping.tell(|| watchdog.pulse()).map(|()| watchdog));
        watchdog.map_err(|error| {
            let why = system_words(&error);
            let words = format!("failed to start who ends the command when this is killed: {why}");
            Error::io(words, error.kind())
        })
    }

    /// Which step has failed: what was typed, else what the command has written.
    pub fn failure_step(&self) -> Option<String> {
        failure_step(self.step.as_deref(), self.result.as_ref().and_then(ResultFile::written))
    }

    /// The process of a rollback, in a group of its own, with the command's environment.
    ///
    /// # Errors
    /// What the system said.
    pub fn rollback(
        &self,
        command: &OsStr,
        variables: &[(OsString, OsString)],
        step: Option<&str>,
    ) -> std::io::Result<i32> {
        let words = for_shell(command);
        let Some((program, args)) = words.split_first() else { return Ok(0) };
        let mut shell = Command::new(program);
        shell.args(args).env_clear().envs(variables.iter().cloned());
        if let Some(step) = step {
            shell.env(FAILURE_STEP, step);
        }
        let child = shell.stdin(Stdio::null()).process_group(0).spawn()?;
        Ok(child.id().cast_signed())
    }
}

/// Where the command says which step has failed: the file that the caller has named, which stays; else one that is not
/// there, by a name that nobody can guess, which only who has something to say makes. Dropped, that one is removed.
#[derive(Debug)]
struct ResultFile {
    path: PathBuf,
    /// Of the caller's: what it was before the command, which may be what an earlier run has left.
    callers: Option<Option<Version>>,
}

/// Differs when a file was written.
type Version = (u64, u64, u64, i64, i64);

fn version(path: &Path) -> Option<Version> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
}

impl ResultFile {
    fn new(environment: &Environment) -> Self {
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        // Below another hold on a named lock it is that one's.
        let is_callers = environment.get(watchdog::VARIABLE).is_none();
        let named = environment.get(RESULT_FILE).filter(|path| is_callers && !path.is_empty());
        if let Some(path) = named {
            let path = absolute(PathBuf::from(path));
            let callers = Some(version(&path));
            return Self { path, callers };
        }
        let top = environment.get("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        Self { path: absolute(top).join(format!("beadlock-result-{}", random_id())), callers: None }
    }

    /// The file, when the command has written it.
    fn written(&self) -> Option<&Path> {
        let is_as_before = self.callers.is_some_and(|before| before == version(&self.path));
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
