//! Creating, refreshing, releasing, breaking, removing and recovering a lock file
//! (docs/design.md#changing-a-lock-file). No other module changes a lock file.
//!
//! Promises:
//!
//! - Only its owner ends a live lock, or a person who breaks it.
//! - A lock that is linked has its complete record.
//! - A crash at any step leaves a valid record or no lock. The next holder of the gate clears the rest.
//!
//! Each step is here because the model breaks without it (docs/model.md).
//!
//! Order: the gate is held throughout, and the lease on the file that is moved is taken under it. No step deletes by
//! the lock's own path, and no step renames over another file. There is one side name. Only a holder of the gate
//! touches it, so a side file that is found under the gate was left by a crash (docs/model.md#v4).
//!
//! Limits:
//!
//! - Without leases (another owner's file, some file systems) contents and times are compared instead. That is safe
//!   against one writer in place at a time, and not against two (docs/model.md#two-writers).
//! - A gate covers one machine, so the removals of another machine are not seen (docs/design.md#its-reach).
//! - In a directory that can have no gate, a claim only links, and a stale lock stays. A release and a heartbeat take
//!   the same steps there without the gate's protection.

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
    gate::Gate,
    look::Dead,
    record::Record,
};
use crate::{
    look::Judged, options::Options, place::Names, place::Place, read, read::LockFile, read::Sight,
};
use beadlock_base::error::{Error, Result};

use recover::Recovered;
use remove::Removal;

pub use broken::{BreakableLock, Broken, Licence};
pub use heartbeat::Heartbeat;
pub use held::{Adopted, Held, Whereabouts};
pub use release::Release;

/// Time for which a stale lock is watched under the side name before it is deleted (docs/design.md#grace).
///
/// The time is longer than a throttled container stands still inside one `open`. Without it, a writer that looked the
/// path up before the move writes into a deleted file (docs/model.md#v11).
const GRACE: Duration = Duration::from_millis(100);
/// Time for which a lock that another process is changing is looked at again. Then the answer is `InProgress`.
const CONTENTION: Duration = Duration::from_millis(50);
/// Number of rounds in which another lock or side file may turn up. After the last one the answer is `InProgress`.
const ROUNDS: usize = 32;

/// Mechanisms of the system that the steps may use. Where the system refuses one, the step falls back by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Means {
    /// File leases. Without them contents and times are compared (docs/design.md#without-leases).
    pub leases: bool,
    /// `renameat2`. Without it a move is a rename aside, and a link on the way back; nothing can be exchanged.
    pub renameat2: bool,
    /// `O_TMPFILE`. Without it a draft has a name, and is swept once its process is dead.
    pub unnamed_files: bool,
}

impl Means {
    /// All mechanisms of Linux.
    pub const BEST: Self = Self {
        leases: true,
        renameat2: true,
        unnamed_files: true,
    };
    /// Only mechanisms that every Unix has. Tests use this set.
    pub const PORTABLE: Self = Self {
        leases: false,
        renameat2: false,
        unnamed_files: false,
    };
}

/// What a power cut may do to a new lock (docs/design.md#create).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The record is synced before the link: a power cut leaves the whole lock, or none.
    #[default]
    Synced,
    /// The record is not synced: a power cut may leave an empty lock, which stays until a person removes it. A lock
    /// that foreign programs write is synced all the same.
    Unsynced,
}

/// Directory whose lock is changed, with the gate held. Only where no gate can exist, a site is without one.
///
/// `H` is called between the steps, so that a test can let another process act there.
#[derive(Debug)]
pub struct Site<'a, H = fn(Step)> {
    dir: BorrowedFd<'a>,
    path: &'a Path,
    names: Names,
    gated: bool,
    options: Options,
    means: Means,
    durability: Durability,
    hook: H,
}

/// State of the lock after everything stale was removed: the result of [`Site::settle`].
#[derive(Debug)]
#[must_use]
pub enum Settled {
    /// No lock and no side file is left.
    Free {
        /// The stale lock that was removed last, if any.
        removed: Option<Removed>,
    },
    /// A lock must stay, or could not be checked or removed.
    Refused {
        /// The reason, as a daemon reports it.
        skip: Skip,
        /// The stale lock that was removed last, if any: another lock has come after it.
        removed: Option<Removed>,
    },
}

/// Result of a claim ([`Site::claim`]).
#[derive(Debug)]
#[must_use = "a claim that is not held protects nothing"]
pub enum Attempt {
    /// The lock is in place. The second value is the stale lock that was removed to make room for it.
    Claimed(Held, Option<Removed>),
    /// Another lock is in place, or the lock could not be checked. The second value is a stale lock that was removed
    /// before that.
    Refused(Skip, Option<Removed>),
}

/// Returns the skip for a stale lock (`record`) that could not be removed. Without a record, the skip is for a side
/// file that could not be recovered.
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
    /// Site for the beads lock of the directory whose gate is held. [`Site::with_names`] selects another lock.
    ///
    /// `options.dry_run` has no effect on these steps: a caller in a dry run must not take them.
    pub fn new(gate: &'a Gate, options: &Options) -> Self {
        let (dir, path, names, options) = (gate.as_fd(), gate.path(), Names::BEADS, *options);
        Self {
            dir,
            path,
            names,
            gated: true,
            options,
            means: Means::BEST,
            durability: Durability::Synced,
            hook: |_| {},
        }
    }

    /// Site for the lock of a guard. All steps use the gate's open directory, wherever `place` leads by now.
    fn of_held(place: &'a Place, gate: &'a Gate, options: &Options) -> Self {
        Self {
            path: place.dir(),
            names: place.names().clone(),
            ..Self::new(gate, options)
        }
    }

    /// Site for a lock whose directory can have no gate. `dir` is that directory, open.
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
            durability: Durability::Synced,
            hook: |_| {},
        }
    }
}

