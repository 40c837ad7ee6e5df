//! How long a claim that was refused is tried again, and the wait in between (docs/design.md#waiting).
//!
//! The holder is waited for without the gate. Only what can be seen from outside, that the lock is no longer
//! held, makes the loop ask for the gate again, so that a claim that waits never disturbs a cycle.

use crate::error::{Problem, detail_of, holder_of_record};
use std::fmt::Display;
use std::time::{Duration, Instant};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::{duration::shown, permission};
use beadlock_core::{Options, Reason, Skip, Verdict};
use beadlock_core::{
    decision::NotChecked,
    look::{Look, look},
    obstacle::Obstacle,
    record::Record,
    zombie::Zombie,
};

use super::event::Events;
use super::{line::Line, own_claims, target::Target, writer_grace::WriterGrace};
use crate::error::{Code, Error, Exit};
use crate::observe::{NOTICE_AFTER, NotAcquired, WaitControl, WaitingFor};
use crate::protocol::rules::WaitOver;
use crate::wait::{Backoff, Deadline, Wait};
use crate::words;
use crate::words::{Part, to_type};
use beadlock_base::poll::wait_for;

/// When to come back where the lock file could not be opened for the moment.
const RETRY: Duration = Duration::from_secs(5);
/// The pause between two looks at a lock that somebody is writing or changing.
const SHORTLY: Duration = Duration::from_millis(50);
/// How often one that is not the front of the line looks all the same: the front may have been stopped.
const IN_LINE: Duration = Duration::from_secs(10);
/// For how long such a one must see nothing but a free lock before it passes the front.
const PASSES_AFTER: Duration = Duration::from_secs(1);
/// For how long a holder that has ended is looked at shortly again: its PID answers until it is reaped, and nothing
/// tells when that is.
const REAPED_WITHIN: Duration = Duration::from_secs(5);

/// The time left for each kind of refusal. A clock starts with the first refusal of its kind.
pub struct Retry<'a> {
    target: &'a Target,
    wait: Wait,
    drain: Duration,
    options: Options,
    begun: Instant,
    /// When all patience is over, whatever the refusal.
    end: Option<Deadline>,
    /// When the holder was first waited for, and when that is over.
    holder: Option<(Instant, Deadline)>,
    unreadable: Option<WriterGrace>,
    changing: Option<Deadline>,
    /// The place in the line, once a holder is waited for.
    line: Option<Line>,
}

impl<'a> Retry<'a> {
    /// The patience of a claim: `wait` for a holder, and `drain` for others that change the lock.
    pub fn new(target: &'a Target, wait: Wait, drain: Duration, options: Options) -> Self {
        let (begun, end) = (Instant::now(), None);
        let (holder, unreadable, changing) = (None, None, None);
        Self {
            target,
            wait,
            drain,
            options,
            begun,
            end,
            holder,
            unreadable,
            changing,
            line: None,
        }
    }

    /// The patience of a command that waits until the lock is free and claims nothing: one clock for everything, from
    /// now on.
    pub fn to_see_it_free(target: &'a Target, wait: Wait, options: Options) -> Self {
        let limit = wait.limit();
        Self {
            end: Some(Deadline::after(limit)),
            ..Self::new(target, wait, limit, options)
        }
    }

    /// The options for the next attempt: as given, with what the looks so far have shown.
    pub fn options(&self) -> Options {
        self.options
    }

    /// Time left until all waiting ends, whatever the refusal; [`Duration::MAX`] where there is no such end.
    pub fn left(&self) -> Duration {
        self.end.map_or(Duration::MAX, Deadline::left)
    }

