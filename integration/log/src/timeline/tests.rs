//! Whole logs, and the timelines of their databases.

use std::time::Duration;

use super::holders::HolderRow;
use super::rhythm::GapKind;
use super::state::{CycleCounts, SyncState};
use super::streak::SkipCause;
use super::*;
use crate::parse::reason::LoggedReason;

fn read(lines: &[&str]) -> LogTimeline {
    read_in(LogWindow::default(), lines)
}

fn read_in(window: LogWindow, lines: &[&str]) -> LogTimeline {
    let mut log = LogTimeline::new(window, at("23:00:00"));
    log.begin(lines.join("\n").as_bytes());
    for line in lines {
        log.add_line(line.as_bytes(), false);
    }
    log
}

fn at(text: &str) -> LogTime {
    LogTime::parse(&format!("2026-02-01T{text}Z")).unwrap()
}

fn only(lines: &[&str], end: &str) -> DatabaseTimeline {
    let mut databases = finished(&mut read(lines), end);
    assert_eq!(databases.len(), 1);
    databases.remove(0)
}

fn finished(log: &mut LogTimeline, end: &str) -> Vec<DatabaseTimeline> {
    log.finish(at(end));
    std::mem::take(&mut log.databases)
}

/// `claims skips median longest: ends` of each holder.
fn rows(timeline: &DatabaseTimeline) -> Vec<String> {
    let seconds = |length: Option<Duration>| length.map_or(0, |length| length.as_secs());
    let row = |row: &HolderRow| {
        format!(
            "{} {} {} {}s {}s {:?}",
            row.name,
            row.claims(),
            row.skips,
            seconds(row.median()),
            seconds(row.longest()),
            row.ends
        )
    };
    timeline.holders.sorted().into_iter().map(row).collect()
}

const HEADER: &str = "[2026-02-01 10:00:00] beadlock-agent 0.1.0, PID 7, host ci-3, times in UTC";
const START: &str = "[2026-02-01 10:00:00] Agent started: beadlock-agent 0.1.0, PID 7, host ci-3";

#[test]
fn a_hold_goes_from_the_first_skip_to_the_next_cycle() {
    let timeline = only(
        &[
            HEADER,
            START,
            "[2026-02-01 10:00:00] Starting sync cycle...",
            "[2026-02-01 10:00:01] Sync cycle complete",
            "[2026-02-01 10:00:05] Skipping database (locked by make)",
            "[2026-02-01 10:00:05] Held since 2026-02-01T10:00:02Z by PID 99 on ci-3 (pid_alive)",
            "[2026-02-01 10:00:10] Skipping database (locked by make)",
            "[2026-02-01 10:00:12] Skipping database (a sync cycle or a claim is in progress)",
            "[2026-02-01 10:00:15] Resumed after 3 skips in 10s",
            "[2026-02-01 10:00:15] Starting sync cycle...",
            "[2026-02-01 10:00:16] Sync cycle complete",
        ],
        "10:00:18",
    );
    assert_eq!(rows(&timeline), ["make 1 3 10s 10s [1, 0, 0, 0, 0]"]);
    assert_eq!(
        timeline.counts,
        CycleCounts {
            complete: 2,
            skips: 3,
            ..CycleCounts::default()
        }
    );
    assert_eq!(
        (timeline.state.clone(), timeline.outages.current),
        (SyncState::Complete(at("10:00:16")), None)
    );
    assert_eq!(
        timeline.outages.total(at("10:00:18")),
        Duration::from_secs(11),
        "from the first skip to the next success"
    );
}

