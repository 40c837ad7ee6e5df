//! The lock file: its place, its fields, who may have written it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use beadlock_tests::{Ended, Scene, dead_pid, run, this_host};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::one_cycle;

const FIELDS: [&str; 5] = ["holder", "pid", "hostname", "started_at", "version"];

/// Runs `beadlock hold ARGS` around a command that keeps a copy of the lock and says its own PID.
fn lock_of_a_hold(scene: &Scene, args: &[&str]) -> (Value, i64) {
    let work = [
        "--",
        "sh",
        "-c",
        "cp -p .beads/.exclusive-lock seen; echo $$ >pid",
    ];
    let ended = scene.run(&[&["hold"], args, &work].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let record = serde_json::from_str(&scene.read("seen")).expect("the lock is JSON");
    (record, scene.pid_in("pid").into())
}

#[test]
fn a_hold_writes_the_fields_of_the_document_in_its_order() {
    let scene = Scene::new();
    let before = Timestamp::now().as_second();
    let (record, pid) = lock_of_a_hold(
        &scene,
        &["--holder", "vc-executor", "--holder-version", "1.2.0"],
    );
    let after = Timestamp::now().as_second();
    let keys: Vec<&str> = record
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        [&FIELDS[..], &["beadlock"]].concat(),
        "the document's five, and one that other readers ignore"
    );
    assert_eq!(record["holder"], "vc-executor");
    assert_eq!(record["pid"], json!(pid), "the process that does the work");
    assert_eq!(record["hostname"], json!(this_host()));
    assert_eq!(record["version"], "1.2.0");
    let started = record["started_at"].as_str().expect("a text");
    let moment: Timestamp = started.parse().expect("an RFC 3339 time");
    assert!(
        started.len() == "2026-11-25T08:00:00Z".len() && started.ends_with('Z'),
        "UTC, whole seconds: {started}"
    );
    assert!((before..=after).contains(&moment.as_second()), "{started}");
    assert_eq!(
        fs::metadata(scene.file("seen"))
            .expect("the copy")
            .permissions()
            .mode()
            & 0o777,
        0o644
    );
    assert!(
        scene.read("seen").starts_with("{\n  \"holder\""),
        "indented by two spaces"
    );
    assert!(scene.read("seen").ends_with("}\n"));
}

#[test]
fn a_holder_without_a_version_has_no_such_field() {
    let scene = Scene::new();
    let (record, _) = lock_of_a_hold(&scene, &[]);
    let keys: Vec<&str> = record
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        keys,
        ["holder", "pid", "hostname", "started_at", "beadlock"]
    );
    assert_eq!(record["holder"], "sh", "the command's own name");
}

#[test]
fn a_version_is_refused_that_is_not_printable_or_means_nothing() {
    let scene = Scene::new();
    for (args, said) in [
        (
            &["hold", "--holder-version", "1\n2", "--", "true"][..],
            "a holder's version is 1 to 128 printable characters",
        ),
        (
            &["acquire", "--holder-version", ""],
            "a holder's version is 1 to 128 printable characters",
        ),
        (
            &["hold", "file:x.json", "--holder-version", "1", "--", "true"],
            "an flock has no record",
        ),
        (
            &["hold", "memory:.", "--holder-version", "1", "--", "true"],
            "its record has no version",
        ),
        (
            &["hold", "tower:a-b", "--holder-version", "1", "--", "true"],
            "--intent-version VERSION",
        ),
    ] {
        let ended = scene.run(args);
        assert!(
            ended.code == 2 && ended.err.contains(said),
            "{args:?}: {ended:?}"
        );
    }
    assert_eq!(scene.names(), ["issues.jsonl"], "nothing is claimed");
}

/// A lock of this test, which lives, with one field changed or, for `null`, missing.
fn lock_with(field: &str, value: &Value) -> String {
    let mut record = json!({
        "holder": "my-tool", "pid": std::process::id(), "hostname": this_host(),
        "started_at": "2025-10-25T12:00:00Z", "version": "1.0.0",
    });
    let fields = record.as_object_mut().expect("an object");
    if value.is_null() {
        fields.remove(field);
    } else {
        fields.insert(field.to_owned(), value.clone());
    }
    record.to_string()
}

/// `beadlock check` and a cycle of the agent: what they say, by which code, and that the lock stays.
#[track_caller]
fn both_say(scene: &Scene, text: &str, begins: &str, code: i32) {
    scene.write_lock(text);
    let checked = scene.run(&["check"]);
    assert!(
        checked.out.starts_with(begins) && checked.code == code,
        "{text}: {checked:?}"
    );
    assert_eq!(one_cycle(scene, "touch ran"), code, "{text}");
    assert!(
        scene.log().contains(&format!("] {begins}")),
        "{text}: {}",
        scene.log()
    );
    assert_eq!(scene.lock_text(), text, "the lock stays as it is");
    assert!(!scene.file("ran").exists(), "no cycle runs: {text}");
}