    /// For how long a holder has been waited for.
    pub fn for_holder(&self) -> Duration {
        self.holder
            .map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    /// Returns when it is worth trying again. Fails when the patience is over, or the wait was stopped.
    pub fn after(&mut self, skip: Skip, control: &mut dyn WaitControl) -> Result<(), NotAcquired> {
        match skip {
            Skip::Locked(..) => {
                (self.unreadable, self.changing) = (None, None);
                self.wait_for_the_holder(control)
            }
            Skip::Stale { record, age, .. } => Err(stale(self.target, &record, age).into()),
            Skip::InProgress => {
                let first = || Deadline::after(self.drain);
                let deadline = self.end.unwrap_or(*self.changing.get_or_insert_with(first));
                if deadline.is_over() {
                    return Err(being_changed(self.target, self.drain).into());
                }
                self.pause("somebody is changing it", deadline, control)
            }
            Skip::CheckFailed { why, .. } => {
                let look = look(&self.target.place, &self.options);
                let deadline = match self.wait {
                    // Nobody is waited for, also no writer.
                    Wait::No if why.reason() != Reason::RemovalFailed => {
                        Deadline::after(Duration::ZERO)
                    }
                    _ => self
                        .unreadable
                        .get_or_insert_default()
                        .deadline(look.on_disk)
                        .sooner(self.end),
                };
                if deadline.is_over() {
                    return Err(not_a_lock(&look, self.target)
                        .unwrap_or_else(|| not_checked(self.target, &why))
                        .into());
                }
                self.pause(&why.to_string(), deadline, control)
            }
        }
    }

    fn pause(
        &self,
        words: &str,
        deadline: Deadline,
        control: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired> {
        if self.begun.elapsed() >= NOTICE_AFTER {
            let (path, left) = (self.target.path(), deadline.left());
            control.waiting(&WaitingFor::Unsettled {
                path: &path,
                words,
                left,
            })?;
        }
        let end = Deadline::after(SHORTLY.min(deadline.left()));
        while !end.is_over() {
            let [signalled] = wait_for([control.signals()], end.left());
            control.check_stop(signalled)?;
        }
        Ok(())
    }

    /// Waits, without the gate, until the lock is no longer seen to be held: in a line with the others that wait for it.
    fn wait_for_the_holder(&mut self, control: &mut dyn WaitControl) -> Result<(), NotAcquired> {
        let Self { target, wait, .. } = *self;
        let first = || (Instant::now(), Deadline::after(wait.limit()));
        let (_, holder) = *self.holder.get_or_insert_with(first);
        let deadline = self.end.unwrap_or(holder);
        // Who takes nothing stands in nobody's way, nor does who does not wait.
        let lines_up = self.end.is_none() && wait != Wait::No;
        let join = || lines_up.then(|| Line::join(&target.place));
        let line = self.line.get_or_insert_with(|| join().unwrap_or_default());
        let mut backoff = Backoff::default();
        let mut reaping = Deadline::after(Duration::ZERO);
        let mut notice = Deadline::after(NOTICE_AFTER.saturating_sub(self.begun.elapsed()));
        let (mut events, mut watched, mut passes) = (None, None, None);
        loop {
            let is_front = line.is_front();
            if is_front && events.is_none() {
                events = Some(Events::watch(&target.place));
            }
            let look = look(&target.place, &self.options);
            self.options.refreshes.see(&look);
            let is_held = matches!(look.verdict, Verdict::Held(_));
            if is_held {
                check_patience(target, &look, wait, deadline)?;
                passes = None;
            } else {
                let soon = passes.get_or_insert_with(|| Deadline::after(PASSES_AFTER));
                if is_front || soon.is_over() || deadline.is_over() {
                    return Ok(());
                }
            }
            if let Some(events) = &mut events
                && watched != look.id
            {
                events.watch_holder(&look);
                watched.clone_from(&look.id);
                reaping = Deadline::after(Duration::ZERO);
            }
            let pause = match () {
                () if !is_held || !reaping.is_over() => SHORTLY,
                () if is_front => backoff.next(),
                () => IN_LINE,
            };
            // No event tells that a lock has become stale.
            let fresh = fresh_for(target, &look, &self.options);
            let again = Deadline::after(pause.min(fresh.max(SHORTLY)));
            while !again.is_over() && !deadline.is_over() {
                if is_held && notice.is_over() {
                    control.waiting(&WaitingFor::Holder {
                        path: &target.path(),
                        look: &look,
                        left: deadline.left(),
                    })?;
                    notice = Deadline::after(control.pause());
                }
                let notice = if is_held {
                    notice.left()
                } else {
                    Duration::MAX
                };
                let limit = again.left().min(deadline.left()).min(notice);
                let [directory, holder] = events.as_ref().map_or([None; 2], Events::fds);
                let turn = if is_front { None } else { line.bell() };
                let [changed, ended, signalled, turn] =
                    wait_for([directory, holder, control.signals(), turn], limit);
                control.check_stop(signalled)?;
                let Some(events) = &mut events else {
                    if turn {
                        break;
                    }
                    continue;
                };
                if ended {
                    events.holder_has_ended();
                    backoff.restart();
                    reaping = Deadline::after(REAPED_WITHIN);
                    break;
                }
                if changed && events.lock_has_changed() {
                    break;
                }
            }
        }
    }
}

/// Time until the lock is stale by time alone; [`Duration::MAX`] where no such time is known.
fn fresh_for(target: &Target, look: &Look, options: &Options) -> Duration {
    let record = look.record.as_ref();
    let fresh = record.and_then(|record| target.fresh_for(record, look.facts.as_ref(), options));
    fresh.unwrap_or(Duration::MAX)
}

/// The error of a wait for the holder that ran out, with [`Code::LockHeld`]; it names the holder that `look` has seen.
pub fn held(target: &Target, look: &Look, wait: Wait) -> Error {
    let path = &escaped_path(&target.path());
    let Some(record) = &look.record else {
        return of_lock(Code::LockHeld, format!("{path} is held; {wait}"), target)
            .retry_on_a_lock_of(None);
    };
    let (age, known_age) = (words::age(look), words::known_age(look));
    let holder = &target.holder(look).unwrap_or_default();
    let status = &to_type("beadlock status {}", &[target.part()]);
    let zombie = &Zombie::holder_of(record)
        .map(|zombie| format!("; {zombie}"))
        .unwrap_or_default();
    let message = target.timed_out(&WaitOver {
        target,
        record,
        path,
        holder,
        age,
        wait,
        zombie,
        status,
    });
    of_record(Code::LockHeld, message, target, (record, known_age))
        .retry_on_a_lock_of(known_age)
        .answering(target.answer_held(record))
}

/// Fails where the holder that `look` has seen is not waited for, or not any more.
fn check_patience(target: &Target, look: &Look, wait: Wait, end: Deadline) -> Result<(), Error> {
    // Who does not wait does not wait for itself either.
    if wait != Wait::No && look.id.as_deref().is_some_and(own_claims::is_own) {
        return Err(held_here(target, look));
    }
    if end.is_over() {
        return Err(held(target, look, wait));
    }
    Ok(())
}

/// The error of a claim that would wait for another claim of the same thread or task, with [`Code::LockHeld`].
fn held_here(target: &Target, look: &Look) -> Error {
    let path = escaped_path(&target.path());
    let words = "is held by this thread or task already: a second claim would wait for the first; use that one, or release it first";
    let message = format!("{path} {words}");
    match &look.record {
        Some(record) => of_record(
            Code::LockHeld,
            message,
            target,
            (record, words::known_age(look)),
        ),
        None => of_lock(Code::LockHeld, message, target),
    }
}

/// The error of a claim whose lock file is certainly not a lock, or not one of beadlock; `None`: it may be one.
fn not_a_lock(look: &Look, target: &Target) -> Option<Error> {
    let message = match (target.not_a_lock(look), target.why_empty(look)) {
        (Some(data), _) => data.words,
        (None, Some(why)) => format!(
            "{} is empty: {why}. If nobody uses it: {}",
            escaped_path(&target.typed),
            to_type("beadlock break {} --malformed", &[target.part()])
        ),
        (None, None) => return None,
    };
    Some(of_lock(Code::LockUnreadable, message, target))
}

/// The error of a stale lock that only `--force-lock` takes. Waiting does not change that.
fn stale(target: &Target, record: &Record, age: Duration) -> Error {
    let (path, status) = (
        escaped_path(&target.path()),
        to_type("beadlock status {}", &[target.part()]),
    );
    let (holder, seconds) = (escaped(record.holder()), age.as_secs());
    let message = format!(
        "{path} is a stale lock of {holder}, no heartbeat for {seconds}s; --force-lock takes it; who and why: {status}"
    );
    of_record(
        Code::LockStale,
        message,
        target,
        (record, words::age_of_record(record)),
    )
    .ending(Exit::Conflict)
    .answering(target.answer_stale(record, age))
}

fn of_lock(code: Code, message: String, target: &Target) -> Error {
    Error::new(code, message).detailed(format!("lock_file={}", escaped_path(&target.path())))
}

fn of_record(
    code: Code,
    message: String,
    target: &Target,
    (record, age): (&Record, Option<Duration>),
) -> Error {
    let holder = holder_of_record(&target.path(), record, age);
    Error::new(code, message)
        .detailed(detail_of(&holder))
        .held_by(holder)
}

fn being_changed(target: &Target, drain: Duration) -> Error {
    let (path, limit) = (escaped_path(&target.path()), shown(drain));
    let message = format!(
        "{path} is being changed by somebody all the time; gave up after {limit}; try again"
    );
    of_lock(Code::LockHeld, message, target).retry_on_a_lock_of(None)
}

/// The error of a lock that could not be looked at, though nothing is known to be wrong with it.
pub fn not_seen(target: &Target, obstacle: Obstacle, detail: impl Display) -> Error {
    let path = escaped_path(&target.path());
    let message = format!("{path} was not touched: {detail}; {}", obstacle.advice());
    of_lock(Code::LockUnreadable, message, target).retry_after(RETRY)
}

fn not_checked(target: &Target, why: &NotChecked) -> Error {
    if let Some(obstacle) = why.obstacle() {
        return not_seen(target, obstacle, why);
    }
    let reason = why.reason();
    let (code, next) = match reason {
        Reason::RemovalFailed => (
            Code::LockStale,
            format!(
                "see to that, then: {}",
                to_type("beadlock check {}", &[target.part()])
            ),
        ),
        _ => (
            Code::LockUnreadable,
            format!("look at it: {}", to_look_at(reason, target)),
        ),
    };
    let shown = escaped_path(&target.path());
    let message = match permission::directory_above(&target.path()) {
        Some(closed) => format!("{shown} cannot be looked at: {why}; {closed}"),
        None => format!("{shown} is in the way and was not touched: {why}; {next}"),
    };
    of_lock(code, message, target)
}

/// How to look at a lock that cannot be understood, and how to be rid of it. What cannot be read may block the reader,
/// as a FIFO does.
fn to_look_at(reason: Reason, target: &Target) -> String {
    let look = match reason {
        Reason::Unreadable => to_type("ls -la {}", &[Part::Path(&target.path())]),
        _ => to_type("beadlock status --raw {}", &[target.part()]),
    };
    let malformed = to_type("beadlock break {} --malformed", &[target.part()]);
    format!("{look}; when nobody needs it: {malformed}")
}
