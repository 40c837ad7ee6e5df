//! check: what makes a lock stale, and the words that are logged of it.

#![expect(
    clippy::disallowed_methods,
    reason = "what other programs do to a lock file"
)]

use std::fs;

use beadlock_core::gate::Gate;
use beadlock_testkit::{dead_pid, this_host};

use serde_json::json;

use crate::scene::{Memory, Says, TARGET, millis_ago};

#[test]
fn a_fresh_one_is_skipped() {
    let memory = Memory::new();
    for age in [0, 25_000, -60_000] {
        memory.write(age);
        let before = fs::read(memory.lock()).unwrap();
        assert_eq!(
            memory.run(&["check", TARGET]).says(4, &[]).out,
            "Skipping (locked by main)\n"
        );
        let data = &memory.run(&["check", TARGET, "--json"]).says(4, &[]).json()["data"][0];
        let wanted = serde_json::json!(["skip", "held", "main", "age_fresh", false]);
        let said =
            ["decision", "verdict", "holder", "reason", "removed"].map(|key| data[key].clone());
        assert_eq!(serde_json::json!(said), wanted, "{age}");
        assert_eq!(fs::read(memory.lock()).unwrap(), before, "untouched");
    }
}

#[test]
fn a_dead_process_is_logged_and_removed() {
    let memory = Memory::new();
    let pid = i64::from(dead_pid());
    memory.write_as(pid, 0, &this_host());
    let ended = memory.run(&["check", TARGET]).says(0, &[]);
    assert_eq!(
        ended.out,
        format!("[LOCK] Breaking stale lock: process {pid} is dead\n")
    );
    assert!(memory.names().is_empty());
}

/// Not an error: the other targets of the command line may have a use for the option.
#[test]
fn that_an_option_does_nothing_is_said() {
    let memory = Memory::new();
    memory.write(0);
    let said = format!(
        "--reap-proven-dead means nothing to {TARGET}; what is not refreshed is stale after 30s by itself"
    );
    let ended = memory
        .run(&["check", "--reap-proven-dead", TARGET])
        .expect(4, &[&said]);
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    assert_eq!(
        memory
            .run(&["check", "--reap-proven-dead", "-q", TARGET])
            .expect(4, &[])
            .err,
        ""
    );
    let json = memory
        .run(&["check", "--reap-proven-dead", "--json", TARGET])
        .expect(4, &[])
        .json();
    assert_eq!(
        (&json["ok"], &json["warnings"]),
        (&true.into(), &serde_json::json!([said]))
    );
    assert_eq!(
        memory.run(&["check", TARGET]).expect(4, &[]).err,
        "",
        "only of who has typed it"
    );
}

/// No process of this host is recorded that may refresh it: one look is enough.
#[test]
fn one_that_is_too_old_is_logged_and_removed() {
    let memory = Memory::new();
    memory.put(&format!(
        r#"{{"session_id": "main", "acquired_at": "{}"}}"#,
        millis_ago(45_200)
    ));
    let data = &memory
        .run(&["check", TARGET, "--dry-run", "--json"])
        .says(0, &[])
        .json()["data"][0];
    assert_eq!(
        (&data["verdict"], &data["reason"]),
        (&"stale".into(), &"age_exceeded".into())
    );
    let ended = memory.run(&["check", TARGET]).says(0, &[]);
    let age = ended
        .out
        .strip_prefix("[LOCK] Breaking stale lock: lock is ")
        .unwrap();
    let (age, rest) = age.split_once('s').unwrap();
    assert_eq!(rest, " old (>30s)\n");
    let (whole, tenths) = age.split_once('.').unwrap();
    assert!(
        whole.parse::<u32>().unwrap() >= 45 && tenths.len() == 1,
        "{age}"
    );
    assert!(memory.names().is_empty());
}

