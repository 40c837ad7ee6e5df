//! Who looks after a wait that has no command yet: tells the user, and hears signals (DESIGN 7, "Waiting").

use std::os::fd::{AsFd, BorrowedFd};

use beadlock_checker::Error as CheckerError;
use nix::sys::signal::Signal;

use crate::failure::Error;
use crate::hold::claim::{Attendant, Stopped, Waited};
use crate::hold::signals::Signals;
use crate::talk::Talk;

/// Looks after waits. While it lives, signals end nothing but these.
#[derive(Debug)]
pub struct Onlooker<'a> {
    signals: Signals,
    talk: &'a Talk,
    /// The kind of wait that was said.
    said: Option<&'static str>,
}

impl<'a> Onlooker<'a> {
    /// Blocks the signals: before the first thread.
    ///
    /// # Errors
    /// As [`Signals::block`].
    pub fn new(talk: &'a Talk) -> Result<Self, Error> {
        Ok(Self { signals: Signals::block()?, talk, said: None })
    }
}

impl Attendant for Onlooker<'_> {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        Some(self.signals.as_fd())
    }

    fn stopped(&mut self) -> Option<Stopped> {
        let signals = std::iter::from_fn(|| self.signals.next());
        let mut ends = signals.map(|received| received.signal).filter(|signal| *signal != Signal::SIGCHLD);
        ends.next().map(Stopped::Signalled)
    }

    fn waiting(&mut self, waited: &Waited<'_>) {
        // Said again only when it waits for something else now.
        let kind = waited.kind();
        let is_first = self.said.replace(kind) != Some(kind);
        self.talk.say_live(waited, is_first);
    }

    fn no_gate(&mut self, why: &CheckerError) {
        self.talk.warn(&format!("there is no gate here ({why}): a running cycle is not waited for"));
    }
}
