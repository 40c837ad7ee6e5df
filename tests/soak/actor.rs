//! Processes of the soak: started, killed alone or as a tree, and reaped, also when their parent was killed.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use beadlock_base::process::{Stat, all};
use beadlock_tests::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// Longer than anything here takes: a claim may wait 130 s for a cycle.
const BOUND: Duration = Duration::from_secs(180);

/// The processes that their [`Actor`] reaps. Locked while one is started, so that none is missed.
static OURS: Mutex<Vec<i32>> = Mutex::new(Vec::new());

fn ours() -> MutexGuard<'static, Vec<i32>> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child of ours with its stdin and stdout. Dropped, it is killed and reaped.
pub struct Actor {
    child: Child,
    input: Option<PipeWriter>,
    output: BufReader<PipeReader>,
}

impl Actor {
    pub fn start(mut command: Command) -> Self {
        let (stdin, input) = std::io::pipe().expect("a pipe");
        let (output, stdout) = std::io::pipe().expect("a pipe");
        command.stdin(stdin).stdout(stdout);
        let mut ours = ours();
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        ours.push(child.id().cast_signed());
        Self {
            child,
            input: Some(input),
            output: BufReader::new(output),
        }
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// A line to its stdin; nobody may be there any more.
    pub fn go(&mut self) {
        let _ = self
            .input
            .as_ref()
            .map(|mut input| input.write_all(b"go\n"));
    }

    /// The end of its stdin.
    pub fn let_go(&mut self) {
        self.input = None;
    }

    /// A line of its stdout; empty at the end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.output.read_line(&mut line);
        line.trim_end().to_owned()
    }

    pub fn kill(&self) {
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGKILL);
    }

    pub fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.pid()), signal);
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_until(BOUND, &format!("the end of {}", self.pid()), || {
            ended = self.child.try_wait().expect("a child can be waited for");
            ended.is_some()
        });
        ended.expect("it has ended")
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let mut ours = ours();
        let _ = self.child.kill();
        let _ = self.child.wait();
        ours.retain(|other| *other != self.pid());
    }
}

/// Those of its children that live.
pub fn children(pid: i32) -> Vec<Stat> {
    all()
        .into_iter()
        .filter(|stat| stat.ppid == pid && !stat.is_zombie())
        .collect()
}

/// Neither there nor another by its name.
fn is_gone(was: &Stat) -> bool {
    Stat::read(was.pid).is_none_or(|stat| stat.start_ticks != was.start_ticks)
}

/// Waits until an orphan has ended and the reaper has had it.
#[track_caller]
pub fn wait_for_orphan(orphan: &Stat) {
    wait_until(BOUND, &format!("the end of orphan {orphan:?}"), || {
        is_gone(orphan)
    });
}

/// Stands still, so that it neither starts nor reaps anybody.
pub fn stop(pid: i32) {
    let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
    wait_until(BOUND, "a process stands still", || {
        Stat::read(pid).is_none_or(|stat| stat.is_zombie() || matches!(stat.state, 'T' | 't'))
    });
}

/// Kills a process and all below it, the lowest first. A parent that goes before its child would leave the child
/// working for a moment without the lock or the gate that the parent stands for.
pub fn kill_tree(pid: i32) {
    stop(pid);
    loop {
        let children = children(pid);
        if children.is_empty() {
            break;
        }
        children.iter().for_each(|child| kill_tree(child.pid));
    }
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    wait_until(BOUND, "a killed process ends", || {
        Stat::read(pid).is_none_or(|stat| stat.is_zombie())
    });
}

/// Reaps orphans until told to stop: this process is the subreaper, and whom nobody reaps still answers to
/// kill.
pub fn reap_orphans(over: &AtomicBool) {
    let this = std::process::id().cast_signed();
    while !over.load(Ordering::Relaxed) {
        {
            let ours = ours();
            let orphans = all()
                .into_iter()
                .filter(|stat| stat.ppid == this && stat.is_zombie());
            for orphan in orphans.filter(|stat| !ours.contains(&stat.pid)) {
                let _ = waitpid(Pid::from_raw(orphan.pid), Some(WaitPidFlag::WNOHANG));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
