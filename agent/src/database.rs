//! What the agent remembers of a database: when it is due, and what its log has been told (DESIGN 8). Pure: the
//! time comes in from outside.

use std::time::Duration;

use beadlock_checker::dialect::beads::Record;
use beadlock_checker::{Decision, Reason};
use tokio::time::Instant;

use crate::git;
use crate::log::{Line, own};
use crate::watch::Marks;

/// The first and the longest wait before a database comes again whose lock went away during its cycle.
const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(1000));

/// The waits before one comes again whose gate was busy: so often so soon, for as long as a release takes; then as above,
/// from the second on.
const GATE: (u32, Duration) = (16, Duration::from_millis(1));

/// When the next cycle of a database is due, and why.
#[derive(Debug)]
pub(crate) struct Due {
    tick: Instant,
    change: Option<Instant>,
    retry: Option<Instant>,
    retries: u32,
}

impl Due {
    pub(crate) fn new(now: Instant) -> Self {
        Self { tick: now, change: None, retry: None, retries: 0 }
    }

    /// The earliest of all reasons.
    pub(crate) fn at(&self) -> Instant {
        [self.change, self.retry].into_iter().flatten().fold(self.tick, Instant::min)
    }

    /// Something happened while it was waiting. A lock that went away is due at once, and so is the next look
    /// when its releaser still has the gate; a change when nothing more has changed for `debounce`.
    pub(crate) fn marked(&mut self, marks: Marks, now: Instant, debounce: Duration) {
        if marks.changed {
            self.change = Some(now + debounce);
        }
        if marks.lock_gone {
            self.retry = Some(now);
            self.retries = 0;
        }
    }

    /// The next tick is not later than this: the interval has become shorter.
    pub(crate) fn come_by(&mut self, latest: Instant) {
        self.tick = self.tick.min(latest);
    }

    /// A cycle begins: what was due before is served by it.
    pub(crate) fn begun(&mut self, now: Instant, interval: Duration) {
        self.leave_out_passed(now, interval);
        self.change = None;
        self.retry = None;
    }

    /// A cycle ended, and what comes next will not wait for the tick but must not spin either: a lock went away meanwhile,
    /// perhaps the cycle's own. 10, 20, 40 … 1000 ms from now.
    pub(crate) fn again_soon(&mut self, now: Instant, interval: Duration) {
        self.again_in(Self::growing(self.retries), now, interval);
    }

    /// The gate was busy. 1 ms from now, sixteen times, then 20, 40 … 1000.
    pub(crate) fn again_at_the_gate(&mut self, now: Instant, interval: Duration) {
        let (often, wait) = GATE;
        let wait = if self.retries < often { wait } else { Self::growing(self.retries - often + 1) };
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
/// The settings cap the interval, so that no clock overflows.
fn next_tick(last: Instant, now: Instant, interval: Duration) -> Instant {
    let behind = now.duration_since(last).as_nanos();
    let passed = behind / interval.as_nanos().max(1) + 1;
    match u32::try_from(passed) {
        Ok(passed) => last + interval * passed,
        Err(_) => now + interval,
    }
}

/// What the log of a database has been told, so that it is not told again.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) streak: Streak,
    pub(crate) git: git::told::Told,
    /// Why there is no gate.
    pub(crate) no_gate: bool,
    /// Why it is not served for the moment.
    pub(crate) not_serving: Option<String>,
}

/// A streak of skipped cycles, as the log tells it.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    running: Option<Running>,
    /// A lock has just gone: whoever released it may still have the gate for a moment.
    releasing: bool,
}

#[derive(Debug)]
struct Running {
    since: Instant,
    skips: u64,
    said_held: bool,
    /// It was warned about.
    said_long: bool,
    /// The last line, when it was about something that lasts a moment.
    busy_said: Option<Instant>,
    /// What the audit trail knows: that it is blocked, and by which claim.
    audited: Option<Option<Record>>,
}

impl Streak {
    /// A lock went away. A gate that is busy in the very next cycle is its releaser's, and no skip.
    pub(crate) fn lock_gone(&mut self) {
        self.releasing = true;
    }

