//! What a command under a named lock has besides: who ends it when beadlock is killed, where it says which step has failed,
//! and what undoes it (section 8.2 of the seed).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use beadlock_checker::facts::random_id;
use beadlock_checker::runner::for_shell;
use beadlock_checker::system_words;
use beadlock_checker::warden::{self, Ward, Warden};

use super::fields::failure_step;
use super::heartbeat::Limits;
use crate::claim::keeping::Keeping;
use crate::claim::loss::OnLoss;
use crate::claim::supervise::Running;
use crate::environment::Environment;
use crate::failure::Error;

/// The variable that names the file for the step that has failed.
pub const RESULT_FILE: &str = "BEADLOCK_RESULT_FILE";
/// The same step, for the rollback.
const FAILURE_STEP: &str = "BEADLOCK_FAILURE_STEP";

/// The work under one named lock.
#[derive(Debug)]
pub struct Work {
    token: String,
    result: ResultFile,
    /// Which step fails, if one does.
    step: Option<String>,
}

impl Work {
    /// `step` is what was typed.
    pub fn new(step: Option<&str>, environment: &Environment) -> Self {
        let step = step.map(str::to_owned);
        Self { token: random_id(), result: ResultFile::new(environment), step }
    }

    /// What the command's environment has besides.
    pub fn variables(&self, environment: &Environment) -> Vec<(&'static str, OsString)> {
        let wards = warden::variable(&self.token, environment.get(warden::VARIABLE));
        vec![(warden::VARIABLE, wards), (RESULT_FILE, self.result.0.clone().into())]
    }

    /// Whoever ends the command and all that it has started when beadlock is killed, and stops it for as long as there is no
    /// heartbeat: before the lock may be taken as stale.
    ///
    /// # Errors
    /// When it could not be started.
    pub fn warden(
        &self,
        running: &Running,
        keeping: &Keeping,
        ttl_seconds: u64,
        name: &str,
    ) -> Result<Warden, Error> {
        let grace = running.kill_after.min(Duration::from_secs(ttl_seconds) / 2);
        let limits = Limits::of(ttl_seconds);
        // After it was given up, and before it is stale.
        let silence = (running.on_loss == OnLoss::Kill).then_some(limits.give_up + limits.rest / 2);
        let (pid, leads) = (running.pid, running.own_group);
        let ward = Ward { pid, leads, token: &self.token, grace, silence };
        let warden = Warden::start(&ward, OsStr::new(name));
        let warden = warden.and_then(|warden| keeping.tell(&warden).map(|()| warden));
        warden.map_err(|error| {
            let why = system_words(&error);
            let words = format!("failed to start who ends the command when this is killed: {why}");
            Error::io(words, error.kind())
        })
    }

    /// Which step has failed: what was typed, else what the command has written.
    pub fn failure_step(&self) -> Option<String> {
        failure_step(self.step.as_deref(), Some(&self.result.0))
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

/// A file that is not there, by a name that nobody can guess: only who has something to say makes it. Dropped, it is removed.
#[derive(Debug)]
struct ResultFile(PathBuf);

impl ResultFile {
    fn new(environment: &Environment) -> Self {
        let top = environment.get("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let top = std::path::absolute(&top).unwrap_or(top);
        Self(top.join(format!("beadlock-result-{}", random_id())))
    }
}

impl Drop for ResultFile {
    #[expect(clippy::disallowed_methods, reason = "nobody else has its name")]
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