#[test]
fn every_way_a_hold_can_end_is_told_apart() {
    let timeline = only(
        &[
            HEADER,
            START,
            "[2026-02-01 10:00:05] Skipping database (locked by a)",
            "[2026-02-01 10:00:10] Removed stale lock (a), proceeding with sync",
            "[2026-02-01 10:00:10] Resumed after 1 skips in 5s",
            "[2026-02-01 10:00:10] Starting sync cycle...",
            "[2026-02-01 10:00:11] Sync cycle complete",
            "[2026-02-01 10:00:15] Skipping database (locked by b)",
            "[2026-02-01 10:00:20] Skipping database (locked by c)",
            "[2026-02-01 10:00:25] Skipping database (lock check failed: malformed lock file: unexpected EOF)",
            "[2026-02-01 10:00:35] Skipping database (locked by d)",
            "[2026-02-01 10:00:36] Ending on SIGTERM",
            "[2026-02-01 10:00:36] Agent stopped: beadlock-agent 0.1.0, PID 7, host ci-3",
            "[2026-02-01 10:01:00] Agent started: beadlock-agent 0.1.0, PID 8, host ci-3",
            "[2026-02-01 10:01:00] Removed stale lock (d), proceeding with sync",
            "[2026-02-01 10:01:00] Starting sync cycle...",
            "[2026-02-01 10:01:01] Sync cycle complete",
            "[2026-02-01 10:01:05] Skipping database (locked by e)",
        ],
        "10:01:08",
    );
    assert_eq!(
        rows(&timeline),
        [
            "d 1 1 25s 25s [0, 1, 0, 0, 0]",
            "a 1 1 5s 5s [0, 1, 0, 0, 0]",
            "b 1 1 5s 5s [0, 0, 1, 0, 0]",
            "c 1 1 5s 5s [0, 0, 1, 0, 0]",
            "e 1 1 3s 3s [0, 0, 0, 0, 1]",
        ]
    );
    let past = timeline.spans.unreadable().next().unwrap();
    assert_eq!(
        (past.streak.since, past.until),
        (at("10:00:25"), at("10:00:35"))
    );
    assert_eq!(
        past.streak.cause,
        SkipCause::Unreadable(LoggedReason::parse("malformed lock file: unexpected EOF"))
    );
}

/// Each claim has one ending, whatever came between its skips. A stale lock that caused no skip is an ending alone.
#[test]
fn one_claim_has_one_ending() {
    let skip = "Skipping database (locked by make)";
    let stop = "Agent stopped: beadlock-agent 0.1.0, PID 7, host ci-3";
    let start = "Agent started: beadlock-agent 0.1.0, PID 8, host ci-3";
    let removed = "Removed stale lock (make), proceeding with sync";
    let not_removed =
        "Skipping database (lock check failed: failed to remove stale lock: read-only file system)";
    let (begin, complete, resumed) = (
        "Starting sync cycle...",
        "Sync cycle complete",
        "Resumed after 1 skip in 5s",
    );
    let cases: [(&str, &[&str], &str); 11] = [
        (
            "it goes on over a stop",
            &[skip, stop, start, skip, resumed, begin, complete],
            "1 2 [1, 0, 0, 0, 0]",
        ),
        (
            "it goes on over a kill",
            &[skip, start, skip],
            "1 2 [0, 0, 0, 0, 1]",
        ),
        (
            "it is stale after a kill",
            &[skip, start, removed, begin, complete],
            "1 1 [0, 1, 0, 0, 0]",
        ),
        (
            "it is gone after a stop",
            &[skip, stop, start, begin, complete],
            "1 1 [0, 0, 0, 1, 0]",
        ),
        (
            "the log ends with the stop",
            &[skip, stop],
            "1 1 [0, 0, 0, 1, 0]",
        ),
        (
            "released, then found stale",
            &[skip, resumed, removed, begin, complete],
            "1 1 [0, 1, 0, 0, 0]",
        ),
        (
            "released, and another one found stale",
            &[skip, resumed, begin, complete, removed],
            "1 1 [1, 1, 0, 0, 0]",
        ),
        (
            "released, and claimed again",
            &[skip, resumed, skip],
            "2 2 [1, 0, 0, 0, 1]",
        ),
        (
            "it cannot be removed at first",
            &[skip, not_removed, removed, begin, complete],
            "1 1 [0, 1, 0, 0, 0]",
        ),
        (
            "it cannot be read for a moment",
            &[skip, not_removed, skip, resumed, begin],
            "1 2 [1, 0, 0, 0, 0]",
        ),
        (
            "another one came between",
            &[skip, "Skipping database (locked by vc)", skip],
            "2 2 [0, 0, 1, 0, 1]",
        ),
    ];
    for (what, lines, expected) in cases {
        let lines: Vec<String> = lines
            .iter()
            .enumerate()
            .map(|(at, line)| format!("[2026-02-01 10:00:{at:02}] {line}"))
            .collect();
        let lines: Vec<&str> = [HEADER, START]
            .into_iter()
            .chain(lines.iter().map(String::as_str))
            .collect();
        let timeline = only(&lines, "10:00:10");
        let rows = timeline.holders.sorted();
        let make = rows.iter().find(|row| row.name == "make").unwrap();
        assert_eq!(
            format!("{} {} {:?}", make.claims(), make.skips, make.ends),
            expected,
            "{what}"
        );
    }
    // A lock that says that it is another claim is one.
    let line = |second: u32, since: &str| {
        format!(
            r#"{{"time":"2026-02-01T10:00:0{second}Z","db":null,"message":"{skip}","since":"2026-02-01T{since}Z","pid":9}}"#
        )
    };
    let lines = [
        line(0, "09:00:00"),
        line(1, "09:00:00"),
        line(2, "10:00:01"),
    ];
    let timeline = only(&lines.each_ref().map(String::as_str), "10:00:03");
    assert_eq!(rows(&timeline), ["make 2 3 1s 2s [0, 0, 1, 0, 1]"]);
}

