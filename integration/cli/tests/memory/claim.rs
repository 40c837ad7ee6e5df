//! hold: what the record says, and which holders are in the way.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use beadlock_testkit::{OverAtLast, Running, dead_pid, this_host, until};

use crate::scene::{Memory, TARGET, parsed};

#[test]
fn the_record_is_the_documents() {
    let memory = Memory::new();
    let ended = memory
        .hold(
            &["--session-id", "main", "--operation", "write:tasks.json"],
            "cat memory/.lock; echo $$",
        )
        .expect(
            0,
            &[
                "claimed memory:memory for main (PID ",
                "released memory:memory after",
            ],
        );
    let (json, pid) = ended.out.trim_end().rsplit_once('\n').unwrap();
    let keys = ["pid", "session_id", "acquired_at", "hostname", "operation"];
    let places = keys.map(|key| json.find(&format!("\n  \"{key}\": ")).unwrap());
    assert!(places.is_sorted(), "{json}");
    let record = parsed(json);
    assert_eq!(record["pid"].to_string(), pid);
    assert_eq!(
        (&record["session_id"], &record["operation"]),
        (&"main".into(), &"write:tasks.json".into())
    );
    assert_eq!(record["hostname"], this_host());
    let time = record["acquired_at"].as_str().unwrap();
    assert!(
        time.len() == "2026-01-29T15:30:00.000Z".len() && time.ends_with('Z'),
        "{time}"
    );
    assert!(memory.names().is_empty());
}

#[test]
fn nobody_reads_half_of_a_lock() {
    let memory = Memory::new();
    let (reads, torn) = read_during(&memory, || {
        for _ in 0..20 {
            memory.hold(&["--no-wait"], "sleep 0.02").expect(0, &[]);
        }
    });
    assert!(
        reads > 100 && torn == 0,
        "{torn} of {reads} reads saw half of a lock"
    );
    // The control: a file that is written in its place.
    let record = memory.hold(&[], "cat memory/.lock").expect(0, &[]).out;
    let begun = Instant::now();
    let (reads, torn) = read_during(&memory, || {
        while begun.elapsed() < Duration::from_secs(1) {
            fs::write(memory.lock(), &record).unwrap();
        }
    });
    assert!(
        torn > 0,
        "none of {reads} reads saw half of it: this shows nothing"
    );
}

/// Reads the lock again and again while this works. Returns how often there was something, and how often that was no JSON.
fn read_during(memory: &Memory, work: impl FnOnce()) -> (usize, usize) {
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| {
            let (mut reads, mut torn) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                let Ok(text) = fs::read_to_string(memory.lock()) else {
                    continue;
                };
                reads += 1;
                torn += usize::from(serde_json::from_str::<serde_json::Value>(&text).is_err());
            }
            (reads, torn)
        });
        let is_over = OverAtLast(&over);
        work();
        drop(is_over);
        reader.join().unwrap()
    })
}

#[test]
fn a_directory_that_does_not_exist_is_refused_unless_it_is_to_be_created() {
    let memory = Memory::new();
    let words = [
        "the directory of memory:nosuch does not exist",
        "make it: --create",
    ];
    for args in [
        &["hold", "memory:nosuch", "--", "true"][..],
        &["acquire", "memory:nosuch", "--for", "1"],
    ] {
        let ended = memory.run(args).expect(1, &words);
        assert!(
            ended.out.is_empty() && !memory.scene.file("nosuch").exists(),
            "{ended:?}"
        );
    }
    let json = memory
        .run(&["hold", "memory:nosuch", "--json", "--", "true"])
        .expect(1, &[])
        .json();
    assert_eq!(json["error"]["code"], "NO_TARGET");
    memory
        .run(&["hold", "memory:no/such", "--create", "--", "true"])
        .expect(0, &["claimed memory:no/such"]);
    assert!(memory.scene.file("no/such").is_dir());
    memory.hold(&["--create"], "true").expect(0, &[]);
    for target in [".beads", "lock:x", "file:x"] {
        memory
            .run(&["hold", target, "--create", "--", "true"])
            .expect(2, &["--create"]);
    }
}

#[test]
fn a_command_that_is_not_found_makes_no_directory() {
    let memory = Memory::new();
    let ended = memory.run(&["hold", "memory:new", "--create", "--", "no-such-command"]);
    ended.expect(127, &["no-such-command: command not found in PATH"]);
    assert!(!memory.scene.file("new").exists());
}

#[test]
fn the_session_comes_from_the_environment_and_the_directory_is_made() {
    let memory = Memory::new();
    let record = |target: &str, session: Option<&str>| {
        let mut command =
            memory.command(&["hold", target, "--create", "--", "sh", "-c", "cat */.lock"]);
        session.map(|session| command.env("CLAWDBOT_SESSION_ID", session));
        parsed(&Running::apart(command).end().expect(0, &[]).out)
    };
    let unnamed = record("memory:new/", None);
    assert_eq!(
        (&unnamed["session_id"], &unnamed["operation"]),
        (&"unknown".into(), &"cli-test".into())
    );
    assert!(memory.scene.file("new").is_dir());
    assert_eq!(record(TARGET, Some("nightly"))["session_id"], "nightly");
    memory
        .hold(&["--session-id", "a\nb"], "true")
        .expect(2, &["1 to 128 printable characters"]);
}