    /// The lines for one more skipped cycle. A gate that stays busy is retried often and said once an interval.
    pub(crate) fn skipped(&mut self, decision: &Decision, now: Instant, interval: Duration) -> Vec<Line> {
        let is_busy = decision.reason() == Reason::GateBusy;
        if std::mem::take(&mut self.releasing) && is_busy {
            return Vec::new();
        }
        let running = self.running.get_or_insert(Running {
            since: now,
            skips: 0,
            said_held: false,
            said_long: false,
            busy_said: None,
            audited: None,
        });
        if is_busy && running.busy_said.is_some_and(|said| now.duration_since(said) < interval) {
            return Vec::new();
        }
        running.busy_said = is_busy.then_some(now);
        running.skips += 1;
        let mut lines = vec![own::skipped(decision)];
        if let Some(record) = decision.record().filter(|_| !running.said_held) {
            running.said_held = true;
            lines.push(own::held(record, decision.reason()));
        }
        lines
    }

    /// How long it takes, once: when that is `limit` or more.
    pub(crate) fn is_long(&mut self, now: Instant, limit: Duration) -> Option<Duration> {
        let running = self.running.as_mut()?;
        let took = now.duration_since(running.since);
        (took >= limit && !std::mem::replace(&mut running.said_long, true)).then_some(took)
    }

    /// Since when there is one, and how many skips it has.
    pub(crate) fn running(&self) -> Option<(Instant, u64)> {
        self.running.as_ref().map(|running| (running.since, running.skips))
    }

    /// Whether the audit trail is to have a line for the skip that was just counted: for the first of a streak, and for
    /// each further claim that is met in it. A gate that is busy for less than `patience` is none.
    pub(crate) fn is_news(&mut self, decision: &Decision, now: Instant, patience: Duration) -> bool {
        let Some(running) = &mut self.running else { return false };
        let is_busy = decision.reason() == Reason::GateBusy;
        if is_busy && now.duration_since(running.since) < patience {
            return false;
        }
        let record = decision.record();
        let is_known =
            running.audited.as_ref().is_some_and(|known| record.is_none() || known.as_ref() == record);
        if !is_known {
            running.audited = Some(record.cloned());
        }
        !is_known
    }

