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
//!
//! `renew` gives the claim of a keeper a new end. That is a signal with a number ([`KeptClaim::renew`]), and the keeper
//! answers by its own command line, which has the new end from then on.

mod renewal;

use beadlock_claim::error::Problem;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, ErrorKind, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs::File, os::unix::ffi::OsStringExt, path::Path, process::Stdio, time::Duration};

use beadlock_base::error::system_words;
use beadlock_base::helper::{Helper, Helpers, close_the_rest, wait_ready};
use beadlock_base::helper::{helper, helper_words};
use beadlock_base::sys::{self, Spawn, Waiting, fork_waiting, ignore, pidfd_open};
use beadlock_core::record::file::Mode;
use beadlock_core::take::{Adopted, Held};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, chdir, dup2_stderr, dup2_stdin, dup2_stdout, read, setsid};
use serde::{Deserialize, Serialize};

use renewal::Renewals;
pub use renewal::{KeptClaim, NotRenewed, end_after};

use crate::interactive_wait::InteractiveWait;
use beadlock_base::escape::in_title;
use beadlock_base::poll::wait_for;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::event::failed_to;
use beadlock_claim::kept_lock::{KeptLock, LossAlarm};
use beadlock_claim::loss::{EndedWatch, Loss, WatchStart};
use beadlock_claim::protocol::rules::ProtocolKind;
use beadlock_claim::release_request::{Enders, ReleaseOutcome, ReleaseReason, ReleaseRequest};
use beadlock_claim::{
    audit_trail::AuditTrail, envelope::Request, environment::Environment, kernel_lock::KernelLock,
    protocol::exact, target::Target, wait::Deadline,
};
use beadlock_console::talk::Talk;
use beadlock_supervise::{
    process_ref::{LEASE_KEEPER, ProcessRef},
    process_tree,
    signals::Signals,
};

/// How long a keeper may take to let its caller go.
const PATIENCE: Duration = Duration::from_secs(10);

/// A claim that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseKeeperRequest {
    /// The claim, by the kind of its lock.
    pub lease: KeptLease,
    /// The target, absolute.
    pub target: OsString,
    /// The target as the user has named it, for people.
    pub given: String,
    /// How long after its start the keeper ends the claim, unless the claim is renewed.
    pub max_hold: Duration,
    /// The end of the claim by the clock, in UTC and whole seconds: for people, and for the answer to a renewal. `None`:
    /// it has no end.
    pub until: Option<String>,
    /// The process whose end ends the claim.
    pub subject: Option<ProcessRef>,
    /// The id of the command that has made the claim, for the audit file.
    pub request_id: String,
    /// The path of the audit file, absolute; `None`: the command named none.
    pub audit: Option<OsString>,
}

/// The claim that a keeper keeps, by the kind of its lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeptLease {
    /// The record with this id.
    Record {
        /// The claim's id in the record.
        id: String,
        /// The holder's name in the record.
        holder: String,
    },
    /// A lock of the kernel, on the open file that the keeper inherits as its stderr.
    Kernel {
        /// Whether others may share the lock.
        mode: Mode,
    },
}

impl Helper for LeaseKeeperRequest {
    const KIND: &'static str = LEASE_KEEPER;

    /// Whether the subject's PID can be one of a process: numbers below 1 cannot.
    fn is_sound(&self) -> bool {
        self.subject.is_none_or(|subject| subject.pid > 0)
    }

    fn run(self) -> u8 {
        live(self).unwrap_or(Exit::Failed).code()
    }
}

impl LeaseKeeperRequest {
    /// The title of the keeper's process for `ps`: which lock it keeps, for whom, and for how long.
    pub fn title(&self) -> String {
        let given = in_title(&self.given);
        let keeps = match &self.lease {
            KeptLease::Record { holder, .. } => {
                format!("beadlock: keeps {given} for {}", in_title(holder))
            }
            KeptLease::Kernel { .. } => format!("beadlock: keeps {given}"),
        };
        match (self.subject, &self.until) {
            (Some(subject), _) => format!("{keeps} while PID {} lives", subject.pid),
            (None, Some(until)) => format!("{keeps} until {}", in_title(until)),
            (None, None) => keeps,
        }
    }
}

