//! What the agent remembers of a database: when it is due, and what its log has been told (docs/design.md#the-agent).
//! Pure: the time comes in from outside.

use std::time::Duration;

use beadlock_core::record::Record;
use beadlock_core::zombie::Zombie;
use beadlock_core::{Decision, Reason};
use beadlock_git::{SyncHistory, Upkeep};
use beadlock_trust::DirStamp;
use tokio::time::Instant;

use crate::log::{AgentLine, agent_lines};
use crate::watch::Marks;

/// The first and the longest wait of a database whose lock went away during its cycle.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(1000));

/// The waits at a busy gate: this often this long, for as long as a release takes; then as above, from the second on.
const GATE: (u32, Duration) = (16, Duration::from_millis(1));

/// The waits after a change where none is configured: after one that comes alone, and after one of many. The parts of
/// one change come within [`BURST`]; after [`QUIET`] without any, the next one is alone again.
const DEBOUNCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));
const BURST: Duration = Duration::from_millis(250);
const QUIET: Duration = Duration::from_secs(2);

/// When the next cycle of a database is due, and why.
#[derive(Debug)]
pub(crate) struct Due {
    tick: Instant,
    /// A time between two ticks at which there is something to do. In a box, as `changes`: most databases have none.
    wake: Option<Box<Instant>>,
    change: Option<Instant>,
    /// The first and the last of the changes that came without a pause.
    changes: Option<Box<(Instant, Instant)>>,
    retry: Option<Instant>,
    retries: u32,
}

impl Due {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            tick: now,
            wake: None,
            change: None,
            changes: None,
            retry: None,
            retries: 0,
        }
    }

    /// The earliest time of all reasons.
    pub(crate) fn at(&self) -> Instant {
        [self.change, self.retry, self.wake.as_deref().copied()]
            .into_iter()
            .flatten()
            .fold(self.tick, Instant::min)
    }

    /// The reason that has made it due.
    pub(crate) fn why(&self, now: Instant) -> &'static str {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match self {
            _ if is_due(self.retry) && self.retries > 0 => "retry",
            _ if is_due(self.retry) => "lock went away",
            _ if is_due(self.change) => "change",
            _ if is_due(self.wake.as_deref().copied()) => "its time",
            _ => "interval",
        }
    }

    /// Something happened while it was waiting. A lock that went away is due at once, and retried when its releaser
    /// still has the gate; a change is due when nothing more has changed for `debounce`, or for one of [`DEBOUNCE`].
    pub(crate) fn marked(&mut self, marks: Marks, now: Instant, debounce: Option<Duration>) {
        if marks.changed {
            self.change = Some(now + debounce.unwrap_or_else(|| self.wait_after_change(now)));
        }
        if marks.lock_gone {
            self.retry = Some(now);
            self.retries = 0;
        }
    }

    fn wait_after_change(&mut self, now: Instant) -> Duration {
        let is_on = |(_, last): &(Instant, Instant)| now.saturating_duration_since(*last) < QUIET;
        let last = self.changes.as_deref().copied();
        let (first, _) = last.filter(is_on).unwrap_or((now, now));
        self.changes = Some(Box::new((first, now)));
        match now.saturating_duration_since(first) < BURST {
            true => DEBOUNCE.0,
            false => DEBOUNCE.1,
        }
    }

    /// There is something to do at this time, whatever the ticks are.
    pub(crate) fn wake_at(&mut self, at: Option<Instant>) {
        self.wake = at.map(Box::new);
    }

    /// Somebody asks for a cycle while one runs: another one follows.
    pub(crate) fn once_more(&mut self, now: Instant) {
        self.change = Some(now);
    }

    /// The interval has become shorter: the next tick is not later than this.
    pub(crate) fn come_by(&mut self, latest: Instant) {
        self.tick = self.tick.min(latest);
    }

    /// A cycle begins, and serves what was due before.
    pub(crate) fn begun(&mut self, now: Instant, interval: Duration) {
        self.leave_out_passed(now, interval);
        self.change = None;
        self.retry = None;
        self.wake = None;
    }

    /// A cycle ended, and a lock went away meanwhile, perhaps the cycle's own. The next one must not wait for the tick,
    /// and must not spin either: 10, 20, 40 … 1000 ms from now.
    pub(crate) fn again_soon(&mut self, now: Instant, interval: Duration) {
        self.again_in(Self::growing(self.retries), now, interval);
    }

    /// The gate was busy: 1 ms from now, sixteen times, then 20, 40 … 1000.
    pub(crate) fn again_at_the_gate(&mut self, now: Instant, interval: Duration) {
        let (often, wait) = GATE;
        let wait = if self.retries < often {
            wait
        } else {
            Self::growing(self.retries - often + 1)
        };
        self.again_in(wait, now, interval);
    }

    fn growing(retries: u32) -> Duration {
        let (first, longest) = RETRY;
        first.saturating_mul(1 << retries.min(10)).min(longest)
    }

    fn again_in(&mut self, wait: Duration, now: Instant, interval: Duration) {
        self.leave_out_passed(now, interval);
        self.retry = Some(now + wait);
        self.retries = self.retries.saturating_add(1);
    }

    /// A cycle ended in any other way.
    pub(crate) fn ended(&mut self, now: Instant, interval: Duration) {
        self.retries = 0;
        self.leave_out_passed(now, interval);
    }

    fn leave_out_passed(&mut self, now: Instant, interval: Duration) {
        if self.tick <= now {
            self.tick = next_tick(self.tick, now, interval);
        }
    }
}

/// The first tick after `now` on the grid of `last`: a cycle longer than the interval leaves a gap before the next.
/// No clock overflows, since the settings cap the interval.
fn next_tick(last: Instant, now: Instant, interval: Duration) -> Instant {
    let behind = now.duration_since(last).as_nanos();
    let passed = behind / interval.as_nanos().max(1) + 1;
    u32::try_from(passed).map_or_else(|_| now + interval, |passed| last + interval * passed)
}

