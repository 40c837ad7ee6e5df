//! The lease keeper's own life.

use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs::File, path::Path, time::Duration};

use beadlock_checker::internal::beside::close_the_rest;
use beadlock_checker::internal::sys::{ignore, pidfd_open};
use beadlock_checker::internal::take::{Adopted, Held};
use nix::unistd::{chdir, dup2_stderr, dup2_stdin, dup2_stdout, read, setsid};
use nix::{errno::Errno, sys::signal::Signal};

use crate::claim::keeping::{Guard, Keeping};
use crate::claim::leaving::{Leaving, Left, Why};
use crate::claim::loss::{Loss, WatchStart};
use crate::error::{End, Exit};
use crate::run::request::{KeptLease, LeaseKeeperRequest};
use crate::{
    claim::attendant::Attending, claim::event::wait_for, claim::kernel_lock::KernelLock,
    claim::known_process::KnownProcess, claim::signals::Signals, claim::target::Target, output::envelope::Request,
    output::talk::Talk, output::trail::Trail, protocol::exact, settings::wait::Deadline,
};

/// How long it waits for the gate at the end. It is dead afterwards in any case, and the lock stale.
const LAST_PATIENCE: Duration = Duration::from_secs(130);

/// How often it is asked whether a process has ended that does not tell.
const NO_PIDFD: Duration = Duration::from_millis(500);

pub fn main(request: LeaseKeeperRequest) -> End {
    End::Code(live(request).unwrap_or(Exit::Failed).code())
}

/// `None`: it could not begin.
fn live(request: LeaseKeeperRequest) -> Option<Exit> {
    let LeaseKeeperRequest { lease: kept, target, given, max_hold, subject, request_id, audit } = request;
    let deadline = Deadline::after(max_hold);
    close_the_rest();
    let target = exact(&target, &given).ok()?;
    let ready = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
    let signals = Signals::block().ok()?;
    let lease = Lease::adopt(&kept, &target)?;
    get_away().ok()?;
    let (talk, request) = (Talk::silent(), Request::called(&request_id));
    let audit = audit.as_deref().map(Path::new);
    // An audit file that cannot be had is no reason to end a claim.
    let open = |audit| target.trail(audit, of_claim(&kept), &request, &talk);
    let trail = open(audit).or_else(|_| open(None)).ok()?;
    let vigil = Vigil { ready: Some(ready), deadline, subject, signals };
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
                let kernel = target.protocol.without_record()?;
                kernel.adopt(target, *mode, File::from(shared)).map(Self::Kernel)
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

/// The lock that was just claimed may be aside for a moment: another process is looking at it.
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

/// `None`: it could not begin, or its end is not to be had.
fn keep_record(mut vigil: Vigil, held: Held, target: &Target, trail: &Trail<'_>) -> Option<Exit> {
    let lease = target.protocol.lease(&held);
    let keeping = Keeping::begin(held, lease, WatchStart::AtOnce).ok()?;
    let kept = vigil.keep(keeping.guard(trail));
    let held = keeping.end()?;
    // The process that released or broke it has written that down.
    if matches!(kept, Kept::Lost(Loss::Released)) || held.broken_as().is_some() {
        return Some(Exit::Done);
    }
    let (talk, (lost, why)) = (trail.talk(), kept.end());
    let leaving = Leaving { target, patience: LAST_PATIENCE, talk, trail, failure_step: None };
    match leaving.end(held, lost, why, &mut Attending::wait_of(&mut vigil.signals, talk, None)) {
        Left::Lost(_) => Some(Exit::Lost),
        Left::Released | Left::Stuck => Some(Exit::Done),
    }
}

fn keep_kernel(mut vigil: Vigil, lock: Box<dyn KernelLock>, trail: &Trail<'_>) -> Exit {
    let (lost, why) = vigil.keep(lock.guard()).end();
    if lock.end(lost, why, trail).is_some() { Exit::Lost } else { Exit::Done }
}

enum Kept {
    Until(Why),
    Lost(Loss),
}

impl Kept {
    fn end(self) -> (Option<Loss>, Why) {
        match self {
            Self::Until(why) => (None, why),
            Self::Lost(loss) => (Some(loss), Why::KEEPER_SIGNAL),
        }
    }
}

/// What a keeper waits for beside a loss.
struct Vigil {
    /// Where it says that it keeps the claim.
    ready: Option<File>,
    deadline: Deadline,
    subject: Option<KnownProcess>,
    signals: Signals,
}

impl Vigil {
    /// Says that the claim is kept, and keeps it until there is a reason to end it, or it has ended.
    fn keep(&mut self, mut guard: Guard<'_>) -> Kept {
        // Our caller is waiting for this: by now nothing is missed, and what ends it does not end us. An error: it has
        // ended, which the other pipe says as well.
        let _ = self.ready.take().map(|mut ready| ready.write_all(b"."));
        let stdin = io::stdin();
        let mut is_known = false;
        let end = self.subject.and_then(|subject| pidfd_open(subject.pid).ok());
        let [mut told, mut woken, mut ended] = [false; 3];
        loop {
            // What cannot be refreshed just now is tried again: there is no work here that could be ended.
            if let Some(told) = guard.look(woken)
                && !matches!(told.loss, Loss::Overdue { .. })
            {
                return Kept::Lost(told.loss);
            }
            // Also by another look: the process may have ended before its end could be waited for.
            if ended || self.subject.is_some_and(KnownProcess::has_ended) {
                return Kept::Until(Why::PROCESS_ENDED);
            }
            while let Some(received) = self.signals.next() {
                if matches!(received.signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT) {
                    return Kept::Until(Why::KEEPER_SIGNAL);
                }
            }
            if told {
                match read(&stdin, &mut [0]) {
                    Ok(1) if let_stdin_go().is_ok() => is_known = true,
                    Err(Errno::EINTR) => {}
                    _ => return Kept::Until(Why::NOT_HANDED_OVER),
                }
            }
            if self.deadline.is_over() {
                return Kept::Until(Why::MAX_HOLD);
            }
            let net = if self.subject.is_some() && end.is_none() { NO_PIDFD } else { Duration::MAX };
            let limit = guard.left().min(self.deadline.left()).min(net);
            let stdin: Option<BorrowedFd<'_>> = (!is_known).then(|| stdin.as_fd());
            let fds = [Some(self.signals.as_fd()), guard.fd(), stdin, end.as_ref().map(AsFd::as_fd)];
            [_, woken, told, ended] = wait_for(fds, limit);
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
