//! Processes: how they stand, and the end of what a test has lost sight of.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Tests that are started in the background ignore SIGINT, and so would all that they start. What a process has a
/// handler for, its children do not ignore; this one does with the signal what it would do by default.
pub fn heed_signals() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default();
    for signal in [
        libc::SIGCHLD,
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
    ] {
        if ignored >> (signal - 1) & 1 == 1 {
            let always = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal, always).expect("a handler");
        }
    }
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

/// Takes away every child that has ended, for a test that starts thousands and waits for none: a walk through `/proc`
/// takes the longer the more of them are left.
pub fn reap_all() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}

/// Waits until an orphan that falls to us has ended, and reaps it: it may end before the last thread of its killed
/// parent has, and then it is not ours yet.
///
/// # Panics
///
/// When it has not ended within `bound`, or is not ours by then.
#[track_caller]
pub fn reap(pid: i32, bound: Duration) {
    crate::wait_until(
        bound,
        &format!("orphan {pid} ends and is ours to reap"),
        || {
            matches!(
                waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)),
                Ok(status) if status != WaitStatus::StillAlive
            )
        },
    );
}

/// Waits until a process has ended and is reaped, by us if it is ours.
///
/// # Panics
///
/// When it is still there after [`PATIENCE`](crate::PATIENCE).
#[track_caller]
pub fn process_is_gone(pid: i32) {
    crate::until("the orphan ends", || {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        kill(Pid::from_raw(pid), None).is_err()
    });
}

/// The PIDs of all processes.
pub fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Neither gone nor a zombie.
pub fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The children of a process.
pub fn children(parent: i32) -> Vec<i32> {
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.to_owned())
            .unwrap_or_default();
        rest.split_ascii_whitespace().nth(1) == Some(&parent.to_string())
    };
    pids().into_iter().filter(is_child).collect()
}

/// It has executed these words: until then it is a fork of the process that started it.
pub fn runs(pid: i32, words: &[&str]) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line == words.join("\0") + "\0")
}

/// It sleeps in this system call.
pub fn is_inside(pid: i32, call: libc::c_long) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    line.split_once(' ')
        .is_some_and(|(number, _)| number == call.to_string())
}

/// It waits for the end of this process by event: it has a pidfd of it.
pub fn watches(watcher: i32, pid: i32) -> bool {
    let line = format!("Pid:\t{pid}");
    let entries = fs::read_dir(format!("/proc/{watcher}/fdinfo"))
        .into_iter()
        .flatten()
        .flatten();
    let mut texts = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.any(|text| text.lines().any(|has| has == line))
}

/// This machine's name, as `hostname` prints it.
pub fn this_host() -> String {
    nix::unistd::gethostname()
        .expect("a host name")
        .to_string_lossy()
        .into_owned()
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
    let has_marker = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|entry| entry == marker.as_bytes())
    };
    pids()
        .into_iter()
        .filter(has_marker)
        .map(Pid::from_raw)
        .collect()
}
