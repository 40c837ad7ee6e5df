//! Looking after a wait on behalf of whoever typed the command.

use std::os::fd::{AsFd, BorrowedFd};

use beadlock_checker::Error as CheckerError;
use nix::sys::signal::Signal;

use super::claim::{Attendant, Stopped, Waited};
use super::signals::Signals;
use super::tree;
use crate::exit::Exit;
use crate::failure::{Code, Error};
use crate::talk::Talk;

/// Looks after the wait: tells the user, hears signals, and notices the end of the process that is to be.
#[derive(Debug)]
pub struct Attending<'a> {
    signals: &'a mut Signals,
    talk: &'a Talk,
    /// The process that waits to become the command, until it has; none where no command is to come.
    child: Option<i32>,
    /// It is to become the keeper.
    is_keeper: bool,
    /// The kind of wait that was said.
    said: Option<&'static str>,
}

impl<'a> Attending<'a> {
    /// Of a claim whose command waits as the process `child`, or of a wait that no command comes after.
    pub fn wait_of(signals: &'a mut Signals, talk: &'a Talk, child: Option<i32>) -> Self {
        Self { signals, talk, child, is_keeper: false, said: None }
    }

    /// The process that waits is to keep the claim.
    pub fn of_the_keeper(self) -> Self {
        Self { is_keeper: true, ..self }
    }
}

impl Attendant for Attending<'_> {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        Some(self.signals.as_fd())
    }

    fn stopped(&mut self) -> Option<Stopped> {
        while let Some(received) = self.signals.next() {
            if received.signal != Signal::SIGCHLD {
                return Some(Stopped::Signalled(received.signal));
            }
        }
        // As PID 1, or after a shell that became us.
        self.child.into_iter().for_each(tree::reap_orphans);
        let died = self.child.is_some_and(|child| tree::ending(child).is_some());
        died.then(|| match self.is_keeper {
            true => Error::new(Code::Io, "the keeper was killed before there was a claim to keep").into(),
            false => {
                let message = "the process that was to become the command was killed while it waited";
                Error::new(Code::Io, message).ending(Exit::NotStarted).into()
            }
        })
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
