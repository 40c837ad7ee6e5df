//! A temporary directory with a beads database in it, and both programs in an empty environment.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::fcntl::{Flock, FlockArg};
use tempfile::TempDir;

use crate::process::{heed_signals, sweep};
use crate::record::{lock_text, shell_lock_text};
use crate::stage::Stage;
use crate::{
    Ended, Running, become_subreaper, binaries, run, schema, skip, this_host, until, write_program,
};

/// A directory with `.beads/issues.jsonl`. Dropped, whatever was started in it is gone too.
pub struct Scene {
    _top: TempDir,
    path: PathBuf,
    stage: Stage,
}

impl Default for Scene {
    fn default() -> Self {
        Self::new()
    }
}

impl Scene {
    /// A fresh one.
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// A fresh one in this directory: on the file system there.
    pub fn below(dir: &Path) -> Self {
        let scene = Self::staged(dir, Stage::Both);
        fs::write(scene.beads().join("issues.jsonl"), "{\"id\":\"bd-1\"}\n")
            .expect("write issues.jsonl");
        scene
    }

    /// A fresh one, with nothing in its `.beads`, for the tests of this `beadlock`. It is started in a session of its
    /// own, and orphans become the test's children.
    pub fn of(beadlock: &str) -> Self {
        become_subreaper();
        Self::staged(&std::env::temp_dir(), Stage::Beadlock(beadlock.into()))
    }

    /// A fresh one, with nothing in its `.beads`, for the tests of this `beadlock-agent`. It is the directory `repo`
    /// in one that is the scene's too.
    pub fn of_agent(agent: &str) -> Self {
        Self::staged(&std::env::temp_dir(), Stage::Agent(agent.into()))
    }

    fn staged(dir: &Path, stage: Stage) -> Self {
        heed_signals();
        let top = tempfile::Builder::new()
            .prefix(stage.prefix())
            .tempdir_in(dir);
        let top = top.expect("a temporary directory");
        let path = stage.path(top.path());
        let scene = Self {
            _top: top,
            path,
            stage,
        };
        fs::create_dir_all(scene.beads()).expect("create .beads");
        scene
    }

    /// The directory above `.beads`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The database's directory.
    pub fn beads(&self) -> PathBuf {
        self.path().join(".beads")
    }