/// What the log of a database has been told, so that it is not told again.
#[derive(Debug, Default)]
pub(crate) struct LoggedState {
    pub(crate) streak: Streak,
    /// The syncs so far. In a box, made by the first sync: most of 10,000 databases may have none.
    git: Option<Box<SyncHistory>>,
    /// The database has joined a fleet, as far as the last check found out.
    pub(crate) has_joined: bool,
    /// The log says already that there is no gate.
    pub(crate) no_gate: bool,
    /// Why it is not served; each reason since it was last served.
    pub(crate) not_serving: Vec<String>,
    /// The directory as it was when it had no redirect.
    pub(crate) unredirected: Option<DirStamp>,
}

impl LoggedState {
    /// The syncs of the database so far.
    pub(crate) fn git(&mut self) -> &mut SyncHistory {
        self.git.get_or_insert_default()
    }

    /// When a cycle has to come, if not at its interval.
    pub(crate) fn wakes(&self, now: Instant) -> Option<Instant> {
        self.git.as_ref().and_then(|git| git.wakes(now))
    }

    /// Whether a change that came between two cycles is a reason for one.
    pub(crate) fn is_news(&mut self, now: Instant) -> bool {
        self.git.as_mut().is_none_or(|git| git.is_news(now))
    }

    /// The upkeep of its repository that is due now, which then counts as done.
    pub(crate) fn takes_upkeep(&mut self, now: Instant) -> Option<Upkeep> {
        self.git.as_mut()?.takes_upkeep(now)
    }
}

/// The skipped cycles in a row, as the log tells them.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    /// The streak under way; `None`: no cycle is skipped. In a box to be small: most databases have none.
    running: Option<Box<SkipStreak>>,
    /// A lock has just gone: its releaser may still have the gate for a moment.
    releasing: bool,
}

#[derive(Debug)]
struct SkipStreak {
    since: Instant,
    skips: u64,
    said_held: bool,
    said_zombie: bool,
    /// The warning that it takes long.
    said_long: bool,
    /// When the last line was about a busy gate.
    busy_said: Option<Instant>,
    /// What the audit trail knows: that the database is blocked, and by which claim.
    audited: Option<Option<Record>>,
}

impl Streak {
    /// A lock went away. A gate that is busy in the very next cycle is its releaser's, and not a skip.
    pub(crate) fn lock_gone(&mut self) {
        self.releasing = true;
    }

    /// The lines for one more skipped cycle. A gate that stays busy is retried often and logged once an interval. The
    /// holder of the lock is logged once, and once more when `zombie` finds that it has become one.
    pub(crate) fn skipped(
        &mut self,
        decision: &Decision,
        now: Instant,
        interval: Duration,
        zombie: impl FnOnce(&Record) -> Option<Zombie>,
    ) -> Vec<AgentLine> {
        let is_busy = decision.reason() == Reason::GateBusy;
        if std::mem::take(&mut self.releasing) && is_busy {
            return Vec::new();
        }
        let running = self.running.get_or_insert_with(|| {
            let (said_held, said_zombie, said_long) = (false, false, false);
            let streak = SkipStreak {
                since: now,
                skips: 0,
                said_held,
                said_zombie,
                said_long,
                busy_said: None,
                audited: None,
            };
            Box::new(streak)
        });
        if is_busy
            && running
                .busy_said
                .is_some_and(|said| now.duration_since(said) < interval)
        {
            return Vec::new();
        }
        running.busy_said = is_busy.then_some(now);
        running.skips += 1;
        let mut lines = vec![agent_lines::skipped(decision)];
        if let Some(record) = decision.record() {
            let zombie = if running.said_zombie {
                None
            } else {
                zombie(record)
            };
            running.said_zombie |= zombie.is_some();
            if zombie.is_some() || !running.said_held {
                running.said_held = true;
                lines.push(agent_lines::held(
                    record,
                    decision.reason(),
                    zombie.as_ref(),
                ));
            }
        }
        lines
    }

    /// How long the streak is, once: when that is `limit` or more.
    pub(crate) fn is_long(&mut self, now: Instant, limit: Duration) -> Option<Duration> {
        let running = self.running.as_mut()?;
        let took = now.duration_since(running.since);
        (took >= limit && !std::mem::replace(&mut running.said_long, true)).then_some(took)
    }

    /// Since when there is a streak, and how many skips it has.
    pub(crate) fn running(&self) -> Option<(Instant, u64)> {
        self.running
            .as_ref()
            .map(|running| (running.since, running.skips))
    }

    /// Whether the audit trail gets a line for the skip that was just counted. It gets one for the first of a streak,
    /// and for each further claim in it, but not for a gate that is busy for less than `patience`.
    pub(crate) fn is_news(
        &mut self,
        decision: &Decision,
        now: Instant,
        patience: Duration,
    ) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        let is_busy = decision.reason() == Reason::GateBusy;
        if is_busy && now.duration_since(running.since) < patience {
            return false;
        }
        let record = decision.record();
        let is_known = running
            .audited
            .as_ref()
            .is_some_and(|known| record.is_none() || known.as_ref() == record);
        if !is_known {
            running.audited = Some(record.cloned());
        }
        !is_known
    }

    /// Ends the streak. Returns its line, where there was one.
    pub(crate) fn resumed(&mut self, now: Instant) -> Option<AgentLine> {
        self.releasing = false;
        let ended = self.running.take()?;
        Some(agent_lines::resumed(
            ended.skips,
            now.duration_since(ended.since),
        ))
    }
}

#[cfg(test)]
mod tests;
