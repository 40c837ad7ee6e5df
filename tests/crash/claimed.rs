//! What must hold while what a killed program has left behind stands still.

use std::fs;
use std::path::Path;

use beadlock_core::gate::Gate;
use beadlock_tests::{Kind, Scene};
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// The answer of kill(pid, 0): a zombie lives.
fn lives(pid: i64) -> bool {
    i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None).is_ok())
}

/// The process that the record there names, if it is whole.
pub fn recorded(path: &Path) -> Option<i64> {
    let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    record["pid"].as_i64()
}

/// As long as the recorded process lives, its record is at the path, or aside until the next check has put it back; and
/// a command that runs has one. `left` are the threads that stand still.
///
/// A check puts nothing back while one of these has the gate: that one is in the middle of its change, and will end it.
/// The check says so, and leaves the record where it is.
pub fn still_claimed(kind: Kind, scene: &Scene, left: &[Pid], at: &str) {
    let (lock, aside) = (kind.lock(scene), kind.aside(scene));
    let in_place = recorded(&lock);
    let there = in_place.or_else(|| recorded(&aside));
    let runs = |pid: &&Pid| {
        let name = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        name.file_name()
            .is_some_and(|name| !name.to_string_lossy().starts_with("beadlock"))
    };
    // In a cycle it is the gate that keeps others out of a command's way.
    let gate = scene.gate_is_free();
    if let Some(command) = left.iter().find(runs).filter(|_| gate) {
        assert!(
            there == Some(command.as_raw().into()),
            "{at}: {command} runs without a claim: {there:?}"
        );
    }
    let Some(pid) = there.filter(|pid| lives(*pid)) else {
        return;
    };
    let ended = kind.run(scene, &["check", "--json"]);
    assert_eq!(ended.code, 4, "{at}: {ended:?}");
    let beside = scene.names();
    if in_place.is_none() && !gate && have_the_gate(scene, left) {
        let found = (reason(&ended.out), recorded(&lock), recorded(&aside));
        let expected = ("gate_busy".to_owned(), None, Some(pid));
        assert_eq!(
            found, expected,
            "{at}: after a check that must touch nothing, beside {beside:?}"
        );
        return;
    }
    assert_eq!(
        recorded(&lock),
        Some(pid),
        "{at}: after a check beside {beside:?}"
    );
}

/// The gate is shut by these threads' processes, and by no other.
fn have_the_gate(scene: &Scene, threads: &[Pid]) -> bool {
    let holders = Gate::holders(&scene.beads());
    !holders.is_empty()
        && holders
            .iter()
            .all(|holder| threads.contains(&Pid::from_raw(holder.pid)))
}

/// Why a check has come to its answer.
fn reason(envelope: &str) -> String {
    let envelope: serde_json::Value = serde_json::from_str(envelope).unwrap_or_default();
    envelope["data"][0]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
