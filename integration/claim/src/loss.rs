//! The watch over a lock that is held: vanished, or changed (docs/design.md#loss).
//!
//! Events of the lock's own file wake the watch, and the clock wakes it in any case: not every file system sends
//! events. One look proves nothing, since a lock may be aside for a moment; the second one, 100 ms later, does. A file
//! that has lost its last name does not come back: then one look is enough, and work under a claim that has ended is
//! ended before the next claim begins to work.

use crate::error::Problem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::{fmt, thread::sleep, time::Duration};

use beadlock_base::duration::shown;
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::GateLoss;
use beadlock_core::record::Record;
use beadlock_core::take::{Held, Whereabouts};
use nix::sys::inotify::AddWatchFlags;

use super::{event::Watcher, target::Target};
use crate::error::{Code, Error};
use crate::{wait::Deadline, words::to_type};

/// The pause between the two looks.
pub const CONFIRM: Duration = Duration::from_millis(100);
/// A watch that asks for events [`WatchStart::Later`] does so after this.
pub const SHORT: Duration = Duration::from_millis(20);
/// How often the watch looks by the clock: with the second look, a loss is seen well within a second.
pub const NET: Duration = Duration::from_millis(750);
/// How often the watch looks by the clock where no event wakes it.
pub const NET_ALONE: Duration = Duration::from_millis(250);

/// When a watch asks the kernel for the events of a lock's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// Before anything: somebody may release the claim at once, which is to be told from a loss.
    AtOnce,
    /// At the first look, which comes soon.
    FirstLook,
    /// At the second look: for a command that ends at once, events are not worth the cost of ending them.
    Later,
}

/// How a lock, a gate or a claim in a fleet was lost.
#[derive(Debug, Clone, PartialEq)]
pub enum Loss {
    /// The lock file is neither in its place nor aside.
    Vanished,
    /// The lock file was moved aside and deleted, by a release with its id or by a check that took it for dead.
    Released,
    /// The path of the lock's directory leads to another directory.
    Replaced,
    /// Another file is in the place of the lock file; its record, where it has one.
    Changed(Option<Box<Record>>),
    /// Another file is in the place of a file's lock file.
    OtherFile,
    /// The gate of a cycle: its directory is no longer the one at its path.
    Gate(GateLoss),
    /// The claim of a file that this one stands under has ended.
    OuterEnded,
    /// The lock could not be refreshed for almost as long as it is valid without a heartbeat.
    Overdue {
        /// The words of the last error, or that a heartbeat hangs.
        why: String,
        /// How long the lock is still valid.
        left: Duration,
    },
    /// The session in the fleet is lost or broken; why, and for how long the work may still go on.
    Fleet {
        /// The cause of the loss, in words.
        why: String,
        /// How long the work may still go on.
        left: Duration,
    },
}

