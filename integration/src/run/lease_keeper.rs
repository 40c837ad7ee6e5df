//! The lease keeper: the process that `acquire` leaves behind where a claim needs one, for every protocol. It ends the
//! claim when its time is over, when the process that the claim is for has ended, or when it gets TERM; and it ends
//! itself when the lock has gone.
//!
//! It is the running binary again: own session, its streams on `/dev/null`, every other descriptor closed, working
//! directory `/`, SIGHUP ignored. It keeps the environment, by which CI systems find what a job has left behind. It
//! begins in one of two orders:
//!
//! - A record names its keeper, so that a keeper that was killed leaves a stale lock. That keeper is forked before the
//!   claim, and executes once the claim stands ([`LeaseKeeper::fork`]).
//! - An flock belongs to an open file. That keeper is started once the lock is taken, and inherits the open file as its
//!   stderr ([`LeaseKeeper::sharing`]). With its end the lock is gone.
//!
//! The rest is the same. Two pipes are its stdin and stdout at first. By one byte it says that it keeps the claim and
//! has left its caller; by another it hears that the caller has printed the claim. Without that byte (`acquire` was
//! killed) nobody knows the id, and the keeper ends the claim again.

mod life;

use std::ffi::{CString, OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::{os::unix::ffi::OsStringExt, path::Path, process::Stdio, time::Duration};

use beadlock_checker::internal::beside::{has_said_so, helper, helper_words};
use beadlock_checker::internal::sys::{self, Spawn, Waiting, fork_waiting};
use beadlock_checker::internal::system_words;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::request::{HelperRequest, LeaseKeeperRequest};
use crate::error::{Code, Error};
use crate::{claim::event::failed_to, claim::tree, settings::environment::Environment, settings::wait::Deadline};

pub use life::main;

/// How long a keeper may take to let its caller go.
const PATIENCE: Duration = Duration::from_secs(10);

/// A keeper that waits for the claim to stand, and then to be told that it is known. Dropped before that it is ended.
#[derive(Debug)]
pub struct LeaseKeeper {
    pid: i32,
    /// Until it is let begin.
    waiting: Option<Waiting>,
    /// The pipe that is its stdout, until it has said that it keeps the claim.
    ready: Option<PipeReader>,
    known: PipeWriter,
}

/// A keeper's ends of the two pipes: its stdin and its stdout. Dropped, the end of either can be seen.
type Streams = (PipeReader, PipeWriter);

impl LeaseKeeper {
    /// Forks one that does not execute before [`LeaseKeeper::start`].
    pub fn fork(request: LeaseKeeperRequest, environment: &Environment, mask: SigSet) -> Result<Self, Error> {
        Self::with_pipes(|(stdin, stdout)| {
            let words = helper_words(&request.title(), &HelperRequest::LeaseKeeper(request))?;
            // No word of ours has a NUL.
            let c_string = |word: OsString| CString::new(word.into_vec()).unwrap_or_default();
            let argv = words.map(|word| c_string(word.into()));
            let pair = |(name, value): (OsString, OsString)| c_string([name, value].join(OsStr::new("=")));
            let envp: Vec<CString> = environment.with(&[]).into_iter().map(pair).collect();
            let spawn = Spawn {
                program: c"/proc/self/exe",
                argv: &argv,
                envp: &envp,
                own_group: false,
                mask,
                parent_death: None,
                streams: Some([stdin.as_fd(), stdout.as_fd()]),
                inherited: None,
            };
            let waiting = fork_waiting(&spawn)?;
            Ok((waiting.pid(), Some(waiting)))
        })
    }

    /// Starts one that shares an open file.
    pub fn sharing(file: BorrowedFd<'_>, request: LeaseKeeperRequest) -> Result<Self, Error> {
        Self::with_pipes(|(stdin, stdout)| {
            let mut command = helper(&request.title(), &HelperRequest::LeaseKeeper(request))?;
            command.stdin(stdin).stdout(stdout).stderr(Stdio::from(file.try_clone_to_owned()?));
            Ok((command.spawn()?.id().cast_signed(), None))
        })
    }

    fn with_pipes(begin: impl FnOnce(Streams) -> io::Result<(i32, Option<Waiting>)>) -> Result<Self, Error> {
        let make = || {
            let (stdin, known) = io::pipe()?;
            let (ready, stdout) = io::pipe()?;
            let (pid, waiting) = begin((stdin, stdout))?;
            Ok(Self { pid, waiting, ready: Some(ready), known })
        };
        make().map_err(|error: io::Error| failed_to("make the keeper", &error))
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it begin, and waits until it keeps the claim, and nothing that ends its caller ends it too.
    pub fn start(&mut self) -> Result<(), Error> {
        let go = |waiting: Waiting| waiting.go().and_then(sys::Starting::result);
        let begun = self.waiting.take().map_or(Ok(()), go);
        let started = begun.and_then(|()| self.ready.take().map_or(Ok(()), has_said_so));
        started
            .map_err(|error| Error::new(Code::Io, format!("the keeper could not be started: {}", system_words(&error))))
    }

    /// The claim has been told: from here on it is the keeper's alone. Returns once the keeper has let the pipe go, and
    /// with it the last that it had of its caller. Fails when the keeper has ended.
    pub fn leave(mut self) -> Result<(), Error> {
        let told = self.known.write_all(&[1]);
        let deadline = Deadline::after(PATIENCE);
        // A pipe without a reader is an error to its writer, which needs not be asked for.
        let mut writer = [PollFd::new(self.known.as_fd(), PollFlags::empty())];
        while told.is_ok() && poll(&mut writer, PollTimeout::from(100_u8)) != Ok(1) && !deadline.is_over() {}
        if told.is_err() || tree::ending(self.pid).is_some() {
            return Err(Error::new(Code::Io, "the keeper has ended, so nothing is claimed"));
        }
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for LeaseKeeper {
    /// What has not begun ends by itself, its pipe being closed; what has begun and failed is ended.
    fn drop(&mut self) {
        drop(self.waiting.take());
        if tree::ending(self.pid).is_none() {
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
        tree::reap(self.pid);
    }
}

/// The audit file for a process in another directory.
pub fn absolute(audit: Option<&Path>) -> Option<OsString> {
    audit.map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).into_os_string())
}
