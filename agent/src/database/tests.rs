use super::*;
use beadlock_core::Skip;
use beadlock_core::decision::NotChecked;
use beadlock_core::record::Rejected;

const SECOND: Duration = Duration::from_secs(1);
const DEBOUNCE: Option<Duration> = Some(Duration::from_millis(500));
const CHANGED: Marks = Marks {
    changed: true,
    lock_gone: false,
};
const GONE: Marks = Marks {
    changed: false,
    lock_gone: true,
};

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
    assert_eq!(
        due.at(),
        start + SECOND * 3,
        "a cycle between ticks moves none"
    );
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
    assert_eq!(
        due.at(),
        start + millis(1_900),
        "put off by the next change"
    );
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
    assert_eq!(
        due.at(),
        start + millis(5),
        "a lock that goes away is due at once"
    );
    due.begun(start + millis(5), SECOND * 60);
    due.again_at_the_gate(start + millis(6), SECOND * 60);
    assert_eq!(
        due.at(),
        start + millis(7),
        "and its releaser's gate waited for from the beginning"
    );
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
    let record = beadlock_core::record::beads::Record::new("vc-executor", "1").unwrap();
    Decision::Skip(Skip::Locked(Box::new(record.into()), Reason::PidAlive))
}

#[test]
fn a_streak_says_once_who_holds_and_at_its_end_how_long() {
    let start = Instant::now();
    let mut streak = Streak::default();
    assert_eq!(streak.resumed(start), None);
    let first = streak.skipped(&locked(), start, SECOND, |_| None);
    assert_eq!(
        first[0].message,
        "Skipping database (locked by vc-executor)"
    );
    let held = &first[1].message;
    assert!(held.starts_with("Held since 2"), "{held}");
    assert!(
        held.contains(&format!(" by PID {} on ", std::process::id())),
        "{held}"
    );
    assert!(held.ends_with(" (pid_alive)"), "{held}");
    for number in 1..5 {
        let again = streak.skipped(&locked(), start + SECOND * number, SECOND, |_| None);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].message, first[0].message);
    }
    let resumed = streak.resumed(start + millis(4_700)).unwrap();
    assert_eq!(resumed.message, "Resumed after 5 skips in 4.7s");
    assert_eq!(streak.resumed(start), None);
}

/// The holder lived when the streak began, and its parent never collects it.
#[test]
fn a_holder_that_becomes_a_zombie_is_said_once_more() {
    let (start, mut streak) = (Instant::now(), Streak::default());
    let zombie = |_: &Record| Some(Zombie::of(0));
    assert_eq!(streak.skipped(&locked(), start, SECOND, |_| None).len(), 2);
    assert_eq!(
        streak
            .skipped(&locked(), start + SECOND, SECOND, |_| None)
            .len(),
        1
    );
    let lines = streak.skipped(&locked(), start + SECOND * 2, SECOND, zombie);
    let held = &lines[1].message;
    assert!(held.starts_with("Held since 2"), "{held}");
    assert!(
        held.ends_with(&format!(" (pid_alive); {}", Zombie::of(0))),
        "{held}"
    );
    assert_eq!(
        streak
            .skipped(&locked(), start + SECOND * 3, SECOND, zombie)
            .len(),
        1
    );
    streak.resumed(start + SECOND * 4);
    assert_eq!(
        streak
            .skipped(&locked(), start + SECOND * 5, SECOND, zombie)
            .len(),
        2,
        "one line says both"
    );
}

#[test]
fn a_long_streak_is_warned_about_once() {
    let start = Instant::now();
    let mut streak = Streak::default();
    let mut warned = |locked: Decision, at| {
        streak.skipped(&locked, start + millis(at), SECOND, |_| None);
        streak.is_long(start + millis(at), SECOND * 3)
    };
    assert_eq!([0, 1_000, 2_999].map(|at| warned(locked(), at)), [None; 3]);
    assert_eq!(
        warned(Decision::Skip(Skip::InProgress), 3_100),
        Some(millis(3_100))
    );
    assert_eq!(
        [3_200, 600_000].map(|at| warned(locked(), at)),
        [None; 2],
        "whoever it is that holds it now"
    );
    assert_eq!(streak.running(), Some((start, 6)));
    streak.resumed(start + SECOND * 700);
    assert_eq!(
        (
            streak.running(),
            streak.is_long(start + SECOND * 800, SECOND)
        ),
        (None, None)
    );
    streak.skipped(&locked(), start + SECOND * 900, SECOND, |_| None);
    assert_eq!(
        streak.is_long(start + SECOND * 900, SECOND),
        None,
        "a streak of its own"
    );
    assert!(streak.is_long(start + SECOND * 901, SECOND).is_some());
}

