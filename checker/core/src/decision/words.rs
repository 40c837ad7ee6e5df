//! The words of decisions: the lines of the log, and why a lock could not be checked. They are made here alone, and
//! [`NotChecked::parse`] is the only inverse, for those who have a log and nothing else.

use std::{fmt, io};

use super::{Decision, FailedCall, LoggedDoubt, NotChanged, NotChecked, Proceed, Removed, Skip};
use crate::{
    log_line::Event,
    unread::{NoRecord, Unread},
    verdict::Reason,
};
use beadlock_base::{error::system_words, escape::escaped, filesystem::FileKind};

const LEASED: &str = "another process has it under a write lease";
const TOO_LARGE: &str = "it is larger than 64 KiB";
const NOT_READ: &str = "failed to read lock file: ";
const NOT_REMOVED: &str = "failed to remove stale lock";

/// In the words of every daemon, older ones too, for a limit of open files.
const TOO_MANY_OPEN: &str = "too many open files";

impl Decision {
    /// Why the database is left alone, without its full stop: `locked by vc`. `None`: it is not.
    #[doc(hidden)]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Proceed(_) => None,
            Self::Skip(skip) => Some(Why(skip).to_string()),
        }
    }

    /// The event of the decision's line in the log; [`Event::Output`] where there is no line, or only that of another
    /// protocol's document.
    #[doc(hidden)]
    pub fn event(&self) -> Event {
        match self {
            Self::Skip(Skip::CheckFailed { .. }) => Event::NotChecked,
            Self::Skip(Skip::Locked(..) | Skip::InProgress) => Event::Skipped,
            Self::Proceed(Proceed::RemovedStale(removed))
                if removed.why.is_empty() && self.reason() != Reason::Malformed =>
            {
                Event::RemovedStale
            }
            Self::Skip(Skip::Stale { .. }) | Self::Proceed(_) => Event::Output,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proceed(Proceed::NoLock) => Ok(()),
            Self::Proceed(_) if self.reason() == Reason::Malformed => Ok(()),
            Self::Proceed(Proceed::RemovedStale(removed)) if !removed.why.is_empty() => {
                f.write_str(&removed.breaking())
            }
            Self::Proceed(Proceed::RemovedStale(Removed { record, .. })) => {
                f.write_str(Event::RemovedStale.beginning())?;
                write!(f, "{}), proceeding with sync", escaped(record.holder()))
            }
            Self::Proceed(Proceed::WouldRemoveStale(record, _)) => {
                write!(
                    f,
                    "Stale lock ({}) would be removed, proceeding with sync",
                    escaped(record.holder())
                )
            }
            Self::Skip(skip @ Skip::Stale { .. }) => write!(f, "Skipping ({})", Why(skip)),
            Self::Skip(skip) => write!(f, "{}{})", Event::Skipped.beginning(), Why(skip)),
        }
    }
}

/// Why a database is left alone.
struct Why<'a>(&'a Skip);

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Skip::Locked(record, _) => write!(f, "locked by {}", escaped(record.holder())),
            Skip::Stale { record, age, .. } => {
                let (holder, seconds) = (escaped(record.holder()), age.as_secs());
                write!(
                    f,
                    "stale lock of {holder}, no heartbeat for {seconds}s; --force-lock takes it"
                )
            }
            Skip::InProgress => f.write_str("a sync cycle or a claim is in progress"),
            Skip::CheckFailed { why, .. } => write!(f, "lock check failed: {why}"),
        }
    }
}

impl fmt::Display for NotChecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(unread) => write!(f, "{NOT_READ}{unread}"),
            Self::NotReached(call) => write!(f, "{NOT_READ}{call}"),
            Self::Unanswered(words) => write!(f, "{NOT_READ}{words}"),
            Self::Rejected(rejected) => rejected.fmt(f),
            Self::NotRemoved(why) => write!(f, "{NOT_REMOVED}: {why}"),
            Self::NotRecovered { aside, why } => write!(f, "failed to recover {aside}: {why}"),
            Self::FleetUseCycle => f.write_str(
                "a check cannot keep a fleet claim away; run the work under `beadlock cycle`",
            ),
            Self::Fleet { words, .. } => f.write_str(words),
        }
    }
}

impl fmt::Display for NotChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGate => f.write_str("no gate"),
            Self::Failed(call) => call.fmt(f),
        }
    }
}

impl fmt::Display for FailedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

impl fmt::Display for NoRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread(unread) => unread.fmt(f),
            Self::Rejected(rejected) => rejected.fmt(f),
        }
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Os(errno) => f.write_str(&system_words(&io::Error::from_raw_os_error(*errno))),
            Self::Leased => f.write_str(LEASED),
            Self::NotRegular(kind) => f.write_str(not_regular(*kind)),
            Self::TooLarge => f.write_str(TOO_LARGE),
        }
    }
}

fn not_regular(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Directory => "it is a directory",
        FileKind::Symlink => "it is a symbolic link",
        FileKind::Fifo => "it is a FIFO",
        FileKind::Socket => "it is a socket",
        FileKind::File | FileKind::Device => "it is not a regular file",
    }
}

impl Unread {
    /// The inverse of its `Display`; `None` for the words of something else.
    pub fn parse(words: &str) -> Option<Self> {
        const KINDS: [FileKind; 5] = [
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::Fifo,
            FileKind::Socket,
            FileKind::Device,
        ];
        /// The numbers of Linux, with room to spare.
        const ERRNOS: std::ops::Range<i32> = 1..256;
        let fixed = [Self::Leased, Self::TooLarge].into_iter();
        fixed
            .chain(KINDS.map(Self::NotRegular))
            .chain(ERRNOS.map(Self::Os))
            .find(|unread| unread.to_string() == words)
    }
}

impl NotChecked {
    /// Facts that a reader of a log can tell from the words of a [`NotChecked`]: the inverse of its `Display`, as far
    /// as there is one. An older daemon has its own words for a limit of open files.
    #[doc(hidden)]
    pub fn parse(words: &str) -> LoggedDoubt {
        if words.starts_with(NOT_REMOVED) {
            return LoggedDoubt::NotRemoved;
        }
        let unread = words.strip_prefix(NOT_READ).and_then(Unread::parse);
        if unread.is_some_and(Unread::may_be_alive) || words.contains(TOO_MANY_OPEN) {
            return LoggedDoubt::MayBeAlive;
        }
        LoggedDoubt::Other
    }
}

#[cfg(test)]
mod tests;
