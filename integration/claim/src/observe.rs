//! The notices that the engine gives while it works, and the control over its waits.
//!
//! The engine knows no terminal. It hands each [`Notice`], which is facts, to an [`Observer`]; the program makes
//! sentences of them. Words that a protocol's document prescribes to the letter come with the notice.

use crate::error::Problem;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, fmt, time::Duration};

use beadlock_base::error::Error as CheckerError;
use beadlock_core::{Place, Removed};
use beadlock_core::{audit, database::NoDatabase, look::Look};
use nix::sys::signal::Signal;

use crate::error::{Code, Error};
use crate::words;
use beadlock_files as files;

/// After this long a wait says whom it waits for.
pub const NOTICE_AFTER: Duration = Duration::from_millis(400);
/// How often the line about a wait is brought up to date, where somebody sees that.
pub const TICK: Duration = Duration::from_secs(1);
/// How often it is where nobody does.
pub const UNSEEN: Duration = Duration::from_secs(10);

/// Hears what happens to claims while they are made, kept up and ended. It cannot stop anything: that is what
/// [`WaitControl`] is for.
pub trait Observer: fmt::Debug {
    /// Hears a notice, at the moment when it is told.
    fn notice(&self, notice: &Notice<'_>);

    /// Whether a notice of a wait replaces the one before it, as on a terminal.
    fn is_live(&self) -> bool {
        false
    }

    /// The processes that the observer has started for a notice. They do not belong to the command of a claim.
    fn helpers(&self) -> Vec<i32> {
        Vec::new()
    }
}

/// Something that the engine tells at the moment when it happens. `given` is how the target was named.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A wait goes on. Told again every second; `is_first` when it waits for something of another kind than before.
    Waiting {
        /// The kind of the wait, and how long it may still take.
        waited: &'a WaitingFor<'a>,
        /// The wait that was told before this one was of another [kind](WaitingFor::kind), or there was none.
        is_first: bool,
    },
    /// The holder that is waited for holds the lock for the work at this address.
    HolderAtWork {
        /// An http or https address that is fit to be shown ([`words::is_address`]).
        address: &'a str,
    },
    /// The wait is over, whichever way.
    WaitEnded,
    /// The directory of the lock was made.
    Made {
        /// The new directory.
        dir: &'a Path,
    },
    /// A warning about a lock directory. Told for each lock in it.
    Directory(&'a DirWarning),
    /// A file in a lock directory does not have the name of a lock, for this reason.
    NotANamedLock {
        /// The file's name, with its ending: `.lock`, or `.lock.aside`.
        file: &'a OsStr,
        /// The lock directory.
        dir: &'a Path,
        /// Why the file's name is not that of a lock, in words.
        why: &'a str,
    },
    /// A directory that is looked at does not look like a database.
    Doubt(&'a NoDatabase),
    /// The lock lies on a network file system, called `name`.
    SharedFs {
        /// The target, as it was named.
        given: &'a str,
        /// The kind of file system, such as `NFS`.
        name: &'a str,
        /// The limit of the lock on that file system.
        reach: GateReach,
    },
    /// There can be no gate here: no running cycle is waited for, and no dead lock is removed.
    NoGate {
        /// The error that the gate could not be taken with.
        why: &'a CheckerError,
    },
    /// There can be no gate here: claims do not wait for this cycle.
    NoGateForCycle {
        /// The error that the gate could not be taken with.
        why: &'a CheckerError,
    },
    /// The fleet that the database has joined is left out.
    FleetWaived {
        /// The database, as it was named.
        given: &'a str,
    },
    /// A stale lock was removed to make room; `words` are its protocol's.
    RemovedStale {
        /// The lock that was removed, and why.
        removed: &'a Removed,
        /// The line that says so.
        words: &'a str,
    },
    /// The claim stands.
    Claimed(Claimed<'a>),
    /// The claim is part of the claim `id`, which this process runs in.
    Nested {
        /// The target, as it was named.
        given: &'a str,
        /// The id of the outer claim.
        id: &'a str,
    },
    /// A heartbeat failed, the `in_a_row`th in succession.
    HeartbeatFailed {
        /// How many have failed since the last one that succeeded, this one among them.
        in_a_row: u32,
        /// The error of this one.
        why: &'a str,
    },
    /// Heartbeats succeed again after some that failed.
    HeartbeatsAgain,
    /// The lock was released.
    Released {
        /// The target, as it was named.
        given: &'a str,
        /// How long it was held, where that is known.
        held: Option<Duration>,
        /// The words of the protocol's document for a release, where it has some.
        document: Option<&'static str>,
    },
    /// Nothing was released: the outer claim `id` ends the lock with its own end.
    StillHeld {
        /// The target, as it was named.
        given: &'a str,
        /// The id of the outer claim.
        id: &'a str,
    },
    /// The lock could not be released; `then` says why, and what becomes of it by its protocol.
    NotReleased {
        /// The sentence of [`Target::not_released`](crate::target::Target::not_released).
        then: &'a str,
    },
    /// The file system of the lock file does not answer, so that the lock stays until it is stale; `then` is what its
    /// protocol says of that.
    ReleaseHangs {
        /// The lock file.
        path: &'a Path,
        /// The end of the sentence that the lock goes stale by itself; it may be empty.
        then: &'static str,
    },
    /// The claim in the fleet could not be ended, and ends by itself.
    FleetClaimLingers {
        /// The name of the database in its fleet.
        name: &'a str,
        /// The error that the claim could not be ended with.
        why: &'a str,
    },
    /// A line could not be added to the audit file. Told once.
    NotAudited(&'a audit::Failed),
}

/// How much a [`Notice`] matters to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeLevel {
    /// A state that the next notice replaces.
    Live,
    /// For a person who asks for more.
    Detail,
    /// A step that the program has made, such as a claim that stands or was released.
    Info,
    /// A limit of what the claim keeps away. It belongs in a machine's answer, too.
    Limit,
    /// Something is not as it should be.
    Warning,
}

impl Notice<'_> {
    /// Returns how much the notice matters.
    pub fn level(&self) -> NoticeLevel {
        match self {
            Self::Waiting { .. } | Self::WaitEnded => NoticeLevel::Live,
            Self::Nested { .. } => NoticeLevel::Detail,
            Self::HolderAtWork { .. }
            | Self::Made { .. }
            | Self::RemovedStale { .. }
            | Self::Claimed(_)
            | Self::HeartbeatsAgain
            | Self::Released { .. }
            | Self::StillHeld { .. } => NoticeLevel::Info,
            Self::SharedFs { .. } => NoticeLevel::Limit,
            Self::Directory(_)
            | Self::NotANamedLock { .. }
            | Self::Doubt(_)
            | Self::NoGate { .. }
            | Self::NoGateForCycle { .. }
            | Self::FleetWaived { .. }
            | Self::HeartbeatFailed { .. }
            | Self::NotReleased { .. }
            | Self::ReleaseHangs { .. }
            | Self::FleetClaimLingers { .. }
            | Self::NotAudited(_) => NoticeLevel::Warning,
        }
    }
}

/// A claim that stands.
#[derive(Debug, Clone)]
pub struct Claimed<'a> {
    /// The target, as it was named.
    pub given: &'a str,
    /// The directory of the lock, where the protocol's document names another.
    pub dir: Option<&'a Path>,
    /// The name of the holder, as the record has it; where there is no record, the command's.
    pub holder: &'a str,
    /// The PID of the process that the claim is for.
    pub pid: i32,
    /// bd keeps the database in Dolt, and bd asks nobody.
    pub in_dolt: bool,
    /// The place of a lock that git may commit, and that does harm in another clone then.
    pub committable: Option<&'a Place>,
    /// The claim in the fleet; `None`: only the lock on this machine was claimed.
    pub fleet: Option<ClaimedInFleet<'a>>,
}

/// The part of a claim that lies in the fleet: its name there, the agents, and how it stands.
#[derive(Debug, Clone)]
pub struct ClaimedInFleet<'a> {
    /// The name of the database in its fleet.
    pub name: &'a str,
    /// How many agents have a right to sync it.
    pub agents: usize,
    /// How the claim stands, as the end of the line that tells of it.
    pub standing: String,
}

