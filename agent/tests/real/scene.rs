//! A temporary database, the real agent on it from an empty environment, and the promise that nothing that a test
//! starts outlives it.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use beadlock_checker::internal::{Gate, process};
use beadlock_testkit::process::heed_signals;
pub use beadlock_testkit::until as wait_until;
use beadlock_testkit::{PATIENCE, dead_pid, lives, this_host};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A directory with a `.beads` in it.
pub struct Scene {
    root: tempfile::TempDir,
    pub repo: PathBuf,
    pub dir: PathBuf,
}

impl Scene {
    pub fn new() -> Self {
        heed_signals();
        let root = tempfile::tempdir().unwrap();
        let repo = fs::canonicalize(root.path()).unwrap().join("repo");
        let dir = repo.join(".beads");
        fs::create_dir_all(&dir).unwrap();
        Self { root, repo, dir }
    }

    /// The agent in this scene; `PATH` is all it knows.
    pub fn agent(&self, args: &[&str]) -> Command {
        self.program(Path::new(env!("CARGO_BIN_EXE_beadlock-agent")), args)
    }

    /// The same from a copy of it.
    pub fn program(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.repo).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The agent's one run to its end.
    pub fn once(&self, args: &[&str]) -> (i32, String) {
        let output: Output = self.agent(&[&["--once"], args].concat()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    /// The agent, running until it is dropped.
    pub fn start(&self, args: &[&str]) -> Agent {
        self.start_command(self.agent(args))
    }

    /// What [`Scene::agent`] has prepared, running until it is dropped.
    pub fn start_command(&self, mut agent: Command) -> Agent {
        Agent { child: agent.spawn().unwrap(), repo: self.root.path().to_path_buf() }
    }

    /// The same with its stderr on a terminal.
    pub fn start_on(&self, terminal: OwnedFd, args: &[&str]) -> Agent {
        let child = self.agent(args).stderr(terminal).spawn().unwrap();
        Agent { child, repo: self.root.path().to_path_buf() }
    }

    /// The lines of the log without their time.
    pub fn log(&self) -> Vec<String> {
        log_of(&self.dir)
    }

    /// What a shell script prints with the agent as `$AGENT`, where it may mount. `None`, with a line, on a machine without
    /// `unshare`, or where it has not written `codes`: nothing is mounted for us.
    pub fn with_mounts(&self, script: &str, variables: &[(&str, &str)]) -> Option<Output> {
        let mut command = Command::new("unshare");
        if !nix::unistd::geteuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "sh", "-c", script]).current_dir(&self.repo).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("AGENT", env!("CARGO_BIN_EXE_beadlock-agent")).envs(variables.iter().copied());
        match command.output() {
            Ok(output) if self.file("codes").exists() => Some(output),
            other => {
                eprintln!("skipped: a full disk needs unshare and a mount of tmpfs: {other:?}");
                None
            }
        }
    }

    /// How often a line is in the log.
    pub fn count(&self, line: &str) -> usize {
        count_in(&self.dir, line)
    }

    /// Another database, at `NAME/.beads`.
    pub fn database(&self, name: &str) -> PathBuf {
        let dir = self.repo.join(name).join(".beads");
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Writes a file of the repository.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    /// A lock as the shell recipe writes it: in place, by somebody who knows nothing of the gate.
    pub fn lock(&self, holder: &str, pid: u32) {
        let host = this_host();
        let text = format!(
            r#"{{"holder":"{holder}","pid":{pid},"hostname":"{host}","started_at":"2026-01-02T03:04:05Z"}}"#
        );
        fs::write(self.lock_file(), text).unwrap();
    }

    pub fn lock_file(&self) -> PathBuf {
        self.dir.join(".exclusive-lock")
    }

    /// Ends the claim.
    #[expect(clippy::disallowed_methods, reason = "the test is the holder of the lock")]
    pub fn unlock(&self) {
        fs::remove_file(self.lock_file()).unwrap();
    }

    pub fn gate_is_free(&self) -> bool {
        Gate::try_take(&self.dir).unwrap().is_some()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.repo.join(name)
    }

    /// Waits for a PID that a command writes into a file of the repository.
    pub fn pid_in(&self, name: &str) -> i32 {
        let read = || fs::read_to_string(self.file(name)).ok()?.trim().parse().ok();
        wait_until(&format!("a PID in {name}"), || read().is_some());
        read().unwrap()
    }
}

impl Drop for Scene {
    /// Ends what commands of this scene left behind: whoever has it in its environment, by PID.
    fn drop(&mut self) {
        let is_ours = |pid: i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let ours = format!("BEADLOCK_CYCLE={}", self.dir.display());
            environ.split(|byte| *byte == 0).any(|variable| variable == ours.as_bytes())
        };
        for stat in process::all() {
            if !stat.is_zombie() && is_ours(stat.pid) {
                let _ = kill(Pid::from_raw(stat.pid), Signal::SIGKILL);
            }
        }
    }
}

/// A running agent.
pub struct Agent {
    child: Child,
    repo: PathBuf,
}

impl Agent {
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the agent in {} does not end", self.repo.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGTERM, and its exit code.
    pub fn stop(mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.wait().code()
    }

    /// Waits for its end: its exit code, and its stderr.
    pub fn end(mut self) -> (Option<i32>, String) {
        let code = self.wait().code();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (code, stderr)
    }

    /// The runner of its only cycle.
    pub fn runner(&self) -> i32 {
        let child =
            || process::all().into_iter().find(|stat| stat.ppid == self.pid() && stat.session == stat.pid);
        wait_until("a runner", || child().is_some());
        child().unwrap().pid
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a database's log without their time.
pub fn log_of(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("daemon.log")).unwrap_or_default();
    text.lines().map(|line| line.split_once("] ").map_or(line, |(_, line)| line).to_owned()).collect()
}

/// How often a line is in the log of a database.
pub fn count_in(dir: &Path, line: &str) -> usize {
    log_of(dir).iter().filter(|logged| *logged == line).count()
}

/// It does not live any more; a zombie does not.
pub fn has_ended(pid: i32) -> bool {
    !lives(pid)
}

/// A process that lives, and one that has lived.
pub struct Holder(Child);

impl Holder {
    pub fn alive() -> Self {
        Self(Command::new("sleep").arg("120").spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn dead_pid() -> u32 {
        dead_pid().unsigned_abs()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is in a file, nothing if there is none.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
