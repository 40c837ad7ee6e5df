//! Signals, as they come: read from a descriptor, with their senders (docs/design.md#signals).

use std::os::fd::{AsFd, BorrowedFd};
use std::{fs, io};

use beadlock_base::sys;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpid, getsid};

const PASSED_ON: [Signal; 4] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGINT,
];

/// A signal that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Which one.
    pub signal: Signal,
    /// The kernel sent it for the terminal, to the whole foreground group: the command has it already.
    pub from_terminal: bool,
}

impl Received {
    /// One that came with this `si_code`.
    pub fn of(signal: Signal, code: i32) -> Self {
        // Positive codes are the kernel's own. A hangup goes to the session's leader alone, so the command does
        // not have it when that is us.
        let leads = signal == Signal::SIGHUP && getsid(None) == Ok(getpid());
        Self {
            signal,
            from_terminal: code > 0 && !leads,
        }
    }
}

/// TERM, HUP, QUIT, INT and CHLD, blocked and readable. What was ignored on entry stays ignored.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    before: SigSet,
}

impl Signals {
    /// Blocks them; from here on nothing is lost. Before the first fork and the first thread.
    pub fn block() -> io::Result<Self> {
        sys::default_actions(&[Signal::SIGCHLD])?;
        let ignored = ignored();
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        PASSED_ON
            .into_iter()
            .filter(|signal| ignored >> (*signal as u32 - 1) & 1 == 0)
            .for_each(|signal| mask.add(signal));
        let before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let fd = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { fd, before })
    }

    /// The signals that were blocked before [`Signals::block`].
    pub fn mask_before(&self) -> SigSet {
        self.before
    }

    /// The next one that has come. SIGCHLD is among them.
    pub fn receive(&mut self) -> Option<Received> {
        let info = self.fd.read_signal().ok().flatten()?;
        let signal = Signal::try_from(i32::try_from(info.ssi_signo).ok()?).ok()?;
        Some(Received::of(signal, info.ssi_code))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The signals that this process ignores, as bits; none when `/proc` does not say.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or(0)
}