    /// A file of the scene's directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// What is in it; nothing where it is absent.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        read(&self.file(name))
    }

    /// Writes it.
    #[track_caller]
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.file(name), text).expect("write a file of the scene");
    }

    /// Another database, at `NAME/.beads`.
    #[track_caller]
    pub fn database(&self, name: &str) -> PathBuf {
        let beads = self.file(name).join(".beads");
        fs::create_dir_all(&beads).expect("create another .beads");
        beads
    }

    /// The PID that a script writes into the file `name`, with a line break, once it is there.
    #[track_caller]
    pub fn pid_in(&self, name: &str) -> i32 {
        until(name, || self.read(name).ends_with('\n'));
        self.read(name).trim().parse().expect("a PID")
    }

    /// The lock file.
    pub fn lock(&self) -> PathBuf {
        self.beads().join(".exclusive-lock")
    }

    /// The agent's log as it is now.
    pub fn log(&self) -> String {
        read(&self.beads().join("daemon.log"))
    }

    /// The lock's bytes, lossily; empty where there is no lock.
    #[track_caller]
    pub fn lock_text(&self) -> String {
        let bytes = fs::read(self.lock()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        schema::see(&text);
        text
    }

    /// Takes the gate, as a running cycle does, until it is dropped.
    #[track_caller]
    pub fn take_gate(&self) -> Flock<File> {
        let dir = File::open(self.beads()).expect("open .beads");
        Flock::lock(dir, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| errno)
            .expect("the gate is free")
    }

    /// True when nobody has the gate.
    pub fn gate_is_free(&self) -> bool {
        let dir = File::open(self.beads()).expect("open .beads");
        Flock::lock(dir, FlockArg::LockExclusiveNonblock).is_ok()
    }

    /// The files of `.beads` by name, sorted: a leftover shows here.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.beads()).expect("list .beads");
        let mut names: Vec<_> = entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Writes a lock in place, as a tool that knows only the lock file does.
    pub fn write_lock(&self, text: impl AsRef<[u8]>) {
        fs::write(self.lock(), text).expect("write the lock file");
    }

    /// Puts a lock there whose process is gone.
    pub fn write_stale_lock(&self, holder: &str) {
        self.write_lock(lock_text(holder, crate::dead_pid().into(), &this_host()));
    }

    /// Writes a lock as the shell recipe of the beads document does.
    pub fn write_shell_lock(&self, holder: &str, pid: i64, hostname: &str) {
        self.write_lock(shell_lock_text(holder, pid, hostname));
    }

    /// The same for this process of this machine.
    pub fn claim(&self, holder: &str, pid: impl Into<i64>) {
        self.write_shell_lock(holder, pid.into(), &this_host());
    }

    /// Ends the claim, as the shell recipe does.
    #[track_caller]
    pub fn unlock(&self) {
        fs::remove_file(self.lock()).expect("remove the lock file");
    }

    /// What the environment of everything started here has, and nothing else.
    pub(crate) fn marker(&self) -> String {
        format!("{MARK}={}", self.path().display())
    }

    /// The variable that names to a script the one program that the scene is for, and its path.
    pub(crate) fn variable(&self) -> Option<(&'static str, PathBuf)> {
        match &self.stage {
            Stage::Both => None,
            Stage::Beadlock(_) | Stage::Agent(_) => Some(self.stage.program()),
        }
    }

    /// Any program, in the scene's directory, from an environment with nothing but PATH, perhaps HOME, and the mark by
    /// which the scene finds what it started.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.stage.command(program.as_ref(), self.path());
        command.current_dir(self.path()).env(MARK, self.path());
        command
    }

    /// The program that the scene is for, with these arguments.
    fn program(&self, args: &[&str]) -> Command {
        let mut command = self.command(self.stage.program().1);
        command.args(args);
        command
    }

    /// `beadlock ARGS`.
    pub fn beadlock(&self, args: &[&str]) -> Command {
        let mut command = self.command(self.stage.beadlock());
        command.args(args);
        command
    }

    /// `beadlock-agent ARGS`.
    pub fn agent(&self, args: &[&str]) -> Command {
        let mut command = self.command(self.stage.agent());
        command.args(args);
        command
    }

    /// `sh -c SCRIPT`.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = self.command("sh");
        command.args(["-c", script]);
        command
    }

    /// Runs `beadlock ARGS --json` to its end, and returns its exit code and its envelope.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> (i32, serde_json::Value) {
        // Before a `--`, after which the words are the command's.
        let at = args
            .iter()
            .position(|arg| *arg == "--")
            .unwrap_or(args.len());
        let command = self.beadlock(&[&args[..at], &["--json"], &args[at..]].concat());
        let ended = Ended::from(run(command));
        let envelope = serde_json::from_str(&ended.out)
            .unwrap_or_else(|e| panic!("no envelope ({e}): {ended:?}"));
        (ended.code, envelope)
    }

    /// Runs `beadlock ARGS` to its end, or `beadlock-agent ARGS` in a scene of the agent.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ended {
        let command = self.program(args);
        match &self.stage {
            Stage::Both | Stage::Agent(_) => run(command).into(),
            Stage::Beadlock(_) => Running::apart(command).end(),
        }
    }

    /// Starts `beadlock ARGS`, or `beadlock-agent ARGS` in a scene of the agent.
    #[track_caller]
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(self.program(args))
    }

    /// Starts `beadlock-agent ARGS` and returns once its log says so.
    #[track_caller]
    pub fn start_agent(&self, args: &[&str]) -> Running {
        let running = Running::start(self.agent(args));
        self.wait_for_log("a first cycle", |log| {
            log.contains("Starting sync cycle...") || log.contains("Skipping")
        });
        running
    }

    /// Starts `beadlock hold ARGS` and returns once its lock stands.
    #[track_caller]
    pub fn hold(&self, args: &[&str]) -> Running {
        let mut all = vec!["hold"];
        all.extend(args);
        let running = self.start(&all);
        self.wait_for_lock();
        running
    }

    /// Waits until there is a lock.
    #[track_caller]
    pub fn wait_for_lock(&self) {
        until("a lock", || self.lock().exists());
    }

    /// Waits until the agent's log is as wished.
    #[track_caller]
    pub fn wait_for_log(&self, what: &str, mut seen: impl FnMut(&str) -> bool) {
        until(&format!("{what} in daemon.log"), || seen(&self.log()));
    }

    /// Makes the scene and the programs in it usable by every user, and returns the programs' directory there:
    /// the build's own directory is often below somebody's home.
    pub fn open_to_others(&self) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let bin = self.path().join("bin");
        if !bin.is_dir() {
            fs::create_dir(&bin).expect("create bin");
            for program in [binaries::beadlock(), binaries::agent()] {
                let copy = bin.join(program.file_name().expect("a name"));
                write_program(&copy, File::open(&program).expect("open a program"));
            }
        }
        for dir in [self.path(), &self.beads(), &bin] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        bin
    }

    /// `beadlock ARGS` as somebody whom permissions stop: nobody for root, and everybody else himself. None where the
    /// program for that is missing.
    #[track_caller]
    pub fn beadlock_as_mortal(&self, args: &[&str]) -> Option<Command> {
        if !skip::may_be_root() {
            return Some(self.beadlock(args));
        }
        let setpriv = skip::tool("setpriv")?;
        let bin = self.open_to_others();
        let mut command = self.command(setpriv);
        command.args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--",
        ]);
        command.arg(bin.join("beadlock")).args(args);
        Some(command)
    }

    /// `sh -c SCRIPT` in namespaces of its own (`--mount`, `--uts`, `--pid`, as `unshare` has them), as root there,
    /// with `$BEADLOCK`, or `$AGENT` in a scene of the agent. None where they cannot be had, which is said.
    #[track_caller]
    pub fn in_namespaces(&self, namespaces: &[&str], script: &str) -> Option<Command> {
        let unshare = skip::tool("unshare")?;
        let command = |script: &str| {
            let mut command = self.command(&unshare);
            if !skip::may_be_root() {
                command.arg("--map-root-user");
            }
            command.args(namespaces).args(["sh", "-c", script]);
            let (variable, program) = self.stage.program();
            command.env(variable, program);
            command
        };
        let probe = Ended::from(run(command("true")));
        if probe.code != 0 {
            skip::cannot(&format!("cannot have {namespaces:?}: {}", probe.err.trim()));
            return None;
        }
        Some(command(script))
    }
}

/// The variable by which a scene finds what was started in it.
pub const MARK: &str = "BEADLOCK_TEST_SCENE";

impl Drop for Scene {
    fn drop(&mut self) {
        sweep(&self.marker());
        // A second panic would end the test without the words of the first.
        if !std::thread::panicking() {
            schema::see_below(self._top.path());
        }
    }
}

/// What is in a file; nothing where it is absent.
#[track_caller]
pub fn read(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    schema::see(&text);
    text
}