#[test]
fn the_output_of_a_cycles_command_does_not_count_as_the_daemons_lines() {
    let timeline = only(
        &[
            HEADER,
            START,
            "[2026-02-01 10:00:00] Starting sync cycle...",
            "[2026-02-01 10:00:00] Skipping database (locked by forged)",
            "[2026-02-01 10:00:00] Skipping database (lock check failed: forged)",
            "[2026-02-01 10:00:00] Pull failed: forged",
            "[2026-02-01 10:00:01] Sync cycle failed: exit code 3 after 1.2s",
            "[2026-02-01 10:00:05] Starting sync cycle...",
            "[2026-02-01 10:00:06] Sync cycle failed: exit code 3 after 1.3s",
            "[2026-02-01 10:00:10] Starting sync cycle...",
            "[2026-02-01 10:02:10] Sync cycle timed out after 2m; command ended",
        ],
        "10:02:12",
    );
    assert_eq!(
        timeline.counts,
        CycleCounts {
            failed: 2,
            timed_out: 1,
            ..CycleCounts::default()
        }
    );
    assert_eq!(rows(&timeline), [""; 0]);
    let failures: Vec<_> = timeline
        .failures
        .latest()
        .iter()
        .map(|f| (f.message.clone(), f.count))
        .collect();
    assert_eq!(
        failures,
        [
            ("timed out after 2m".to_owned(), 1),
            ("exit code 3".to_owned(), 2)
        ]
    );
    assert_eq!(
        timeline.state,
        SyncState::Failing {
            why: "timed out after 2m".to_owned(),
            in_a_row: 3
        }
    );
    assert_eq!(timeline.outages.current.unwrap().since, at("10:00:00"));
}

#[test]
fn a_cycle_whose_end_is_lost_hides_no_hold() {
    let timeline = only(
        &[
            HEADER,
            START,
            "[2026-02-01 10:00:00] Starting sync cycle...",
            "[2026-02-01 10:00:05] Skipping database (locked by make)",
            "[2026-02-01 10:00:05] Held since 2026-02-01T10:00:02Z by PID 99 on ci-3 (pid_alive)",
            "[2026-02-01 10:00:10] Skipping database (locked by make)",
        ],
        "10:00:12",
    );
    assert_eq!(rows(&timeline), ["make 1 2 7s 7s [0, 0, 0, 0, 1]"]);
    assert_eq!(
        (
            timeline.counts.unfinished,
            timeline.streak.unwrap().lock.pid
        ),
        (1, Some(99))
    );
}

#[test]
fn the_original_daemon_says_first_that_it_starts() {
    let timeline = only(
        &[
            "time=2026-02-01T13:00:00.044+03:00 level=INFO msg=\"Daemon started (interval: %v, auto-commit: %v, auto-push: %v)\" !BADKEY=5s !BADKEY=false !BADKEY=false",
            "time=2026-02-01T13:00:00.073+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=\"sync cycle\"",
            "time=2026-02-01T13:00:02.373+03:00 level=INFO msg=\"Pull failed: %v\" !BADKEY=\"exit status 128\\nfatal: no\"",
            "time=2026-02-01T13:00:05.073+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=\"sync cycle\"",
            "time=2026-02-01T13:00:05.073+03:00 level=INFO msg=\"Skipping database (locked by %s)\" !BADKEY=vc-executor",
            "time=2026-02-01T13:00:10.073+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=\"sync cycle\"",
            "time=2026-02-01T13:00:10.073+03:00 level=INFO msg=\"Skipping database (locked by %s)\" !BADKEY=vc-executor",
            "time=2026-02-01T13:00:15.073+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=\"sync cycle\"",
            "time=2026-02-01T13:00:15.073+03:00 level=INFO msg=\"Removed stale lock (%s), proceeding with %s\" vc-executor=\"sync cycle\"",
            "time=2026-02-01T13:00:15.073+03:00 level=INFO msg=\"Exported to JSONL\"",
            "time=2026-02-01T13:00:17.073+03:00 level=INFO msg=\"Sync cycle complete\"",
            "time=2026-02-01T13:00:20.073+03:00 level=INFO msg=\"Received signal %v, shutting down...\" !BADKEY=terminated",
        ],
        "10:00:21",
    );
    assert_eq!(rows(&timeline), ["vc-executor 1 2 10s 10s [0, 1, 0, 0, 0]"]);
    assert_eq!(
        timeline.counts,
        CycleCounts {
            complete: 1,
            failed: 1,
            skips: 2,
            ..CycleCounts::default()
        }
    );
    assert!(matches!(timeline.state, SyncState::Stopped(_)));
    assert_eq!(
        timeline.failures.latest()[0].message,
        "Pull failed: exit status 128\nfatal: no"
    );
}

