//! The check at the start of a cycle, for daemons without cycles of their own (docs/design.md#the-beads-rule), and
//! [`Cycle`] (docs/design.md#the-gate).
//!
//! A database that has joined a fleet is left alone: a look at this machine's lock cannot keep a claim of another
//! machine away (docs/design.md#the-fleet). A caller with a right in the fleet says so in the options.

use std::{
    io::ErrorKind, os::fd::AsFd, os::fd::BorrowedFd, os::fd::OwnedFd, path::Path, time::Duration,
};

use crate::own_cycle::OwnCycle;
use crate::{
    database::FLEET_MARK, decision::Decision, decision::NotChanged, decision::NotChecked,
    decision::Proceed, decision::Skip, record::Record,
};
use crate::{
    gate::Gate,
    gate_loss::GateLoss,
    look::Judged,
    options::Options,
    place::{Names, Place},
};
use crate::{
    read, read::Sight, take::Settled, take::Site, take::not_removed, unread::Unread,
    verdict::Reason,
};
use beadlock_base::{error::Error, open_directory::OpenDirectory};

/// For how long a check that must change a lock file waits for the gate.
const GATE_PATIENCE: Duration = Duration::from_millis(50);

/// Whether a daemon must leave the database in `dir` alone now. Removes a stale lock, as the protocol says.
///
/// `dir` is taken as it is: the directory that holds `.exclusive-lock`. One that does not exist is free. The
/// answer is of this moment; [`Cycle::enter`] holds it for a whole cycle.
///
/// ```
/// # let dir = std::env::temp_dir();
/// let decision = beadlock_core::should_skip_database(&dir);
/// if decision.is_skip() {
///     println!("{decision}");
/// }
/// ```
pub fn should_skip_database(dir: impl AsRef<Path>) -> Decision {
    decide(dir.as_ref(), &Names::BEADS, &Options::default())
}

/// [`should_skip_database`] for any lock file, with options. `force_lock` means nothing here: a check takes no lock.
pub fn check(place: &Place, options: &Options) -> Decision {
    decide(
        place.dir(),
        place.names(),
        &Options {
            force_lock: false,
            ..*options
        },
    )
}

fn decide(dir: &Path, names: &Names, options: &Options) -> Decision {
    if let Some(skip) = joined_a_fleet(Where::At(dir), names, options) {
        return skip.into();
    }
    let site = |gate| Site::new(gate, options).with_names(names);
    match plain(Where::At(dir), names, options) {
        Plain::Decided(decision) => decision,
        Plain::NeedsGate(stale) => match Gate::take_within(dir, GATE_PATIENCE) {
            Ok(Some(gate)) if options.dry_run => site(&gate).foresee(),
            Ok(Some(gate)) => site(&gate).settle().into(),
            Ok(None) => Decision::Skip(Skip::InProgress),
            Err(error) if error.means_no_gate() => no_gate(names, stale),
            Err(error) => not_removed(stale, names, error).into(),
        },
    }
}

#[derive(Clone, Copy)]
enum Where<'a> {
    /// At a path: one call for each look.
    At(&'a Path),
    /// In an open directory, wherever it is by now.
    In(BorrowedFd<'a>),
}

impl Where<'_> {
    fn open_lock(self, names: &Names) -> Sight {
        match self {
            Self::At(path) => read::open_in(path, names.lock()),
            Self::In(dir) => read::open(dir, names.lock()),
        }
    }

    fn has_fleet_mark(self) -> nix::Result<bool> {
        match self {
            Self::At(path) => read::exists_in(path, FLEET_MARK),
            Self::In(dir) => read::exists_at(dir, FLEET_MARK),
        }
    }

    fn has_side_file(self, names: &Names) -> nix::Result<bool> {
        match self {
            Self::At(path) => read::exists_in(path, names.aside()),
            Self::In(dir) => read::exists_at(dir, names.aside()),
        }
    }
}

/// Why a caller without a right in the fleet must leave a database alone that has joined one. A lock of this machine
/// comes first; a stale one stays. Any kind of file is a mark, and so is one that cannot be looked for.
fn joined_a_fleet(dir: Where<'_>, names: &Names, options: &Options) -> Option<Skip> {
    if options.has_fleet_right || *names != Names::BEADS {
        return None;
    }
    let mark = match dir.has_fleet_mark() {
        Ok(false) => return None,
        Ok(true) => NotChecked::FleetUseCycle.into(),
        Err(errno) => Unread::from(errno).into(),
    };
    match plain(dir, names, options) {
        Plain::Decided(Decision::Skip(skip)) => Some(skip),
        Plain::Decided(Decision::Proceed(_)) | Plain::NeedsGate(_) => Some(mark),
    }
}

