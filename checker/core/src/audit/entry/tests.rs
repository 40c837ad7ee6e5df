//! The golden lines: every field, in its order, whatever happened and however long it is.

use serde_json::Value;

use super::super::Author;
use super::*;
use crate::decision::NotChecked;
use crate::record::Rejected;
use crate::{record, record::beads::BeadlockKey, record::beads::Record};

const FIELDS: [&str; 15] = [
    "event",
    "request_id",
    "timestamp",
    "lock_name",
    "lock_path",
    "by",
    "reason",
    "detail",
    "watched",
    "held_duration_seconds",
    "result",
    "error",
    "lock",
    "previous_lock",
    "truncated",
];
const BY: [&str; 7] = [
    "holder", "program", "version", "pid", "uid", "user", "hostname",
];

fn entry(event: Event) -> AuditEntry {
    AuditEntry::new(
        event,
        "r1",
        "beads:.beads",
        Path::new("/r/.beads/.exclusive-lock"),
    )
}

fn line(entry: &AuditEntry) -> String {
    entry.line(Author::new("beadlock", "1.2.3").holder("ci").by())
}

fn record(holder: &str) -> Box<Record> {
    let started_at = StartedAt::from_unix(1_767_323_045, 0);
    let (pid, hostname, version) = (7, "box".to_owned(), "1".to_owned());
    Box::new(Record {
        holder: holder.to_owned(),
        pid,
        hostname,
        started_at,
        version,
        beadlock: None,
    })
}

fn boxed(holder: &str) -> Box<record::Record> {
    Box::new((*record(holder)).into())
}

/// The line has these fields and no other, in their order; so has its `by`.
fn assert_in_order(line: &str) {
    let value: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        value.as_object().unwrap().len(),
        FIELDS.len(),
        "{line:.9999}"
    );
    assert_eq!(
        value["by"].as_object().unwrap().len(),
        BY.len(),
        "{line:.9999}"
    );
    let (_, by) = line.split_once("\"by\":{").unwrap();
    for (fields, text) in [(&FIELDS[..], line), (&BY, by)] {
        let places: Vec<_> = fields
            .iter()
            .map(|field| text.find(&format!("\"{field}\":")))
            .collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{places:?}: {line:.9999}"
        );
    }
    assert_eq!(line.find('\n'), Some(line.len() - 1));
}

#[test]
fn a_line_has_every_field_in_the_order_of_the_document() {
    let entry = entry(Event::LockReleased)
        .reason("command_ended")
        .detail("d")
        .held_for(Duration::from_millis(61_900))
        .result(WorkOutcome::Failure)
        .error("exit code 3")
        .lock(&record("a\n\u{1b}[2J"));
    let line = line(&entry);
    assert_in_order(&line);
    let value: Value = serde_json::from_str(&line).unwrap();
    let stamp = value["timestamp"].as_str().unwrap();
    assert_eq!(
        (stamp.len(), &stamp[10..11], &stamp[19..]),
        (20, "T", "Z"),
        "{stamp}"
    );
    assert_eq!(value["by"]["pid"], std::process::id());
    assert_eq!(value["by"]["uid"], nix::unistd::getuid().as_raw());
    assert_eq!(
        value["by"]["hostname"].as_str(),
        facts::hostname().as_deref()
    );
    assert!(
        line.contains(r#""by":{"holder":"ci","program":"beadlock","version":"1.2.3","pid":"#),
        "{line}"
    );
    let tail = concat!(
        r#""reason":"command_ended","detail":"d","watched":null,"held_duration_seconds":61,"#,
        r#""result":"failure","error":"exit code 3","lock":{"holder":"a\n\u001b[2J","pid":7,"#,
        r#""hostname":"box","started_at":"2026-01-02T03:04:05Z","version":"1"},"#,
        r#""previous_lock":null,"truncated":false}"#,
    );
    assert!(line.ends_with(&format!("{tail}\n")), "{line}");
}

#[test]
fn nothing_known_is_null() {
    let line = line(&entry(Event::LockLost));
    assert_in_order(&line);
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        FIELDS[6..14]
            .iter()
            .map(|field| &value[field])
            .collect::<Vec<_>>(),
        [&Value::Null; 8]
    );
}

