//! What looks after a wait, what a wait is for, and how it is stopped.

use std::os::fd::{AsFd, BorrowedFd};
use std::{fmt, path::Path, time::Duration};

use beadlock_base::duration::shown;
use beadlock_base::error::Error as CheckerError;
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::Reason;
use beadlock_core::look::Look;
use nix::sys::signal::Signal;

use super::keeping::{Guard, first_lost};
use super::{loss::Loss, signals::Signals, target::Target, tree};
use crate::error::{Code, End, Error, Exit, Replaced};
use crate::{output::talk::Talk, words};

/// After this long a wait says whom it waits for.
pub const NOTICE_AFTER: Duration = Duration::from_millis(400);
/// How often what is said is brought up to date.
pub const TICK: Duration = Duration::from_secs(1);

/// Looks after a wait: hears what it waits for, and may stop it by a signal.
pub trait Attendant {
    /// Readable when there is something for [`Attendant::stopped`].
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// What has arrived, when it ends the wait.
    fn stopped(&mut self) -> Option<Stopped> {
        None
    }
    /// Ends the wait by what has arrived, where something has: [`Attendant::signals`] was readable.
    fn heed(&mut self, has_arrived: bool) -> Result<(), Stopped> {
        let stopped = if has_arrived { self.stopped() } else { None };
        stopped.map_or(Ok(()), Err)
    }
    /// The wait has lasted a while; called again every second. An error ends the wait.
    fn waiting(&mut self, _waited: &Waited<'_>) -> Result<(), Stopped> {
        Ok(())
    }
    /// A holder was waited for, this long, and the lock was obtained.
    fn waited(&mut self, _for_holder: Duration) {}
    /// There can be no gate here: this claim does not wait for a running cycle.
    fn no_gate(&mut self, _why: &CheckerError) {}
    /// What to do when the gate did not open in time, beside seeing to its holder.
    fn advice(&self) -> &'static str {
        "wait longer with --drain DUR"
    }
}

pub struct Unattended;

impl Attendant for Unattended {}

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
    /// For how long a holder was waited for.
    pub for_holder: Duration,
    /// The address of the holder's work that was said.
    said_address: Option<String>,
    /// The claims of the session that stand, by their places in its list: the loss of one ends the wait.
    pub others: Vec<(usize, Guard<'a>)>,
    /// The one of them whose loss has ended the wait, and how it was lost.
    pub lost: Option<(usize, Loss)>,
}