/// Whether the database whose lock lies here has joined a fleet. Never of another kind of lock. Fails when that cannot
/// be looked for: then it may have.
pub fn has_fleet_mark(place: &Place) -> beadlock_base::error::Result<bool> {
    let failed = |errno| Error::new("look for the mark of a fleet in", place.dir(), errno);
    if *place.names() == Names::BEADS {
        Where::At(place.dir()).has_fleet_mark().map_err(failed)
    } else {
        Ok(false)
    }
}

/// Result of a look at a lock without the gate.
enum Plain {
    Decided(Decision),
    /// This stale lock is to be removed, or (`None`) a side file to be recovered.
    NeedsGate(Option<Box<Record>>),
}

/// The looks of a check that has no gate: absent, no side file, still absent is "no lock", nothing less is
/// (a lock that somebody has just claimed may be aside for a moment: docs/model.md#v5).
fn plain(dir: Where<'_>, names: &Names, options: &Options) -> Plain {
    let side_file = || dir.has_side_file(names);
    let mut seen_absent = false;
    loop {
        let judged = match dir.open_lock(names) {
            Sight::Absent if seen_absent => {
                return Plain::Decided(Decision::Proceed(Proceed::NoLock));
            }
            Sight::Absent => match side_file() {
                Ok(true) => return Plain::NeedsGate(None),
                Ok(false) => {
                    seen_absent = true;
                    continue;
                }
                Err(errno) => {
                    return Plain::Decided(Skip::from(Unread::from(errno)).into());
                }
            },
            Sight::Unreadable(unread) => return Plain::Decided(Skip::from(unread).into()),
            Sight::File(file) => Judged::of(&file, names, &file, options.depth(), options),
        };
        return match judged.stale(options) {
            // Beside a side file it is not the last word.
            Ok(dead) if options.dry_run && side_file() == Ok(false) => Plain::Decided(
                Decision::Proceed(Proceed::WouldRemoveStale(dead.record, dead.reason)),
            ),
            Ok(dead) => Plain::NeedsGate(Some(dead.record)),
            Err(Skip::CheckFailed {
                reason: Reason::Malformed | Reason::Invalid,
                ..
            }) if side_file() == Ok(true) => Plain::NeedsGate(None),
            Err(skip) => Plain::Decided(skip.into()),
        };
    }
}

/// Without the gate nothing is removed.
fn no_gate(names: &Names, record: Option<Box<Record>>) -> Decision {
    not_removed(record, names, NotChanged::NoGate).into()
}

/// The lock was not looked at: its directory, or the gate, was not reached for a reason that may pass.
fn not_reached(error: Error) -> Entered {
    Entered::Skipped(Skip::from(NotChecked::NotReached(error.into())).into())
}

#[doc(hidden)]
impl From<Settled> for Decision {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Free { removed: None } => Self::Proceed(Proceed::NoLock),
            Settled::Free {
                removed: Some(removed),
            } => Self::Proceed(Proceed::RemovedStale(removed)),
            Settled::Refused { skip, .. } => Self::Skip(skip),
        }
    }
}

/// How an attempt to begin a cycle ended.
#[derive(Debug)]
#[must_use = "a cycle that was not entered must not run"]
pub enum Entered {
    /// Work; then [`Cycle::leave`].
    Cycle(Cycle),
    /// Leave the database alone this time; the decision's `Display` is the log line.
    Skipped(Decision),
}

/// One run of a daemon's work on one database. Holds the gate until it is left or dropped.
#[derive(Debug)]
#[must_use = "dropping the cycle lets the gate go before the work is done"]
pub struct Cycle {
    /// Goes before the gate, whose descriptor it names.
    _own: Option<OwnCycle>,
    gate: Result<Gate, Error>,
    decision: Decision,
    /// The directory above, where the database was entered by descriptor and it could be opened.
    above: Option<OwnedFd>,
}

impl Cycle {
    /// Takes the gate without waiting, recovers what a crash left, checks. `dir` is taken as it is.
    pub fn enter(dir: impl AsRef<Path>) -> Entered {
        Self::enter_with(dir.as_ref(), &Options::default())
    }