#[test]
fn who_comes_second_is_told_in_the_documents_words() {
    let memory = Memory::new();
    let _first = memory.holding(
        &["--session-id", "main", "--operation", "write:tasks.json"],
        "exec sleep 60",
    );
    let held = "Held by session 'main' for operation 'write:tasks.json'";
    let words = format!("Could not acquire lock within 0.5s. {held}");
    let second = memory.hold(&["--wait", "0.5"], "true").expect(4, &[&words]);
    assert!(second.out.is_empty());
    memory
        .hold(&["--no-wait"], "true")
        .expect(4, &[&format!("Could not acquire lock within 0.0s. {held}")]);
    let json = memory
        .run(&["hold", TARGET, "--json", "--no-wait", "--", "true"])
        .expect(4, &[])
        .json();
    assert_eq!(
        (&json["error"]["code"], &json["error"]["retryable"]),
        (&"LOCK_HELD".into(), &true.into())
    );
}

#[test]
fn the_wait_is_5_s_and_ends_with_the_lock() {
    let memory = Memory::new();
    let first = memory.holding(&[], "while test ! -e go; do sleep 0.05; done");
    let second = Running::apart(memory.command(&["hold", TARGET, "--", "echo", "mine"]));
    until("it waits", || second.err().contains("s left"));
    let left = second
        .err()
        .split_once("; ")
        .and_then(|(_, rest)| rest.split_once("s left")?.0.parse::<f64>().ok());
    assert!(
        left.is_some_and(|left| left <= 5.0),
        "5 s: {}",
        second.err()
    );
    fs::write(memory.scene.file("go"), "").unwrap();
    first.end().expect(0, &[]);
    assert_eq!(second.end().expect(0, &[]).out, "mine\n");
}

#[test]
fn a_stale_one_is_broken_and_that_is_logged() {
    let memory = Memory::new();
    let pid = i64::from(dead_pid());
    memory.write_as(pid, 0, &this_host());
    memory.hold(&[], "true").expect(
        0,
        &[
            &format!("[LOCK] Breaking stale lock: process {pid} is dead"),
            "claimed",
        ],
    );
    memory.write(31_000);
    memory.hold(&[], "true").expect(
        0,
        &["[LOCK] Breaking stale lock: lock is 3", "s old (>30s)"],
    );
    memory.write_as(1, 11_000, "H");
    memory.hold(&[], "true").expect(
        0,
        &["[LOCK] Breaking stale lock: cross-machine lock from H, 1"],
    );
}

#[test]
fn a_live_one_is_never_broken_and_a_stale_one_not_with_no_break_stale() {
    let memory = Memory::new();
    memory.write(0);
    let before = memory.record();
    memory
        .hold(&["--no-wait"], "true")
        .expect(4, &["Held by session 'main'"]);
    assert_eq!(memory.record(), before);
    memory.write(40_000);
    let before = memory.record();
    memory
        .hold(&["--no-break-stale", "--wait", "0.3"], "true")
        .expect(4, &["within 0.3s. Held by session 'main'"]);
    assert_eq!(memory.record(), before);
    memory.put("no lock");
    memory
        .hold(&["--no-break-stale"], "true")
        .expect(0, &["claimed"]);
}

/// Nothing happens to the file when a lock becomes too old.
#[test]
fn one_that_becomes_too_old_meanwhile_is_broken() {
    let memory = Memory::new();
    memory.write(29_000);
    // Its tries come at ever longer intervals, as the document's: on a busy machine not all of them within 5 s.
    memory.hold(&["--wait", "60"], "true").expect(
        0,
        &[
            "[LOCK] Breaking stale lock: lock is 3",
            "s old (>30s)",
            "claimed",
        ],
    );
}

#[test]
fn a_hold_in_a_hold_is_nested() {
    let memory = Memory::new();
    let beadlock = env!("CARGO_BIN_EXE_beadlock");
    let ended = memory.hold(
        &[],
        &format!("{beadlock} hold memory:memory --no-wait -- echo inner; cat memory/.lock"),
    );
    assert!(
        ended.expect(0, &[]).out.starts_with("inner\n{"),
        "and it is still held"
    );
}

#[test]
fn what_means_nothing_is_refused() {
    let memory = Memory::new();
    memory
        .hold(&["--holder", "x"], "true")
        .expect(2, &["--holder means nothing", "--session-id NAME"]);
    memory
        .hold(&["--reap-proven-dead"], "true")
        .expect(2, &["--reap-proven-dead means nothing"]);
    memory
        .hold(&["--force-lock"], "true")
        .expect(2, &["--force-lock is for named locks"]);
    memory
        .hold(&["--shared"], "true")
        .expect(2, &["--shared is for files"]);
    for target in [".beads", "lock:x", "file:x"] {
        for option in [
            &["--session-id", "x"][..],
            &["--operation", "x"],
            &["--no-break-stale"],
            &["--stale-after", "1s"],
        ] {
            let args = [&["hold", target][..], option, &["--", "true"]].concat();
            memory
                .run(&args)
                .expect(2, &["is for directories with one lock (memory:DIR)"]);
        }
    }
}