impl<'a> Attending<'a> {
    /// Of a claim whose command waits as the process `child`, or of a wait that no command comes after.
    pub fn wait_of(signals: &'a mut Signals, talk: &'a Talk, child: Option<i32>) -> Self {
        let for_holder = Duration::ZERO;
        let (said, said_address, others, lost) = (None, None, Vec::new(), None);
        Self {
            signals,
            talk,
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
        let died = self
            .child
            .is_some_and(|child| tree::ending(child).is_some());
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

    fn waiting(&mut self, waited: &Waited<'_>) -> Result<(), Stopped> {
        self.lost = first_lost(&mut self.others);
        if let Some((_, loss)) = &self.lost {
            return Err(loss.during_the_wait().into());
        }
        // Said again only when it waits for something else now.
        let kind = waited.kind();
        let is_first = self.said.replace(kind) != Some(kind);
        if let Some(address) = waited
            .about()
            .filter(|address| self.said_address.as_ref() != Some(address))
        {
            self.talk
                .say_whole(&format!("the holder is at work on {address}"));
            self.said_address = Some(address);
        }
        self.talk.say_live(waited, is_first);
        Ok(())
    }

    fn waited(&mut self, for_holder: Duration) {
        self.for_holder += for_holder;
    }

    fn no_gate(&mut self, why: &CheckerError) {
        self.talk.warn(&format!(
            "there is no gate here ({why}): no running cycle is waited for, and no dead lock is removed"
        ));
    }
}

/// Why there is no claim.
#[derive(Debug)]
pub enum Stopped {
    Failed(Error),
    Signalled(Signal),
}

impl Stopped {
    /// How the program ends then, and the words for it; `then` is what they say after `ended by SIGTERM`.
    pub fn end(self, then: &str, replaced: Replaced) -> (End, Error) {
        match self {
            Self::Failed(error) => (End::Code(replaced.code(error.exit)), error),
            Self::Signalled(signal) => {
                let error = Error::new(Code::Io, format!("ended by {signal}{then}"));
                let code = End::Code(Exit::Signal(signal as i32).code());
                (
                    if signal == Signal::SIGINT {
                        End::Interrupted
                    } else {
                        code
                    },
                    error,
                )
            }
        }
    }
}

impl From<Stopped> for Error {
    /// Where nobody hears signals, or none is to end the program.
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Failed(error) => error,
            Stopped::Signalled(signal) => Self::new(Code::Io, format!("stopped by {signal}")),
        }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<CheckerError> for Stopped {
    fn from(error: CheckerError) -> Self {
        Self::Failed(error.into())
    }
}

/// What a wait is for.
pub enum Waited<'a> {
    Gate {
        dir: &'a Path,
        since: Duration,
        left: Duration,
    },
    Holder {
        target: &'a Target,
        look: &'a Look,
        left: Duration,
    },
    /// A lock that cannot be understood, or that somebody is changing.
    Unsettled {
        path: &'a Path,
        words: &'a str,
        left: Duration,
    },
    /// Something in the fleet.
    #[cfg(feature = "fleet")]
    Fleet {
        name: &'a str,
        what: &'a str,
        left: Duration,
    },
    /// A process that has a file locked. The holders are looked for only when it is said.
    Kernel {
        file: &'a str,
        holders: &'a dyn fmt::Display,
        since: Duration,
        left: Duration,
    },
}

impl Waited<'_> {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Gate { .. } => "gate",
            Self::Holder { .. } => "holder",
            Self::Unsettled { .. } => "lock",
            Self::Kernel { .. } => "file",
            #[cfg(feature = "fleet")]
            Self::Fleet { .. } => "fleet",
        }
    }

    /// The address of what its holder holds it for.
    fn about(&self) -> Option<String> {
        match self {
            Self::Holder { look, .. } => words::about(look.record.as_ref()?),
            _ => None,
        }
    }
}

/// One line. The alternate form also has the command and the path, for a line that is said once.
impl fmt::Display for Waited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate { dir, since, left } => {
                let holders = words::gate_holders(dir);
                let (path, since, left) = (escaped_path(dir), shown(*since), shown(*left));
                write!(
                    f,
                    "waiting for the gate of {path} {since} now, held by {holders}; {left} left"
                )
            }
            Self::Holder { target, look, left } => {
                let Some(record) = &look.record else {
                    return Ok(());
                };
                let (name, pid, left) = (escaped(record.holder()), record.pid(), shown(*left));
                let is_here = !matches!(
                    look.verdict.reason(),
                    Reason::OtherHost | Reason::HostUnknown
                );
                let host = if is_here {
                    String::new()
                } else {
                    format!(", on {}", escaped(record.hostname()))
                };
                let age = words::shown_age(words::age(look));
                write!(
                    f,
                    "waiting for {name} (PID {pid}{host}), held {age}; {left} left"
                )?;
                if f.alternate() {
                    let path = target.path();
                    match words::command_of_holder(look) {
                        Some(command) => write!(f, " ({}, {command})", escaped_path(&path)),
                        None => write!(f, " ({})", escaped_path(&path)),
                    }?;
                }
                Ok(())
            }
            Self::Unsettled { path, words, left } => {
                let (path, left) = (escaped_path(path), shown(*left));
                write!(f, "waiting for {path} ({words}); {left} left")
            }
            #[cfg(feature = "fleet")]
            Self::Fleet { name, what, left } => {
                write!(
                    f,
                    "waiting for {name} in the fleet: {what}; {} left",
                    shown(*left)
                )
            }
            Self::Kernel {
                file,
                holders,
                since,
                left,
            } => {
                let (since, left) = (shown(*since), shown(*left));
                write!(
                    f,
                    "waiting for {file}, locked by {holders}, {since} now; {left} left"
                )
            }
        }
    }
}