/// The limit of a lock on a network file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateReach {
    /// Cycles on other machines are not kept away.
    Cycles,
    /// An flock may reach this machine only, or this mount only.
    Flock,
}

/// A warning about a lock directory, to be read before its locks are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirWarning {
    /// The directory belongs to another user than this process runs as.
    OtherOwner {
        /// The lock directory.
        dir: PathBuf,
        /// The UID of its owner.
        owner: u32,
        /// The effective UID of this process.
        us: u32,
    },
    /// Other users may write the directory.
    Writable {
        /// The lock directory.
        dir: PathBuf,
        /// Its nine permission bits.
        mode: u32,
    },
    /// Other users have some rights in the directory, but may not write it.
    Readable {
        /// The lock directory.
        dir: PathBuf,
        /// Its nine permission bits.
        mode: u32,
    },
}

/// Looks after a wait: hears what it waits for, and may stop it by a signal.
pub trait WaitControl {
    /// Readable when there is something for [`WaitControl::stop_reason`].
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The reason to end the wait, where one has arrived; `None`: the wait goes on.
    fn stop_reason(&mut self) -> Option<NotAcquired> {
        None
    }
    /// Ends the wait where [`WaitControl::stop_reason`] has a reason, which is asked only if `has_arrived`:
    /// [`WaitControl::signals`] was readable.
    fn check_stop(&mut self, has_arrived: bool) -> Result<(), NotAcquired> {
        let stopped = if has_arrived {
            self.stop_reason()
        } else {
            None
        };
        stopped.map_or(Ok(()), Err)
    }
    /// The wait has lasted a while; called again after [`WaitControl::pause`]. An error ends the wait.
    fn waiting(&mut self, _waited: &WaitingFor<'_>) -> Result<(), NotAcquired> {
        Ok(())
    }
    /// How long the next call of [`WaitControl::waiting`] may be put off.
    fn pause(&self) -> Duration {
        UNSEEN
    }
    /// A holder was waited for, this long, and the lock was obtained.
    fn waited(&mut self, _for_holder: Duration) {}
    /// There can be no gate here: this claim does not wait for a running cycle.
    fn no_gate(&mut self, _why: &CheckerError) {}
    /// The advice of a message that the gate did not open in time, beside seeing to its holder.
    fn advice(&self) -> &'static str {
        "wait longer with --drain DUR"
    }
}

