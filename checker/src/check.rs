//! The check at the start of a cycle, for daemons without cycles of their own (DESIGN 4), and [`Cycle`] (DESIGN 5).

use std::path::Path;
use std::time::Duration;

use crate::dialect::{Record, memory};
use crate::error::Error;
use crate::facts::Depth;
use crate::gate::Gate;
use crate::gate_loss::GateLoss;
use crate::look::Judged;
use crate::place::{Names, Place};
use crate::read::{self, Sight};
use crate::take::{Settled, Site, failed_to};
use crate::verdict::{Decision, Proceed, Reason, Skip};

/// For how long a check that must change a lock file waits for the gate.
const GATE_PATIENCE: Duration = Duration::from_millis(50);

/// What a check may do beyond the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Let the four proofs of DESIGN 4 count as death, beside ESRCH.
    pub reap_proven_dead: bool,
    /// Remove nothing; say what would be removed.
    pub dry_run: bool,
    /// Let a claim take a stale lock of a dialect whose stale locks stay until somebody says otherwise.
    pub force_lock: bool,
    /// Let a stale lock stand that is judged by its age.
    pub keep_stale: bool,
    /// How old a lock that is judged by its age may become.
    pub limits: memory::Limits,
}

impl Options {
    pub(crate) fn depth(self) -> Depth {
        if self.reap_proven_dead { Depth::Proof } else { Depth::Protocol }
    }
}

/// Whether a daemon must leave the database in `dir` alone now. Removes a stale lock, as the protocol says.
///
/// `dir` is taken as it is: the directory that holds `.exclusive-lock`. One that does not exist is free. The
/// answer is of this moment; [`Cycle::enter`] holds it for a whole cycle.
///
/// ```
/// # let dir = std::env::temp_dir();
/// let decision = beadlock_checker::should_skip_database(&dir);
/// if decision.is_skip() {
///     println!("{decision}");
/// }
/// ```
pub fn should_skip_database(dir: impl AsRef<Path>) -> Decision {
    decide(dir.as_ref(), &Names::BEADS, &Options::default())
}

/// [`should_skip_database`] for any lock file, with options. `force_lock` means nothing here: a check takes no lock.
pub fn check(place: &Place, options: &Options) -> Decision {
    decide(place.dir(), place.names(), &Options { force_lock: false, ..*options })
}

fn decide(dir: &Path, names: &Names, options: &Options) -> Decision {
    let site = |gate| Site::new(gate, options).with_names(names);
    match plain(dir, names, options) {
        Plain::Decided(decision) => decision,
        Plain::NeedsGate(stale) => match Gate::take_within(dir, GATE_PATIENCE) {
            Ok(Some(gate)) if options.dry_run => site(&gate).foresee(),
            Ok(Some(gate)) => site(&gate).settle().into(),
            Ok(None) => Decision::Skip(Skip::InProgress),
            Err(error) => no_gate(names, stale, &error),
        },
    }
}

/// What a look without the gate has come to.
enum Plain {
    Decided(Decision),
    /// This stale lock is to be removed, or (`None`) a side file to be recovered.
    NeedsGate(Option<Box<Record>>),
}

/// The looks of a check that has no gate: absent, no side file, still absent is "no lock", nothing less is
/// (a lock that somebody has just claimed may be aside for a moment: MODEL V5).
fn plain(dir: &Path, names: &Names, options: &Options) -> Plain {
    let side_file = || read::exists_in(dir, names.aside());
    let mut seen_absent = false;
    loop {
        let judged = match read::open_in(dir, names.lock()) {
            Sight::Absent if seen_absent => return Plain::Decided(Decision::Proceed(Proceed::NoLock)),
            Sight::Absent => match side_file() {
                Ok(true) => return Plain::NeedsGate(None),
                Ok(false) => {
                    seen_absent = true;
                    continue;
                }
                Err(errno) => {
                    let words = crate::error::words(&errno.into());
                    return Plain::Decided(Skip::unreadable(words).into());
                }
            },
            Sight::Unreadable(words) => return Plain::Decided(Skip::unreadable(words).into()),
            Sight::File(file) => Judged::of(&file, names, &file, options.depth(), options),
        };
        return match judged.stale(options) {
            // Beside a side file it is not the last word.
            Ok(dead) if options.dry_run && side_file() == Ok(false) => {
                Plain::Decided(Decision::Proceed(Proceed::WouldRemoveStale(dead.record, dead.reason)))
            }
            Ok(dead) => Plain::NeedsGate(Some(dead.record)),
            Err(Skip::CheckFailed { reason: Reason::Malformed | Reason::Invalid, .. })
                if side_file() == Ok(true) =>
            {
                Plain::NeedsGate(None)
            }
            Err(skip) => Plain::Decided(skip.into()),
        };
    }
}