/// A keeper that waits for the claim to stand, and then to be told that it is known. Dropped before that it is ended.
#[derive(Debug)]
pub struct LeaseKeeper {
    pid: i32,
    /// The forked process, until it may begin; `None` also for a keeper that is not forked.
    waiting: Option<Waiting>,
    /// The pipe that is its stdout, until it has said that it keeps the claim.
    ready: Option<PipeReader>,
    known: PipeWriter,
}

/// A keeper's ends of the two pipes: its stdin and its stdout. Dropped, the end of either can be seen.
type Streams = (PipeReader, PipeWriter);

impl LeaseKeeper {
    /// Forks a keeper that does not execute before [`LeaseKeeper::start`].
    pub fn fork(
        helpers: Helpers,
        request: &LeaseKeeperRequest,
        environment: &Environment,
        mask: SigSet,
    ) -> Result<Self, Error> {
        Self::with_pipes(|(stdin, stdout)| {
            let words = helper_words(helpers, &request.title(), request)?;
            // No word of ours has a NUL.
            let c_string = |word: OsString| CString::new(word.into_vec()).unwrap_or_default();
            let argv = words.map(|word| c_string(word.into()));
            let pair =
                |(name, value): (OsString, OsString)| c_string([name, value].join(OsStr::new("=")));
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

    /// Starts a keeper that shares an open file.
    pub fn sharing(
        helpers: Helpers,
        file: BorrowedFd<'_>,
        request: &LeaseKeeperRequest,
    ) -> Result<Self, Error> {
        Self::with_pipes(|(stdin, stdout)| {
            let mut command = helper(helpers, &request.title(), request)?;
            command
                .stdin(stdin)
                .stdout(stdout)
                .stderr(Stdio::from(file.try_clone_to_owned()?));
            Ok((command.spawn()?.id().cast_signed(), None))
        })
    }

    fn with_pipes(
        begin: impl FnOnce(Streams) -> io::Result<(i32, Option<Waiting>)>,
    ) -> Result<Self, Error> {
        let make = || {
            let (stdin, known) = io::pipe()?;
            let (ready, stdout) = io::pipe()?;
            let (pid, waiting) = begin((stdin, stdout))?;
            Ok(Self {
                pid,
                waiting,
                ready: Some(ready),
                known,
            })
        };
        make().map_err(|error: io::Error| failed_to("make the keeper", &error))
    }

    /// The PID of the keeper.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets the keeper begin, and waits until it keeps the claim. From then on it does not end together with its
    /// caller.
    pub fn start(&mut self) -> Result<(), Error> {
        let go = |waiting: Waiting| waiting.go().and_then(sys::Starting::result);
        let begun = self.waiting.take().map_or(Ok(()), go);
        let started = begun.and_then(|()| self.ready.take().map_or(Ok(()), wait_ready));
        started.map_err(|error| {
            Error::new(
                Code::Io,
                format!("the keeper could not be started: {}", system_words(&error)),
            )
        })
    }

    /// The claim has been told: from here on it is the keeper's alone. Returns once the keeper has let the pipe go, and
    /// with it the last that it had of its caller. Fails when the keeper has ended.
    pub fn leave(mut self) -> Result<(), Error> {
        let told = self.known.write_all(&[1]);
        let deadline = Deadline::after(PATIENCE);
        // A pipe without a reader is an error to its writer, which needs not be asked for.
        let mut writer = [PollFd::new(self.known.as_fd(), PollFlags::empty())];
        while told.is_ok()
            && poll(&mut writer, PollTimeout::from(100_u8)) != Ok(1)
            && !deadline.is_over()
        {}
        if told.is_err() || process_tree::end_of(self.pid).is_some() {
            return Err(Error::new(
                Code::Io,
                "the keeper has ended, so nothing is claimed",
            ));
        }
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for LeaseKeeper {
    /// A keeper that has not begun ends by itself when its pipe is closed; one that has begun is killed.
    fn drop(&mut self) {
        drop(self.waiting.take());
        if process_tree::end_of(self.pid).is_none() {
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
        process_tree::reap(self.pid);
    }
}

/// The audit file for a process in another directory.
pub fn absolute(audit: Option<&Path>) -> Option<OsString> {
    audit.map(|path| {
        std::path::absolute(path)
            .unwrap_or_else(|_| path.to_owned())
            .into_os_string()
    })
}

/// How long the keeper waits for the gate at the end. It is dead afterwards in any case, and the lock is stale.
const LAST_PATIENCE: Duration = Duration::from_secs(130);

/// How often the keeper looks whether a process has ended of which it has no pidfd.
const NO_PIDFD: Duration = Duration::from_millis(500);

/// Keeps the claim until its end, as the keeper's process. `None`: the keeper could not begin.
fn live(request: LeaseKeeperRequest) -> Option<Exit> {
    let deadline = Deadline::after(request.max_hold);
    close_the_rest();
    let ready = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
    let signals = Signals::block().ok()?;
    let renewals = Renewals::block(request.clone()).ok()?;
    let LeaseKeeperRequest {
        lease: kept,
        target,
        given,
        subject,
        request_id,
        audit,
        ..
    } = request;
    let target = exact(&target, &given).ok()?;
    let lease = Lease::adopt(&kept, &target)?;
    get_away().ok()?;
    let (talk, request) = (Talk::silent(), Request::called(&request_id));
    let audit = audit.as_deref().map(Path::new);
    // An audit file that cannot be had does not end a claim.
    let open = |audit| target.trail(audit, of_claim(&kept), &request, &talk);
    let trail = open(audit).or_else(|_| open(None)).ok()?;
    let vigil = Vigil {
        ready: Some(ready),
        deadline,
        subject,
        signals,
        renewals,
    };
    match lease {
        Lease::Record(held) => keep_record(vigil, *held, &target, &trail),
        Lease::Kernel(lock) => Some(keep_kernel(vigil, lock, &trail)),
    }
}

enum Lease {
    Record(Box<Held>),
    Kernel(Box<dyn KernelLock>),
}

impl Lease {
    fn adopt(lease: &KeptLease, target: &Target) -> Option<Self> {
        match lease {
            KeptLease::Record { id, .. } => Some(Self::Record(Box::new(adopt_record(target, id)?))),
            KeptLease::Kernel { mode } => {
                let shared = io::stderr().as_fd().try_clone_to_owned().ok()?;
                let ProtocolKind::Kernel(kernel) = target.rules().kind else {
                    return None;
                };
                kernel
                    .adopt(target, *mode, File::from(shared))
                    .map(Self::Kernel)
            }
        }
    }
}

/// Whose claim it is, for the audit file: its holder and its id.
fn of_claim(lease: &KeptLease) -> (Option<&str>, Option<&str>) {
    match lease {
        KeptLease::Record { id, holder } => (Some(holder), Some(id)),
        KeptLease::Kernel { .. } => (None, None),
    }
}

/// Adopts the record with this id; `None`: not within two seconds. A lock that was just claimed may be aside for a
/// moment, while another process looks at it.
fn adopt_record(target: &Target, id: &str) -> Option<Held> {
    let deadline = Deadline::after(Duration::from_secs(2));
    loop {
        if let Ok(Adopted::Held(held)) = Held::adopt(&target.place, id) {
            return Some(held);
        }
        if deadline.is_over() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Keeps a claim with a record until its end. `None`: the keeping could not begin, or did not hand the lock back.
fn keep_record(
    mut vigil: Vigil,
    held: Held,
    target: &Target,
    trail: &AuditTrail<'_>,
) -> Option<Exit> {
    let lease = target.lease(&held);
    let keeping = KeptLock::begin(held, lease, WatchStart::AtOnce).ok()?;
    let mut guard = keeping.guard(trail);
    let (lost, why) = vigil.keep(&mut guard);
    let saw_release = matches!(lost, Some(Loss::Released)) || guard.saw_release();
    drop(guard);
    let EndedWatch { held, was_released } = keeping.end_of_several(saw_release)?;
    // The process that released or broke it has written that down, whatever has ended the watch.
    if was_released || held.broken_as().is_some() {
        return Some(Exit::Done);
    }
    let observer = trail.observer();
    let leaving = ReleaseRequest {
        target,
        enders: Enders::Several,
        patience: LAST_PATIENCE,
        trail,
        failure_step: None,
    };
    match leaving.end(
        held,
        lost,
        why,
        &mut InteractiveWait::wait_of(&mut vigil.signals, observer, None),
    ) {
        ReleaseOutcome::Lost(_) => Some(Exit::Lost),
        ReleaseOutcome::Released | ReleaseOutcome::ByAnother | ReleaseOutcome::Stuck => {
            Some(Exit::Done)
        }
    }
}

fn keep_kernel(mut vigil: Vigil, lock: Box<dyn KernelLock>, trail: &AuditTrail<'_>) -> Exit {
    let (lost, why) = vigil.keep(&mut lock.guard());
    if lock.end(lost, why, trail).is_some() {
        Exit::Lost
    } else {
        Exit::Done
    }
}

/// The events that a keeper waits for, besides the loss of its lock.
struct Vigil {
    /// The pipe on which the keeper says that it keeps the claim; `None`: it has said so.
    ready: Option<File>,
    deadline: Deadline,
    subject: Option<ProcessRef>,
    signals: Signals,
    renewals: Renewals,
}

impl Vigil {
    /// Says that the claim is kept, and keeps it until there is a reason to end it, or it has ended.
    fn keep(&mut self, guard: &mut LossAlarm<'_>) -> (Option<Loss>, ReleaseReason) {
        // Our caller is waiting for this: by now nothing is missed, and what ends it does not end us. An error: it has
        // ended, which the other pipe says as well.
        let _ = self.ready.take().map(|mut ready| ready.write_all(b"."));
        let stdin = io::stdin();
        let mut is_known = false;
        let end = self
            .subject
            .and_then(|subject| pidfd_open(subject.pid).ok());
        let [mut told, mut woken, mut ended] = [false; 3];
        loop {
            // What cannot be refreshed just now is tried again: there is no work here that could be ended.
            if let Some(told) = guard.look(woken)
                && !matches!(told.loss, Loss::Overdue { .. })
            {
                return (Some(told.loss), ReleaseReason::KEEPER_SIGNAL);
            }
            // Also by another look: the process may have ended before its end could be waited for.
            if ended || self.subject.is_some_and(ProcessRef::has_ended) {
                return (None, ReleaseReason::PROCESS_ENDED);
            }
            while let Some(received) = self.signals.receive() {
                if matches!(
                    received.signal,
                    Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT
                ) {
                    return (None, ReleaseReason::KEEPER_SIGNAL);
                }
            }
            if told {
                match read(&stdin, &mut [0]) {
                    Ok(1) if let_stdin_go().is_ok() => is_known = true,
                    Err(Errno::EINTR) => {}
                    _ => return (None, ReleaseReason::NOT_HANDED_OVER),
                }
            }
            // Before the deadline is looked at: a renewal that has come in time is not too late.
            while let Some(left) = self.renewals.receive() {
                self.deadline = Deadline::after(left);
            }
            if self.deadline.is_over() {
                return (None, ReleaseReason::MAX_HOLD);
            }
            let net = if self.subject.is_some() && end.is_none() {
                NO_PIDFD
            } else {
                Duration::MAX
            };
            let limit = guard.left().min(self.deadline.left()).min(net);
            let stdin: Option<BorrowedFd<'_>> = (!is_known).then(|| stdin.as_fd());
            let fds = [
                Some(self.signals.as_fd()),
                Some(self.renewals.as_fd()),
                guard.fd(),
                stdin,
                end.as_ref().map(AsFd::as_fd),
            ];
            [_, _, woken, told, ended] = wait_for(fds, limit);
        }
    }
}

/// Leaves the process that has started this: its session, its streams but stdin, which is the pipe, its directory.
fn get_away() -> io::Result<()> {
    ignore(Signal::SIGHUP)?;
    let null = null()?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    chdir("/")?;
    let _ = nix::sys::prctl::set_name(c"beadlock-keep"); // Started by way of /proc it is "exe".
    setsid()?;
    Ok(())
}

fn let_stdin_go() -> io::Result<()> {
    Ok(dup2_stdin(null()?)?)
}

fn null() -> io::Result<File> {
    match File::options().read(true).write(true).open("/dev/null") {
        Err(error) if error.kind() == ErrorKind::NotFound => File::open("/"),
        null => null,
    }
}

#[cfg(test)]
mod tests;