#[test]
fn a_log_of_several_databases_has_a_timeline_for_each() {
    let mut log = read(&[
        HEADER,
        START,
        r"[2026-02-01 10:00:00] /r/a:\u{20}Resumed after 3 skips in 1s/.beads: Starting sync cycle...",
        "[2026-02-01 10:00:00] /r/c/.beads: Skipping database (locked by make: x)",
        r"[2026-02-01 10:00:01] /r/a:\u{20}Resumed after 3 skips in 1s/.beads: /usr/bin/make: failed: x",
        "[2026-02-01 10:00:01] /usr/bin/make: nothing: y",
        r"[2026-02-01 10:00:02] /r/a:\u{20}Resumed after 3 skips in 1s/.beads: Sync cycle complete",
        "[2026-02-01 10:00:03] Agent stopped: beadlock-agent 0.1.0, PID 7, host ci-3",
    ]);
    let databases = finished(&mut log, "10:00:04");
    let names: Vec<_> = databases
        .iter()
        .map(|timeline| timeline.name.as_deref().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            r"/r/a:\u{20}Resumed after 3 skips in 1s/.beads",
            "/r/c/.beads"
        ]
    );
    assert_eq!(
        (
            databases[0].counts.complete,
            databases[0].counts.failed,
            databases[1].counts.skips
        ),
        (1, 0, 1)
    );
    assert_eq!(rows(&databases[1]), ["make: x 1 1 3s 3s [0, 0, 0, 1, 0]"]);
    assert!(
        databases
            .iter()
            .all(|timeline| matches!(timeline.state, SyncState::Stopped(_))),
        "the stop is everyone's"
    );
    assert_eq!(
        (log.agents.stops, log.lines.all, log.lines.other),
        (1, 8, 2)
    );
}

#[test]
fn structured_lines_name_their_database_and_holder() {
    let mut log = read(&[
        r#"{"time":"2026-02-01T10:00:00Z","level":"info","db":null,"event":"agent_started","message":"Agent started: beadlock-agent 0.1.0, PID 7, host ci-3"}"#,
        r#"{"time":"2026-02-01T10:00:00Z","level":"info","db":"/r/.beads","event":"skip","message":"Skipping database (locked by vc)","holder":"vc","pid":99,"host":"ci-4","since":"2026-02-01T09:00:00Z","reason":"other_host"}"#,
    ]);
    let databases = finished(&mut log, "10:00:04");
    assert_eq!(
        (databases.len(), databases[0].name.as_deref()),
        (1, Some("/r/.beads"))
    );
    let lock = &databases[0].streak.as_ref().unwrap().lock;
    assert_eq!(
        (lock.pid, lock.host.as_deref(), lock.reason.as_deref()),
        (Some(99), Some("ci-4"), Some("other_host"))
    );
}

#[test]
fn gaps_are_told_from_stops_and_from_kills() {
    let mut lines = vec![HEADER.to_owned(), START.to_owned()];
    let cycle = |lines: &mut Vec<String>, minute: u32| {
        lines.push(format!(
            "[2026-02-01 10:{minute:02}:00] Starting sync cycle..."
        ));
        lines.push(format!(
            "[2026-02-01 10:{minute:02}:01] Sync cycle complete"
        ));
    };
    (0..6).for_each(|minute| cycle(&mut lines, minute));
    cycle(&mut lines, 15);
    lines.push(
        "[2026-02-01 10:15:02] Agent stopped: beadlock-agent 0.1.0, PID 7, host ci-3".to_owned(),
    );
    lines.push(
        "[2026-02-01 10:30:00] Agent started: beadlock-agent 0.1.0, PID 8, host ci-3".to_owned(),
    );
    cycle(&mut lines, 30);
    lines.push(
        "[2026-02-01 10:50:00] beadlock-agent 0.1.0, PID 9, host ci-3, times in UTC".to_owned(),
    );
    lines.push(
        "[2026-02-01 10:50:00] Agent started: beadlock-agent 0.1.0, PID 9, host ci-3".to_owned(),
    );
    cycle(&mut lines, 50);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut log = read(&lines);
    let timeline = finished(&mut log, "10:51:00").remove(0);
    assert_eq!(timeline.rhythm.limit(), Duration::from_secs(300));
    let gaps: Vec<_> = timeline
        .rhythm
        .gaps()
        .iter()
        .map(|gap| (gap.from, gap.kind))
        .collect();
    assert_eq!(
        gaps,
        [
            (at("10:05:01"), GapKind::Silent),
            (at("10:30:01"), GapKind::Gone)
        ]
    );
    assert_eq!(
        (log.agents.starts, log.agents.stops, log.agents.lost),
        (3, 1, 1)
    );
}

