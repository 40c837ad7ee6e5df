use super::*;

#[test]
fn which_process_an_agent_is_stands_in_its_header_and_its_start() {
    let agent = "beadlock-agent 0.1.0, PID 77, host ci-3, start 9, boot b, PID namespace pid:[1]";
    let lines = [
        format!("{agent}, times in UTC"),
        format!("Agent started: {agent}"),
    ];
    for line in lines {
        let (DaemonEvent::Header(id) | DaemonEvent::Started(id)) = DaemonEvent::parse(&line, None)
        else {
            panic!("{line}");
        };
        assert_eq!((id.pid, id.host.as_deref()), (Some(77), Some("ci-3")));
        assert!(id.process.is_some_and(|process| process.is_marked()));
    }
    let other =
        format!("Served already by {agent}; one agent is enough: stop this one, or type: kill 77");
    let event = DaemonEvent::parse(&other, Some(LogWriter::Agent));
    let DaemonEvent::ServedBy(id) = event else {
        panic!("{other}");
    };
    assert_eq!((id.pid, id.host.as_deref()), (Some(77), Some("ci-3")));
}

#[test]
fn the_lines_of_the_agent() {
    let me = || {
        let program = "beadlock-agent 0.1.0".to_owned();
        DaemonId {
            program,
            pid: Some(77),
            host: Some("ci-3".to_owned()),
            database: None,
            process: AgentProcess::parse("beadlock-agent 0.1.0, PID 77, host ci-3"),
        }
    };
    let since = LogTime::parse("2026-11-25T15:55:57Z");
    let state = |state, why, next| {
        DaemonEvent::State(StateReport {
            state,
            since,
            why,
            next,
        })
    };
    let held = |host: &str, reason: &str| {
        DaemonEvent::Held(LockDetails {
            pid: Some(77),
            host: Some(host.to_owned()),
            since: Some("2025-10-25T12:00:00Z".to_owned()),
            reason: Some(reason.to_owned()),
        })
    };
    let cases = [
        (
            "beadlock-agent 0.1.0, PID 77, host ci-3, times in UTC",
            DaemonEvent::Header(me()),
        ),
        (
            "Agent started: beadlock-agent 0.1.0, PID 77, host ci-3",
            DaemonEvent::Started(me()),
        ),
        (
            "Agent stopped: beadlock-agent 0.1.0, PID 77, host ci-3",
            DaemonEvent::Stopped(Some(me())),
        ),
        ("Ending on SIGTERM", DaemonEvent::Ending("SIGTERM")),
        (
            "Ending on SIGINT after 2 running cycles",
            DaemonEvent::Ending("SIGINT"),
        ),
        ("Starting sync cycle...", DaemonEvent::Begun),
        ("Sync cycle complete", DaemonEvent::Complete),
        (
            "Sync cycle failed: exit code 3 after 1.2s",
            DaemonEvent::Failed("exit code 3 after 1.2s"),
        ),
        (
            "Sync cycle timed out after 2m; command ended",
            DaemonEvent::TimedOut("2m"),
        ),
        (
            "Sync cycle incomplete: x: y; 3 commits wait",
            DaemonEvent::Incomplete("x: y; 3 commits wait"),
        ),
        (
            "State: not_serving since 2026-11-25 15:55:57: it belongs to ann; type: chown a b",
            state(
                Line::StateNotServing,
                Some("it belongs to ann"),
                Some("chown a b"),
            ),
        ),
        (
            "State: not_serving since 2026-11-25 15:55:57: this is a Dolt database; bd dolt push and pull sync it",
            state(
                Line::StateNotServing,
                Some("this is a Dolt database; bd dolt push and pull sync it"),
                None,
            ),
        ),
        (
            "State: failed since 2026-11-25 15:55:57: a; type: b; type: git pull --rebase",
            state(
                Line::StateFailed,
                Some("a; type: b"),
                Some("git pull --rebase"),
            ),
        ),
        (
            "State: skipped since 2026-11-25 15:55:57: locked by a: b",
            state(Line::StateSkipped, Some("locked by a: b"), None),
        ),
        (
            "State: local_only since 2026-11-25 15:55:57: x; 1 commit waits, since 2026-11-25 15:10:00",
            state(
                Line::StateLocalOnly,
                Some("x; 1 commit waits, since 2026-11-25 15:10:00"),
                None,
            ),
        ),
        (
            "State: behind since 2026-11-25 15:55:57: cannot fetch: origin: Connection refused",
            state(
                Line::StateBehind,
                Some("cannot fetch: origin: Connection refused"),
                None,
            ),
        ),
        (
            "State: starting since 2026-11-25 15:55:57",
            state(Line::StateStarting, None, None),
        ),
        (
            "State: idle since 2026-11-25 15:55:57",
            state(Line::StateIdle, None, None),
        ),
        (
            "State: synced since 2026-11-25 15:55:57",
            state(Line::StateSynced, None, None),
        ),
        (
            "Skipping database (locked by vc-executor)",
            DaemonEvent::Locked("vc-executor"),
        ),
        (
            "Skipping database (locked by a (b))",
            DaemonEvent::Locked("a (b)"),
        ),
        (
            "Skipping database (a sync cycle or a claim is in progress)",
            DaemonEvent::Busy,
        ),
        (
            "Skipping database (lock check failed: malformed lock file: unexpected EOF)",
            DaemonEvent::Unreadable("malformed lock file: unexpected EOF"),
        ),
        (
            "Removed stale lock (vc-executor), proceeding with sync",
            DaemonEvent::Removed("vc-executor"),
        ),
        (
            "Held since 2025-10-25T12:00:00Z by PID 77 on ci-3 (pid_alive)",
            held("ci-3", "pid_alive"),
        ),
        (
            "Held since 2025-10-25T12:00:00Z by PID 77 on ci-3 (pid_alive); a zombie: it has ended, its parent (PID 1, a (b)) \
             has not collected it; --reap-proven-dead may remove the lock",
            held("ci-3", "pid_alive"),
        ),
        (
            "Held since 2025-10-25T12:00:00Z by PID 77 on x (pid_alive); a zombie: y (other_host)",
            held("x (pid_alive); a zombie: y", "other_host"),
        ),
        ("Resumed after 5 skips in 4.7s", DaemonEvent::Resumed),
        ("Resumed after 1 skip in 4.7s", DaemonEvent::Resumed),
        ("Resumed after 1 skips in 4.7s", DaemonEvent::Resumed),
        ("Committed 3 files (1a2b3c4)", DaemonEvent::Step),
        (
            "Pulled 2 commits from origin/main (1a2b3c4..5d6e7f8)",
            DaemonEvent::Step,
        ),
        (
            "Pushed 1 commit to origin/main (1a2b3c4..5d6e7f8)",
            DaemonEvent::Step,
        ),
        (
            "Not pulling: uncommitted changes outside .beads (src/x.rs and 2 more)",
            DaemonEvent::Notice,
        ),
        (
            "Not committing: x, a git repository of its own",
            DaemonEvent::Notice,
        ),
        (
            "Not committing: .beads/embeddeddolt/ (a Dolt database; bd dolt push and pull sync it, and the agent syncs \
             the record files)",
            DaemonEvent::Notice,
        ),
        (
            "Not writing its own names to /r/.git/info/exclude: it belongs to another user",
            DaemonEvent::Notice,
        ),
        (
            "Tracked secret: .beads/x.key; change the secret",
            DaemonEvent::Notice,
        ),
        (
            "Not pushing: 2 commits that are not ours",
            DaemonEvent::Notice,
        ),
        (
            "Nothing to sync: /r/.beads is in no git repository",
            DaemonEvent::Notice,
        ),
        (
            "Nothing to sync: this is a Dolt database; bd dolt push and pull sync it",
            DaemonEvent::Notice,
        ),
        ("Only committing: there is no remote", DaemonEvent::Notice),
        (
            "Cannot reach origin: x; committing only, next try in 10s",
            DaemonEvent::Notice,
        ),
        (
            "Cannot push to origin: x; committing only, next try in 10s",
            DaemonEvent::Notice,
        ),
        (
            "Push refused by origin: x; committing only, next try in 10s",
            DaemonEvent::Notice,
        ),
        ("Reached it again after 3m", DaemonEvent::Notice),
        ("Configuration reloaded: x", DaemonEvent::Notice),
        ("Configuration not reloaded: x", DaemonEvent::Notice),
        ("Database found: /r/.beads", DaemonEvent::Notice),
        ("Database gone: /r/.beads", DaemonEvent::Notice),
        (
            "Database redirected: /r/.beads leads to /s now, and led to /r/.beads before",
            DaemonEvent::Notice,
        ),
        ("Not serving /r/.beads: x", DaemonEvent::Notice),
        ("Cannot look below /r: x", DaemonEvent::Notice),
        (
            "Cannot watch for changes (x); cycles start by the clock",
            DaemonEvent::Notice,
        ),
        (
            "No gate (x); a claim does not wait for a running cycle here",
            DaemonEvent::Notice,
        ),
        ("Joined the fleet etcd://h:2379/beads", DaemonEvent::Notice),
        (
            "Lost the fleet: the session is gone: x",
            DaemonEvent::Notice,
        ),
        ("Listening at 127.0.0.1:1", DaemonEvent::Notice),
        (
            "Served already by another one; one agent is enough: x",
            DaemonEvent::Notice,
        ),
        (
            "Merged 3 records in .beads/issues.jsonl",
            DaemonEvent::Notice,
        ),
        ("Notice: x", DaemonEvent::Notice),
        ("Tracked secret: .beads/key; x", DaemonEvent::Notice),
        ("Not writing its own names to x: y", DaemonEvent::Notice),
        ("Still skipping after 30m: x", DaemonEvent::Notice),
        (
            "Not serving anything: no database to serve was found below /r; x",
            DaemonEvent::Notice,
        ),
        (
            "lock_blocked of /r/.beads/.exclusive-lock is not in the audit file x",
            DaemonEvent::Other,
        ),
        (
            "lock_stale_removed of /r/.beads/.exclusive-lock is not in the audit file x",
            DaemonEvent::Other,
        ),
    ];
    for line in Line::all().filter(|line| *line != Line::Output) {
        let is_read = |(message, _): &(&str, DaemonEvent<'_>)| Line::parse(message).0 == line;
        assert!(cases.iter().any(is_read), "{line:?}");
    }
    for (message, event) in cases {
        for writer in [None, Some(LogWriter::Agent), Some(LogWriter::Original)] {
            assert_eq!(DaemonEvent::parse(message, writer), event, "{message}");
        }
        assert_eq!(
            DaemonEvent::parse(&format!("| {message}"), None),
            DaemonEvent::Other,
            "{message}"
        );
    }
}

#[test]
fn the_lines_of_the_original_daemon() {
    let cases = [
        (
            "Daemon started (interval: 5s, auto-commit: true, auto-push: false)",
            "Started",
        ),
        ("Starting local sync cycle...", "Begun"),
        ("Starting auto-import...", "Begun"),
        ("Skipping export (locked by vc)", "Locked(\"vc\")"),
        ("Skipping import (locked by vc)", "Locked(\"vc\")"),
        ("Skipping import: JSONL content unchanged", "Complete"),
        (
            "Skipping local export (lock check failed: x)",
            "Unreadable(\"x\")",
        ),
        ("Skipping auto-import: JSONL content unchanged", "Complete"),
        (
            "Skipping sync cycle: sync-branch 'x' is your current branch. Use a dedicated sync branch.",
            "Notice",
        ),
        ("Removed stale lock (vc), proceeding", "Removed(\"vc\")"),
        (
            "Removed stale lock (vc), proceeding with sync cycle",
            "Removed(\"vc\")",
        ),
        ("Local local sync cycle complete", "Complete"),
        ("Export complete", "Complete"),
        ("Auto-import complete", "Complete"),
        ("Pull failed: git pull failed: exit status 128", "Trouble"),
        ("Error: JSONL path not found", "Trouble"),
        ("Failed to count issues before import: x", "Trouble"),
        (
            "Received signal terminated, shutting down gracefully...",
            "Stopped(None)",
        ),
        ("Context canceled, shutting down", "Stopped(None)"),
        (
            "Parent process (PID 7) died, shutting down daemon",
            "Stopped(None)",
        ),
        ("RPC server failed: x", "Stopped(None)"),
        ("Error during 3-way merge: x", "Trouble"),
        ("Sync branch commit failed: x", "Trouble"),
        ("Using event-driven mode", "EventMode(true)"),
        ("using event-driven mode", "EventMode(true)"),
        ("Export triggered by mutation events", "EventMode(true)"),
        ("Import triggered by file change", "EventMode(true)"),
        ("Mutation detected: create bd-1", "EventMode(true)"),
        ("Using polling mode (interval: 5s)", "EventMode(false)"),
        ("Falling back to polling mode", "EventMode(false)"),
        (
            "Auto-pull enabled: checking remote every 30s",
            "EventMode(false)",
        ),
        (
            "Periodic remote sync: checking for updates",
            "EventMode(false)",
        ),
        (
            "WARNING: File watcher unavailable (x), using 60s polling fallback",
            "EventMode(false)",
        ),
        (
            "Using sync branch: beads-sync",
            "SyncBranch(\"beads-sync\")",
        ),
        (
            "Committed changes to sync branch a b",
            "SyncBranch(\"a b\")",
        ),
        ("Pushed sync branch a to remote", "SyncBranch(\"a\")"),
        ("Pulled sync branch a", "SyncBranch(\"a\")"),
        (
            "Using database: /r/.beads/beads.db",
            "Serves(\"/r/.beads/beads.db\")",
        ),
        ("Warning: events export failed: x", "Other"),
        ("Exported to JSONL", "Other"),
        (
            "Received reload signal, ignoring (daemon continues running)",
            "Other",
        ),
    ];
    for (message, event) in cases {
        for writer in [None, Some(LogWriter::Original)] {
            let parsed = format!("{:?}", DaemonEvent::parse(message, writer));
            assert!(parsed.starts_with(event), "{message}: {parsed}");
        }
        // In the agent's log they are a command's output.
        let parsed = DaemonEvent::parse(message, Some(LogWriter::Agent));
        let is_both = message.starts_with("Daemon started") || message.starts_with("Removed");
        assert_eq!(
            parsed != DaemonEvent::Other,
            is_both,
            "{message}: {parsed:?}"
        );
    }
}

#[test]
fn what_only_looks_so_is_other() {
    for message in [
        "",
        " ",
        "Starting",
        "Starting ...",
        "Starting up...",
        "Skipping",
        "Skipping database",
        "Skipping tests (locked by x)",
        "Sync cycle",
        "Sync cycle completed",
        "Held since x",
        "Held since x by PID y on z (w)",
        "Removed stale lock (",
        "Removed stale lock (x)",
        "Resumed after lunch",
        "Agent started: make, PID 1, host x",
        "Committed to it",
        "Pulled from remote",
        "Pushed 3 things",
        "Pulled  commits from x",
        "Database",
        "Reached the end",
        "Ending on a good note",
        "beadlock-agent 0.1.0",
        "failed: x",
        "Error",
        "\u{feff}Starting sync cycle...",
        "é",
        "Export completely",
        "State:",
        "State: fine",
        "State: failed at lunch",
        "State: failed since yesterday",
        "State: failed since 2026-11-25 15:55",
        "State: failed since 2026-11-25 15:55:57 x",
        "State: failed since 2026-11-25 15:55:5é",
        "State: syncedness",
        "Sync cycle incomplete",
        "Resumed after 11 skip in 2s",
        "using",
    ] {
        assert_eq!(
            DaemonEvent::parse(message, None),
            DaemonEvent::Other,
            "{message}"
        );
    }
}

#[test]
fn a_name_cut_in_two_by_its_own_line_end_is_still_a_name() {
    assert_eq!(
        DaemonEvent::parse("Skipping database (locked by a", None),
        DaemonEvent::CutOff("a")
    );
    assert_eq!(
        DaemonEvent::parse("Skipping export (locked by a), proceeding", None),
        DaemonEvent::CutOff("a), proceeding")
    );
    assert_eq!(
        DaemonEvent::parse(
            "Removed stale lock (a), proceeding b), proceeding with sync",
            None
        ),
        DaemonEvent::Removed("a), proceeding b")
    );
}