    /// [`Cycle::enter`] with options; `dry_run` means nothing here.
    pub fn enter_with(dir: &Path, options: &Options) -> Entered {
        let options = Options {
            dry_run: false,
            ..*options
        };
        match Gate::try_take(dir) {
            Ok(Some(gate)) => Self::with_gate(gate, &options, None),
            Ok(None) => Entered::Skipped(Decision::Skip(Skip::InProgress)),
            Err(error) => Self::without_gate(error, Where::At(dir), &options, None),
        }
    }

    /// [`Cycle::enter_with`] in a directory that was opened before: its path is not looked up again. A directory that
    /// could not be opened is answered as [`Cycle::enter_with`] answers it.
    #[doc(hidden)]
    pub fn enter_opened(opened: Result<OpenDirectory, Error>, options: &Options) -> Entered {
        let options = Options {
            dry_run: false,
            ..*options
        };
        let (dir, unread, above, path) = match opened {
            Ok(opened) => opened.into_parts(),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                // What is not there holds no lock.
                let decision = Decision::Proceed(Proceed::NoLock);
                return Entered::Cycle(Self {
                    _own: None,
                    gate: Err(error),
                    decision,
                    above: None,
                });
            }
            Err(error) => return not_reached(error),
        };
        if let Some(error) = unread {
            return Self::without_gate(error, Where::In(dir.as_fd()), &options, above);
        }
        match Gate::try_take_opened(dir, path) {
            Ok(Some(gate)) => Self::with_gate(gate, &options, above),
            Ok(None) => Entered::Skipped(Decision::Skip(Skip::InProgress)),
            Err((error, dir)) => Self::without_gate(error, Where::In(dir.as_fd()), &options, above),
        }
    }

    fn with_gate(gate: Gate, options: &Options, above: Option<OwnedFd>) -> Entered {
        // Under the gate: a clone joins a fleet between two cycles.
        if let Some(skip) = joined_a_fleet(Where::In(gate.as_fd()), &Names::BEADS, options) {
            return Entered::Skipped(skip.into());
        }
        let decision = Site::new(&gate, options).settle().into();
        Self::decided(Ok(gate), decision, above)
    }

    fn without_gate(
        error: Error,
        dir: Where<'_>,
        options: &Options,
        above: Option<OwnedFd>,
    ) -> Entered {
        if !error.means_no_gate() {
            return not_reached(error);
        }
        if let Some(skip) = joined_a_fleet(dir, &Names::BEADS, options) {
            return Entered::Skipped(skip.into());
        }
        let decision = match plain(dir, &Names::BEADS, options) {
            Plain::Decided(decision) => decision,
            Plain::NeedsGate(stale) => no_gate(&Names::BEADS, stale),
        };
        Self::decided(Err(error), decision, above)
    }

    fn decided(gate: Result<Gate, Error>, decision: Decision, above: Option<OwnedFd>) -> Entered {
        match decision.is_skip() {
            true => Entered::Skipped(decision),
            false => Entered::Cycle(Self {
                _own: gate.as_ref().ok().map(OwnCycle::enter),
                gate,
                decision,
                above,
            }),
        }
    }

    /// Why the cycle may run; its `Display` is a log line when a stale lock was removed, else empty.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The gate; none where there can be none.
    #[doc(hidden)]
    pub fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref().ok()
    }

    /// Why there is no gate: claims are not kept waiting for this cycle then. To be said once.
    pub fn no_gate(&self) -> Option<&Error> {
        self.gate.as_ref().err()
    }

    /// The directory above the database, open for look-ups: where the work is to be done. There is none where the
    /// database was entered by its path, or may not be searched.
    #[doc(hidden)]
    pub fn above(&self) -> Option<BorrowedFd<'_>> {
        self.above.as_ref().map(AsFd::as_fd)
    }

    /// The loss of the gate, as [`Gate::lost`] tells it. A long cycle that does its work in this process may ask now
    /// and then, and end: nothing else watches over it. `None` also where there is no gate.
    pub fn lost(&self) -> Option<GateLoss> {
        self.gate().and_then(Gate::lost)
    }

    /// The cycle, for another thread to have: a claim of this thread then waits for its end. Without that, the thread that
    /// has entered a cycle is refused a claim of the same at once, for it would wait for itself.
    pub fn detach(mut self) -> Self {
        self._own = None;
        self
    }

    /// Ends the cycle: lets the gate go.
    pub fn leave(self) {
        drop(self);
    }
}
