//! status, also as the document has it, and break.

use beadlock_testkit::dead_pid;
use beadlock_testkit::this_host;
use serde_json::json;

use crate::scene::{Memory, TARGET, parsed};

#[test]
fn raw_is_the_documents_object() {
    let memory = Memory::new();
    memory.write(0);
    let holder = memory.record();
    let raw = |args: &[&str]| {
        memory
            .run(&[&["status", TARGET, "--raw"][..], args].concat())
            .expect(0, &[])
            .out
    };
    let fresh = raw(&[]);
    assert_eq!(
        parsed(&fresh),
        json!({"locked": true, "holder": holder, "is_stale": false, "stale_reason": null, "we_hold_it": false})
    );
    let keys = [
        "\"locked\"",
        "\"holder\"",
        "\"is_stale\"",
        "\"stale_reason\"",
        "\"we_hold_it\"",
    ];
    let places = keys.map(|key| fresh.find(&format!("\n  {key}")).unwrap());
    assert!(places.is_sorted(), "in its order: {fresh}");
    let living = parsed(&raw(&["--stale-after", "0"]));
    assert_eq!(
        (&living["is_stale"], living["stale_reason"].is_string()),
        (&true.into(), true),
        "nobody refreshes it"
    );
    memory.write_as(i64::from(dead_pid()), 0, "H");
    let stale = parsed(&raw(&["--stale-after", "0"]));
    assert_eq!(stale["is_stale"], true);
    assert!(
        stale["stale_reason"]
            .as_str()
            .unwrap()
            .ends_with("s old (>0s)"),
        "{stale}"
    );
    let pid = i64::from(dead_pid());
    memory.write_as(pid, 0, &this_host());
    assert_eq!(
        parsed(&raw(&[]))["stale_reason"],
        format!("process {pid} is dead")
    );
    assert_eq!(memory.names(), [".lock"], "nothing was changed");
}

#[test]
fn who_holds_it_is_told_when_it_is_us() {
    let memory = Memory::new();
    let beadlock = env!("CARGO_BIN_EXE_beadlock");
    let ours = memory
        .hold(&[], &format!("{beadlock} status memory:memory --raw"))
        .expect(0, &[]);
    assert_eq!(parsed(&ours.out)["we_hold_it"], true);
}

#[test]
fn every_field_is_shown_as_it_was_read() {
    let memory = Memory::new();
    let text = r#"{"pid": "odd", "operation": 5, "more": {"a": [1]}, "u64": 18446744073709551615}"#;
    memory.put(text);
    let status = memory
        .run(&["status", TARGET, "--json"])
        .expect(0, &[])
        .json();
    assert_eq!(
        status["data"][0]["record"],
        json!({"pid": "odd", "operation": 5, "more": {"a": [1]}, "u64": u64::MAX})
    );
    assert_eq!(status["data"][0]["witnesses"]["situation"], "ageless");
    // More than 64 bits: the nearest double, and nothing happens to the file.
    let text = text.replace("18446744073709551615", "100000000000000000000000001");
    memory.put(&text);
    let status = memory
        .run(&["status", TARGET, "--json"])
        .expect(0, &[])
        .json();
    assert_eq!(status["data"][0]["record"]["u64"], json!(1e26));
    assert_eq!(std::fs::read_to_string(memory.lock()).unwrap(), text);
}

#[test]
fn a_living_holders_lock_is_broken_only_when_that_is_said() {
    let memory = Memory::new();
    memory.write(0);
    memory
        .run(&["break", TARGET, "--holder", "main"])
        .expect(4, &["it is not too old (age_fresh)"]);
    let refused = memory
        .run(&["break", TARGET])
        .expect(4, &["session main for operation write:tasks.json (PID "]);
    assert!(
        refused
            .err
            .contains("to break it all the same: beadlock break memory:memory --id sha256:"),
        "{refused:?}"
    );
    assert!(
        refused.err.trim_end().ends_with(" --even-if-live"),
        "{refused:?}"
    );
    assert_eq!(memory.names(), [".lock"], "it was not touched");
    let broken = memory
        .run(&["break", TARGET, "--even-if-live"])
        .expect(0, &[&broke(std::process::id())]);
    assert!(
        broken.err.contains(
            "memory:memory was held by session main for operation write:tasks.json (PID "
        )
    );
    assert!(
        broken.err.contains("; its record is kept in ")
            && broken.err.contains("memory/.lock.broken-"),
        "{broken:?}"
    );
    assert!(
        broken
            .err
            .contains("still runs, perhaps as if it had the lock"),
        "{broken:?}"
    );
}

#[test]
fn a_dead_holders_lock_is_broken_without_its_name() {
    let memory = Memory::new();
    let nothing = memory
        .run(&["break", TARGET])
        .expect(0, &["beadlock: No lock to break.\n"]);
    assert_eq!(
        (nothing.out.as_str(), nothing.err.lines().count()),
        ("", 1),
        "{nothing:?}"
    );
    let dead = dead_pid();
    memory.write_as(dead.into(), 0, &this_host());
    memory
        .run(&["break", TARGET])
        .expect(0, &[&broke(dead as u32)]);
    memory.write_as(dead.into(), 0, &this_host());
    memory
        .run(&["break", TARGET, "--holder", "main"])
        .expect(0, &[&broke(dead as u32)]);
    memory.write_as(dead.into(), 0, &this_host());
    let json = memory
        .run(&["break", TARGET, "--json", "-q"])
        .expect(0, &[])
        .json();
    assert_eq!(
        (&json["data"]["record"]["pid"], &json["data"]["holder"]),
        (&json!(dead), &json!("main"))
    );
    // Of another host, whose process nobody can ask for, its age alone says so.
    memory.write_as(7, 60_000, "elsewhere");
    memory.run(&["break", TARGET]).expect(0, &[&broke(7)]);
    memory.write_as(7, 60_000, "elsewhere");
    let elsewhere = ["break", TARGET, "--audit", "audit", "--reason", "ticket 7"];
    memory.run(&elsewhere).expect(0, &[&broke(7)]);
    let audit = memory.scene.read("audit");
    assert!(
        audit.contains("broken_unnamed") && audit.contains("ticket 7"),
        "{audit}"
    );
    memory.put("no JSON");
    memory
        .run(&["break", TARGET])
        .expect(0, &["No lock to break.\n"]);
    let json = memory
        .run(&["break", TARGET, "--json"])
        .expect(0, &[])
        .json();
    assert_eq!(
        (&json["data"]["kept"], &json["warnings"][0]),
        (&json!(null), &json!("No lock to break."))
    );
    let nowhere = memory.run(&["break", "memory:nowhere"]).expect(0, &[]);
    assert!(
        nowhere
            .err
            .contains("No lock to break. The directory of memory:nowhere does not exist"),
        "{nowhere:?}"
    );
}

#[test]
fn what_cannot_be_understood_is_not_broken_without_a_word() {
    let memory = Memory::new();
    std::fs::create_dir(memory.lock()).unwrap();
    let refused = memory
        .run(&["break", TARGET])
        .expect(5, &["it cannot be understood: "]);
    assert!(
        refused
            .err
            .contains("to break it: beadlock break memory:memory --malformed"),
        "{refused:?}"
    );
    assert_eq!(memory.names(), [".lock"]);
    memory
        .run(&["break", TARGET, "--malformed", "--yes"])
        .expect(0, &["a directory in place of the lock"]);
}

/// The document's line, and nothing else in it.
fn broke(pid: u32) -> String {
    format!("beadlock: Broke lock held by PID {pid}\n")
}
