//! The loop of a claim: the gate, one attempt under it, and the wait for whoever holds the lock (DESIGN 5 and 7).
//!
//! The holder is waited for without the gate. Only what can be seen from outside, that the lock is no longer
//! held, makes the loop ask for the gate again, so that a claim that waits never disturbs a cycle.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use beadlock_checker::dialect::beads::{Record, Rejected};
use beadlock_checker::dialect::lock;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::take::{self, Attempt, Held, Site};
use beadlock_checker::{Error as CheckerError, Gate, Look, Options, Reason, Removed, Skip, Verdict, look};
use nix::sys::signal::Signal;

use super::event::{Events, wait_for};
use super::gate;
use super::wait::{Backoff, Deadline, Wait};
use crate::exit::{End, Exit, Replaced};
use crate::failure::{Code, Error};
use crate::talk::Talk;
use crate::target::Found;
use crate::trail::Trail;
use crate::{next, words};
use beadlock_checker::duration::shown;

/// After this long a wait says whom it waits for.
pub const NOTICE_AFTER: Duration = Duration::from_millis(400);
/// How often what is said is brought up to date.
pub const TICK: Duration = Duration::from_secs(1);
/// For how long a lock that cannot be understood is looked at again: a writer may be at it.
const UNREADABLE_FOR: Duration = Duration::from_secs(2);
/// The pause between two looks at a lock that somebody is writing or changing.
const SHORTLY: Duration = Duration::from_millis(50);

/// Who looks after a wait: hears what it waits for, and may stop it by a signal.
pub trait Attendant {
    /// Readable when there is something for [`Attendant::stopped`].
    fn signals(&self) -> Option<BorrowedFd<'_>>;
    /// What has arrived, when it ends the wait.
    fn stopped(&mut self) -> Option<Stopped>;
    /// The wait has lasted a while; called again every second.
    fn waiting(&mut self, waited: &Waited<'_>);
    /// There can be no gate here: this claim does not wait for a running cycle.
    fn no_gate(&mut self, why: &CheckerError);
}

/// Nobody looks after it.
pub struct Unattended;

impl Attendant for Unattended {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn stopped(&mut self) -> Option<Stopped> {
        None
    }
    fn waiting(&mut self, _: &Waited<'_>) {}
    fn no_gate(&mut self, _: &CheckerError) {}
}

/// Why there is no claim.
#[derive(Debug)]
pub enum Stopped {
    /// It failed, or its wait ran out.
    Failed(Error),
    /// A signal ended the wait.
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
                (if signal == Signal::SIGINT { End::Interrupted } else { code }, error)
            }
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
#[derive(Debug)]
pub enum Waited<'a> {
    /// A running cycle.
    Gate { dir: &'a Path, since: Duration, left: Duration },
    /// Another claim.
    Holder { path: &'a Path, look: &'a Look, since: Duration, left: Duration },
    /// A lock that cannot be understood, or that somebody is changing.
    Lock { path: &'a Path, words: &'a str, left: Duration },
}

impl Waited<'_> {
    /// What it is for, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Gate { .. } => "gate",
            Self::Holder { .. } => "holder",
            Self::Lock { .. } => "lock",
        }
    }
}

impl fmt::Display for Waited<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate { dir, since, left } => {
                let holders = words::gate_holders(dir);
                let (path, since, left) = (escaped_path(dir), shown(*since), shown(*left));
                write!(f, "waiting for the gate of {path} {since} now, held by {holders}; {left} left")
            }
            Self::Holder { path, look, since, left } => {
                let holder = words::holder(look).unwrap_or_default();
                let age = look.record.as_ref().map(|record| shown(words::age(record))).unwrap_or_default();
                let (path, since, left) = (escaped_path(path), shown(*since), shown(*left));
                write!(f, "waiting {since} for {holder}, who holds {path} for {age}; {left} left")
            }
            Self::Lock { path, words, left } => {
                let (path, left) = (escaped_path(path), shown(*left));
                write!(f, "waiting for {path} ({words}); {left} left")
            }
        }
    }
}

/// One claim, and how patient it is.
#[derive(Debug)]
pub struct Claiming<'a> {
    /// The target.
    pub target: &'a Found,
    /// The process that the record names.
    pub pid: u32,
    /// The name that the record carries.
    pub holder: &'a str,
    /// The claim's id, for the environment of a command that was forked before.
    pub id: &'a str,
    /// For how long a holder is waited for.
    pub wait: Wait,
    /// For how long the gate is waited for.
    pub drain: Duration,
    /// What counts as dead.
    pub options: Options,
}

