use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;

use super::*;
use crate::{
    facts::{Facts, Ids, Proof},
    verdict::{Reason, Verdict},
};
use beadlock_base::process::Liveness;

const NOW: &str = "2026-01-29T15:30:00.000Z";

fn now() -> StartedAt {
    StartedAt::parse(NOW).unwrap()
}

fn parsed(json: &str) -> Record {
    Record::parse(json.as_bytes()).unwrap()
}

/// Record of a claim that was made `millis` before `now`.
fn aged(millis: i64, hostname: &str) -> Record {
    let acquired = StartedAt(now().0 - SignedDuration::from_millis(millis));
    parsed(&format!(
        r#"{{"pid":12345,"session_id":"main","acquired_at":"{acquired}","hostname":"{hostname}","operation":"write:tasks.json"}}"#
    ))
}

/// Record that beadlock has written, and may refresh.
fn kept(millis: i64, hostname: &str) -> Record {
    let mark = BeadlockKey {
        id: "i".to_owned(),
        ..BeadlockKey::default()
    };
    Record {
        beadlock: Some(mark),
        ..aged(millis, hostname)
    }
}

fn at(wall: SignedDuration) -> Moment {
    Moment {
        wall: StartedAt(wall),
        boottime: Duration::from_secs(7),
    }
}

fn facts(liveness: Liveness) -> Facts {
    let (hostname, ids) = (Some("Here".into()), Arc::new(Ids::default()));
    Facts {
        now: now(),
        hostname,
        ids,
        liveness,
        watchdog: None,
        proof: None,
        boottime: Duration::ZERO,
        unrefreshed: Duration::ZERO,
        standstill: Duration::ZERO,
    }
}

fn words(record: &Record, liveness: Liveness) -> String {
    let facts = Facts {
        unrefreshed: UNREFRESHED,
        ..facts(liveness)
    };
    evidence(record, &facts, &Limits::default())
        .map(|(_, words)| words)
        .unwrap_or_default()
}