/// Claims a lock in a directory that can have no gate (docs/design.md#its-reach).
///
/// An absent lock is claimed. A stale lock stays, because two removers without a gate may remove each other's new lock
/// (docs/model.md#no-gate). Errors: the directory cannot be opened, else those of [`Site::claim`].
pub fn claim_without_gate(
    place: &Place,
    record: impl Into<Record>,
    options: &Options,
    durability: Durability,
) -> Result<Attempt> {
    let dir = open_searchable(place.dir())?;
    let site = Site::without_gate(&dir, place, options);
    site.with_durability(durability).claim(record)
}

fn open_searchable(dir: &Path) -> Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    open(dir, flags, Mode::empty()).map_err(|errno| Error::new("open the directory", dir, errno))
}

impl<'a, H: FnMut(Step)> Site<'a, H> {
    /// Selects the lock of these names, and its protocol.
    pub fn with_names(self, names: &Names) -> Self {
        Self {
            names: names.clone(),
            ..self
        }
    }

    /// Restricts the steps to these mechanisms.
    pub fn with_means(self, means: Means) -> Self {
        Self { means, ..self }
    }

    /// Sets what a power cut may do to a lock that is claimed here.
    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Calls `hook` between the steps, at each [`Step`].
    pub fn with_hook<G: FnMut(Step)>(self, hook: G) -> Site<'a, G> {
        let Self {
            dir,
            path,
            names,
            gated,
            options,
            means,
            durability,
            hook: _,
        } = self;
        Site {
            dir,
            path,
            names,
            gated,
            options,
            means,
            durability,
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

    /// Recovers a side file, then removes the lock if it is stale, until no lock is left or one must stay.
    ///
    /// After a removal everything is looked at again, and only an absent lock is [`Settled::Free`]. During the grace of
    /// a removal the path is free, so a writer without the gate may have claimed it (docs/model.md#v1). The side file
    /// comes first, because an absent lock proves nothing while a live lock lies aside (docs/model.md#v7).
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
                // A writer may have changed the file after the first judgement: report the record that was deleted.
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

    /// Answer while a side file stays: the verdict on the lock that keeps it there, judged once more.
    ///
    /// An absent lock is not "free" here, because the side file may be a live claim (docs/model.md#v7).
    fn beside_a_side_file(&self) -> Skip {
        let judged = match read::open(self.dir, self.names.lock()) {
            Sight::Absent if self.gated => return Skip::InProgress,
            Sight::Absent => return not_removed(None, &self.names, NotChanged::NoGate),
            Sight::Unreadable(unread) => return unread.into(),
            Sight::File(file) => self.judge(&file),
        };
        // A lock that became stale just now is left to the next check, which also recovers the side file.
        judged
            .stale(&self.options)
            .err()
            .unwrap_or(Skip::InProgress)
    }

    /// Looks for a side file without the gate, and leaves it where it is. Another process may be waiting out its grace,
    /// and a writer may be about to open the file (docs/model.md#v4).
    fn side_file_must_stay(&self) -> Result<Recovered> {
        match read::exists_at(self.dir, self.names.aside()) {
            Ok(false) => Ok(Recovered::Clean),
            Ok(true) => Ok(Recovered::Left),
            Err(errno) => Err(self.aside_error("look at", errno)),
        }
    }

    /// Removes what is stale ([`Site::settle`]), then links `record`, complete and synced, into the free path.
    ///
    /// A link replaces nothing. If another writer has put a lock there meanwhile, everything starts again. The claim is
    /// made under the gate: linked before it, a lock could stand beside a live claim that lies aside
    /// (docs/model.md#v6).
    ///
    /// Errors: the record cannot be written or linked (full disk, read-only file system, no permission), or a reader
    /// would not accept it. No lock of this claim is left then.
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

/// Result of one round of [`Site::settle`].
enum SettleRound {
    Free,
    Again,
    /// Another process has the stale lock open for writing or was changing it, or the side file took its place.
    Contended,
}

/// Points between the steps, at which a test lets another process act (docs/design.md#changing-a-lock-file).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// A side file was found.
    SideFound,
    /// The side file has been judged, and is about to be deleted, moved back or exchanged.
    SideJudged,
    /// Recovery is over: no side file is left, or one must stay.
    Recovered,
    /// The lock has been judged for the first time, and may be removed. For a heartbeat: it was found to be its own.
    Judged,
    /// The lease is held, or cannot be had.
    Leased,
    /// The lock has been judged again, and is about to be moved aside.
    JudgedAgain,
    /// The lock is under the side name.
    MovedAside,
    /// The grace has ended unbroken, and the file is about to be deleted or kept.
    GraceOver,
    /// The file is deleted.
    Deleted,
    /// The file is kept under the name of a broken lock.
    Kept,
    /// The file turned out to be a live claim, and is about to be moved back.
    MovingBack,
    /// A heartbeat has found the lock to be its own for the last time, and is about to write.
    Ours,
    /// A heartbeat's new file and the lock have changed places.
    Exchanged,
    /// The path is free, and a claim is about to be written.
    Absent,
    /// The complete record is on disk, without a name.
    Synced,
    /// The lock is linked. This variant must stay the last, because the length of [`Step::ALL`] comes from it.
    Linked,
}

impl Step {
    /// All steps, in the order of their declaration.
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
