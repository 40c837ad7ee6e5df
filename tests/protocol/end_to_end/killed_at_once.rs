//! `pkill -9 beadlock` beside a running command: every process of beadlock's dies at once, the command lives on. The
//! gate stays shut until that command has ended, and `status` names it.
//!
//! Each script runs in a PID namespace of its own, where `pkill` finds nothing but what the script has started.

use std::fs;
use std::process::Command;

use beadlock_tests::{Ended, Scene, binaries, run, tool};
use serde_json::Value;

const NAMESPACE: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// What the cycle runs: it works until there is a file `go`.
const WORK: &str = "echo $$ > command; until test -e go; do sleep 0.02; done; touch finished";

/// What follows the start of the cycle, which runs in the background.
const KILLED: &str = r#"
    until test -s command; do sleep 0.01; done
    command=$(cat command)
    pgrep beadlock > before
    pkill -9 beadlock
    # Only a zombie is left of a killed process until this shell has reaped it.
    lives() { ps -o stat= -o comm= -A | grep -v '^Z' | grep beadlock; }
    while lives; do sleep 0.01; done > living
    "$BEADLOCK" hold .beads --no-wait --drain 300ms -- touch overlapped 2> refused; echo $? > refused.code
    "$BEADLOCK" status .beads > status
    "$BEADLOCK" status .beads --json > status.json
    kill -0 "$command" && echo lives > lived
    touch go
    "$BEADLOCK" hold .beads -q --drain 60s -- test -e finished; echo $? > hold.code
    "$BEADLOCK" status -v .beads > after
"#;

/// `sh -c SCRIPT` in a PID namespace with both programs; `None` where there is none for us, which is said.
fn alone(scene: &Scene, script: &str) -> Option<Command> {
    tool("pkill")?;
    let mut command = scene.in_namespaces(&NAMESPACE, script)?;
    command.env("AGENT", binaries::agent()).env("WORK", WORK);
    Some(command)
}

fn read(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.path().join(name)).unwrap_or_default()
}

/// Runs [`KILLED`] after this start of a cycle, and sees what it has left.
fn the_command_keeps_the_gate(start: &str, processes: usize) {
    let scene = Scene::new();
    let Some(command) = alone(&scene, &format!("{start}\n{KILLED}")) else {
        return;
    };
    let ended = Ended::from(run(command));
    let read = |name| read(&scene, name);
    assert_eq!(
        read("before").lines().count(),
        processes,
        "all of them were there to be killed: {ended:?}"
    );
    assert_eq!(
        read("lived"),
        "lives\n",
        "the command was not killed: {ended:?}"
    );
    let refused = read("refused");
    assert_eq!(
        read("refused.code"),
        "4\n",
        "a claim was let in beside the command: {refused} {ended:?}"
    );
    assert!(!scene.path().join("overlapped").exists());
    let (command, status) = (read("command").trim().to_owned(), read("status"));
    let named = format!("PID {command} (/bin/sh -c ");
    let named = named.replace(
        "/bin/sh",
        if status.contains("(/bin/sh") {
            "/bin/sh"
        } else {
            "sh"
        },
    );
    assert!(
        refused.contains("the gate did not open") && refused.contains(&named),
        "{refused}"
    );
    assert!(
        status.contains("gate: shut by what a daemon that was killed has left running: "),
        "{status}"
    );
    assert!(
        status.contains(&named) && status.contains("it opens when that has ended"),
        "{status}"
    );
    assert!(
        status.contains(&format!("kill -- -{command}")),
        "what to type to end it: {status}"
    );
    let json: Value = serde_json::from_str(&read("status.json")).expect("an envelope");
    let gate = &json["data"][0]["witnesses"]["gate"];
    // A pause of the command may end in the middle of the look, and then nothing tells whose it was.
    let is_pause = |one: &Value| one["command"] == "sleep 0.02";
    assert!(
        gate.as_array().is_some_and(|gate| gate
            .iter()
            .all(|one| one["role"] == "left" || is_pause(one))),
        "{gate}"
    );
    assert!(
        gate.as_array()
            .is_some_and(|gate| gate.iter().any(|one| one["role"] == "left")),
        "{gate}"
    );
    assert_eq!(
        read("hold.code"),
        "0\n",
        "once it has ended, a claim gets the gate: {ended:?}"
    );
    assert!(read("after").contains("gate: open"), "{}", read("after"));
}

#[test]
fn of_an_agent_leaves_the_gate_with_its_command() {
    let start = r#""$AGENT" --db .beads --interval 1h --exec "$WORK" & "#;
    the_command_keeps_the_gate(start, 2);
}

#[test]
fn of_a_cycle_leaves_the_gate_with_its_command() {
    let start = r#""$BEADLOCK" cycle .beads -- sh -c "$WORK" & "#;
    the_command_keeps_the_gate(start, 2);
}

/// A regular end frees the gate for every copy, so a daemon that the command has left behind keeps nothing.
#[test]
fn a_daemon_left_behind_keeps_the_gate_only_when_all_were_killed() {
    let leaves = "setsid sh -c 'echo $$ > left; exec sleep 300' & until test -s left; do sleep 0.01; done; touch ready";
    let regular = r#"
        "$BEADLOCK" cycle .beads -q -- sh -c "$LEAVES" 2> said
        kill -0 "$(cat left)" && "$BEADLOCK" hold .beads -q --no-wait --drain 1s -- touch cycle.free
        kill -9 "$(cat left)"; rm left ready
        "$AGENT" --db .beads --once --exec "$LEAVES" > once 2>&1
        kill -0 "$(cat left)" && "$BEADLOCK" hold .beads -q --no-wait --drain 1s -- touch agent.free
        kill -9 "$(cat left)"; rm left ready
        "$BEADLOCK" cycle .beads -- sh -c "echo \$\$ > command; $LEAVES; exec sleep 300" 2> said &
        until test -e ready; do sleep 0.01; done
        pkill -9 beadlock
        kill -9 "$(cat command)"
        "$BEADLOCK" hold .beads -q --no-wait --drain 300ms -- touch left.free
        "$BEADLOCK" status .beads > status
    "#;
    let scene = Scene::new();
    let Some(mut command) = alone(&scene, regular) else {
        return;
    };
    command.env("LEAVES", leaves);
    let ended = Ended::from(run(command));
    let is_there = |name: &str| scene.path().join(name).exists();
    assert!(
        is_there("cycle.free"),
        "a regular end of `cycle` lets the gate go: {ended:?}"
    );
    assert!(
        is_there("agent.free"),
        "a regular end of an agent's cycle lets the gate go: {ended:?}"
    );
    assert!(
        !is_there("left.free"),
        "what was left of a killed cycle keeps it: {ended:?}"
    );
    let (left, status) = (
        read(&scene, "left").trim().to_owned(),
        read(&scene, "status"),
    );
    assert!(
        status.contains(&format!("has left running: PID {left} (sleep 300)")),
        "{status}"
    );
}
