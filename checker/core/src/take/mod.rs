//! The only way a lock file is created, taken over, removed or recovered (docs/design.md#changing-a-lock-file).
//!
//! Promises: a live lock never disappears but by its owner; what is linked is complete; a crash at any step leaves a
//! valid record or none. The next one with the gate puts right what is left. Every step here is one that the model
//! breaks without.
//!
//! Order: the gate is held throughout; then a lease on the file that is moved. Nothing is ever deleted by the
//! lock's own path, and nothing is ever renamed over anything. There is one side name, touched only with the
//! gate held, so a side file that is found under the gate is what a crash has left.
//!
//! Limits: without leases (another owner's file, some file systems) contents and times are compared instead,
//! which is safe against one writer in place at a time, not against two. Beside a gate of one machine,
//! another machine's removals are not seen.

mod broken;
mod create;
mod heartbeat;
mod held;
mod lease;
mod recover;
mod release;
mod remove;
mod rename;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{path::Path, thread::sleep, time::Duration, time::Instant};

use nix::{fcntl::OFlag, fcntl::open, sys::stat::Mode};

use crate::{
    decision::{NotChanged, NotChecked, Removed, Skip},
    dialect::Record,
    gate::Gate,
    look::Dead,
};
use crate::{
    look::Judged, options::Options, place::Names, place::Place, read, read::LockFile, read::Sight,
};
use beadlock_base::error::{Error, Result};

use recover::Recovered;
use remove::Removal;

pub use broken::{Broken, Licence, Seen};
pub use heartbeat::Heartbeat;
pub use held::{Adopted, Held, Whereabouts};
pub use release::Release;

/// For how long a lock is watched aside: longer than a throttled container stands still inside one `open`.
const GRACE: Duration = Duration::from_millis(100);
/// For how long a lock that somebody else is just changing is looked at again before the answer is "in progress".
const CONTENTION: Duration = Duration::from_millis(50);
/// How often somebody may put another dead lock in the way before the answer is "in progress".
const ROUNDS: usize = 32;

/// Which mechanisms may be used; what the system refuses falls back by itself. Tests take the portable ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// File leases; else contents and times are compared.
    pub leases: bool,
    /// `renameat2`; else plain rename and link.
    pub renameat2: bool,
    /// `O_TMPFILE`; else a named file that is swept when its process is dead.
    pub unnamed_files: bool,
}

impl Means {
    /// The strongest that Linux has.
    pub const BEST: Self = Self {
        leases: true,
        renameat2: true,
        unnamed_files: true,
    };
    /// What any Unix has.
    pub const PORTABLE: Self = Self {
        leases: false,
        renameat2: false,
        unnamed_files: false,
    };
}

/// A database's directory with the gate held: where lock files are changed.
#[derive(Debug)]
pub struct Site<'a, H = fn(Step)> {
    dir: BorrowedFd<'a>,
    path: &'a Path,
    names: Names,
    gated: bool,
    options: Options,
    means: Means,
    hook: H,
}

/// What the lock has come to once everything dead is out of the way.
#[derive(Debug)]
#[must_use]
pub enum Settled {
    /// There is no lock.
    Free {
        /// The last stale lock that was removed on the way.
        removed: Option<Removed>,
    },
    /// There is one that must stay, or it could not be dealt with.
    Refused {
        /// Which, and why.
        skip: Skip,
        /// The last stale lock that was removed all the same: another one came after it.
        removed: Option<Removed>,
    },
}

/// How an attempt to claim ended.
#[derive(Debug)]
#[must_use = "a claim that is not held protects nothing"]
pub enum Attempt {
    /// The lock stands; and the stale one that was removed to make room for it.
    Claimed(Held, Option<Removed>),
    /// Somebody else's does, or it could not be checked; and the stale lock that was removed before that.
    Refused(Skip, Option<Removed>),
}

/// Why a stale lock (`record`) could not be removed, or without one a side file not recovered.
pub(crate) fn not_removed(
    record: Option<Box<Record>>,
    names: &Names,
    why: impl Into<NotChanged>,
) -> Skip {
    match record {
        Some(record) => Skip::not_removed(record, why),
        None => NotChecked::NotRecovered {
            aside: names.aside_shown(),
            why: why.into(),
        }
        .into(),
    }
}

impl<'a> Site<'a> {
    /// Where the gate is held. `dry_run` is not heeded: a check and [`look`](crate::look::look) change nothing.
    pub fn new(gate: &'a Gate, options: &Options) -> Self {
        let (dir, path, names, options) = (gate.as_fd(), gate.path(), Names::BEADS, *options);
        Self {
            dir,
            path,
            names,
            gated: true,
            options,
            means: Means::BEST,
            hook: |_| {},
        }
    }

