//! A temporary directory with a `.beads` in it, and the program in an empty environment and a session of its own.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::Value;

/// Longer than anything here takes, also on a busy machine.
pub const LONG: Duration = Duration::from_secs(30);

pub struct Scene {
    top: tempfile::TempDir,
}

impl Scene {
    pub fn new() -> Self {
        // Whoever starts the tests in the background has made them ignore SIGINT, and so what they start.
        use nix::sys::signal::Signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
        beadlock_checker::sys::default_actions(&[SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM]).unwrap();
        nix::sys::prctl::set_child_subreaper(true).unwrap();
        let top = tempfile::tempdir().unwrap();
        let scene = Self { top };
        fs::create_dir(scene.beads()).unwrap();
        scene
    }

    pub fn path(&self) -> &Path {
        self.top.path()
    }

    pub fn beads(&self) -> PathBuf {
        self.path().join(".beads")
    }

    pub fn lock(&self) -> PathBuf {
        self.beads().join(".exclusive-lock")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// What is in `.beads`.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.beads())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The program, in a session of its own, so that it has no terminal wherever the tests run.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        command.arg(env!("CARGO_BIN_EXE_beadlock")).args(args);
        self.prepare(&mut command);
        command
    }

    /// `sh -c SCRIPT`, with the program as `$BEADLOCK`.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", script]);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command
            .env_clear()
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.env("PATH", "/usr/bin:/bin").env("BEADLOCK", env!("CARGO_BIN_EXE_beadlock"));
        command.env("SCENE", self.path());
    }

    /// Runs the program to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ended {
        Running::start(self.command(args)).finish()
    }

    /// Writes a lock as the shell recipe of the beads document does.
    pub fn write_lock(&self, holder: &str, pid: i64, host: &str) {
        fs::write(self.lock(), lock_text(holder, pid, host)).unwrap();
    }
}

impl Drop for Scene {
    /// Kills, by PID, whatever was started in this scene and lost sight of.
    fn drop(&mut self) {
        let marker = format!("SCENE={}", self.path().display());
        for pid in pids() {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
                let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
            }
        }
    }
}

pub fn pids() -> Vec<i32> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

pub fn lock_text(holder: &str, pid: i64, host: &str) -> String {
    let holder = serde_json::to_string(holder).unwrap();
    format!(
        r#"{{"holder":{holder},"pid":{pid},"hostname":"{host}","started_at":"2025-10-25T12:00:00Z","version":"1"}}"#
    )
}

pub fn this_host() -> String {
    nix::unistd::gethostname().unwrap().into_string().unwrap()
}

/// The PID of a process that has lived, ended and been reaped.
pub fn dead_pid() -> i64 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    i64::from(child.id())
}

/// Neither gone nor a zombie.
pub fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The living children of a process.
pub fn children(parent: i32) -> Vec<i32> {
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        rest.split_ascii_whitespace().nth(1) == Some(&parent.to_string())
    };
    pids().into_iter().filter(is_child).collect()
}

/// It has executed these words: until then it is a fork of whoever started it.
pub fn runs(pid: i32, words: &[&str]) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == words.join("\0") + "\0")
}

/// It sleeps in this system call.
pub fn is_inside(pid: i32, call: libc::c_long) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    line.split_once(' ').is_some_and(|(number, _)| number == call.to_string())
}

#[track_caller]
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The least that a round took, of at most five until one takes less than `limit`. A machine that stands still for a moment
/// spoils one round; a fault spoils all of them.
pub fn fastest(limit: Duration, mut round: impl FnMut() -> Duration) -> Duration {
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        fastest = fastest.min(round());
        if fastest < limit {
            break;
        }
    }
    fastest
}

/// The PID that a script writes into the file `name`, with a line break, once it is there.
#[track_caller]
pub fn pid_in(scene: &Scene, name: &str) -> i32 {
    until(name, || scene.read(name).ends_with('\n'));
    scene.read(name).trim().parse().unwrap()
}

/// Reaps an orphan that falls to us, once it has ended: that may be before the last thread of its killed parent has, and then
/// it is not ours yet.
#[track_caller]
pub fn reap(pid: i32) {
    until("the orphan ends", || {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        kill(Pid::from_raw(pid), None).is_err()
    });
}

/// How a program ended; a signal is 128 and its number, and `signal` says which.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub signal: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }
}

/// A program that runs; dropped, it is killed.
pub struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
    _dir: tempfile::TempDir,
}

impl Running {
    /// Output goes to files: what is left behind may keep a pipe open for ever.
    pub fn start(mut command: Command) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (out, err) = (dir.path().join("out"), dir.path().join("err"));
        command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
        let child = command.spawn().unwrap();
        Self { child, out, err, _dir: dir }
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    #[track_caller]
    pub fn finish(mut self) -> Ended {
        until("the program ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        let (out, err) = (fs::read(&self.out).unwrap(), fs::read(&self.err).unwrap());
        ended(&Output { status, stdout: out, stderr: err })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn ended(output: &Output) -> Ended {
    Ended {
        code: output.status.code().or_else(|| Some(128 + output.status.signal()?)).unwrap_or(-1),
        signal: output.status.signal(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        // What is said of the file system that the tests happen to lie on is another test's.
        err: String::from_utf8_lossy(&output.stderr)
            .split_inclusive('\n')
            .filter(|line| !line.contains("is waited for on this machine only"))
            .collect(),
    }
}

/// Runs it as nobody; false, after a line that says so, when this is not root.
pub fn as_nobody(command: &mut Command) -> bool {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return false;
    }
    command.uid(65534).gid(65534);
    true
}

/// Whether a program that a test starts is there. Where `CI` is set it must be.
#[expect(clippy::disallowed_methods, reason = "a test asks where it runs")]
pub fn has_program(name: &str) -> bool {
    let found = Command::new(name).arg("--version").output().is_ok();
    let is_ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
    assert!(found || !is_ci, "this test needs {name}");
    if !found {
        eprintln!("skipped: needs {name}");
    }
    found
}

/// `sh -c SCRIPT` in namespaces of its own, as root there; none where they cannot be had.
pub fn apart(scene: &Scene, namespaces: &[&str], script: &str) -> Option<Command> {
    if !has_program("unshare") {
        return None;
    }
    let command = |script: &str| {
        let namespaces = namespaces.join(" ");
        let map = if nix::unistd::geteuid().is_root() { "" } else { "--map-root-user" };
        let mut command = scene.shell(&format!("exec unshare {map} {namespaces} sh -c \"$SCRIPT\""));
        command.env("SCRIPT", script);
        command
    };
    let probe = Running::start(command("true")).finish();
    if probe.code != 0 {
        eprintln!("skipped: cannot have {namespaces:?}: {}", probe.err.trim());
        return None;
    }
    Some(command(script))
}
