use super::*;

#[test]
fn the_lines_of_the_agent() {
    let me = Agent { program: "beadlock-agent 0.1.0", pid: Some(77), host: Some("ci-3") };
    let cases = [
        ("beadlock-agent 0.1.0, PID 77, host ci-3, times in UTC", Event::Header(me)),
        ("Agent started: beadlock-agent 0.1.0, PID 77, host ci-3", Event::Started(me)),
        ("Agent stopped: beadlock-agent 0.1.0, PID 77, host ci-3", Event::Stopped(Some(me))),
        ("Ending on SIGTERM", Event::Ending("SIGTERM")),
        ("Ending on SIGINT after 2 running cycles", Event::Ending("SIGINT")),
        ("Starting sync cycle...", Event::Begun),
        ("Sync cycle complete", Event::Complete),
        ("Sync cycle failed: exit code 3 after 1.2s", Event::Failed("exit code 3 after 1.2s")),
        ("Sync cycle timed out after 2m; command ended", Event::TimedOut("2m")),
        ("Skipping database (locked by vc-executor)", Event::Locked("vc-executor")),
        ("Skipping database (locked by a (b))", Event::Locked("a (b)")),
        ("Skipping database (a sync cycle or a claim is in progress)", Event::Busy),
        (
            "Skipping database (lock check failed: malformed lock file: unexpected EOF)",
            Event::Unreadable("malformed lock file: unexpected EOF"),
        ),
        ("Removed stale lock (vc-executor), proceeding with sync", Event::Removed("vc-executor")),
        (
            "Held since 2025-10-25T12:00:00Z by PID 77 on ci-3 (pid_alive)",
            Event::Held(Held { since: "2025-10-25T12:00:00Z", pid: 77, host: "ci-3", reason: "pid_alive" }),
        ),
        (
            "Held since 2025-10-25T12:00:00Z by PID 77 on ci-3 (pid_alive); a zombie: it has ended, its parent (PID 1, a (b)) \
             has not collected it; --reap-proven-dead may remove the lock",
            Event::Held(Held { since: "2025-10-25T12:00:00Z", pid: 77, host: "ci-3", reason: "pid_alive" }),
        ),
        (
            "Held since 2025-10-25T12:00:00Z by PID 77 on x (pid_alive); a zombie: y (other_host)",
            Event::Held(Held {
                since: "2025-10-25T12:00:00Z",
                pid: 77,
                host: "x (pid_alive); a zombie: y",
                reason: "other_host",
            }),
        ),
        ("Resumed after 5 skips in 4.7s", Event::Resumed),
        ("Committed 3 files (1a2b3c4)", Event::Step),
        ("Pulled 2 commits from origin/main (1a2b3c4..5d6e7f8)", Event::Step),
        ("Pushed 1 commit to origin/main (1a2b3c4..5d6e7f8)", Event::Step),
        ("Not pulling: uncommitted changes outside .beads (src/x.rs and 2 more)", Event::Notice),
        ("Not committing: x, a git repository of its own", Event::Notice),
        ("Not pushing: 2 commits that are not ours", Event::Notice),
        ("Nothing to sync: /r/.beads is in no git repository", Event::Notice),
        ("Only committing: there is no remote", Event::Notice),
        ("Cannot reach origin: x; committing only, next try in 10s", Event::Notice),
        ("Cannot push to origin: x; committing only, next try in 10s", Event::Notice),
        ("Push refused by origin: x; committing only, next try in 10s", Event::Notice),
        ("Reached it again after 3m", Event::Notice),
        ("Configuration reloaded: x", Event::Notice),
        ("Configuration not reloaded: x", Event::Notice),
        ("Database found: /r/.beads", Event::Notice),
        ("Database gone: /r/.beads", Event::Notice),
        ("Database redirected: /r/.beads leads to /s now, and led to /r/.beads before", Event::Notice),
        ("Not serving /r/.beads: x", Event::Notice),
        ("Cannot look below /r: x", Event::Notice),
        ("Cannot watch for changes (x); cycles start by the clock", Event::Notice),
        ("No gate (x); a claim does not wait for a running cycle here", Event::Notice),
        ("Listening at 127.0.0.1:1", Event::Notice),
        ("Still skipping after 30m: x", Event::Notice),
        ("Not serving anything: no database to serve was found below /r; x", Event::Notice),
        ("lock_blocked of /r/.beads/.exclusive-lock is not in the audit file x", Event::Other),
        ("lock_stale_removed of /r/.beads/.exclusive-lock is not in the audit file x", Event::Other),
    ];
    for line in log_line::Event::all().filter(|line| *line != log_line::Event::Output) {
        let is_read = |(message, _): &(&str, Event<'_>)| log_line::Event::parse(message).0 == line;
        assert!(cases.iter().any(is_read), "{line:?}");
    }
    for (message, event) in cases {
        for writer in [None, Some(Writer::Agent), Some(Writer::Original)] {
            assert_eq!(Event::parse(message, writer), event, "{message}");
        }
        assert_eq!(Event::parse(&format!("| {message}"), None), Event::Other, "{message}");
    }
}

#[test]
fn the_lines_of_the_original_daemon() {
    let cases = [
        ("Daemon started (interval: 5s, auto-commit: true, auto-push: false)", "Started"),
        ("Starting local sync cycle...", "Begun"),
        ("Starting auto-import...", "Begun"),
        ("Skipping export (locked by vc)", "Locked(\"vc\")"),
        ("Skipping local export (lock check failed: x)", "Unreadable(\"x\")"),
        ("Skipping auto-import: JSONL content unchanged", "Complete"),
        (
            "Skipping sync cycle: sync-branch 'x' is your current branch. Use a dedicated sync branch.",
            "Notice",
        ),
        ("Removed stale lock (vc), proceeding", "Removed(\"vc\")"),
        ("Removed stale lock (vc), proceeding with sync cycle", "Removed(\"vc\")"),
        ("Local local sync cycle complete", "Complete"),
        ("Export complete", "Complete"),
        ("Auto-import complete", "Complete"),
        ("Pull failed: git pull failed: exit status 128", "Trouble"),
        ("Error: JSONL path not found", "Trouble"),
        ("Failed to count issues before import: x", "Trouble"),
        ("Received signal terminated, shutting down gracefully...", "Stopped(None)"),
        ("Context canceled, shutting down", "Stopped(None)"),
        ("Warning: events export failed: x", "Other"),
        ("Exported to JSONL", "Other"),
        ("Received reload signal, ignoring (daemon continues running)", "Other"),
    ];
    for (message, event) in cases {
        for writer in [None, Some(Writer::Original)] {
            let parsed = format!("{:?}", Event::parse(message, writer));
            assert!(parsed.starts_with(event), "{message}: {parsed}");
        }
        // In the agent's log they are a command's output.
        let parsed = Event::parse(message, Some(Writer::Agent));
        let is_both = message.starts_with("Daemon started") || message.starts_with("Removed");
        assert_eq!(parsed != Event::Other, is_both, "{message}: {parsed:?}");
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
    ] {
        assert_eq!(Event::parse(message, None), Event::Other, "{message}");
    }
}

#[test]
fn a_name_cut_in_two_by_its_own_line_end_is_still_a_name() {
    assert_eq!(Event::parse("Skipping database (locked by a", None), Event::CutOff("a"));
    assert_eq!(
        Event::parse("Skipping export (locked by a), proceeding", None),
        Event::CutOff("a), proceeding")
    );
    assert_eq!(
        Event::parse("Removed stale lock (a), proceeding b), proceeding with sync", None),
        Event::Removed("a), proceeding b")
    );
}