#[test]
fn of_the_time_that_is_not_asked_for_only_what_goes_on_is_told() {
    let lines = [
        HEADER,
        START,
        "[2026-02-01 10:00:00] Starting sync cycle...",
        "[2026-02-01 10:00:01] Sync cycle complete",
        "[2026-02-01 10:00:05] Skipping database (locked by make)",
        "[2026-02-01 10:00:10] Skipping database (locked by make)",
        "[2026-02-01 10:00:15] Starting sync cycle...",
        "[2026-02-01 10:00:16] Sync cycle failed: exit code 1 after 1s",
    ];
    let window = LogWindow {
        since: Some(at("10:00:08")),
        until: Some(at("10:00:12")),
    };
    let mut log = read_in(window, &lines);
    let timeline = finished(&mut log, "10:00:12").remove(0);
    assert_eq!(
        rows(&timeline),
        ["make 1 2 7s 7s [0, 0, 0, 0, 1]"],
        "a hold that reaches in counts whole"
    );
    assert_eq!(
        timeline.counts,
        CycleCounts {
            skips: 1,
            ..CycleCounts::default()
        }
    );
    assert_eq!(
        timeline.outages.total(at("10:00:12")),
        Duration::from_secs(4)
    );
    assert_eq!(
        (
            timeline.outages.current.unwrap().since,
            timeline.last_complete
        ),
        (at("10:00:05"), Some(at("10:00:01")))
    );
    assert_eq!(
        log.lines,
        LineCounts {
            all: 1,
            outside: 7,
            ..LineCounts::default()
        }
    );
    let mut late = read_in(
        LogWindow {
            since: Some(at("12:00:00")),
            until: None,
        },
        &lines,
    );
    let timeline = finished(&mut late, "12:00:00").remove(0);
    assert!(
        matches!(timeline.state, SyncState::Failing { .. }),
        "what came before is still the answer"
    );
    assert_eq!(
        (timeline.counts, late.lines.all),
        (CycleCounts::default(), 0)
    );
}

#[test]
fn a_clock_that_goes_back_is_said_and_breaks_nothing() {
    let timeline = only(
        &[
            HEADER,
            START,
            "[2026-02-01 10:30:00] Skipping database (locked by make)",
            "[2026-02-01 10:00:05] Skipping database (locked by make)",
            "[2026-02-01 10:00:06] Starting sync cycle...",
            "[2026-02-01 10:00:07] Sync cycle complete",
        ],
        "10:00:08",
    );
    assert_eq!(timeline.clock_back, (1, Duration::from_secs(1795)));
    assert_eq!(rows(&timeline), ["make 1 2 0s 0s [1, 0, 0, 0, 0]"]);
}

#[test]
fn any_bytes_make_a_line() {
    let mut log = LogTimeline::new(LogWindow::default(), at("23:00:00"));
    for number in 0..=255u8 {
        for line in [
            vec![number],
            [b"[2026-02-01 10:00:00] ", &[number][..], b"Skipping"].concat(),
            [
                b"[2026-02-01 10:00:00] Skipping database (locked by ",
                &[number][..],
            ]
            .concat(),
            [
                b"[2026-02-01 10:00:0",
                &[number][..],
                b"] /x: Starting sync cycle...",
            ]
            .concat(),
            [
                b"{\"time\":\"",
                &[number][..],
                b"\",\"message\":\"Resumed after 1 skips in 2s\"}",
            ]
            .concat(),
            [b"time=2026-02-01T10:00:00Z msg=\"", &[number][..]].concat(),
        ] {
            log.begin(&line);
            log.add_line(&line, number % 2 == 0);
        }
    }
    let databases = finished(&mut log, "10:00:01");
    assert!(databases.iter().any(|timeline| timeline.counts.skips > 0));
    assert_eq!(log.lines.all, 256 * 6);
}
