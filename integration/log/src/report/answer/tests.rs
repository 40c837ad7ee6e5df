//! The answer for each possible end of a log.

use beadlock_base::escape::is_harmless;

use super::*;
use crate::timeline::LogTimeline;
use crate::window::LogWindow;
use beadlock_claim::words::Part;

const START: &str = "[2026-02-01 10:00:00] Agent started: beadlock-agent 0.1.0, PID 7, host ci-3";
const CYCLES: [&str; 4] = [
    "[2026-02-01 10:00:00] Starting sync cycle...",
    "[2026-02-01 10:00:01] Sync cycle complete",
    "[2026-02-01 10:00:05] Starting sync cycle...",
    "[2026-02-01 10:00:06] Sync cycle complete",
];

fn answer_to(lines: &[&str], end: &str) -> LogAnswer {
    let mut log = LogTimeline::new(LogWindow::default(), LogTime(0));
    log.begin(lines.join("\n").as_bytes());
    for line in lines {
        log.add_line(line.as_bytes(), false);
    }
    let end = LogTime::parse(&format!("2026-02-01T{end}Z")).unwrap();
    log.finish(end);
    let report = LogReport {
        path: Some(".beads/daemon.log".into()),
        files: Vec::new(),
        compressed: Vec::new(),
        log,
        locks: Vec::new(),
        end,
        target: Some(Part::of_path(".beads".as_ref())),
        host: Some("CI-3".to_owned()),
    };
    answer(&report, &report.log.databases[0], None)
}

fn after_cycles(lines: &[&str], end: &str) -> LogAnswer {
    answer_to(&[&[START], &CYCLES[..], lines].concat(), end)
}

fn commands(answer: &LogAnswer) -> Vec<&str> {
    answer
        .next
        .iter()
        .map(|next| next.command.as_str())
        .collect()
}

#[test]
fn it_syncs() {
    let answer = after_cycles(&[], "10:00:08");
    assert_eq!(
        answer.message,
        "Syncing: the last cycle was complete at 2026-02-01 10:00:06 UTC (2s ago)"
    );
    assert_eq!(
        (answer.state, answer.syncing, commands(&answer)),
        ("syncing", Some(true), vec![])
    );
    let answer = after_cycles(
        &["[2026-02-01 10:00:10] Starting sync cycle..."],
        "10:02:00",
    );
    assert_eq!(
        answer.message,
        "Syncing: a cycle runs since 2026-02-01 10:00:10 UTC (1m 50s)"
    );
}

#[test]
fn it_is_held() {
    let lines = [
        "[2026-02-01 10:00:10] Skipping database (locked by make)",
        "[2026-02-01 10:00:10] Held since 2026-02-01T10:00:07Z by PID 77 on ci-3 (pid_alive)",
        "[2026-02-01 10:00:15] Skipping database (locked by make)",
    ];
    let answer = after_cycles(&lines, "10:00:17");
    assert_eq!(
        answer.message,
        "Not syncing since 2026-02-01 10:00:10 UTC (7s): held by make (PID 77 on ci-3), 2 cycles skipped"
    );
    assert_eq!(
        commands(&answer),
        [
            "beadlock status .beads",
            "beadlock wait .beads",
            "ps -fp 77",
            "kill 77"
        ]
    );
    assert_eq!(
        answer.more[0],
        "pid_alive: its process lives; the lock goes when it ends"
    );
    assert_eq!(
        answer.more[1..],
        [
            "the lock says: claimed 2026-02-01T10:00:07Z",
            "last complete cycle: 2026-02-01 10:00:06 (11s ago)"
        ]
    );
}

#[test]
fn it_is_held_elsewhere_since_before_the_log() {
    let lines = [
        "[2026-02-01 10:00:10] Skipping database (locked by make)",
        "[2026-02-01 10:00:10] Held since 2026-02-01T10:00:07Z by PID 77 on big box (other_host)",
    ];
    let answer = answer_to(&lines, "10:00:17");
    assert!(
        answer
            .message
            .starts_with("Not syncing since 2026-02-01 10:00:10 UTC or earlier (7s): held by make"),
        "{answer:?}"
    );
    assert_eq!(commands(&answer)[1], "ssh -- 'big box' ps -p 77");
    assert!(
        answer
            .more
            .contains(&"no complete cycle in this log".to_owned()),
        "{answer:?}"
    );
}