impl Claiming<'_> {
    /// Claims, or says why not. On `Ok` the lock stands and the gate is open again. `removed` hears of each stale lock that
    /// was removed to make room, also when another one came before ours.
    pub fn claim(&self, attendant: &mut impl Attendant, removed: impl Fn(&Removed)) -> Result<Held, Stopped> {
        let dir = self.target.dir();
        let mut patience = Patience::new(self.target, self.wait, self.drain, self.options);
        let mut gate_is_missed = false;
        loop {
            let attempt = match gate::take(dir, dir, self.drain, attendant)? {
                Ok(gate) => self.attempt(&gate)?,
                Err(why) => {
                    if !std::mem::replace(&mut gate_is_missed, true) {
                        attendant.no_gate(&why);
                    }
                    take::claim_without_gate(&self.target.place, &self.record()?, &self.options)?
                }
            };
            let (refused, dead) = match attempt {
                Attempt::Claimed(held, dead) => (Ok(held), dead),
                Attempt::Refused(skip, dead) => (Err(skip), dead),
            };
            dead.iter().for_each(&removed);
            match refused {
                Ok(held) => return Ok(held),
                Err(skip) => patience.after(skip, attendant)?,
            }
        }
    }

    /// The same, and says and writes down what came of it.
    pub fn claim_and_tell(
        &self,
        attendant: &mut impl Attendant,
        talk: &Talk,
        trail: &Trail<'_>,
    ) -> Result<Held, Stopped> {
        let claimed = self.claim(attendant, |removed| {
            let Removed { record, reason, .. } = removed;
            let name = escaped(&record.holder);
            talk.say(&format!("removed stale lock of {name} (PID {}, {reason})", record.pid));
            trail.removed(removed);
        });
        talk.end_live();
        let held = claimed.inspect_err(|stopped| {
            if let Stopped::Failed(error) = stopped {
                trail.blocked(error, self.target);
            }
        })?;
        trail.acquired(&held);
        Ok(held)
    }

    fn attempt(&self, gate: &Gate) -> Result<Attempt, Stopped> {
        let site = Site::new(gate, &self.options).with_names(self.target.place.names());
        Ok(site.claim(&self.record()?)?)
    }

    /// Made anew for every attempt: it says when the lock was acquired, not when the wait began.
    fn record(&self) -> Result<Record, Error> {
        let made = Record::for_process(self.pid, self.holder, env!("CARGO_PKG_VERSION"));
        let mut record = made.map_err(|rejected| match rejected {
            Rejected::Invalid(why) | Rejected::Malformed(why) => {
                Error::new(Code::Io, format!("no record can be made: {why}"))
            }
        })?;
        if let Some(mark) = record.beadlock.as_mut() {
            self.id.clone_into(&mut mark.id);
        }
        Ok(record)
    }
}

/// What is left of the patience with each way of being refused. A clock starts with the first refusal of its kind.
pub struct Patience<'a> {
    target: &'a Found,
    wait: Wait,
    drain: Duration,
    options: Options,
    begun: Instant,
    /// When all patience is over, whatever the refusal.
    end: Option<Deadline>,
    holder: Option<Deadline>,
    unreadable: Option<Deadline>,
    changing: Option<Deadline>,
}

impl<'a> Patience<'a> {
    fn new(target: &'a Found, wait: Wait, drain: Duration, options: Options) -> Self {
        let (begun, end) = (Instant::now(), None);
        let (holder, unreadable, changing) = (None, None, None);
        Self { target, wait, drain, options, begun, end, holder, unreadable, changing }
    }

    /// Of somebody who wants to see it free and claims nothing: one clock for everything, from now on.
    pub fn to_see_it_free(target: &'a Found, wait: Wait, options: Options) -> Self {
        let limit = wait.limit();
        Self { end: Some(Deadline::after(limit)), ..Self::new(target, wait, limit, options) }
    }

    /// What is left of it altogether.
    pub fn left(&self) -> Duration {
        self.end.map_or(Duration::MAX, Deadline::left)
    }

    /// Returns when it is worth while to try again.
    ///
    /// # Errors
    /// When the patience is over, or the attendant stopped it.
    pub fn after(&mut self, skip: Skip, attendant: &mut impl Attendant) -> Result<(), Stopped> {
        let path = self.target.path();
        match skip {
            Skip::Locked(..) => {
                (self.unreadable, self.changing) = (None, None);
                self.wait_for_the_holder(attendant)
            }
            Skip::InProgress => {
                let first = || Deadline::after(self.drain);
                let deadline = self.end.unwrap_or(*self.changing.get_or_insert_with(first));
                if deadline.is_over() {
                    return Err(being_changed(&path, self.drain).into());
                }
                self.pause("somebody is changing it", deadline, attendant)
            }
            Skip::CheckFailed { reason, detail, .. } => {
                let first = || Deadline::after(UNREADABLE_FOR);
                let deadline = self.unreadable.get_or_insert_with(first).sooner(self.end);
                if deadline.is_over() {
                    return Err(not_checked(self.target, reason, &detail).into());
                }
                self.pause(&detail, deadline, attendant)
            }
        }
    }