/// Without the gate nothing is removed.
fn no_gate(names: &Names, record: Option<Box<Record>>, error: &Error) -> Decision {
    let why = if error.means_no_gate() { "no gate".to_owned() } else { error.to_string() };
    let detail = failed_to(record.is_some(), names, &why);
    Decision::Skip(Skip::CheckFailed { reason: Reason::RemovalFailed, detail, record })
}

impl From<Settled> for Decision {
    fn from(settled: Settled) -> Self {
        match settled {
            Settled::Free { removed: None } => Self::Proceed(Proceed::NoLock),
            Settled::Free { removed: Some(removed) } => Self::Proceed(Proceed::RemovedStale(removed)),
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
    gate: Result<Gate, Error>,
    decision: Decision,
}

impl Cycle {
    /// Takes the gate without waiting, recovers what a crash left, checks. `dir` is taken as it is.
    ///
    /// ```
    /// # let dir = std::env::temp_dir();
    /// use beadlock_checker::{Cycle, Entered};
    /// match Cycle::enter(&dir) {
    ///     Entered::Cycle(cycle) => {
    ///         // … sync …
    ///         cycle.leave();
    ///     }
    ///     Entered::Skipped(decision) => println!("{decision}"),
    /// }
    /// ```
    pub fn enter(dir: impl AsRef<Path>) -> Entered {
        Self::enter_with(dir.as_ref(), &Options::default())
    }

    /// [`Cycle::enter`] with options; `dry_run` means nothing here.
    pub fn enter_with(dir: &Path, options: &Options) -> Entered {
        let options = Options { dry_run: false, ..*options };
        let (gate, decision) = match Gate::try_take(dir) {
            Ok(Some(gate)) => {
                let decision = Site::new(&gate, &options).settle().into();
                (Ok(gate), decision)
            }
            Ok(None) => return Entered::Skipped(Decision::Skip(Skip::InProgress)),
            Err(error) if !error.means_no_gate() => {
                return Entered::Skipped(Skip::unreadable(error).into());
            }
            Err(error) => {
                let decision = match plain(dir, &Names::BEADS, &options) {
                    Plain::Decided(decision) => decision,
                    Plain::NeedsGate(stale) => no_gate(&Names::BEADS, stale, &error),
                };
                (Err(error), decision)
            }
        };
        if decision.is_skip() { Entered::Skipped(decision) } else { Entered::Cycle(Self { gate, decision }) }
    }

    /// Why the cycle may run; its `Display` is a log line when a stale lock was removed, else empty.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The gate; none where there can be none.
    pub fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref().ok()
    }

    /// Why there is no gate: claims are not kept waiting for this cycle then. To be said once.
    pub fn no_gate(&self) -> Option<&Error> {
        self.gate.as_ref().err()
    }

    /// What became of the directory meanwhile, as [`Gate::lost`]: a long cycle that does its work in this process may ask
    /// now and then, and end. Nobody watches over it otherwise. `None` also where there is no gate.
    pub fn lost(&self) -> Option<GateLoss> {
        self.gate().and_then(Gate::lost)
    }

    /// Ends the cycle: lets the gate go.
    pub fn leave(self) {
        drop(self);
    }
}