#[test]
fn the_words_of_the_events_are_the_contracts() {
    let words = [
        "acquired",
        "released",
        "renewed",
        "blocked",
        "stale_removed",
        "broken",
        "lost",
    ];
    let events = [
        Event::LockAcquired,
        Event::LockReleased,
        Event::LockRenewed,
        Event::LockBlocked,
        Event::LockStaleRemoved,
        Event::LockBroken,
        Event::LockLost,
    ];
    for (event, word) in events.into_iter().zip(words) {
        assert_eq!(event.to_string(), format!("lock_{word}"));
        assert!(
            line(&entry(event)).starts_with(&format!(r#"{{"event":"{event}","request_id":"r1","#))
        );
    }
}

#[test]
fn a_removal_has_its_proof_its_watch_and_its_record() {
    for (watched, word) in [
        (Watched::ByLease, "lease"),
        (Watched::ByComparison, "comparison"),
    ] {
        let removed = Removed {
            record: boxed("dead"),
            reason: Reason::PidGone,
            why: String::new(),
            watched,
            bytes: Vec::new(),
        };
        let line = line(&entry(Event::LockStaleRemoved).removed(&removed));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (
                &value["reason"],
                &value["watched"],
                &value["previous_lock"]["holder"],
                &value["lock"]
            ),
            (
                &Value::from("pid_gone"),
                &word.into(),
                &"dead".into(),
                &Value::Null
            )
        );
    }
}

#[test]
fn a_block_has_what_is_in_the_way() {
    let check_failed = |reason, record| {
        let rejected = Rejected::Malformed("unexpected EOF".to_owned());
        Skip::CheckFailed {
            reason,
            why: NotChecked::Rejected(rejected),
            record,
        }
    };
    let rows = [
        (
            Skip::Locked(boxed("h"), Reason::OtherHost),
            "other_host",
            false,
            true,
        ),
        (Skip::InProgress, "gate_busy", false, false),
        (
            check_failed(Reason::Malformed, None),
            "malformed",
            true,
            false,
        ),
        (
            check_failed(Reason::RemovalFailed, Some(boxed("h"))),
            "removal_failed",
            true,
            true,
        ),
    ];
    for (skip, reason, has_detail, has_record) in rows {
        let line = line(&entry(Event::LockBlocked).skip(&skip));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["reason"], reason);
        assert_eq!(!value["detail"].is_null(), has_detail, "{line}");
        assert_eq!(value["lock"]["holder"] == "h", has_record, "{line}");
    }
}

#[test]
fn however_long_the_values_the_line_is_not() {
    let long = "\u{1}".repeat(60_000);
    let mark = BeadlockKey {
        id: long.clone(),
        version: Some(long.clone()),
        started_at: Some(StartedAt::from_unix(0, 1)),
        boottime_ns: Some(u64::MAX),
        about: Some(long.clone()),
        machine_id: Some(long.clone()),
        boot_id: Some(long.clone()),
        pid_ns: Some(long.clone()),
        time_ns: Some(long.clone()),
        start_ticks: Some(u64::MAX),
        acquired: true,
    };
    let hostile = Record {
        hostname: long.clone(),
        version: long.clone(),
        ..*record(&long)
    };
    let marked = Record {
        beadlock: Some(mark),
        ..hostile.clone()
    };
    let one = line(
        &entry(Event::LockBlocked)
            .lock(&hostile)
            .reason(&long)
            .detail(&long)
            .error(&long),
    );
    assert_in_order(&one);
    let value: Value = serde_json::from_str(&one).unwrap();
    assert!(value["lock"]["holder"] == "\u{1}".repeat(1024) + "…");
    assert_eq!(
        (&value["lock"]["pid"], &value["truncated"]),
        (&7.into(), &true.into())
    );
    // The longest path there is, in the worst of bytes, twice, and all that a record can have, twice.
    let path = long.get(..4096).unwrap();
    let worst = AuditEntry::new(Event::LockBroken, "r", path, Path::new(path));
    let worst = worst
        .lock(&marked)
        .previous_lock(&marked)
        .reason(&long)
        .detail(&long)
        .error(&long);
    let worst = line(&worst);
    assert_in_order(&worst);
    let value: Value = serde_json::from_str(&worst).unwrap();
    assert!(
        value["lock"].is_null() && value["previous_lock"].is_null() && value["truncated"] == true
    );
    assert!(value["lock_path"] == path, "a path is never cut");
    assert!(
        one.len() <= LONGEST && worst.len() <= LONGEST,
        "{} {}",
        one.len(),
        worst.len()
    );
}

#[test]
fn what_is_short_stays_as_it_is() {
    let same = r#"{"b":"x\"\\\u0000é\n","a":[1,null,"",{"c":true}]}"#;
    assert_eq!(cut_json(same), (same.to_owned(), false));
    assert_eq!(cut_text("é\n"), ("é\n".to_owned(), false));
    let full = "é".repeat(LONGEST_STRING);
    assert_eq!(cut_text(&full), (full.clone(), false));
    let full = serde_json::to_string(&full).unwrap();
    assert_eq!(cut_json(&full), (full.clone(), false));
}

#[test]
fn every_long_string_is_cut_at_the_same_character_and_stays_json() {
    for unit in [
        "a",
        "é",
        "\u{0}",
        "\"",
        "\\",
        "\u{2028}",
        "\u{10ffff}",
        "\n",
    ] {
        let value = [
            unit.repeat(LONGEST_STRING + 1),
            unit.repeat(3),
            unit.repeat(5 * LONGEST_STRING),
        ];
        let (short, cut) = cut_json(&serde_json::to_string(&value).unwrap());
        assert!(cut);
        let expected = unit.repeat(LONGEST_STRING) + "…";
        let read: [String; 3] = serde_json::from_str(&short).unwrap();
        assert_eq!(
            read,
            [expected.clone(), unit.repeat(3), expected.clone()],
            "{unit:?}"
        );
        assert_eq!(cut_text(&value[0]), (expected, true));
    }
}