    fn pause(&self, words: &str, deadline: Deadline, attendant: &mut impl Attendant) -> Result<(), Stopped> {
        if self.begun.elapsed() >= NOTICE_AFTER {
            let (path, left) = (self.target.path(), deadline.left());
            attendant.waiting(&Waited::Lock { path: &path, words, left });
        }
        let end = Deadline::after(SHORTLY.min(deadline.left()));
        while !end.is_over() {
            let [signalled] = wait_for([attendant.signals()], end.left());
            if signalled && let Some(stopped) = attendant.stopped() {
                return Err(stopped);
            }
        }
        Ok(())
    }

    /// Waits, without the gate, until the lock is no longer seen to be held.
    fn wait_for_the_holder(&mut self, attendant: &mut impl Attendant) -> Result<(), Stopped> {
        let Self { target, wait, ref options, .. } = *self;
        let first = || Deadline::after(wait.limit());
        let deadline = self.end.unwrap_or(*self.holder.get_or_insert_with(first));
        let path = target.path();
        let mut events = Events::watch(&target.place);
        let mut backoff = Backoff::default();
        let mut watched = None;
        let mut notice = Deadline::after(NOTICE_AFTER.saturating_sub(self.begun.elapsed()));
        loop {
            let look = look(&target.place, options);
            if !matches!(look.verdict, Verdict::Held(_)) {
                return Ok(());
            }
            if deadline.is_over() {
                return Err(held(target, &look, wait).into());
            }
            if watched != look.id {
                events.watch_holder(&look);
                watched.clone_from(&look.id);
            }
            let again = Deadline::after(backoff.next());
            while !again.is_over() && !deadline.is_over() {
                if notice.is_over() {
                    let (since, left) = (self.begun.elapsed(), deadline.left());
                    attendant.waiting(&Waited::Holder { path: &path, look: &look, since, left });
                    notice = Deadline::after(TICK);
                }
                let limit = again.left().min(deadline.left()).min(notice.left());
                let [directory, holder] = events.fds();
                let [changed, ended, signalled] = wait_for([directory, holder, attendant.signals()], limit);
                if signalled && let Some(stopped) = attendant.stopped() {
                    return Err(stopped);
                }
                if ended {
                    events.holder_has_ended();
                    backoff.restart();
                    break;
                }
                if changed && events.lock_has_changed() {
                    break;
                }
            }
        }
    }
}

fn held(target: &Found, look: &Look, wait: Wait) -> Error {
    let path = escaped_path(&target.path());
    let Some(record) = &look.record else {
        return Error::new(Code::LockHeld, format!("{path} is held; {wait}"));
    };
    let age = words::age(record);
    let holder = words::holder(look).unwrap_or_default();
    let (for_long, typed) = (shown(age), target.typed());
    let message = match target.has_cycles() {
        true => {
            format!("{path} is held by {holder} for {for_long}; {wait}; who and why: beadlock status {typed}")
        }
        false => lock::timed_out(record, age, wait.limit()),
    };
    let detail = format!("lock_file={path} holder_pid={} holder_age_ms={}", record.pid, age.as_millis());
    Error::new(Code::LockHeld, message).detailed(detail).retry_after(Duration::from_secs(2))
}

fn being_changed(path: &Path, drain: Duration) -> Error {
    let path = escaped_path(path);
    let limit = shown(drain);
    let message =
        format!("{path} is being changed by somebody all the time; gave up after {limit}; try again");
    Error::new(Code::LockHeld, message)
        .detailed(format!("lock_file={path}"))
        .retry_after(Duration::from_secs(1))
}

fn not_checked(target: &Found, reason: Reason, detail: &str) -> Error {
    let shown = escaped_path(&target.path());
    let (code, next) = match reason {
        Reason::RemovalFailed => {
            (Code::LockStale, format!("see to that, then: beadlock check {}", target.typed()))
        }
        _ => (Code::LockUnreadable, format!("look at it: {}", next::to_look_at(reason, target))),
    };
    Error::new(code, format!("{shown} is in the way and was not touched: {detail}; {next}"))
        .detailed(format!("lock_file={shown}"))
}
