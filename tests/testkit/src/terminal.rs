//! A real terminal: a pseudo-terminal whose other end is the test's, which types and reads what is written.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::scene::MARK;
use crate::{Ended, PATIENCE, Scene, until};

/// Starts a program as the leader of a session on a new terminal; the other end comes with it. Where the scene is for
/// one program, `$BEADLOCK` or `$AGENT` is its path.
pub fn on_terminal(scene: &Scene, program: &[&str]) -> (Child, File) {
    // Close-on-exec: a process that inherits this end keeps the terminal from hanging up.
    let master =
        posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("a new terminal");
    grantpt(&master).expect("its owner is set");
    unlockpt(&master).expect("it may be opened");
    let name = ptsname_r(&master).expect("its name");
    let open = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(&name);
    let stream = open.expect("open its other end");
    let mut command = Command::new("setsid");
    command
        .arg("--ctty")
        .args(program)
        .env_clear()
        .current_dir(scene.path());
    command
        .env("PATH", "/usr/bin:/bin")
        .env(MARK, scene.path())
        .envs(scene.variable());
    let another = || stream.try_clone().expect("another handle of it");
    command.stdin(another()).stdout(another()).stderr(another());
    (
        command.spawn().expect("start setsid"),
        File::from(OwnedFd::from(master)),
    )
}

/// Waits for its end. What it has written went to its terminal.
#[track_caller]
pub fn end(mut child: Child) -> Ended {
    until("it ends", || {
        child.try_wait().expect("it is our child").is_some()
    });
    Ended::of(&child.wait_with_output().expect("it has ended"))
}

/// A session on a terminal of its own. Dropped, the terminal hangs up.
pub struct Terminal {
    leader: Child,
    keyboard: File,
    seen: RefCell<Vec<u8>>,
}

impl Terminal {
    /// Starts a program as the leader of a session on a new terminal.
    pub fn start(scene: &Scene, program: &[&str]) -> Self {
        Self::start_as(scene, "xterm", program)
    }

    /// The same, on a terminal that calls itself `term`.
    pub fn start_as(scene: &Scene, term: &str, program: &[&str]) -> Self {
        let term = format!("TERM={term}");
        let (leader, keyboard) = on_terminal(scene, &[&["env", &term, "PS1=$ "], program].concat());
        fcntl(&keyboard, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("reads that do not wait");
        Self {
            leader,
            keyboard,
            seen: RefCell::default(),
        }
    }

    /// An interactive shell, which has job control.
    pub fn shell(scene: &Scene) -> Self {
        Self::start(scene, &["sh", "-i"])
    }

    /// Types these characters; a control character is its key.
    #[track_caller]
    pub fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("type");
    }

    /// All that was written to the screen so far, as it was written.
    pub fn seen(&self) -> String {
        let mut buffer = [0; 4096];
        loop {
            match (&self.keyboard).read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.seen.borrow_mut().extend(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // WouldBlock: nothing more. EIO: nobody has the terminal open any more.
                Err(_) => break,
            }
        }
        String::from_utf8_lossy(&self.seen.borrow()).into_owned()
    }

    /// Waits, and reads the screen meanwhile: a writer to a full one stands still.
    #[track_caller]
    pub fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let begun = Instant::now();
        loop {
            let seen = self.seen();
            if done() {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {what}; on the screen:\n{seen}"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the command that holds the lock is this program.
    #[track_caller]
    pub fn until_runs(&self, scene: &Scene, name: &str) {
        self.until(name, || {
            let record = fs::read(scene.lock()).unwrap_or_default();
            let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
            record["pid"]
                .as_i64()
                .is_some_and(|pid| program(pid as i32) == name)
        });
    }

    /// As somebody who drags the window's corner.
    #[track_caller]
    pub fn resize(&self, columns: u32) {
        let mut stty = Command::new("stty");
        stty.args(["cols", &columns.to_string()]);
        let status = stty
            .stdin(self.keyboard.try_clone().expect("another handle of it"))
            .status();
        assert!(status.expect("start stty").success());
    }

    /// Waits for the end of the session's leader.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        let pid = Pid::from_raw(self.leader.id().cast_signed());
        self.until("it ends", || has_ended(pid));
        let status = self.leader.wait().expect("it has ended");
        let stdout = self.seen().into_bytes();
        Ended::of(&std::process::Output {
            status,
            stdout,
            stderr: Vec::new(),
        })
    }

    /// The connection breaks, or somebody closes the window.
    #[track_caller]
    pub fn hang_up(self) -> Ended {
        let Self {
            leader, keyboard, ..
        } = self;
        drop(keyboard);
        end(leader)
    }
}

/// The program that a process executes. A shell that was asked to start it may miss a Ctrl-C until it has.
pub fn program(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// The child `pid` has ended; it stays unreaped.
fn has_ended(pid: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(pid), flags).expect("it is our child") != WaitStatus::StillAlive
}

/// The PID that a command has written there.
#[track_caller]
pub fn pid_in(terminal: &Terminal, scene: &Scene, name: &str) -> i32 {
    terminal.until(name, || scene.read(name).ends_with('\n'));
    scene.read(name).trim().parse().expect("a PID")
}

/// Its state, as in `/proc/PID/stat`: `T` is stopped.
pub fn state(pid: i32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next())
        .unwrap_or('-')
}