impl Loss {
    /// The word for it in audit entries, e.g. `vanished`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Vanished => "vanished",
            Self::Released => "released",
            Self::Replaced => "replaced",
            Self::Changed(_) => "changed",
            Self::OtherFile => "replaced",
            Self::Gate(loss) => loss.as_str(),
            Self::OuterEnded => "outer_ended",
            Self::Overdue { .. } => "overdue",
            Self::Fleet { .. } => "fleet_lost",
        }
    }

    /// The noun for messages: `gate`, `claim in the fleet`, or else `lock`.
    pub fn subject(&self) -> &'static str {
        match self {
            Self::Gate(_) => "gate",
            Self::Fleet { .. } => "claim in the fleet",
            _ => "lock",
        }
    }

    /// Whether the lock may still be there as it was, and be ours to remove.
    pub fn may_be_ours(&self) -> bool {
        matches!(self, Self::Replaced | Self::Overdue { .. })
    }

    /// A sentence about the lock at `path` of the claim `id`: what happened to it, and the likely cause. `kept` is the
    /// file that keeps a lock which somebody broke.
    pub fn cause(&self, path: &Path, id: &str, kept: Option<&Path>) -> String {
        match self {
            Self::Gate(loss) => return loss.cause(path).to_string(),
            Self::Fleet { why, .. } => return why.clone(),
            _ => {}
        }
        let path = escaped_path(path);
        if let Some(kept) = kept {
            let kept = escaped_path(kept);
            return match self {
                Self::Changed(Some(record)) if record.id() != Some(id) => format!(
                    "{path} was broken, and is {}; the record of the one that was broken is kept in {kept}",
                    of_holder(record)
                ),
                _ => format!("{path} was broken by somebody; its record is kept in {kept}"),
            };
        }
        match self {
            Self::Vanished => format!(
                "{path} vanished; `git clean -x`, `git stash -u`, rm and tools that clear up after others do that"
            ),
            Self::Released => {
                format!(
                    "{path} was released by somebody who gave its id, or removed by a check that took it for dead"
                )
            }
            Self::Replaced => format!(
                "the directory of {path} was replaced by another, where nobody sees the lock; it is still in the \
                 old one"
            ),
            Self::Changed(Some(record)) if record.id() == Some(id) => {
                format!("{path} was replaced by a copy of itself: nobody watches over that one")
            }
            Self::Changed(Some(record)) => {
                format!("{path} is {} and it was not touched", of_holder(record))
            }
            Self::OtherFile => {
                format!(
                    "{path} is another file by now, which others can lock; `rm *.lock` and whoever locks next do that"
                )
            }
            Self::Gate(_) | Self::Fleet { .. } => String::new(),
            Self::OuterEnded => format!("the claim of {path} that this stands under has ended"),
            Self::Overdue { why, .. } => {
                format!(
                    "{path} could not be refreshed in time, and may be taken as stale from now on: {why}"
                )
            }
            Self::Changed(None) => {
                format!(
                    "{path} was overwritten with something that is no lock, and it was not touched"
                )
            }
        }
    }

    /// The error of a wait for another lock, which this loss ends.
    pub fn during_the_wait(&self) -> Error {
        Error::new(
            Code::LockLost,
            format!(
                "a {} was lost during the wait: {}",
                self.subject(),
                self.as_str()
            ),
        )
    }

    /// The error that a hold ends with.
    pub fn error(&self, id: &str, kept: Option<&Path>, age: Duration, target: &Target) -> Error {
        let (name, age, path) = (&target.given, shown(age), target.path());
        let cause = self.cause(&path, id, kept);
        let message = format!(
            "lost the lock of {name} after {age}: {cause}; what was done since is not protected: look at it, then {}",
            to_type("beadlock status {}", &[target.part()])
        );
        Error::new(Code::LockLost, message).detailed(format!("lock_file={}", escaped_path(&path)))
    }

    /// The error that a cycle ends with, whose gate is lost.
    pub fn of_gate(loss: GateLoss, age: Duration, target: &Target) -> Error {
        let (name, age) = (&target.given, shown(age));
        let status = to_type("beadlock status {}", &[target.part()]);
        let switch = to_type("beadlock hold {} -- git switch BRANCH", &[target.part()]);
        let message = format!(
            "lost the gate of {name} after {age}: {}; what was done since is not protected: look at it, then \
             {status}; to \
             switch branches between cycles: {switch}",
            loss.cause(target.dir())
        );
        Error::new(Code::LockLost, message).detailed(format!("gate={}", escaped_path(target.dir())))
    }
}

fn of_holder(record: &Record) -> String {
    let (holder, host) = (escaped(record.holder()), escaped(record.hostname()));
    format!("{holder}'s now (PID {}, on {host})", record.pid())
}

/// Result of one look at a lock.
#[derive(Debug, PartialEq)]
pub enum SeenLock {
    /// The lock is in its place, and ours.
    InPlace,
    /// The lock is aside for the moment, or its place is not known.
    Elsewhere,
    /// The lock is lost, as far as one look can tell.
    Lost(Loss),
}

/// A lock that is held, as a watch looks at it.
pub trait LossSource: fmt::Debug {
    /// Looks once, and changes nothing.
    fn look(&self) -> SeenLock;
    /// The lock file.
    fn path(&self) -> PathBuf;
    /// The lock file by its open descriptor, where this process has one.
    fn pin(&self) -> Option<BorrowedFd<'_>>;
    /// The id of the claim, where the lock has a record.
    fn id(&self) -> &str {
        ""
    }
    /// The file that keeps the record of a lock which somebody broke; `None`: nobody broke it.
    fn broken_as(&self) -> Option<PathBuf> {
        None
    }
    /// Whether the lock's file has no name any more, as after a release.
    fn is_deleted(&self) -> bool {
        false
    }
    /// Whether the lock's file has no name any more, and no heartbeat has replaced it: one look proves that loss.
    fn is_gone_for_good(&self) -> bool {
        false
    }
}

impl LossSource for Held {
    fn look(&self) -> SeenLock {
        match self.whereabouts() {
            Whereabouts::InPlace => SeenLock::InPlace,
            whereabouts => loss_of(whereabouts).map_or(SeenLock::Elsewhere, SeenLock::Lost),
        }
    }
    fn path(&self) -> PathBuf {
        Self::path(self)
    }
    fn pin(&self) -> Option<BorrowedFd<'_>> {
        Some(Self::pin(self))
    }
    fn id(&self) -> &str {
        Self::id(self)
    }
    fn broken_as(&self) -> Option<PathBuf> {
        Self::broken_as(self)
    }
    fn is_deleted(&self) -> bool {
        Self::is_deleted(self)
    }
    fn is_gone_for_good(&self) -> bool {
        !self.record().record_kind().is_judged_by_time() && Self::is_deleted(self)
    }
}

