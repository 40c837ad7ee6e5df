//! What the engine tells while it works, and what looks after its waits.
//!
//! The engine knows no terminal. It hands each [`Notice`], which is facts, to an [`Observer`]; the program makes
//! sentences of them. What a protocol's document prescribes to the letter comes with the notice as words.

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
/// How often what is said is brought up to date.
pub const TICK: Duration = Duration::from_secs(1);

/// Hears what happens to claims while they are made, kept up and ended. It cannot stop anything: that is what
/// [`WaitControl`] is for.
pub trait Observer: fmt::Debug {
    fn notice(&self, notice: &Notice<'_>);

    /// The processes that it has started on what it heard. They do not belong to the command of a claim.
    fn helpers(&self) -> Vec<i32> {
        Vec::new()
    }
}

/// Something that the engine tells at the moment when it happens. `given` is how the target was named.
#[derive(Debug)]
pub enum Notice<'a> {
    /// A wait goes on. Told again every second; `is_first` when it waits for something of another kind than before.
    Waiting {
        waited: &'a Waited<'a>,
        is_first: bool,
    },
    /// The holder that is waited for holds the lock for the work at this address.
    HolderAtWork { address: &'a str },
    /// The wait is over, whichever way.
    WaitEnded,
    /// The directory of the lock was made.
    Made { dir: &'a Path },
    /// What is to be known of a lock directory. Told for each lock in it.
    Directory(&'a DirWarning),
    /// A file in a lock directory does not have the name of a lock, for this reason.
    NotANamedLock {
        file: &'a OsStr,
        dir: &'a Path,
        why: &'a str,
    },
    /// A directory that is looked at does not look like a database.
    Doubt(&'a NoDatabase),
    /// The lock lies on a network file system, called `name`.
    SharedFs {
        given: &'a str,
        name: &'a str,
        reach: Reach,
    },
    /// There can be no gate here: no running cycle is waited for, and no dead lock is removed.
    NoGate { why: &'a CheckerError },
    /// There can be no gate here: claims do not wait for this cycle.
    NoGateForCycle { why: &'a CheckerError },
    /// The fleet that the database has joined is left out.
    FleetWaived { given: &'a str },
    /// A stale lock was removed to make room; `words` are its protocol's.
    RemovedStale {
        removed: &'a Removed,
        words: &'a str,
    },
    /// The claim stands.
    Claimed(Claimed<'a>),
    /// The claim is part of the claim `id`, which this process runs in.
    Nested { given: &'a str, id: &'a str },
    /// A heartbeat failed, the `in_a_row`th in succession.
    HeartbeatFailed { in_a_row: u32, why: &'a str },
    /// Heartbeats succeed again after some that failed.
    HeartbeatsAgain,
    /// The lock was released.
    Released {
        given: &'a str,
        /// How long it was held, where that is known.
        held: Option<Duration>,
        /// The words of the protocol's document for a release, where it has some.
        document: Option<&'static str>,
    },
    /// Nothing was released: the outer claim `id` ends the lock with its own end.
    StillHeld { given: &'a str, id: &'a str },
    /// The lock could not be released; `then` says why, and what becomes of it by its protocol.
    NotReleased { then: &'a str },
    /// The file system of the lock file does not answer, so that the lock stays until it is stale; `then` is what its
    /// protocol says of that.
    ReleaseHangs { path: &'a Path, then: &'static str },
    /// The claim in the fleet could not be ended, and ends by itself.
    FleetClaimLingers { name: &'a str, why: &'a str },
    /// A line could not be added to the audit file. Told once.
    NotAudited(&'a audit::Failed),
}

/// How much a [`Notice`] matters to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A state that the next notice replaces.
    Live,
    /// For a person who asks for more.
    Detail,
    /// What the program does.
    Info,
    /// A limit of what the claim keeps away. It belongs in a machine's answer, too.
    Limit,
    /// Something is not as it should be.
    Warning,
}

impl Notice<'_> {
    pub fn level(&self) -> Level {
        match self {
            Self::Waiting { .. } | Self::WaitEnded => Level::Live,
            Self::Nested { .. } => Level::Detail,
            Self::HolderAtWork { .. }
            | Self::Made { .. }
            | Self::RemovedStale { .. }
            | Self::Claimed(_)
            | Self::HeartbeatsAgain
            | Self::Released { .. }
            | Self::StillHeld { .. } => Level::Info,
            Self::SharedFs { .. } => Level::Limit,
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
            | Self::NotAudited(_) => Level::Warning,
        }
    }
}

/// A claim that stands.
#[derive(Debug, Clone)]
pub struct Claimed<'a> {
    pub given: &'a str,
    /// The directory of the lock, where the protocol's document names another.
    pub dir: Option<&'a Path>,
    pub holder: &'a str,
    pub pid: i32,
    /// bd keeps the database in Dolt, and bd asks nobody.
    pub in_dolt: bool,
    /// The place of a lock that git may commit, and that does harm in another clone then.
    pub committable: Option<&'a Place>,
    pub fleet: Option<ClaimedInFleet<'a>>,
}

/// What the fleet says of a claim.
#[derive(Debug, Clone)]
pub struct ClaimedInFleet<'a> {
    /// What the database is called there.
    pub name: &'a str,
    /// How many agents have a right to sync it.
    pub agents: usize,
    /// How the claim stands, as the end of the line that tells of it.
    pub standing: String,
}

/// What a lock on a network file system cannot keep away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Cycles on other machines.
    Cycles,
    /// An flock may reach this machine only, or this mount only.
    Flock,
}

/// What is to be known of a lock directory before its locks are trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirWarning {
    /// It belongs to the user `owner`, and this is the user `us`.
    OtherOwner { dir: PathBuf, owner: u32, us: u32 },
    /// Others may write it.
    Writable { dir: PathBuf, mode: u32 },
    /// Others may look into it.
    Readable { dir: PathBuf, mode: u32 },
}

/// Looks after a wait: hears what it waits for, and may stop it by a signal.
pub trait WaitControl {
    /// Readable when there is something for [`WaitControl::stopped`].
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// What has arrived, when it ends the wait.
    fn stopped(&mut self) -> Option<Stopped> {
        None
    }
    /// Ends the wait by what has arrived, where something has: [`WaitControl::signals`] was readable.
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

/// A wait that nobody is told of and that nothing stops.
#[derive(Debug)]
pub struct Unattended;

impl WaitControl for Unattended {}

/// Why there is no claim.
#[derive(Debug)]
pub enum Stopped {
    Failed(Error),
    Signalled(Signal),
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

impl From<files::Error> for Stopped {
    fn from(error: files::Error) -> Self {
        Self::Failed(error.into())
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
    /// The holder of the lock file at `path`.
    Holder {
        path: &'a Path,
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
            Self::Fleet { .. } => "fleet",
        }
    }

    /// The address of what its holder holds it for.
    pub fn about(&self) -> Option<String> {
        match self {
            Self::Holder { look, .. } => words::about(look.record.as_ref()?),
            _ => None,
        }
    }
}

impl fmt::Debug for Waited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waited").field(&self.kind()).finish()
    }
}