    /// For a lock of ours, wherever its directory's path leads by now.
    fn of_held(place: &'a Place, gate: &'a Gate, options: &Options) -> Self {
        Self {
            path: place.dir(),
            names: place.names().clone(),
            ..Self::new(gate, options)
        }
    }

    /// For a lock whose directory, open as `dir`, has no gate.
    fn without_gate(dir: &'a OwnedFd, place: &'a Place, options: &Options) -> Self {
        let (dir, path, names, options) =
            (dir.as_fd(), place.dir(), place.names().clone(), *options);
        Self {
            dir,
            path,
            names,
            gated: false,
            options,
            means: Means::BEST,
            hook: |_| {},
        }
    }
}

/// Claims where there can be no gate: an absent lock is claimed, nothing is removed.
pub fn claim_without_gate(
    place: &Place,
    record: impl Into<Record>,
    options: &Options,
) -> Result<Attempt> {
    let dir = open_searchable(place.dir())?;
    Site::without_gate(&dir, place, options).claim(record)
}

fn open_searchable(dir: &Path) -> Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    open(dir, flags, Mode::empty()).map_err(|errno| Error::new("open the directory", dir, errno))
}

impl<'a, H: FnMut(Step)> Site<'a, H> {
    /// For the lock of this name, in place of a beads database's.
    pub fn with_names(self, names: &Names) -> Self {
        Self {
            names: names.clone(),
            ..self
        }
    }

    /// Uses these mechanisms only.
    pub fn with_means(self, means: Means) -> Self {
        Self { means, ..self }
    }

    /// Calls `hook` between the steps.
    pub fn with_hook<G: FnMut(Step)>(self, hook: G) -> Site<'a, G> {
        let Self {
            dir,
            path,
            names,
            gated,
            options,
            means,
            hook: _,
        } = self;
        Site {
            dir,
            path,
            names,
            gated,
            options,
            means,
            hook,
        }
    }

    fn at(&mut self, step: Step) {
        (self.hook)(step);
    }

    fn lock_error(&self, doing: &'static str, errno: nix::errno::Errno) -> Error {
        Error::new(doing, read::join(self.path, self.names.lock()), errno)
    }

    fn aside_error(&self, doing: &'static str, errno: nix::errno::Errno) -> Error {
        Error::new(doing, read::join(self.path, self.names.aside()), errno)
    }

    fn judge_bytes(&self, bytes: &[u8], file: &LockFile) -> Judged {
        Judged::of_bytes(
            bytes,
            Some(file),
            &self.names,
            self.dir,
            self.options.depth(),
            &self.options,
        )
    }

    fn judge(&self, file: &LockFile) -> Judged {
        Judged::of(
            file,
            &self.names,
            self.dir,
            self.options.depth(),
            &self.options,
        )
    }

    /// Recovers, then removes the lock if it is dead, until there is none or one that must stay. Only "absent"
    /// makes it free: a removal by itself never does (docs/model.md#v1).
    pub fn settle(&mut self) -> Settled {
        let mut removed = None;
        let mut contention = None;
        for _ in 0..ROUNDS {
            match self.settle_once(&mut removed) {
                Ok(SettleRound::Free) => return Settled::Free { removed },
                Ok(SettleRound::Again) => {}
                Ok(SettleRound::Contended) => {
                    let since = *contention.get_or_insert_with(Instant::now);
                    if since.elapsed() >= CONTENTION {
                        break;
                    }
                    sleep(Duration::from_millis(5));
                }
                Err(skip) => return Settled::Refused { skip, removed },
            }
        }
        Settled::Refused {
            skip: Skip::InProgress,
            removed,
        }
    }

    fn settle_once(
        &mut self,
        removed: &mut Option<Removed>,
    ) -> std::result::Result<SettleRound, Skip> {
        let recovered = if self.gated {
            self.recover(None)
        } else {
            self.side_file_must_stay()
        };
        match recovered.map_err(|error| not_removed(None, &self.names, error))? {
            Recovered::Clean => {}
            Recovered::Removed(dead) => {
                *removed = Some(dead);
                return Ok(SettleRound::Again);
            }
            Recovered::Again | Recovered::Released => return Ok(SettleRound::Again),
            Recovered::Exchanged => return Ok(SettleRound::Contended),
            Recovered::Left => return Err(self.beside_a_side_file()),
        }
        self.at(Step::Recovered);
        let file = match read::open(self.dir, self.names.lock()) {
            Sight::Absent => return Ok(SettleRound::Free),
            Sight::Unreadable(unread) => return Err(unread.into()),
            Sight::File(file) => file,
        };
        let Dead {
            record,
            reason,
            why,
        } = self.judge(&file).stale(&self.options)?;
        self.at(Step::Judged);
        if !self.gated {
            return Err(not_removed(Some(record), &self.names, NotChanged::NoGate));
        }
        match self.remove(&file, &remove::Wanted::Dead) {
            Ok(Removal::Removed(watched, bytes)) => {
                // What was removed in the end may say something else than what was seen first.
                let record = self.names.parse(&bytes).map_or(record, Box::new);
                *removed = Some(Removed {
                    record,
                    reason,
                    why,
                    watched,
                    bytes,
                });
                Ok(SettleRound::Again)
            }
            Ok(Removal::Changed) => Ok(SettleRound::Again),
            Ok(Removal::Contended) => Ok(SettleRound::Contended),
            Err(error) => Err(not_removed(Some(record), &self.names, error)),
        }
    }

    /// The answer when a side file must stay: the lock's that made it stay, looked at once more.
    fn beside_a_side_file(&self) -> Skip {
        let judged = match read::open(self.dir, self.names.lock()) {
            Sight::Absent if self.gated => return Skip::InProgress,
            Sight::Absent => return not_removed(None, &self.names, NotChanged::NoGate),
            Sight::Unreadable(unread) => return unread.into(),
            Sight::File(file) => self.judge(&file),
        };
        // What died just now is for the next check, which will see to both.
        judged
            .stale(&self.options)
            .err()
            .unwrap_or(Skip::InProgress)
    }

    /// Where there is no gate nobody may touch a side file.
    fn side_file_must_stay(&self) -> Result<Recovered> {
        match read::exists_at(self.dir, self.names.aside()) {
            Ok(false) => Ok(Recovered::Clean),
            Ok(true) => Ok(Recovered::Left),
            Err(errno) => Err(self.aside_error("look at", errno)),
        }
    }

    /// Settles, and links `record` whole when there is no lock. Fails when the record cannot be written or linked (full
    /// disk, read-only, no permission), or is none that a reader would accept. Nothing is left then.
    pub fn claim(mut self, record: impl Into<Record>) -> Result<Attempt> {
        let record = record.into();
        let (mut draft, mut removed) = (None, None);
        for _ in 0..ROUNDS {
            match self.settle() {
                Settled::Free { removed: dead } => removed = dead.or(removed),
                Settled::Refused {
                    skip,
                    removed: dead,
                } => return Ok(Attempt::Refused(skip, dead.or(removed))),
            }
            self.at(Step::Absent);
            let unlinked = match draft.take() {
                Some(draft) => draft,
                None => self.draft(&record)?,
            };
            self.at(Step::Synced);
            match self.link(unlinked)? {
                Ok(held) => {
                    self.at(Step::Linked);
                    return Ok(Attempt::Claimed(held, removed));
                }
                Err(unlinked) => draft = Some(unlinked),
            }
        }
        Ok(Attempt::Refused(Skip::InProgress, removed))
    }
}