/// Whose lock it is now, and its id, `status` says: a name of the log could be another claim's by now.
#[test]
fn no_lock_is_to_be_broken_by_what_a_log_says() {
    for name in ["it's me", "-x", r"a\nb", "long…", "a\u{1b}[2Jb"] {
        let line = format!("[2026-02-01 10:00:10] Skipping database (locked by {name})");
        let answer = after_cycles(&[&line], "10:00:12");
        assert!(answer.message.chars().all(is_harmless), "{answer:?}");
        assert_eq!(commands(&answer), ["beadlock status .beads"]);
    }
    let cut = "[2026-02-01 10:00:10] Skipping database (locked by a), proceeding";
    let answer = after_cycles(&[cut], "10:00:12");
    let held = ": held by a), proceeding…, 1 cycle skipped";
    assert!(answer.message.contains(held), "{answer:?}");
}

/// There the number is another process's.
#[test]
fn no_process_is_looked_for_by_the_number_of_a_container() {
    let of = |host: &str| {
        let held = format!(
            "[2026-02-01 10:00:10] Held since 2026-02-01T10:00:07Z by PID 2 on {host} (other_pid_namespace)"
        );
        let skip = "[2026-02-01 10:00:10] Skipping database (locked by make)";
        commands(&after_cycles(&[skip, &held], "10:00:12"))[1].to_owned()
    };
    assert_eq!(of("ci-3"), "docker exec CONTAINER ps -p 2");
    assert_eq!(of("3f2a1b4c5d6e"), "docker exec 3f2a1b4c5d6e ps -p 2");
}

#[test]
fn the_lock_cannot_be_checked() {
    let line = "[2026-02-01 10:00:10] Skipping database (lock check failed: malformed lock file: unexpected EOF)";
    let answer = after_cycles(&[line], "10:00:12");
    assert!(
        answer
            .message
            .ends_with("(2s): the lock cannot be checked, 1 cycle skipped"),
        "{answer:?}"
    );
    assert_eq!(answer.more[0], "malformed lock file: unexpected EOF");
    assert_eq!(
        commands(&answer),
        [
            "beadlock status .beads",
            "beadlock break .beads --malformed"
        ]
    );
    let line = "[2026-02-01 10:00:10] Skipping database (lock check failed: failed to remove stale lock: no gate)";
    assert_eq!(
        commands(&after_cycles(&[line], "10:00:12")),
        ["beadlock check .beads --explain"]
    );
    let line = "[2026-02-01 10:00:10] Skipping database (a sync cycle or a claim is in progress)";
    assert_eq!(after_cycles(&[line], "10:00:12").state, "busy");
}

#[test]
fn cycles_fail() {
    let lines = [
        "[2026-02-01 10:00:10] Starting sync cycle...",
        "[2026-02-01 10:00:11] Sync cycle failed: exit code 3 after 1.2s",
        "[2026-02-01 10:00:15] Starting sync cycle...",
        "[2026-02-01 10:00:16] Sync cycle failed: exit code 3 after 1.1s",
    ];
    let answer = after_cycles(&lines, "10:00:17");
    assert_eq!(
        answer.message,
        "Not syncing since 2026-02-01 10:00:10 UTC (7s): the last 2 cycles failed: exit code 3"
    );
    assert_eq!(commands(&answer), ["tail -n 50 .beads/daemon.log"]);
}

#[test]
fn the_daemon_was_stopped_or_just_starts() {
    let lines = [
        "[2026-02-01 10:00:10] Ending on SIGTERM",
        "[2026-02-01 10:00:10] Agent stopped: beadlock-agent 0.1.0, PID 7, host ci-3",
    ];
    let answer = after_cycles(&lines, "12:00:10");
    assert_eq!(
        answer.message,
        "Not syncing since 2026-02-01 10:00:10 UTC (2h): the daemon (PID 7 on ci-3) was stopped by SIGTERM"
    );
    assert_eq!(
        (answer.state, commands(&answer)),
        ("stopped", vec!["beadlock-agent --db .beads"])
    );
    assert_eq!(
        answer_to(&[START], "10:00:01").message,
        "The daemon (PID 7 on ci-3) started at 2026-02-01 10:00:00 UTC; no cycle since"
    );
}

#[test]
fn nothing_is_written_any_more() {
    let answer = after_cycles(&[], "12:00:06");
    assert!(
        answer
            .message
            .starts_with("Silent since 2026-02-01 10:00:06 UTC (2h): the daemon (PID 7 on ci-3) was killed, hangs"),
        "{answer:?}"
    );
    assert_eq!((answer.state, answer.syncing), ("silent", None));
    assert_eq!(
        commands(&answer),
        ["ps -fp 7", "beadlock-agent --db .beads"]
    );
    let held = after_cycles(
        &["[2026-02-01 10:00:10] Skipping database (locked by make)"],
        "12:00:10",
    );
    assert!(
        held.message.contains("(0ms by the end of the log)"),
        "{held:?}"
    );
    assert_eq!(held.silent, Some(Duration::from_secs(7200)));
    let cycle = after_cycles(
        &["[2026-02-01 10:00:10] Starting sync cycle..."],
        "12:00:10",
    );
    assert_eq!(
        cycle.message,
        "A cycle began at 2026-02-01 10:00:10 UTC and has not ended (2h)"
    );
    assert_eq!(cycle.syncing, None);
}

