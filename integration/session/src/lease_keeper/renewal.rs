//! The renewal of a claim that a keeper keeps: a new end, with the lock in place all the time.
//!
//! `renew` sends SIGUSR1 with the new end as its number (`sigqueue(3)`), which only the keeper's user and root may do. The
//! keeper writes the new end into its own command line, moves its deadline, and goes on; nothing is let go or taken anew.
//! `renew` reads that command line: the new end stands there only once the keeper has it, and a keeper that ends its
//! claim no longer listens.
//!
//! A signal that is not blocked would end the keeper of an older beadlock, which does not know it. So it is not sent to
//! a process that does not have it blocked.

use std::os::fd::{AsFd, BorrowedFd};
use std::{fmt, fs, io, thread::sleep, time::Duration};

use beadlock_base::error::system_words;
use beadlock_base::helper::{change_words, request_of};
use beadlock_base::sys::sigqueue;
use beadlock_core::{facts, record::StartedAt};
use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::{KeptLease, LeaseKeeperRequest};
use beadlock_claim::wait::Deadline;
use beadlock_supervise::process_ref::{LEASE_KEEPER, ProcessRef};

/// The signal of a renewal.
const RENEW: Signal = Signal::SIGUSR1;

/// For how long a keeper may take to answer. It may be stopped, or at its end.
const PATIENCE: Duration = Duration::from_secs(5);

/// For how long a keeper may take to block the signal: a moment, right after its start.
const TO_LISTEN: Duration = Duration::from_secs(1);

/// The pause between two looks at the keeper. Each look sends the signal again, since of two that wait together the
/// kernel keeps one.
const PAUSE: Duration = Duration::from_millis(5);

/// The end of a claim that is kept for `max_hold` from now, in seconds of Unix time, which are rounded up. `None`: the
/// clock does not count that far.
pub fn end_after(max_hold: Duration) -> Option<u64> {
    let now = Duration::try_from(facts::now().0).ok()?;
    let end = now.checked_add(max_hold)?;
    end.as_secs().checked_add(u64::from(end.subsec_nanos() > 0))
}

/// A time in Unix seconds, as a keeper writes it. `None`: beyond the years of four digits. Each other one is as long as
/// any, and fits into the place of an earlier one.
pub(super) fn written(end: u64) -> Option<String> {
    const LENGTH: usize = "2026-11-25T21:22:58Z".len();
    let end = StartedAt::from_unix(i64::try_from(end).ok()?, 0).to_string();
    (end.len() == LENGTH).then_some(end)
}

/// The renewals that reach this process, a keeper.
#[derive(Debug)]
pub(super) struct Renewals {
    fd: SignalFd,
    request: LeaseKeeperRequest,
}

impl Renewals {
    /// Blocks the signal: from here on it ends nothing. `request` is the one on the command line of this process.
    pub(super) fn block(request: LeaseKeeperRequest) -> io::Result<Self> {
        let mask = SigSet::from(RENEW);
        mask.thread_block()?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { fd, request })
    }

    /// The time from now to the new end, where a renewal has come. Left out are a signal of `kill`, which has no number,
    /// an end that is over already (this process was stopped meanwhile), and one that cannot be written down: nobody
    /// would know of it.
    pub(super) fn receive(&mut self) -> Option<Duration> {
        while let Some(info) = self.fd.read_signal().ok().flatten() {
            if info.ssi_code == libc::SI_QUEUE
                && let Some(left) = self.renew(info.ssi_ptr)
            {
                return Some(left);
            }
        }
        None
    }

    fn renew(&mut self, end: u64) -> Option<Duration> {
        let now = Duration::try_from(facts::now().0).ok()?;
        let left = Duration::from_secs(end).checked_sub(now)?;
        // A claim without an end by the clock has none to be moved.
        self.request.until.as_ref()?;
        let renewed = LeaseKeeperRequest {
            until: Some(written(end)?),
            ..self.request.clone()
        };
        if renewed != self.request {
            change_words(&renewed.title(), &renewed).ok()?;
            self.request = renewed;
        }
        Some(left)
    }
}