/// Result of a watch that has ended: the claim's guard, and whether the lock was released.
#[derive(Debug)]
pub struct EndedWatch {
    /// The guard of the claim.
    pub held: Held,
    /// Whether the lock was released by its id meanwhile.
    pub was_released: bool,
}

/// How the lock is lost now, seen twice, 100 ms apart; `None`: one of the looks saw no loss.
pub fn now(lock: &dyn LossSource) -> Option<Loss> {
    let seen = || match lock.look() {
        SeenLock::Lost(loss) => Some(loss),
        SeenLock::InPlace | SeenLock::Elsewhere => None,
    };
    seen()?;
    sleep(CONFIRM);
    seen()
}

/// The loss that the whereabouts of a lock file show; `None`: it is in its place, aside, or not known where.
pub fn loss_of(whereabouts: Whereabouts) -> Option<Loss> {
    match whereabouts {
        Whereabouts::InPlace | Whereabouts::Aside | Whereabouts::Unknown => None,
        Whereabouts::Vanished => Some(Loss::Vanished),
        Whereabouts::Replaced => Some(Loss::Replaced),
        Whereabouts::Changed(record) => Some(Loss::Changed(record)),
    }
}

/// The watch over one lock.
#[derive(Debug)]
pub struct LossWatcher<'h> {
    pub(crate) lock: &'h dyn LossSource,
    state: LossWatchState,
}

impl<'h> LossWatcher<'h> {
    /// Begins to watch over `lock`; the first look is still to come.
    pub fn over(lock: &'h dyn LossSource, events: WatchStart) -> Self {
        Self {
            lock,
            state: LossWatchState::new(lock, events),
        }
    }

    /// The watch over a lock that another process keeps, which notices and says first what has happened to it.
    pub fn over_outer(lock: &'h dyn LossSource) -> Self {
        let mut watch = Self::over(lock, WatchStart::Later);
        watch.state.is_outer = true;
        watch
    }

    /// Readable when something has happened to the lock; `None`: nothing wakes the watch, or not yet.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.state.fd()
    }

    /// Time until the next look is due, unless the watch is woken before.
    pub fn left(&self) -> Duration {
        self.state.left()
    }

    /// Looks, when it is time or when it was woken. A loss is told when it was seen twice, or is for good.
    pub fn look(&mut self, woken: bool) -> Option<Loss> {
        self.state.look(self.lock, woken)
    }

    /// See [`LossWatchState::saw_release`].
    pub(crate) fn saw_release(&mut self) -> bool {
        self.state.saw_release(self.lock)
    }
}

/// State of a watch: its events, the time of the next look, and whether the last look saw a loss.
#[derive(Debug)]
pub(crate) struct LossWatchState {
    /// None before events are asked for, and where the lock's file cannot be watched.
    events: Option<Watcher>,
    /// How many looks there are until events are asked for; `None`: they were.
    looks_before: Option<u32>,
    again: Deadline,
    suspected: bool,
    moved: bool,
    is_outer: bool,
}

impl LossWatchState {
    pub fn new(lock: &dyn LossSource, events: WatchStart) -> Self {
        let (looks_before, first) = match events {
            WatchStart::AtOnce => (None, Duration::ZERO),
            WatchStart::FirstLook => (Some(0), SHORT),
            WatchStart::Later => (Some(1), Duration::ZERO),
        };
        let again = Deadline::after(first);
        let mut state = Self {
            events: None,
            looks_before,
            again,
            suspected: false,
            moved: false,
            is_outer: false,
        };
        if looks_before.is_none() {
            state.ask_for_events(lock);
        }
        state
    }

    fn ask_for_events(&mut self, lock: &dyn LossSource) {
        self.events = Watcher::over(&ways_to(lock), OF_ITS_FILE);
        self.looks_before = None;
    }