#[test]
fn a_streak_is_audited_once_and_once_more_for_each_further_claim() {
    let start = Instant::now();
    let mut streak = Streak::default();
    let unreadable = || {
        let rejected = Rejected::Malformed("unexpected EOF".to_owned());
        Decision::from(Skip::from(NotChecked::Rejected(rejected)))
    };
    let busy = || Decision::Skip(Skip::InProgress);
    let (one, other) = (locked(), locked());
    assert!(!streak.is_news(&one, start, SECOND), "nothing was skipped");
    let mut audited = |decisions: &[&Decision]| -> Vec<bool> {
        let news = decisions.iter().map(|decision| {
            streak.skipped(decision, start, SECOND, |_| None);
            streak.is_news(decision, start, SECOND)
        });
        let news = news.collect();
        streak.resumed(start);
        news
    };
    assert_eq!(
        audited(&[&one, &one, &busy(), &one]),
        [true, false, false, false]
    );
    assert_eq!(
        audited(&[&one, &other, &other]),
        [true, true, false],
        "somebody else's claim"
    );
    assert_eq!(
        audited(&[&unreadable(), &unreadable(), &one]),
        [true, false, true]
    );
    assert_eq!(audited(&[&one, &unreadable(), &one]), [true, false, false]);
    assert_eq!(
        audited(&[&busy(), &busy(), &one]),
        [false, false, true],
        "busy for a moment only"
    );
}

#[test]
fn a_gate_that_stays_busy_is_audited() {
    let start = Instant::now();
    let busy = Decision::Skip(Skip::InProgress);
    let mut streak = Streak::default();
    let audited: Vec<u64> = (0..300)
        .map(|number| number * 10)
        .filter(|at| {
            streak.skipped(&busy, start + millis(*at), SECOND, |_| None);
            streak.is_news(&busy, start + millis(*at), SECOND)
        })
        .collect();
    assert_eq!(audited, [1_000]);
    let mut streak = Streak::default();
    streak.skipped(&busy, start, SECOND, |_| None);
    assert!(
        streak.is_news(&busy, start, Duration::ZERO),
        "the only cycle there is"
    );
    let mut streak = Streak::default();
    streak.lock_gone();
    streak.skipped(&busy, start, SECOND, |_| None);
    assert!(
        !streak.is_news(&busy, start, Duration::ZERO),
        "its releaser's"
    );
}

#[test]
fn the_gate_of_who_has_just_released_is_no_skip() {
    let start = Instant::now();
    let busy = Decision::Skip(Skip::InProgress);
    let mut streak = Streak::default();
    streak.lock_gone();
    assert!(streak.skipped(&busy, start, SECOND, |_| None).is_empty());
    assert_eq!(streak.resumed(start), None, "no streak");
    streak.skipped(&locked(), start, SECOND, |_| None);
    streak.lock_gone();
    assert!(streak.skipped(&busy, start, SECOND, |_| None).is_empty());
    assert_eq!(
        streak.skipped(&busy, start, SECOND, |_| None).len(),
        1,
        "still busy at the next retry"
    );
    assert_eq!(
        streak.resumed(start + SECOND).unwrap().message,
        "Resumed after 2 skips in 1s"
    );
    streak.lock_gone();
    assert_eq!(
        streak.skipped(&locked(), start, SECOND, |_| None).len(),
        2,
        "a new holder is said"
    );
    assert_eq!(streak.skipped(&busy, start, SECOND, |_| None).len(), 1);
}

#[test]
fn a_busy_gate_is_said_once_an_interval() {
    let start = Instant::now();
    let busy = Decision::Skip(Skip::InProgress);
    let mut streak = Streak::default();
    let said: Vec<u64> = (0..300)
        .map(|number| number * 10)
        .filter(|at| {
            !streak
                .skipped(&busy, start + millis(*at), SECOND, |_| None)
                .is_empty()
        })
        .collect();
    assert_eq!(said, [0, 1_000, 2_000]);
    assert_eq!(
        streak
            .skipped(&locked(), start + millis(2_990), SECOND, |_| None)
            .len(),
        2,
        "the holder is said at once"
    );
    assert_eq!(
        streak
            .skipped(&busy, start + millis(2_995), SECOND, |_| None)
            .len(),
        1
    );
}
