//! Processes that a test starts, and that never outlive it.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// A started program, its output collected as it comes. Dropped, it is killed by its PID and reaped.
#[must_use = "dropped, the program is killed"]
pub struct Running {
    child: Child,
    name: String,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Starts a command with both streams collected and nothing on stdin, unless a stdin was given.
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        heed_signals();
        let name = format!("{command:?}");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let stdout = child.stdout.take().map(collect);
        let stderr = child.stderr.take().map(collect);
        Self { child, name, stdout, stderr }
    }

    /// Its PID.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a PID is an i32")
    }

    /// Sends it a signal, and nobody else.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the process is ours and not reaped");
    }

    /// True as long as it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end, without its output: what it left behind may still have the streams open.
    ///
    /// # Panics
    ///
    /// When it has not ended within `bound`.
    #[track_caller]
    pub fn wait(&mut self, bound: Duration) -> std::process::ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(begun.elapsed() < bound, "still running after {bound:?}: {}", self.name);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for its end and the end of its output.
    ///
    /// # Panics
    ///
    /// When it has not ended within `bound`.
    #[track_caller]
    pub fn finish(mut self, bound: Duration) -> Output {
        let status = self.wait(bound);
        let stdout = self.stdout.take().map(join).unwrap_or_default();
        let stderr = self.stderr.take().map(join).unwrap_or_default();
        Output { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

fn join(reader: JoinHandle<Vec<u8>>) -> Vec<u8> {
    reader.join().unwrap_or_default()
}

/// Whoever starts the tests in the background has made them ignore SIGINT, and so what they start.
pub fn heed_signals() {
    use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    beadlock_checker::sys::default_actions(&[SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM])
        .expect("default signals");
}

/// Runs a command to its end, at most 60 seconds.
#[track_caller]
pub fn run(command: Command) -> Output {
    Running::start(command).finish(Duration::from_secs(60))
}

/// The PID of a process that has lived, ended and been reaped.
pub fn dead_pid() -> i32 {
    let mut child = Command::new("true").spawn().expect("true starts");
    child.wait().expect("true ends");
    i32::try_from(child.id()).expect("a PID is an i32")
}

/// Orphans below this test become its children, so that [`reap`] can take them away.
pub fn become_subreaper() {
    nix::sys::prctl::set_child_subreaper(true).expect("any process may be a subreaper");
}

/// Takes away every child that has ended, for a test that starts thousands and waits for none: a walk through `/proc` takes the
/// longer the more of them are left.
pub fn reap_all() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}

/// Waits until an orphan that falls to us has ended, and reaps it: it may end before the last thread of its killed parent has,
/// and then it is not ours yet.
///
/// # Panics
///
/// When it has not ended within `bound`, or is not ours by then.
#[track_caller]
pub fn reap(pid: i32, bound: Duration) {
    crate::wait_until(bound, &format!("orphan {pid} ends and is ours to reap"), || {
        matches!(
            waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)),
            Ok(status) if status != WaitStatus::StillAlive
        )
    });
}

/// It waits for the end of this process by event: it has a pidfd of it.
pub fn watches(watcher: i32, pid: i32) -> bool {
    let line = format!("Pid:\t{pid}");
    let entries = std::fs::read_dir(format!("/proc/{watcher}/fdinfo")).into_iter().flatten().flatten();
    let mut texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    texts.any(|text| text.lines().any(|has| has == line))
}

/// This machine's name, as `hostname` prints it.
pub fn this_host() -> String {
    nix::unistd::gethostname().expect("a host name").to_string_lossy().into_owned()
}

/// Kills and reaps every process whose environment has `marker`, by PID: what a scene started and lost sight of.
/// Looks again until there is none, because a process may fork while it is looked at.
pub(crate) fn sweep(marker: &str) {
    for _ in 0..100 {
        let left = marked(marker);
        for pid in &left {
            let _ = kill(*pid, Signal::SIGKILL);
            // Ours only as the subreaper's; anybody else's is reaped by its own parent.
            let _ = waitpid(*pid, Some(WaitPidFlag::WNOHANG));
        }
        if left.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes that were started in a scene and still run. A zombie is not among them.
pub fn marked_by(scene: &crate::Scene) -> Vec<Pid> {
    marked(&scene.marker())
}

/// A zombie's environment is empty, so it is not among them.
fn marked(marker: &str) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_marker = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes())
    };
    pids.filter(has_marker).map(Pid::from_raw).collect()
}