    /// Readable when something has happened to the lock.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().and_then(Watcher::fd)
    }

    /// Time until the next look is due.
    pub fn left(&self) -> Duration {
        self.again.left()
    }

    /// Looks, when it is time or when it was woken. A loss is told when it was seen twice, or is for good.
    pub fn look(&mut self, lock: &dyn LossSource, woken: bool) -> Option<Loss> {
        let is_time = self.again.is_over();
        if woken {
            self.read_events();
        }
        if !is_time && (!woken || self.suspected) {
            return None;
        }
        match self.looks_before {
            Some(0) => self.ask_for_events(lock),
            looks => self.looks_before = looks.map(|looks| looks - 1),
        }
        let net = match (self.looks_before, &self.events) {
            (Some(_), _) => SHORT,
            (None, Some(_)) => NET,
            (None, None) => NET_ALONE,
        };
        let sight = lock.look();
        let is_in_place = sight == SeenLock::InPlace;
        let lost = match sight {
            // Where no event wakes the watch, a deleted file counts as released, though rm leaves the same.
            SeenLock::Lost(Loss::Vanished) if self.has_been_released(lock) => Some(Loss::Released),
            SeenLock::Lost(loss) => Some(loss),
            SeenLock::InPlace | SeenLock::Elsewhere => None,
        };
        // A heartbeat may have put a new file into its place, which was not watched so far.
        if is_in_place
            && std::mem::take(&mut self.moved)
            && let Some(events) = &self.events
        {
            events.and_over(&ways_to(lock), OF_ITS_FILE);
        }
        self.again = Deadline::after(if is_in_place { net } else { CONFIRM });
        let was_suspected = std::mem::replace(&mut self.suspected, lost.is_some());
        // What a watch does not see happen, it looks at twice: the second look tells a release from `rm`. So is what the
        // process that keeps an outer lock is about to say itself. A release is no loss there: the next claim may begin.
        let is_seen = self.events.is_some();
        let is_ours_to_say = |loss: &Loss| !self.is_outer || matches!(loss, Loss::Released);
        let is_proved = |loss: &Loss| is_seen && is_ours_to_say(loss) && lock.is_gone_for_good();
        lost.filter(|loss| was_suspected || is_proved(loss))
    }

    /// The lock was released by its id, whatever is in its place by now. For the end of a watch: no second look needs
    /// to have shown a loss.
    pub fn saw_release(&mut self, lock: &dyn LossSource) -> bool {
        self.read_events();
        self.has_been_released(lock)
    }

    fn read_events(&mut self) {
        if let Some(events) = &self.events {
            events.read(|event| self.moved |= event.mask.contains(AddWatchFlags::IN_MOVE_SELF));
        }
    }

    fn has_been_released(&self, lock: &dyn LossSource) -> bool {
        (self.moved || self.events.is_none()) && lock.is_deleted()
    }
}

/// The inotify events of a lock's own file that wake the watch.
const OF_ITS_FILE: AddWatchFlags = AddWatchFlags::IN_ATTRIB
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_DELETE_SELF);

/// The paths that lead to the lock's file, the surest first.
fn ways_to(lock: &dyn LossSource) -> Vec<PathBuf> {
    let by_number = lock
        .pin()
        .map(|pin| PathBuf::from(format!("/proc/self/fd/{}", pin.as_raw_fd())));
    by_number.into_iter().chain([lock.path()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_base::poll::wait_for;
    use beadlock_core::Options;
    use beadlock_core::gate::Gate;
    use beadlock_core::record::beads;
    use beadlock_core::take::{Attempt, Site};
    use std::fs;
    use std::time::Instant;

    fn claim(dir: &Path) -> Held {
        let gate = Gate::try_take(dir).unwrap().unwrap();
        let record = beads::Record::new("test", "1").unwrap();
        let Attempt::Claimed(held, None) = Site::new(&gate, &Options::default())
            .claim(&record)
            .unwrap()
        else {
            panic!("not claimed")
        };
        held
    }

    fn await_loss(watch: &mut LossWatcher<'_>, limit: Duration) -> Option<Loss> {
        let end = Instant::now() + limit;
        let mut woken = false;
        while Instant::now() < end {
            if let Some(loss) = watch.look(woken) {
                return Some(loss);
            }
            [woken] = wait_for([watch.fd()], watch.left());
        }
        None
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "somebody removes the lock")]
    fn a_lock_that_vanishes_or_changes_is_lost_and_one_that_is_read_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let held = claim(dir.path());
        let mut watch = LossWatcher::over(&held, WatchStart::Later);
        fs::read(held.path()).unwrap();
        assert_eq!(await_loss(&mut watch, Duration::from_millis(300)), None);
        let foreign =
            r#"{"holder":"vc","pid":1,"hostname":"h","started_at":"2026-02-01T10:11:12Z"}"#;
        fs::write(held.path(), foreign).unwrap();
        let loss = await_loss(&mut watch, Duration::from_secs(20)).unwrap();
        assert!(
            loss.cause(&held.path(), held.id(), None)
                .contains("is vc's now (PID 1, on h)"),
            "{loss:?}"
        );
        fs::remove_file(held.path()).unwrap();
        assert_eq!(
            await_loss(
                &mut LossWatcher::over(&held, WatchStart::Later),
                Duration::from_secs(20)
            ),
            Some(Loss::Vanished)
        );
    }

    #[test]
    fn a_lock_that_is_put_back_at_once_is_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let held = claim(dir.path());
        let mut state = LossWatchState {
            suspected: true,
            ..LossWatchState::new(&held, WatchStart::Later)
        };
        assert_eq!(state.look(&held, true), None);
        assert!(!state.suspected);
    }
}
