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
    let raw = |args: &[&str]| memory.run(&[&["status", TARGET, "--raw"][..], args].concat()).expect(0, &[]).out;
    let fresh = raw(&[]);
    assert_eq!(
        parsed(&fresh),
        json!({"locked": true, "holder": holder, "is_stale": false, "stale_reason": null, "we_hold_it": false})
    );
    let keys = ["\"locked\"", "\"holder\"", "\"is_stale\"", "\"stale_reason\"", "\"we_hold_it\""];
    let places = keys.map(|key| fresh.find(&format!("\n  {key}")).unwrap());
    assert!(places.is_sorted(), "in its order: {fresh}");
    let living = parsed(&raw(&["--stale-after", "0"]));
    assert_eq!((&living["is_stale"], &living["stale_reason"]), (&false.into(), &json!(null)), "one look");
    memory.write_as(i64::from(dead_pid()), 0, "H");
    let stale = parsed(&raw(&["--stale-after", "0"]));
    assert_eq!(stale["is_stale"], true);
    assert!(stale["stale_reason"].as_str().unwrap().ends_with("s old (>0s)"), "{stale}");
    let pid = i64::from(dead_pid());
    memory.write_as(pid, 0, &this_host());
    assert_eq!(parsed(&raw(&[]))["stale_reason"], format!("process {pid} is dead"));
    assert_eq!(memory.names(), [".lock"], "nothing was changed");
}

#[test]
fn who_holds_it_is_told_when_it_is_us() {
    let memory = Memory::new();
    let beadlock = env!("CARGO_BIN_EXE_beadlock");
    let ours = memory.hold(&[], &format!("{beadlock} status memory:memory --raw")).expect(0, &[]);
    assert_eq!(parsed(&ours.out)["we_hold_it"], true);
}

#[test]
fn every_field_is_shown_as_it_was_read() {
    let memory = Memory::new();
    let text = r#"{"pid": "odd", "operation": 5, "more": {"a": [1]}, "u64": 18446744073709551615}"#;
    memory.put(text);
    let status = memory.run(&["status", TARGET, "--json"]).expect(0, &[]).json();
    assert_eq!(status["data"][0]["record"], json!({"pid": "odd", "operation": 5, "more": {"a": [1]}, "u64": u64::MAX}));
    assert_eq!(status["data"][0]["witnesses"]["situation"], "ageless");
    // More than 64 bits: the nearest double, and nothing happens to the file.
    let text = text.replace("18446744073709551615", "100000000000000000000000001");
    memory.put(&text);
    let status = memory.run(&["status", TARGET, "--json"]).expect(0, &[]).json();
    assert_eq!(status["data"][0]["record"]["u64"], json!(1e26));
    assert_eq!(std::fs::read_to_string(memory.lock()).unwrap(), text);
}

#[test]
fn a_live_one_is_broken_only_when_that_is_said() {
    let memory = Memory::new();
    memory.write(0);
    memory.run(&["break", TARGET, "--holder", "main"]).expect(4, &["it is not too old (age_fresh)"]);
    let broken =
        memory.run(&["break", TARGET, "--holder", "main", "--even-if-live"]).expect(0, &["broke the lock of main"]);
    assert!(broken.err.contains("memory/.lock.broken-"), "{broken:?}");
    memory.run(&["break", TARGET, "--holder", "main"]).expect(0, &["nothing to break"]);
}
