//! Lock files with missing or odd fields, and files or targets that are not locks.
#![expect(
    clippy::disallowed_methods,
    reason = "what other tools do to a lock file"
)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use beadlock_testkit::{Ended, as_nobody};

use crate::scene::{Memory, Says, TARGET};

#[test]
fn what_is_no_json_object_is_no_lock() {
    let memory = Memory::new();
    for none in ["", "not json", "[1]", "null", r#"{"pid": 1"#] {
        memory.put(none);
        memory.run(&["status", TARGET]).says(
            0,
            &["free (no_lock); what lies there is no lock: malformed lock file"],
        );
        assert_eq!(
            memory.run(&["status", TARGET, "--raw"]).says(0, &[]).out,
            "{\n  \"locked\": false\n}\n"
        );
        assert_eq!(
            memory.run(&["check", TARGET, "--dry-run"]).says(0, &[]).out,
            "",
            "{none:?}"
        );
        memory
            .run(&["break", TARGET, "--malformed"])
            .expect(0, &["No lock to break"]);
        assert_eq!(
            fs::read_to_string(memory.lock()).unwrap(),
            none,
            "nobody has touched it so far"
        );
        let held = memory
            .hold(&[], "cat memory/.lock")
            .expect(0, &["claimed memory:memory"]);
        assert!(held.out.contains("\"session_id\": \"unknown\""), "{held:?}");
        assert!(
            !held.err.contains("[LOCK]"),
            "nobody's lock was broken: {held:?}"
        );
        assert!(memory.names().is_empty());
    }
    memory.put("nonsense");
    let data = &memory.run(&["check", TARGET, "--json"]).says(0, &[]).json()["data"][0];
    assert_eq!(
        (&data["verdict"], &data["reason"]),
        (&"free".into(), &"malformed".into())
    );
    assert!(memory.names().is_empty());
}

#[test]
fn a_missing_or_odd_field_is_no_reason() {
    let memory = Memory::new();
    let pid = std::process::id();
    for held in [
        "{}".to_owned(),
        format!(r#"{{"pid": {pid}}}"#),
        format!(r#"{{"pid": {pid}, "acquired_at": NaN}}"#),
        format!(r#"{{"pid": "{pid}", "acquired_at": 5, "hostname": [], "session_id": {{}}}}"#),
        r#"{"pid": 4194304, "acquired_at": "long ago"}"#.to_owned(),
    ] {
        memory.put(&held);
        memory
            .run(&["check", TARGET])
            .says(4, &["locked by unknown"]);
        memory.run(&["status", TARGET]).says(
            0,
            &[
                "held by session unknown",
                "it is never too old",
                "acquired: unknown",
            ],
        );
        assert_eq!(fs::read_to_string(memory.lock()).unwrap(), held);
    }
}

/// `ps -p 0` would say nothing, and a PID of another host is somebody else's here.
#[test]
fn what_to_type_of_a_process_that_is_not_known_is_to_look_at_the_lock() {
    let memory = Memory::new();
    memory.put(r#"{"pid": -1, "acquired_at": "soon"}"#);
    memory
        .run(&["status", TARGET])
        .says(0, &["next: beadlock status --raw memory:memory   # shows it; when nobody works: beadlock break"]);
    memory.put(r#"{"pid": 77, "hostname": "H"}"#);
    memory.run(&["status", TARGET]).says(
        0,
        &["next: ssh -- H ps -p 77   # once it is gone: beadlock break"],
    );
}

#[test]
fn what_cannot_be_read_is_exit_5() {
    let memory = Memory::new();
    nix::unistd::mkfifo(&memory.lock(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    memory.run(&["check", TARGET]).says(5, &["it is a FIFO"]);
    memory
        .hold(&["--no-wait"], "true")
        .expect(5, &["it is a FIFO", "was not touched"]);
    fs::remove_file(memory.lock()).unwrap();
    fs::create_dir(memory.lock()).unwrap();
    memory
        .run(&["check", TARGET])
        .says(5, &["it is a directory"]);
    memory
        .hold(&["--no-wait"], "true")
        .expect(5, &["it is a directory", "was not touched"]);
    memory
        .run(&["status", TARGET, "--raw"])
        .expect(5, &["it is a directory"]);
    fs::remove_dir(memory.lock()).unwrap();
    symlink("/nowhere", memory.lock()).unwrap();
    memory.run(&["check", TARGET]).says(5, &[]);
    fs::remove_file(memory.lock()).unwrap();
    memory.put(&format!("{{{}}}", " ".repeat(64 * 1024)));
    memory.run(&["check", TARGET]).says(5, &[]);
    memory.put(&format!(
        r#"{{"x":{}1{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    ));
    memory
        .run(&["check", TARGET])
        .says(5, &["nested too deeply"]);
}

#[test]
fn what_may_not_be_read_is_exit_5() {
    let memory = Memory::new();
    memory.write(0);
    fs::set_permissions(memory.lock(), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(memory.scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = memory.command(&["check", TARGET]);
    if as_nobody(&mut command) {
        Ended::of(&command.output().unwrap()).says(5, &["permission denied"]);
    }
}

#[test]
fn a_target_that_is_none_is_refused() {
    let memory = Memory::new();
    fs::write(memory.scene.file("file"), "").unwrap();
    memory
        .run(&["check", "memory:file"])
        .expect(1, &["memory:file is not a directory"]);
    // The lock itself, which is not there: a directory of that name would be in everybody's way.
    memory
        .run(&["hold", "memory:memory/.lock", "--", "true"])
        .expect(
            1,
            &["memory:memory/.lock is not a directory; name the one that .lock is, or will be, in"],
        );
    assert!(memory.names().is_empty());
    memory
        .run(&["check", "memory:"])
        .expect(2, &["the target is empty", "memory:path/memory"]);
    memory.run(&["cycle", TARGET, "--", "true"]).expect(2, &[]);
}

/// PowerShell's half of the document.
#[test]
fn a_byte_order_mark_and_seven_digits_are_read() {
    let memory = Memory::new();
    let time = crate::scene::millis_ago(0).replace("+00:00", "");
    let (seconds, _) = time.split_once('.').unwrap_or((&time, ""));
    memory.put(&format!(
        "\u{feff}{{\r\n  \"hostname\": \"WIN\",\r\n  \"pid\": 4,\r\n  \"session_id\": \"powershell\",\r\n  \
         \"acquired_at\": \"{seconds}.1234567Z\",\r\n  \"operation\": \"powershell-operation\"\r\n}}\r\n"
    ));
    memory
        .run(&["check", TARGET])
        .says(4, &["locked by powershell"]);
}