    /// The line for the streak's end, where there was one.
    pub(crate) fn resumed(&mut self, now: Instant) -> Option<Line> {
        self.releasing = false;
        let ended = self.running.take()?;
        Some(own::resumed(ended.skips, now.duration_since(ended.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_checker::Skip;

    const SECOND: Duration = Duration::from_secs(1);
    const DEBOUNCE: Duration = Duration::from_millis(500);
    const CHANGED: Marks = Marks { changed: true, lock_gone: false };
    const GONE: Marks = Marks { changed: false, lock_gone: true };

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn ticks_stay_on_their_grid_and_are_left_out_when_slept_through() {
        let start = Instant::now();
        let mut due = Due::new(start);
        assert_eq!(due.at(), start, "the first at once");
        due.begun(start + millis(3), SECOND);
        assert_eq!(due.at(), start + SECOND);
        due.ended(start + millis(2_500), SECOND);
        assert_eq!(due.at(), start + SECOND * 3);
        due.begun(start + millis(2_600), SECOND);
        assert_eq!(due.at(), start + SECOND * 3, "a cycle between ticks moves none");
    }

    #[test]
    fn neither_a_short_nor_a_long_interval_is_a_trap() {
        let start = Instant::now();
        let year = SECOND * 365 * 86_400;
        for interval in [Duration::from_nanos(1), year] {
            let mut due = Due::new(start);
            due.begun(start + year * 2, interval);
            assert!(due.at() > start + year * 2);
        }
    }

    #[test]
    fn a_shorter_interval_brings_the_next_tick_nearer_and_a_longer_one_does_not_move_it() {
        let start = Instant::now();
        let mut due = Due::new(start);
        due.begun(start, SECOND * 60);
        due.come_by(start + SECOND * 90);
        assert_eq!(due.at(), start + SECOND * 60);
        due.come_by(start + SECOND * 3);
        assert_eq!(due.at(), start + SECOND * 3);
    }

    #[test]
    fn a_change_waits_until_it_is_quiet_and_a_lock_gone_does_not() {
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        let mut due = Due::new(start);
        due.begun(start, minute);
        due.marked(CHANGED, start + SECOND, DEBOUNCE);
        assert_eq!(due.at(), start + millis(1_500));
        due.marked(CHANGED, start + millis(1_400), DEBOUNCE);
        assert_eq!(due.at(), start + millis(1_900), "put off by the next change");
        due.marked(GONE, start + millis(1_450), DEBOUNCE);
        assert_eq!(due.at(), start + millis(1_450));
        due.begun(start + millis(1_450), minute);
        assert_eq!(due.at(), start + minute, "one cycle serves both");
    }

    #[test]
    fn a_busy_gate_is_tried_again_ever_later() {
        let start = Instant::now();
        let mut due = Due::new(start);
        due.begun(start, SECOND * 60);
        let waits: Vec<_> = (0..24)
            .map(|_| {
                due.again_at_the_gate(start, SECOND * 60);
                (due.at() - start).as_millis()
            })
            .collect();
        assert_eq!(waits[..17], [[1; 16].as_slice(), &[20]].concat());
        assert_eq!(waits[17..], [40, 80, 160, 320, 640, 1000, 1000]);
        due.ended(start, SECOND * 60);
        due.again_at_the_gate(start, SECOND * 60);
        assert_eq!(due.at(), start + millis(1), "from the beginning");
        due.again_at_the_gate(start, SECOND * 60);
        due.marked(GONE, start + millis(5), DEBOUNCE);
        assert_eq!(due.at(), start + millis(5), "a lock that goes away is due at once");
        due.begun(start + millis(5), SECOND * 60);
        due.again_at_the_gate(start + millis(6), SECOND * 60);
        assert_eq!(due.at(), start + millis(7), "and its releaser's gate waited for from the beginning");
    }

    #[test]
    fn cycles_that_take_a_lock_away_leave_out_the_ticks_that_they_slept_through() {
        let start = Instant::now();
        let mut due = Due::new(start);
        due.begun(start, SECOND);
        due.again_soon(start + millis(2_500), SECOND);
        assert_eq!(due.at(), start + millis(2_510));
        due.begun(start + millis(2_510), SECOND);
        assert_eq!(due.at(), start + SECOND * 3);
    }

    fn locked() -> Decision {
        let record = Record::new("vc-executor", "1").unwrap();
        Decision::Skip(Skip::Locked(Box::new(record), Reason::PidAlive))
    }

    #[test]
    fn a_streak_says_once_who_holds_and_at_its_end_how_long() {
        let start = Instant::now();
        let mut streak = Streak::default();
        assert_eq!(streak.resumed(start), None);
        let first = streak.skipped(&locked(), start, SECOND);
        assert_eq!(first[0].message, "Skipping database (locked by vc-executor)");
        let held = &first[1].message;
        assert!(held.starts_with("Held since 2"), "{held}");
        assert!(held.contains(&format!(" by PID {} on ", std::process::id())), "{held}");
        assert!(held.ends_with(" (pid_alive)"), "{held}");
        for number in 1..5 {
            let again = streak.skipped(&locked(), start + SECOND * number, SECOND);
            assert_eq!(again.len(), 1);
            assert_eq!(again[0].message, first[0].message);
        }
        let resumed = streak.resumed(start + millis(4_700)).unwrap();
        assert_eq!(resumed.message, "Resumed after 5 skips in 4.7s");
        assert_eq!(streak.resumed(start), None);
    }

    #[test]
    fn a_long_streak_is_warned_about_once() {
        let start = Instant::now();
        let mut streak = Streak::default();
        let mut warned = |locked: Decision, at| {
            streak.skipped(&locked, start + millis(at), SECOND);
            streak.is_long(start + millis(at), SECOND * 3)
        };
        assert_eq!([0, 1_000, 2_999].map(|at| warned(locked(), at)), [None; 3]);
        assert_eq!(warned(Decision::Skip(Skip::InProgress), 3_100), Some(millis(3_100)));
        assert_eq!(
            [3_200, 600_000].map(|at| warned(locked(), at)),
            [None; 2],
            "whoever it is that holds it now"
        );
        assert_eq!(streak.running(), Some((start, 6)));
        streak.resumed(start + SECOND * 700);
        assert_eq!((streak.running(), streak.is_long(start + SECOND * 800, SECOND)), (None, None));
        streak.skipped(&locked(), start + SECOND * 900, SECOND);
        assert_eq!(streak.is_long(start + SECOND * 900, SECOND), None, "a streak of its own");
        assert!(streak.is_long(start + SECOND * 901, SECOND).is_some());
    }

    #[test]
    fn a_streak_is_audited_once_and_once_more_for_each_further_claim() {
        let start = Instant::now();
        let mut streak = Streak::default();
        let unreadable = || {
            let (reason, detail) = (Reason::Malformed, "malformed lock file: unexpected EOF".to_owned());
            Decision::Skip(Skip::CheckFailed { reason, detail, record: None })
        };
        let busy = || Decision::Skip(Skip::InProgress);
        let (one, other) = (locked(), locked());
        assert!(!streak.is_news(&one, start, SECOND), "nothing was skipped");
        let mut audited = |decisions: &[&Decision]| -> Vec<bool> {
            let news = decisions.iter().map(|decision| {
                streak.skipped(decision, start, SECOND);
                streak.is_news(decision, start, SECOND)
            });
            let news = news.collect();
            streak.resumed(start);
            news
        };
        assert_eq!(audited(&[&one, &one, &busy(), &one]), [true, false, false, false]);
        assert_eq!(audited(&[&one, &other, &other]), [true, true, false], "somebody else's claim");
        assert_eq!(audited(&[&unreadable(), &unreadable(), &one]), [true, false, true]);
        assert_eq!(audited(&[&one, &unreadable(), &one]), [true, false, false]);
        assert_eq!(audited(&[&busy(), &busy(), &one]), [false, false, true], "busy for a moment only");
    }

    #[test]
    fn a_gate_that_stays_busy_is_audited() {
        let start = Instant::now();
        let busy = Decision::Skip(Skip::InProgress);
        let mut streak = Streak::default();
        let audited: Vec<u64> = (0..300)
            .map(|number| number * 10)
            .filter(|at| {
                streak.skipped(&busy, start + millis(*at), SECOND);
                streak.is_news(&busy, start + millis(*at), SECOND)
            })
            .collect();
        assert_eq!(audited, [1_000]);
        let mut streak = Streak::default();
        streak.skipped(&busy, start, SECOND);
        assert!(streak.is_news(&busy, start, Duration::ZERO), "the only cycle there is");
        let mut streak = Streak::default();
        streak.lock_gone();
        streak.skipped(&busy, start, SECOND);
        assert!(!streak.is_news(&busy, start, Duration::ZERO), "its releaser's");
    }

    #[test]
    fn the_gate_of_who_has_just_released_is_no_skip() {
        let start = Instant::now();
        let busy = Decision::Skip(Skip::InProgress);
        let mut streak = Streak::default();
        streak.lock_gone();
        assert!(streak.skipped(&busy, start, SECOND).is_empty());
        assert_eq!(streak.resumed(start), None, "no streak");
        streak.skipped(&locked(), start, SECOND);
        streak.lock_gone();
        assert!(streak.skipped(&busy, start, SECOND).is_empty());
        assert_eq!(streak.skipped(&busy, start, SECOND).len(), 1, "still busy at the next retry");
        assert_eq!(streak.resumed(start + SECOND).unwrap().message, "Resumed after 2 skips in 1s");
        streak.lock_gone();
        assert_eq!(streak.skipped(&locked(), start, SECOND).len(), 2, "a new holder is said");
        assert_eq!(streak.skipped(&busy, start, SECOND).len(), 1);
    }

    #[test]
    fn a_busy_gate_is_said_once_an_interval() {
        let start = Instant::now();
        let busy = Decision::Skip(Skip::InProgress);
        let mut streak = Streak::default();
        let said: Vec<u64> = (0..300)
            .map(|number| number * 10)
            .filter(|at| !streak.skipped(&busy, start + millis(*at), SECOND).is_empty())
            .collect();
        assert_eq!(said, [0, 1_000, 2_000]);
        assert_eq!(
            streak.skipped(&locked(), start + millis(2_990), SECOND).len(),
            2,
            "the holder is said at once"
        );
        assert_eq!(streak.skipped(&busy, start + millis(2_995), SECOND).len(), 1);
    }
}