impl AsFd for Renewals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A claim that a keeper keeps, as the keeper's command line says. Untrusted: any process may have such a one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptClaim {
    keeper: ProcessRef,
    request: LeaseKeeperRequest,
}

/// Why a claim was not renewed.
#[derive(Debug)]
pub enum NotRenewed {
    /// It is for a process, and ends with it: the PID.
    ForProcess(i32),
    /// It has no end by the clock.
    NoEnd,
    /// The new end lies beyond the years that are written with four digits.
    TooFar,
    /// The keeper is of a beadlock that cannot renew.
    Older,
    /// The keeper has ended.
    Ended,
    /// The keeper has not answered for this long.
    Silent(Duration),
    /// The signal could not be sent.
    NotSent(io::Error),
}

impl KeptClaim {
    /// The claim that the process `pid` keeps; `None`: it is not a keeper.
    pub fn of(pid: i32) -> Option<Self> {
        let keeper = ProcessRef::of(pid);
        let request = request_of(pid, LEASE_KEEPER)?;
        Some(Self { keeper, request })
    }

    /// Whether it is the claim with this id. A lock of the kernel is told by its keeper alone.
    pub fn is(&self, id: &str) -> bool {
        match &self.request.lease {
            KeptLease::Record { id: kept, .. } => kept == id,
            KeptLease::Kernel { .. } => true,
        }
    }

    /// What the keeper was asked to do, with the end of the claim as it is now.
    pub fn request(&self) -> &LeaseKeeperRequest {
        &self.request
    }

    /// Gives the claim the end `end`, in Unix seconds, and returns that as it is written. The claim may have ended since.
    pub fn renew(&self, end: u64) -> Result<String, NotRenewed> {
        if let Some(subject) = self.request.subject {
            return Err(NotRenewed::ForProcess(subject.pid));
        }
        let wanted = written(end).ok_or(NotRenewed::TooFar)?;
        let before = self.request.until.as_deref();
        before
            .filter(|before| before.len() == wanted.len())
            .ok_or(NotRenewed::NoEnd)?;
        let (answer, listens) = (Deadline::after(PATIENCE), Deadline::after(TO_LISTEN));
        let mut is_sent = false;
        loop {
            // After the command line was read: it is the keeper's then.
            let now = request_of::<LeaseKeeperRequest>(self.keeper.pid, LEASE_KEEPER);
            if self.keeper.has_ended() {
                return Err(NotRenewed::Ended);
            }
            match now {
                Some(now) if now.until.as_deref() == Some(&wanted) => return Ok(wanted),
                Some(_) if has_blocked(self.keeper.pid, RENEW) => {
                    sigqueue(self.keeper.pid, RENEW, end).map_err(NotRenewed::NotSent)?;
                    is_sent = true;
                }
                _ if !is_sent && listens.is_over() => return Err(NotRenewed::Older),
                _ => {}
            }
            if answer.is_over() {
                return Err(NotRenewed::Silent(PATIENCE));
            }
            sleep(PAUSE);
        }
    }
}

/// Whether the signal waits there until the process asks for it, and so does not end it.
fn has_blocked(pid: i32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (signal as u32 - 1) & 1 == 1)
}

impl fmt::Display for NotRenewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForProcess(pid) => {
                write!(f, "is for PID {pid}, and ends with that process, not at a time")
            }
            Self::NoEnd => f.write_str("has no end to be moved"),
            Self::TooFar => f.write_str("cannot have an end as far away as that"),
            Self::Older => f.write_str(
                "is kept by a process of an older beadlock, which cannot renew; release it, and acquire it anew",
            ),
            Self::Ended => f.write_str("has ended: its keeper has ended meanwhile"),
            Self::Silent(limit) => write!(
                f,
                "was not renewed: its keeper has not answered within {}, and may take the new end later",
                beadlock_base::duration::shown(*limit)
            ),
            Self::NotSent(error) => write!(
                f,
                "was not renewed: its keeper cannot be told: {}",
                system_words(error)
            ),
        }
    }
}