/// The descendants work on. The lock still becomes stale by its age.
#[test]
fn what_a_watchdog_has_still_to_end_keeps_the_lock() {
    let judged = |record: &Record, unrefreshed, watchdog| {
        judge(
            record,
            &Facts {
                watchdog,
                unrefreshed,
                ..facts(Liveness::Gone)
            },
            &Limits::default(),
        )
    };
    let gone = Verdict::Stale(Reason::PidGone);
    let (once, twice) = (Duration::ZERO, UNREFRESHED);
    let rows = [
        (30_000, twice, Some(77), Verdict::Held(Reason::AgeFresh)),
        (-1, twice, Some(77), Verdict::Held(Reason::AgeFresh)),
        (30_001, once, Some(77), Verdict::Held(Reason::PidUnknown)),
        (30_001, twice, Some(77), Verdict::Stale(Reason::AgeExceeded)),
        (0, once, None, gone),
    ];
    for (age, unrefreshed, watchdog, expected) in rows {
        assert_eq!(
            judged(&kept(age, "Here"), unrefreshed, watchdog),
            expected,
            "{age} {watchdog:?}"
        );
    }
    let ageless = parsed(r#"{"pid":12345,"hostname":"Here"}"#);
    assert_eq!(
        judged(&ageless, once, Some(77)),
        gone,
        "it would never be too old"
    );
}

#[test]
fn the_rule() {
    use Liveness::{Alive, Gone, NotAsked, NotPermitted, Unknown};
    let fresh = Verdict::Held(Reason::AgeFresh);
    let old = Verdict::Stale(Reason::AgeExceeded);
    let gone = Verdict::Stale(Reason::PidGone);
    let (once, twice) = (Duration::ZERO, UNREFRESHED);
    let rows = [
        (0, "Here", Alive, twice, fresh),
        (30_000, "Here", Alive, twice, fresh),
        (30_001, "Here", Alive, twice, old),
        (
            30_001,
            "Here",
            Alive,
            twice - Duration::from_millis(1),
            Verdict::Held(Reason::PidAlive),
        ),
        (30_001, "Here", Alive, once, Verdict::Held(Reason::PidAlive)),
        (
            86_400_000,
            "Here",
            Alive,
            once,
            Verdict::Held(Reason::PidAlive),
        ),
        (30_001, "Here", NotPermitted, twice, old),
        (
            30_001,
            "Here",
            NotPermitted,
            once,
            Verdict::Held(Reason::PidNotPermitted),
        ),
        (
            30_001,
            "Here",
            Unknown,
            once,
            Verdict::Held(Reason::PidUnknown),
        ),
        (0, "Here", NotPermitted, once, fresh),
        (0, "Here", Unknown, once, fresh),
        (0, "HERE", Gone, once, gone),
        (40_000, "Here", Gone, once, gone),
        (10_000, "there", NotAsked, once, fresh),
        (10_001, "there", NotAsked, once, old),
        (10_001, "Here", Alive, twice, fresh),
        (-1, "there", NotAsked, once, fresh),
        (-86_400_000, "Here", Alive, twice, fresh),
    ];
    for (age, host, liveness, unrefreshed, expected) in rows {
        let record = kept(age, host);
        let facts = Facts {
            unrefreshed,
            ..facts(liveness)
        };
        let limits = Limits::default();
        assert_eq!(
            judge(&record, &facts, &limits),
            expected,
            "{age} {host} {liveness:?} {unrefreshed:?}"
        );
        let left = fresh_for(&record, &facts, &limits).unwrap();
        assert!(expected != old || left.is_zero(), "{age} {host}: {left:?}");
        let is_watched = matches!(expected, Verdict::Held(reason) if reason != Reason::AgeFresh);
        assert!(
            !is_watched || left == UNREFRESHED - unrefreshed,
            "{age} {host}: {left:?}"
        );
    }
    let nameless = Facts {
        hostname: None,
        ..facts(NotAsked)
    };
    assert_eq!(
        judge(&aged(20_000, "there"), &nameless, &Limits::default()),
        fresh,
        "is it another host?"
    );
}

/// The document's own programs write no key `beadlock`, and never refresh.
#[test]
fn without_beadlocks_key_an_age_counts_at_once() {
    let judged = |record: &Record| judge(record, &facts(Liveness::Alive), &Limits::default());
    assert_eq!(
        judged(&aged(30_001, "Here")),
        Verdict::Stale(Reason::AgeExceeded)
    );
    assert_eq!(
        judged(&kept(30_001, "Here")),
        Verdict::Held(Reason::PidAlive)
    );
}

/// Each row has the seconds since the last refresh by the clock since boot; the wall clock says 40 s.
#[test]
fn an_age_counts_at_once_where_the_clock_that_nobody_sets_says_the_same() {
    let (held, old) = (
        Verdict::Held(Reason::PidAlive),
        Verdict::Stale(Reason::AgeExceeded),
    );
    let (boot, time) = (Some("b".to_owned()), Some("t".to_owned()));
    let rows = [
        (Some(40), &boot, &time, 30, old),
        (Some(31), &boot, &time, 30, old),
        // The wall clock was set: by the clock since boot the lock was refreshed, or is not too old yet.
        (Some(30), &boot, &time, 30, held),
        (Some(0), &boot, &time, 30, held),
        // Less than an interval of refreshes proves nothing.
        (Some(3), &boot, &time, 1, held),
        (Some(4), &boot, &time, 1, old),
        // The clock since boot is another one, or there is none.
        (Some(40), &boot, &None, 30, held),
        (None, &boot, &time, 30, held),
    ];
    for (since, boot_id, time_ns, limit, expected) in rows {
        let boottime = Duration::from_secs(1000);
        let since = since.map(|since| boottime - Duration::from_secs(since));
        let mut record = kept(40_000, "Here");
        let mark = record.beadlock.as_mut().unwrap();
        (mark.boot_id, mark.time_ns) = (boot_id.clone(), time_ns.clone());
        mark.boottime_ns = since.map(|since| since.as_nanos().try_into().unwrap());
        let ids = Ids {
            boot_id: boot.clone(),
            time_ns: time.clone(),
            ..Ids::default()
        };
        let facts = Facts {
            boottime,
            ids: Arc::new(ids),
            ..facts(Liveness::Alive)
        };
        let limits = Limits {
            age: Duration::from_secs(limit),
            ..Limits::default()
        };
        assert_eq!(
            judge(&record, &facts, &limits),
            expected,
            "{since:?} {limit}"
        );
        let left = fresh_for(&record, &facts, &limits).unwrap();
        assert_eq!(left.is_zero(), expected == old, "{left:?}");
        // The machine was suspended for so long that the holder may have missed no refresh.
        let asleep = Facts {
            standstill: Duration::from_secs(30),
            ..facts
        };
        assert_eq!(judge(&record, &asleep, &limits), held, "{since:?} {limit}");
    }
}

/// One write covers both times and all that stands between them.
#[test]
fn a_refresh_says_the_time_by_both_clocks() {
    let text = r#"{"acquired_at":"2026-01-29T15:29:00.000Z","x":1,"beadlock":{"id":"i","boottime_ns":1000000000}}"#;
    let (soon, late) = (
        Moment {
            wall: now(),
            boottime: Duration::from_secs(7),
        },
        Moment {
            wall: now(),
            boottime: Duration::from_secs(70),
        },
    );
    let expected = |boottime: &str| {
        format!(
            r#"{{"acquired_at":"{NOW}","x":1,"beadlock":{{"id":"i","boottime_ns":{boottime}}}}}"#
        )
    };
    let Some(Rewrite::InPlace { offset, text: span }) = rewrite(text.as_bytes(), soon) else {
        panic!("the same length")
    };
    let mut whole = text.to_owned();
    whole.replace_range(offset..offset + span.len(), &span);
    assert_eq!(whole, expected("7000000000"));
    assert_eq!(
        rewrite(text.as_bytes(), late),
        Some(Rewrite::Whole(expected("70000000000")))
    );
    let mut record = parsed(text);
    record.has_been_refreshed(late);
    let again = parsed(&expected("70000000000"));
    assert_eq!(record, again);
}

/// A process that has ended, or never was, refreshes nothing, so one look is enough.
#[test]
fn an_age_counts_at_once_where_its_process_is_not_the_one_that_has_the_pid() {
    let marked = |start: u64| {
        parsed(&format!(
            r#"{{"pid":12345,"acquired_at":"2026-01-29T15:29:00Z","hostname":"Here","beadlock":{{"id":"i","machine_id":"m",
            "boot_id":"b","pid_ns":"pid:[1]","time_ns":"time:[1]","start_ticks":{start}}}}}"#
        ))
    };
    let some = |word: &str| Some(word.to_owned());
    let ids = Ids {
        machine_id: some("m"),
        boot_id: some("b"),
        pid_ns: some("pid:[1]"),
        time_ns: some("time:[1]"),
    };
    let proof = Proof {
        start_ticks: Some(1000),
        local_file_system: true,
        ..Proof::default()
    };
    let here = Facts {
        ids: Arc::new(ids),
        proof: Some(proof.clone()),
        boottime: Duration::ZERO,
        ..facts(Liveness::Alive)
    };
    let judged = |record: &Record, facts: &Facts| judge(record, facts, &Limits::default());
    let (old, held) = (
        Verdict::Stale(Reason::AgeExceeded),
        Verdict::Held(Reason::PidAlive),
    );
    assert_eq!(judged(&marked(1000), &here), held);
    assert_eq!(
        judged(&marked(5000), &here),
        old,
        "its PID is another process now"
    );
    let zombie = Facts {
        proof: Some(Proof {
            zombie: true,
            ..proof
        }),
        ..here.clone()
    };
    assert_eq!(judged(&marked(1000), &zombie), old, "it has ended");
    let ids = Ids {
        boot_id: some("another"),
        ..(*here.ids).clone()
    };
    assert_eq!(
        judged(
            &marked(1000),
            &Facts {
                ids: Arc::new(ids),
                ..here.clone()
            }
        ),
        old,
        "booted since"
    );
    let ids = Ids {
        pid_ns: some("pid:[2]"),
        ..(*here.ids).clone()
    };
    let inside = Facts {
        ids: Arc::new(ids),
        liveness: Liveness::NotAsked,
        ..here.clone()
    };
    assert_eq!(
        judged(&marked(1000), &inside),
        Verdict::Held(Reason::OtherPidNamespace),
        "it may live there"
    );
    let text = r#"{"pid":1099511627776,"acquired_at":"2026-01-29T15:29:00Z","hostname":"Here"}"#;
    assert_eq!(
        judged(&parsed(text), &facts(Liveness::Unknown)),
        old,
        "no kernel has this PID"
    );
    let text = r#"{"acquired_at":"2026-01-29T15:29:00Z","hostname":"Here"}"#;
    assert_eq!(
        judged(&parsed(text), &facts(Liveness::NotAsked)),
        old,
        "it names no process"
    );
}