#[test]
fn each_required_field_that_is_missing_or_of_a_wrong_type_is_a_skip() {
    let scene = Scene::new();
    let invalid = "Skipping database (lock check failed: invalid lock file: ";
    let malformed = "Skipping database (lock check failed: malformed lock file: ";
    for (field, value, begins) in [
        (
            "holder",
            Value::Null,
            format!("{invalid}holder must not be empty)"),
        ),
        (
            "holder",
            json!(""),
            format!("{invalid}holder must not be empty)"),
        ),
        (
            "holder",
            json!(7),
            format!("{malformed}holder must be a string, not a number)"),
        ),
        (
            "pid",
            Value::Null,
            format!("{invalid}pid must be positive (got 0))"),
        ),
        (
            "pid",
            json!(-7),
            format!("{invalid}pid must be positive (got -7))"),
        ),
        (
            "pid",
            json!("7"),
            format!("{malformed}pid must be an integer, not a string)"),
        ),
        (
            "hostname",
            Value::Null,
            format!("{invalid}hostname must not be empty)"),
        ),
        (
            "hostname",
            json!([]),
            format!("{malformed}hostname must be a string, not an array)"),
        ),
        (
            "started_at",
            Value::Null,
            format!("{invalid}started_at must be set)"),
        ),
        (
            "started_at",
            json!("yesterday"),
            format!("{malformed}started_at must be an RFC 3339 time, not \"yesterday\")"),
        ),
        (
            "started_at",
            json!(1761393600),
            format!("{malformed}started_at must be a string, not a number)"),
        ),
        (
            "version",
            json!(1),
            format!("{malformed}version must be a string, not a number)"),
        ),
    ] {
        both_say(&scene, &lock_with(field, &value), &begins, 5);
    }
}

#[test]
fn a_version_may_be_missing_and_other_fields_may_be_there() {
    let scene = Scene::new();
    for (field, value) in [
        ("version", Value::Null),
        ("version", json!("")),
        ("about", json!({"deep": [1, null]})),
    ] {
        both_say(
            &scene,
            &lock_with(field, &value),
            "Skipping database (locked by my-tool)",
            4,
        );
    }
}

/// The same lock as Go, Python, a shell and JavaScript write it.
#[test]
fn a_lock_counts_whatever_language_has_written_it() {
    let scene = Scene::new();
    let (pid, host) = (std::process::id(), this_host());
    for text in [
        format!(
            "{{\n \"holder\": \"t\",\n \"pid\": {pid},\n \"hostname\": \"{host}\",\n \"started_at\": \
             \"2025-10-25T14:00:00.123456789+02:00\",\n \"version\": \"1.0.0\"\n}}"
        ),
        format!(
            r#"{{"holder": "t", "pid": {pid}, "hostname": "{host}", "started_at": "2025-10-25T12:00:00.5+00:00"}}"#
        ),
        format!(
            "{{\"holder\":\"t\",\"pid\":{pid},\"hostname\":\"{host}\",\"started_at\":\"2025-10-25T12:00:00Z\"}}\r\n"
        ),
        format!(
            r#"{{"started_at":"2025-10-25T12:00:00.000Z","HOSTNAME":"{host}","Pid":{pid},"holder":"t"}}"#
        ),
    ] {
        both_say(&scene, &text, "Skipping database (locked by t)", 4);
    }
}

#[test]
fn a_dead_lock_is_removed_whatever_the_case_of_its_host_name() {
    let scene = Scene::new();
    let host = this_host();
    let mixed: String = host
        .chars()
        .enumerate()
        .map(|(at, c)| {
            if at % 2 == 0 {
                c.to_ascii_uppercase()
            } else {
                c
            }
        })
        .collect();
    for host in [host.to_ascii_uppercase(), host.to_ascii_lowercase(), mixed] {
        scene.write_shell_lock("my-tool", dead_pid().into(), &host);
        let checked = Ended::from(run(scene.beadlock(&["check"])));
        assert_eq!(
            (checked.out.as_str(), checked.code),
            ("Removed stale lock (my-tool), proceeding with sync\n", 0)
        );
        assert!(!scene.lock().exists(), "{host}");
    }
    // A name that only begins alike is another host's.
    scene.write_shell_lock("my-tool", dead_pid().into(), &format!("{host}.example"));
    assert_eq!(scene.run(&["check"]).code, 4);
    assert!(scene.lock().exists());
}
