//! The wait of a program that tells a person of it, hears signals, and watches over the process that is to come.

use beadlock_claim::error::Problem;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use beadlock_base::error::Error as CheckerError;
use nix::sys::signal::Signal;

use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::kept_lock::{LossAlarm, first_lost};
use beadlock_claim::loss::Loss;
use beadlock_claim::observe::{
    NotAcquired, Notice, Observer, TICK, UNSEEN, WaitControl, WaitingFor,
};
use beadlock_supervise::{process_tree, signals::Signals};

/// Looks after the wait: tells the observer, hears signals, and notices the end of the process that waits.
#[derive(Debug)]
pub struct InteractiveWait<'a> {
    signals: &'a mut Signals,
    observer: &'a dyn Observer,
    /// The process that waits to become the command, until it has; none where no command is to come.
    child: Option<i32>,
    /// Whether that process is to become the keeper of the claim, and not a command.
    is_keeper: bool,
    /// The kind of wait that the observer was told last; `None`: none so far.
    said: Option<&'static str>,
    /// How long a holder was waited for in all.
    pub for_holder: Duration,
    /// The address of the holder's work that the observer was told last.
    said_address: Option<String>,
    /// The claims of the session that stand, by their places in its list: the loss of one ends the wait.
    pub others: Vec<(usize, LossAlarm<'a>)>,
    /// The one of them whose loss has ended the wait, and how it was lost.
    pub lost: Option<(usize, Loss)>,
}

impl<'a> InteractiveWait<'a> {
    /// The wait of a claim whose command waits as the process `child`, or a wait that no command comes after.
    pub fn wait_of(
        signals: &'a mut Signals,
        observer: &'a dyn Observer,
        child: Option<i32>,
    ) -> Self {
        let for_holder = Duration::ZERO;
        let (said, said_address, others, lost) = (None, None, Vec::new(), None);
        Self {
            signals,
            observer,
            child,
            is_keeper: false,
            said,
            for_holder,
            said_address,
            others,
            lost,
        }
    }

    /// The process that waits is to keep the claim.
    pub fn of_the_keeper(self) -> Self {
        Self {
            is_keeper: true,
            ..self
        }
    }
}

impl WaitControl for InteractiveWait<'_> {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        Some(self.signals.as_fd())
    }

    fn stop_reason(&mut self) -> Option<NotAcquired> {
        while let Some(received) = self.signals.receive() {
            if received.signal != Signal::SIGCHLD {
                return Some(NotAcquired::Signalled(received.signal));
            }
        }
        // As PID 1, or after a shell that became us.
        self.child.into_iter().for_each(process_tree::reap_orphans);
        let died = self
            .child
            .is_some_and(|child| process_tree::end_of(child).is_some());
        died.then(|| match self.is_keeper {
            true => Error::new(
                Code::Io,
                "the keeper was killed before there was a claim to keep",
            )
            .into(),
            false => {
                let message =
                    "the process that was to become the command was killed while it waited";
                Error::new(Code::Io, message)
                    .ending(Exit::NotStarted)
                    .into()
            }
        })
    }

    fn waiting(&mut self, waited: &WaitingFor<'_>) -> Result<(), NotAcquired> {
        self.lost = first_lost(&mut self.others);
        if let Some((_, loss)) = &self.lost {
            return Err(loss.during_the_wait().into());
        }
        // The wait is told anew only when it waits for something else now.
        let kind = waited.kind();
        let is_first = self.said.replace(kind) != Some(kind);
        if let Some(address) = waited
            .about()
            .filter(|address| self.said_address.as_ref() != Some(address))
        {
            let at_work = Notice::HolderAtWork { address: &address };
            self.observer.notice(&at_work);
            self.said_address = Some(address);
        }
        self.observer.notice(&Notice::Waiting { waited, is_first });
        Ok(())
    }

    fn pause(&self) -> Duration {
        match () {
            () if self.observer.is_live() || !self.others.is_empty() => TICK,
            () => UNSEEN,
        }
    }

    fn waited(&mut self, for_holder: Duration) {
        self.for_holder += for_holder;
    }

    fn no_gate(&mut self, why: &CheckerError) {
        self.observer.notice(&Notice::NoGate { why });
    }
}