#[test]
fn the_words_are_the_documents() {
    assert_eq!(
        words(&aged(0, "Here"), Liveness::Gone),
        "process 12345 is dead"
    );
    assert_eq!(
        words(&aged(45_200, "Here"), Liveness::Alive),
        "lock is 45.2s old (>30s)"
    );
    assert_eq!(
        words(&aged(45_200, "there"), Liveness::NotAsked),
        "lock is 45.2s old (>30s)",
        "before the host"
    );
    assert_eq!(
        words(&aged(12_000, "there"), Liveness::NotAsked),
        "cross-machine lock from there, 12.0s old"
    );
    assert_eq!(words(&aged(1000, "there"), Liveness::NotAsked), "");
    let limits = Limits {
        age: Duration::from_millis(1500),
        ..Limits::default()
    };
    let seen = Facts {
        unrefreshed: UNREFRESHED,
        ..facts(Liveness::Alive)
    };
    let (_, found) = evidence(&aged(2000, "Here"), &seen, &limits).unwrap();
    assert_eq!(found, "lock is 2.0s old (>1.5s)");
}

/// A missing or odd field is never evidence.
#[test]
fn what_is_missing_or_odd_is_no_reason() {
    for (json, reason) in [
        ("{}", Reason::PidUnknown),
        (r#"{"pid":12345}"#, Reason::PidUnknown),
        (r#"{"pid":"12345","hostname":"Here"}"#, Reason::PidUnknown),
        (r#"{"pid":12345.0,"acquired_at":1}"#, Reason::PidUnknown),
        (r#"{"pid":-5,"hostname":7}"#, Reason::PidUnknown),
        (r#"{"pid":0,"acquired_at":"yesterday"}"#, Reason::PidUnknown),
        (
            r#"{"pid":true,"acquired_at":"2020-01-01T00:00:00"}"#,
            Reason::PidUnknown,
        ),
        (
            r#"{"pid":null,"session_id":null,"acquired_at":null,"hostname":null,"operation":null}"#,
            Reason::PidUnknown,
        ),
        (r#"{"pid":5,"hostname":"there"}"#, Reason::OtherHost),
    ] {
        let record = parsed(json);
        assert_eq!(
            judge(&record, &facts(Liveness::NotAsked), &Limits::default()),
            Verdict::Held(reason),
            "{json}"
        );
        assert_eq!(
            (record.session(), record.operation()),
            ("unknown", "unknown")
        );
        assert!(!record.is_typical());
    }
    // Python writes and reads these numbers.
    let numbers = parsed(
        r#"{"pid":-Infinity,"acquired_at":NaN,"session_id":"NaN \" NaN\\","hostname":"there","x":[Infinity,{"y":NaN}]}"#,
    );
    assert_eq!(
        (numbers.pid, numbers.acquired_at, numbers.session()),
        (None, None, "NaN \" NaN\\")
    );
    assert_eq!(
        serde_json::to_value(&numbers).unwrap()["x"],
        serde_json::json!([null, {"y": null}])
    );
    let alive = parsed(r#"{"pid":12345,"hostname":"Here"}"#);
    assert_eq!(
        judge(&alive, &facts(Liveness::Alive), &Limits::default()),
        Verdict::Held(Reason::PidAlive)
    );
}

/// Times as Python's `isoformat` and PowerShell's `ToString("o")` write them.
#[test]
fn what_the_documents_programs_write_is_read() {
    let python = "{\n  \"pid\": 7,\n  \"session_id\": \"unknown\",\n  \"acquired_at\": \"2026-01-29T15:29:59.123456+00:00\",\n  \
                  \"hostname\": \"Here\",\n  \"operation\": \"cli-test\"\n}";
    let shell = "\u{feff}{\r\n  \"hostname\": \"Here\",\r\n  \"pid\": 7,\r\n  \"acquired_at\": \"2026-01-29T15:29:59.1234567Z\",\r\n  \
                 \"operation\": \"powershell-operation\",\r\n  \"session_id\": \"powershell\"\r\n}\r\n";
    for (json, nanos) in [(python, 123_456_000), (shell, 123_456_700)] {
        let record = parsed(json);
        let age = record.acquired_at.unwrap().age(now());
        assert_eq!(
            age,
            SignedDuration::new(1, 0) - SignedDuration::from_nanos(nanos)
        );
        assert!(record.is_typical());
    }
    let date = parsed(r#"{"acquired_at":"2026-01-29T15:29:59+00:00"}"#);
    assert_eq!(
        date.acquired_at.unwrap().age(now()),
        SignedDuration::from_secs(1)
    );
}

#[test]
fn what_is_no_object_is_no_lock() {
    for none in [
        "",
        " ",
        "{",
        "nonsense",
        "[]",
        "null",
        " null\n",
        "7",
        "\"x\"",
        r#"{"pid":7} x"#,
        r#"{"pid":7"#,
        "NaN",
        r#"{"pid":NaN7}"#,
        r#"{"pid":7,"x":nan}"#,
        "\u{feff}",
    ] {
        let rejected = Record::parse(none.as_bytes()).unwrap_err();
        assert!(
            matches!(rejected, Rejected::Malformed(_)),
            "{none}: {rejected}"
        );
    }
    let deep = format!(r#"{{"pid":7,"x":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    assert!(
        matches!(Record::parse(deep.as_bytes()), Err(Rejected::Invalid(_))),
        "an object, and not to be read"
    );
    let bytes = b"{\"pid\":7,\"session_id\":\"\xff\"}";
    assert_eq!(Record::parse(bytes).unwrap().session(), "\u{fffd}");
}

#[test]
fn it_is_written_in_the_documents_order_and_read_back() {
    let mut record = aged(0, "Here");
    record.has_been_refreshed(at(now().0 + SignedDuration::from_micros(1999)));
    let json = record.to_json();
    assert_eq!(
        json,
        "{\n  \"pid\": 12345,\n  \"session_id\": \"main\",\n  \"acquired_at\": \"2026-01-29T15:30:00.001Z\",\n  \
         \"hostname\": \"Here\",\n  \"operation\": \"write:tasks.json\"\n}\n"
    );
    let mut again = parsed(&json);
    again.has_been_refreshed(at(now().0 + SignedDuration::from_millis(3000)));
    assert_eq!(
        serde_json::to_value(&again).unwrap()["acquired_at"],
        "2026-01-29T15:30:03.000Z"
    );
    assert_eq!(again.to_json(), json.replace("00.001Z", "03.000Z"));
}

#[test]
fn every_field_is_shown_as_it_was_read() {
    let record = parsed(r#"{"pid":"x","more":{"a":[1]},"session_id":"s"}"#);
    let shown = serde_json::to_value(&record).unwrap();
    assert_eq!(
        shown,
        serde_json::json!({"pid": "x", "more": {"a": [1]}, "session_id": "s"})
    );
}
