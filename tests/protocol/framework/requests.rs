//! The request id of an envelope.

use std::collections::BTreeSet;

use beadlock_tests::{Scene, is_request_id};
use jiff::SignedDuration;

use super::write_lock;

/// Every command that answers in JSON, once where it succeeds and once where it fails, and a report of `hold`.
#[test]
fn every_envelope_has_a_request_id_of_the_documents_form() {
    let scene = Scene::new();
    std::fs::write(scene.path().join("daemon.log"), "").expect("write a log");
    let mut ids = BTreeSet::new();
    let mut answers = 0;
    let mut note = |words: &[&str], envelope: &serde_json::Value| {
        let id = &envelope["meta"]["request_id"];
        assert!(is_request_id(id), "{words:?}: {envelope}");
        ids.insert(id.to_string());
        answers += 1;
    };
    let free: &[&[&str]] = &[
        &["check", ".beads"],
        &["status", ".beads"],
        &["wait", ".beads"],
        &["list", "."],
        &["log", "daemon.log"],
        &["doctor", ".beads"],
        &["release", ".beads", "--id", "none"],
        &["break", ".beads", "--holder", "none"],
        &["hold", ".beads", "--", "no-such-command"],
        &["check", "missing/.beads"],
        &["status", "no-such-scheme:x"],
        &["update", "file:missing/x.json", "--", "cat"],
    ];
    let held: &[&[&str]] = &[
        &["check", ".beads"],
        &["status", ".beads"],
        &["wait", ".beads", "--wait", "0"],
        &["list", "."],
        &["hold", ".beads", "--no-wait", "--", "true"],
        &["acquire", ".beads", "--no-wait"],
        &["cycle", ".beads", "--", "true"],
        &["break", ".beads", "--holder", "deploy"],
    ];
    for words in free {
        note(words, &scene.json(words).1);
    }
    let report = scene.path().join("report.json");
    let words = ["hold", ".beads", "--report", "report.json", "--", "true"];
    assert_eq!(scene.run(&words).code, 0);
    let text = std::fs::read(&report).expect("a report");
    note(
        &words,
        &serde_json::from_slice(&text).expect("a report is JSON"),
    );
    write_lock(&scene.lock(), SignedDuration::from_secs(1));
    for words in held {
        note(words, &scene.json(words).1);
    }
    assert_eq!(
        (answers, ids.len()),
        (free.len() + 1 + held.len(), answers),
        "each answer has an id of its own"
    );
    assert!(
        std::fs::read_to_string(scene.lock()).is_ok_and(|text| text.contains("deploy")),
        "the lock stays"
    );
}
