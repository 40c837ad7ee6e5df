//! A watchdog or a gate keeper, as the process has it that has started it, and how either begins.

use std::fs::File;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Child, Stdio};

use beadlock_base::helper::{self, Helper, Helpers, wait_ready};
use beadlock_core::helper_request::{CommandRef, WatchdogRequest};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::dup2_stderr;

/// A helper that watches over a command. Dropped, it is killed and reaped, and does nothing.
#[derive(Debug)]
pub(super) struct BesideCommand {
    child: Child,
    /// Its end is ours.
    alive: PipeWriter,
}

impl BesideCommand {
    /// Starts one, and returns once it watches. `shared` are the open files that it keeps locked when its parent is
    /// killed. `make` makes the helper of its request, and a title for `ps`.
    pub fn start<A, H: Helper>(
        helpers: Helpers,
        command: CommandRef,
        at_end: A,
        shared: &[BorrowedFd<'_>],
        make: impl FnOnce(WatchdogRequest<A>) -> (String, H),
    ) -> io::Result<Self> {
        let mut shared = shared
            .iter()
            .map(BorrowedFd::try_clone_to_owned)
            .collect::<io::Result<Vec<_>>>()?
            .into_iter();
        let first = shared.next();
        let others: Vec<OwnedFd> = shared.collect();
        for fd in &others {
            // It inherits them by their numbers. Nothing else is started before they are closed here.
            fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let kept = others.iter().map(AsRawFd::as_raw_fd).collect();
        let (watched, alive) = io::pipe()?;
        let (ready, for_helper) = io::pipe()?;
        let (title, helper) = make(WatchdogRequest {
            parent: std::process::id().cast_signed(),
            command,
            at_end,
            kept,
        });
        let mut command = helper::helper(helpers, &title, &helper)?;
        command.stdin(Stdio::from(watched)).stdout(for_helper);
        command.stderr(first.map_or_else(Stdio::null, Stdio::from));
        let started = Self {
            child: command.spawn()?,
            alive,
        };
        drop(command); // It has the pipes' other ends.
        wait_ready(ready)?;
        Ok(started)
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The pipe that ends with this process.
    pub fn alive(&self) -> io::Result<PipeWriter> {
        self.alive.try_clone()
    }
}

impl Drop for BesideCommand {
    /// Before the pipe is closed, and by the one signal that cannot be blocked.
    fn drop(&mut self) {
        // Not reaped a moment ago, so the PID is still its own.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Says that it watches, once it stands apart. The answer is the open file that it shares with its parent.
pub(super) fn begin() -> io::Result<OwnedFd> {
    // It is there to be open. Nothing that is written to stderr may get into it.
    let shared = io::stderr().as_fd().try_clone_to_owned();
    if shared.is_ok()
        && let Ok(null) = File::options().write(true).open("/dev/null")
    {
        let _ = dup2_stderr(null);
    }
    helper::report_ready();
    shared
}