#[test]
fn what_was_in_the_way_is_gone() {
    let skips = [
        "[2026-02-01 10:00:10] Skipping database (locked by make)",
        "[2026-02-01 10:00:15] Removed stale lock (make), proceeding with sync",
        "[2026-02-01 10:00:15] Resumed after 1 skips in 5s",
    ];
    for lines in [&skips[..2], &skips, &[skips[0], skips[2]]] {
        let answer = after_cycles(lines, "10:00:17");
        assert_eq!(
            answer.message,
            "Syncing: the cycles run again since 2026-02-01 10:00:15 UTC (2s ago), and none is complete yet"
        );
        assert_eq!(
            (answer.state, answer.syncing, commands(&answer)),
            ("resumed", Some(true), vec![])
        );
        assert_eq!(after_cycles(lines, "12:00:17").state, "silent");
    }
}

#[test]
fn a_line_from_the_future_says_nothing() {
    let future = "[2026-02-01 11:00:01] Sync cycle complete";
    let answer = after_cycles(&[future], "10:59:00");
    assert_eq!((answer.state, answer.syncing), ("unknown", None));
    assert!(
        answer
            .message
            .starts_with("The last line is of 2026-02-01 11:00:01 UTC, 1m 1s in the future: "),
        "{answer:?}"
    );
    assert_eq!(
        after_cycles(&[future], "10:59:01").state,
        "syncing",
        "clocks differ"
    );
}

#[test]
fn what_is_no_log_of_a_daemon_says_so() {
    assert!(
        answer_to(&["hello"], "10:00:00")
            .message
            .starts_with("No line of a daemon in this log")
    );
    assert!(
        answer_to(&["[2026-02-01 10:00:00] hello"], "10:00:00")
            .message
            .starts_with("No cycle in this log")
    );
}

#[test]
fn on_another_machine_it_says_where_to_type() {
    let start = START.replace("ci-3", "ci-9");
    let skip = "[2026-02-01 10:00:10] Skipping database (locked by make)";
    let answer = answer_to(&[&start, skip], "10:00:12");
    assert!(
        answer
            .more
            .contains(&"the daemon runs on ci-9: type there".to_owned()),
        "{answer:?}"
    );
}

#[test]
fn what_waits_to_be_pushed_is_counted_in_the_headline() {
    for (why, short) in [
        (
            "origin cannot be reached: Connection refused; 3 commits wait, the oldest since 2026-11-25 15:10:00",
            "origin cannot be reached; 3 commits wait",
        ),
        (
            "there is no remote; 1 commit waits, since 2026-11-25 15:10:00",
            "there is no remote; 1 commit waits",
        ),
        (
            "no upstream; type git; 2 commits wait",
            "no upstream; type git; 2 commits wait",
        ),
        ("no count: here; it waits", "no count"),
        ("", ""),
    ] {
        assert_eq!(summary(why), short);
    }
}

#[test]
fn a_reported_command_that_cannot_be_pasted_is_not_offered() {
    let state = |next: &str| {
        let line = format!(
            "[2026-02-01 10:00:10] State: failed since 2026-02-01 10:00:10: conflict; type: {next}"
        );
        after_cycles(&[&line], "10:00:12")
    };
    assert_eq!(
        commands(&state("git -C /r pull --rebase")),
        ["git -C /r pull --rebase"]
    );
    let answer = state("git \u{1b}[2J");
    assert_eq!(commands(&answer), ["tail -n 50 .beads/daemon.log"]);
    assert_eq!(answer.message, "Failing since 10:00:10 (2s): conflict");
}

#[test]
fn the_words_of_states_are_in_one_order() {
    let stopped = after_cycles(
        &["[2026-02-01 10:00:10] Agent stopped: beadlock-agent 0.1.0, PID 7, host ci-3"],
        "10:00:12",
    );
    let hanging = after_cycles(
        &["[2026-02-01 10:00:10] Starting sync cycle..."],
        "12:00:10",
    );
    let synced = after_cycles(&[], "10:00:08");
    assert!(stopped.rank() < hanging.rank() && hanging.rank() < synced.rank());
    assert!(stopped.is_trouble() && hanging.is_trouble() && !synced.is_trouble());
}
