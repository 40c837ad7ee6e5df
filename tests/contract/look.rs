//! What only looks: `list`, `log`, `status --agent`, `doctor`.

use std::fs;

use beadlock_tests::{dead_pid, skip, this_host, tool};

use crate::setting::{Setting, old_lock, play};

#[test]
fn several_locks() {
    let setting = || {
        let mut setting = Setting::free();
        let live = setting.holder();
        for (name, holder, pid, host) in [
            ("one", "release-job", live, this_host()),
            ("two", "importer", dead_pid().into(), this_host()),
            ("three", "backup", 4711000, "build-7".to_owned()),
        ] {
            let beads = setting.scene.database(name);
            fs::write(beads.join(".exclusive-lock"), old_lock(holder, pid, &host))
                .expect("write a lock");
        }
        fs::write(setting.scene.database("four").join(".exclusive-lock"), "{")
            .expect("write a lock");
        setting.given("4711000")
    };
    play(
        "look/several",
        setting,
        &[
            ("list", "beadlock list"),
            ("list-verbose", "beadlock list -v"),
            ("list-roots", "beadlock list one two nowhere"),
            (
                "contract-check",
                "beadlock check one/.beads two/.beads three/.beads four/.beads",
            ),
            (
                "status",
                "beadlock status one/.beads two/.beads three/.beads four/.beads",
            ),
        ],
    );
}

/// Lines of an agent, of one morning.
const LOG: &str = "\
[2026-02-01 10:00:00] beadlock-agent 0.0.0, PID 77, host ci-3, times in UTC
[2026-02-01 10:00:00] Agent started: beadlock-agent 0.0.0, PID 77, host ci-3
[2026-02-01 10:00:00] Starting sync cycle...
[2026-02-01 10:00:01] Sync cycle complete
[2026-02-01 10:00:05] Skipping database (locked by release-job)
[2026-02-01 10:00:05] Held since 2026-02-01T10:00:03Z by PID 4711000 on ci-3 (pid_alive)
[2026-02-01 10:00:10] Skipping database (locked by release-job)
[2026-02-01 10:00:15] Resumed after 2 skips in 10s
[2026-02-01 10:00:15] Starting sync cycle...
[2026-02-01 10:00:16] Sync cycle failed: exit code 3 after 1s
[2026-02-01 10:00:20] Removed stale lock (importer), proceeding with sync
[2026-02-01 10:00:20] Starting sync cycle...
[2026-02-01 10:00:21] Sync cycle complete
[2026-02-01 10:00:25] Skipping database (lock check failed: malformed lock file: unexpected EOF)
";

#[test]
fn a_log() {
    let setting = || {
        Setting::free()
            .with(".beads/daemon.log", LOG)
            .with("empty.log", "")
            .fixed("AGE")
            .fixed("TIME")
            .fixed("PID")
    };
    play(
        "look/log",
        setting,
        &[
            ("log", "beadlock log --until '2026-02-01 10:00:30'"),
            (
                "log-verbose",
                "beadlock log -v --until '2026-02-01 10:00:30'",
            ),
            (
                "log-part",
                "beadlock log --since '2026-02-01 10:00:14' --until '2026-02-01 10:00:22'",
            ),
            (
                "log-empty",
                "beadlock log empty.log --until '2026-02-01 10:00:30'",
            ),
            ("log-missing", "beadlock log nowhere.log"),
        ],
    );
}

#[test]
fn an_agent_that_does_not_answer() {
    play(
        "look/agent",
        Setting::free,
        &[
            (
                "status-agent-refused",
                "beadlock status --agent 127.0.0.1:1",
            ),
            (
                "status-agent-no-socket",
                "beadlock status --agent unix:agent.sock",
            ),
            (
                "status-agent-no-address",
                "beadlock status --agent nonsense",
            ),
            ("fleet-status-none", "beadlock fleet status"),
        ],
    );
}

/// What is not there is the same everywhere; what a file system can do is another test's.
#[test]
fn a_doctor() {
    let Some(_) = tool("jq") else { return };
    play(
        "look/doctor",
        Setting::free,
        &[
            ("doctor-missing", "beadlock doctor nowhere"),
            ("doctor-file", "beadlock doctor .beads/issues.jsonl"),
        ],
    );
    if !skip::may_be_root() {
        return skip::cannot("the names of doctor's trials are compared as root");
    }
    play(
        "look/doctor-trials",
        Setting::free,
        &[(
            "contract-names",
            "beadlock doctor --json | jq -r '.data.trials[].name, .data.guarantees[].name'",
        )],
    );
}