/// One round of [`Site::settle`].
enum SettleRound {
    Free,
    Again,
    /// Somebody has the stale lock open for writing, or was just changing it.
    Contended,
}

/// The points between the steps, where tests interleave (docs/design.md#changing-a-lock-file).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// A side file was found.
    SideFound,
    /// The side file has been judged; it is about to be deleted, put back or exchanged.
    SideJudged,
    /// There is no side file, or one that must stay.
    Recovered,
    /// The lock has been read and judged for the first time: it may go.
    Judged,
    /// The lease is held, or cannot be had.
    Leased,
    /// The lock has been judged again, and is about to be moved aside.
    JudgedAgain,
    /// It is aside.
    MovedAside,
    /// Its grace has ended unbroken; it is about to be deleted.
    GraceOver,
    /// It is deleted.
    Deleted,
    /// It is kept under the name of a broken lock.
    Kept,
    /// It was somebody's after all, and is about to be moved back.
    MovingBack,
    /// A heartbeat has found the lock to be its own, and is about to write.
    Ours,
    /// A heartbeat's new file and the lock have changed places.
    Exchanged,
    /// There is no lock, and a claim is about to be written.
    Absent,
    /// The complete record is on disk, without a name.
    Synced,
    /// The lock is linked. This stays the last one: [`Step::ALL`] counts up to it.
    Linked,
}

impl Step {
    /// Every one.
    pub const ALL: [Self; Self::Linked as usize + 1] = [
        Self::SideFound,
        Self::SideJudged,
        Self::Recovered,
        Self::Judged,
        Self::Leased,
        Self::JudgedAgain,
        Self::MovedAside,
        Self::GraceOver,
        Self::Deleted,
        Self::Kept,
        Self::MovingBack,
        Self::Ours,
        Self::Exchanged,
        Self::Absent,
        Self::Synced,
        Self::Linked,
    ];
}