/// A wait that nobody is told of and that nothing stops.
#[derive(Debug)]
pub struct Uninterrupted;

impl WaitControl for Uninterrupted {}

/// Why there is no claim.
#[derive(Debug)]
pub enum NotAcquired {
    /// The claim failed, or its wait ran out.
    Failed(Error),
    /// This signal has ended the wait; SIGINT also stands for a caller who has said that it is over.
    Signalled(Signal),
}

#[doc(hidden)]
impl From<NotAcquired> for Error {
    /// Where nobody hears signals, or none is to end the program.
    fn from(stopped: NotAcquired) -> Self {
        match stopped {
            NotAcquired::Failed(error) => error,
            NotAcquired::Signalled(signal) => Self::new(Code::Io, format!("stopped by {signal}")),
        }
    }
}

impl From<Error> for NotAcquired {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<files::Error> for NotAcquired {
    fn from(error: files::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<CheckerError> for NotAcquired {
    fn from(error: CheckerError) -> Self {
        Self::Failed(error.into())
    }
}

/// The thing that is waited for, with the time left for it.
pub enum WaitingFor<'a> {
    /// The gate, which a running cycle or another claim has.
    Gate {
        /// The directory whose gate it is.
        dir: &'a Path,
        /// For how long it has been waited for.
        since: Duration,
        /// Time left until the wait runs out.
        left: Duration,
    },
    /// The holder of the lock file at `path`.
    Holder {
        /// The lock file.
        path: &'a Path,
        /// The last look at it.
        look: &'a Look,
        /// Time left until the wait runs out.
        left: Duration,
    },
    /// A lock that cannot be understood, or that somebody is changing.
    Unsettled {
        /// The lock file.
        path: &'a Path,
        /// Why it is looked at again.
        words: &'a str,
        /// Time left until the wait runs out.
        left: Duration,
    },
    /// A claim or a right in the fleet, which is not obtained yet.
    Fleet {
        /// The name of the database in its fleet.
        name: &'a str,
        /// The obstacle in the fleet, in words.
        what: &'a str,
        /// Time left until the wait runs out.
        left: Duration,
    },
    /// A process that has a file locked. The holders are looked for only when it is said.
    Kernel {
        /// The file, as it was named.
        file: &'a str,
        /// The processes that have it locked: `PID 33 (sleep 60)`.
        holders: &'a dyn fmt::Display,
        /// For how long it has been waited for.
        since: Duration,
        /// Time left until the wait runs out.
        left: Duration,
    },
}

impl WaitingFor<'_> {
    /// A word for the kind of thing that is waited for.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Gate { .. } => "gate",
            Self::Holder { .. } => "holder",
            Self::Unsettled { .. } => "lock",
            Self::Kernel { .. } => "file",
            Self::Fleet { .. } => "fleet",
        }
    }

    /// The address of the work that a lock's holder holds it for; `None`: another kind of wait, or no address.
    pub fn about(&self) -> Option<String> {
        match self {
            Self::Holder { look, .. } => words::about(look.record.as_ref()?),
            _ => None,
        }
    }
}

impl fmt::Debug for WaitingFor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waited").field(&self.kind()).finish()
    }
}
