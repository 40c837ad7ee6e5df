//! Helpers of the agent's tests alone: this agent in a scene, its one run, and its log without the times.

use std::os::fd::OwnedFd;
use std::path::Path;

use beadlock_testkit::{Ended, Running, Scene, read, run, skip};

/// A scene of the agent that was built for these tests.
pub fn fresh_scene() -> Scene {
    Scene::of_agent(env!("CARGO_BIN_EXE_beadlock-agent"))
}

/// Methods of a scene for the agent's tests.
pub trait OfAgent {
    /// The agent's one run to its end: its exit code, and its stderr.
    fn once(&self, args: &[&str]) -> (i32, String);
    /// The agent with its stderr on a terminal.
    fn start_on(&self, terminal: OwnedFd, args: &[&str]) -> Running;
    /// The lines of the log without their time.
    fn lines(&self) -> Vec<String>;
    /// How often a line is in the log.
    fn count(&self, line: &str) -> usize;
    /// How a shell script ends, with the agent as `$AGENT`, where it may mount. `None`, with a line, where it has not
    /// written `codes`: nothing is mounted for us.
    fn with_mounts(&self, script: &str, variables: &[(&str, &str)]) -> Option<Ended>;
}

impl OfAgent for Scene {
    fn once(&self, args: &[&str]) -> (i32, String) {
        let ended = self.run(&[&["--once"], args].concat());
        (ended.code, ended.err)
    }

    fn start_on(&self, terminal: OwnedFd, args: &[&str]) -> Running {
        Running::on(terminal, self.agent(args))
    }

    fn lines(&self) -> Vec<String> {
        log_of(&self.beads())
    }

    fn count(&self, line: &str) -> usize {
        count_in(&self.beads(), line)
    }

    fn with_mounts(&self, script: &str, variables: &[(&str, &str)]) -> Option<Ended> {
        let mut command = self.in_namespaces(&["--mount"], script)?;
        command.envs(variables.iter().copied());
        let ended = Ended::from(run(command));
        if !self.file("codes").exists() {
            skip::cannot(&format!(
                "needs a mount of tmpfs for a full disk: {ended:?}"
            ));
            return None;
        }
        Some(ended)
    }
}

/// The lines of a database's log without their time.
pub fn log_of(dir: &Path) -> Vec<String> {
    let text = read(&dir.join("daemon.log"));
    text.lines()
        .map(|line| {
            line.split_once("] ")
                .map_or(line, |(_, line)| line)
                .to_owned()
        })
        .collect()
}

/// How often a line is in the log of a database.
pub fn count_in(dir: &Path, line: &str) -> usize {
    log_of(dir).iter().filter(|logged| *logged == line).count()
}