#[test]
fn another_hosts_is_too_old_after_10_s() {
    let memory = Memory::new();
    memory.write_as(i64::from(dead_pid()), 5000, "H");
    memory.run(&["check", TARGET]).says(4, &["locked by main"]);
    memory.write_as(1, 12_000, "H");
    let ended = memory.run(&["check", TARGET]).says(0, &[]);
    let start = "[LOCK] Breaking stale lock: cross-machine lock from H, 1";
    assert!(
        ended.out.starts_with(start) && ended.out.ends_with("s old\n"),
        "{}",
        ended.out
    );
    memory.write_as(1, 31_000, "H");
    memory
        .run(&["check", TARGET])
        .says(0, &["lock is 3", "s old (>30s)"]);
}

#[test]
fn how_old_it_may_be_can_be_said() {
    let memory = Memory::new();
    memory.write(2000);
    memory
        .run(&["check", TARGET, "--stale-after", "1.5", "--dry-run"])
        .says(0, &["Stale lock (main) would be"]);
    memory.put(&format!(
        r#"{{"session_id": "main", "acquired_at": "{}"}}"#,
        millis_ago(20_000)
    ));
    memory
        .run(&["check", TARGET, "--stale-after", "1.5", "--dry-run"])
        .says(0, &["Stale lock (main) would be"]);
    memory
        .run(&["check", TARGET, "--stale-after", "1.5"])
        .says(0, &["lock is 2", "s old (>1.5s)"]);
    memory.write(40_000);
    memory
        .run(&["check", TARGET, "--stale-after", "1m"])
        .says(4, &[]);
    memory.write_as(1, 9000, "H");
    memory
        .run(&["check", TARGET, "--stale-after-remote", "3s"])
        .says(0, &["cross-machine lock from H, "]);
    for args in [
        &["check", ".beads"][..],
        &["check", "file:x"],
        &["status", ".beads"],
        &["wait", "lock:x"],
    ] {
        let args = [args, &["--stale-after", "3s"]].concat();
        memory.run(&args).expect(
            2,
            &["--stale-after is for directories with one lock (memory:DIR)"],
        );
    }
}

/// It is the lock of a directory: no line of a check, its explanation or its JSON speaks of a database.
#[test]
fn a_check_speaks_of_the_lock_alone() {
    let memory = Memory::new();
    let dead = json!({
        "pid": dead_pid(), "session_id": "main", "acquired_at": millis_ago(0), "hostname": this_host(),
    });
    let rows = [
        (None, ""),
        (
            Some(json!({ "session_id": "main", "acquired_at": millis_ago(0) }).to_string()),
            "Skipping (locked by main)",
        ),
        (Some("[]".to_owned()), ""),
        (Some(dead.to_string()), "Skipping (a claim is in progress)"),
    ];
    let gate = Gate::try_take(&memory.dir()).unwrap().unwrap();
    for (text, line) in rows {
        text.iter().for_each(|text| memory.put(text));
        for words in [
            &["check", TARGET][..],
            &["check", TARGET, "--explain"],
            &["check", TARGET, "--json"],
        ] {
            let ended = memory.run(words);
            let said = format!("{}{}", ended.out, ended.err);
            assert!(
                said.contains(line) && !said.to_lowercase().contains("database"),
                "{words:?}: {said}"
            );
        }
    }
    drop(gate);
    fs::remove_file(memory.lock()).unwrap();
    fs::create_dir(memory.lock()).unwrap();
    for words in [
        &["check", TARGET][..],
        &["check", TARGET, "--explain"],
        &["check", TARGET, "--json"],
    ] {
        let ended = memory.run(words).says(
            5,
            &["Skipping (lock check failed: failed to read lock file: "],
        );
        assert!(!ended.out.contains("database"), "{ended:?}");
    }
}

#[test]
fn why_is_explained_and_what_to_type() {
    let memory = Memory::new();
    memory.write(1000);
    memory.run(&["check", TARGET, "--explain"]).says(
        4,
        &[
            "why: its process lives, and it is stale by its age in 2",
            "succeeds: it lives",
            "operation: write:tasks.json",
            "next: beadlock wait --wait 10m memory:memory",
        ],
    );
}
