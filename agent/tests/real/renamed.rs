//! The machine gets another name while an agent runs, in a UTS namespace of its own.

use std::process::Command;

use crate::agent::{OfAgent, fresh_scene};
use beadlock_testkit::{Running, Scene, dead_pid, run, skip, until};

/// The agent under the host name `before`. `None`, with a line, where there are no namespaces for us.
fn start(scene: &Scene) -> Option<Running> {
    let probe = scene.in_namespaces(&["--uts"], "printf probe >/proc/sys/kernel/hostname")?;
    if !run(probe).status.success() {
        skip::cannot("cannot have another host name");
        return None;
    }
    let script = "printf before >/proc/sys/kernel/hostname && exec \"$AGENT\" \"$@\"";
    let mut agent = scene.in_namespaces(&["--uts"], script)?;
    agent.args([
        "sh",
        "--db",
        ".beads",
        "--interval",
        "100ms",
        "--action",
        "none",
    ]);
    Some(Running::start(agent))
}

/// Gives the machine of the agent another name, as the format of a `printf`; a line end alone is an empty one.
fn rename(agent: &Running, name: &str) {
    let mut nsenter = Command::new("nsenter");
    nsenter.args(["--uts", &format!("--target={}", agent.pid())]);
    if !skip::may_be_root() {
        nsenter.args(["--user", "--preserve-credentials"]);
    }
    let output = nsenter
        .args([
            "sh",
            "-c",
            &format!("printf '{name}' >/proc/sys/kernel/hostname"),
        ])
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A lock of a process that is gone, on a machine of this name.
fn lock(scene: &Scene, holder: &str, host: &str) {
    scene.write_shell_lock(holder, dead_pid().into(), host);
}

#[test]
fn the_next_check_sees_the_machines_new_name() {
    let scene = fresh_scene();
    lock(&scene, "first", "after");
    let Some(agent) = start(&scene) else { return };
    until("a skip: another host's", || {
        scene.count("Skipping database (locked by first)") >= 1
    });
    rename(&agent, "after");
    until("its own host's stale lock is removed", || {
        !scene.lock().exists()
    });

    // A name that no record can have: nothing is stale on a host that nobody knows.
    for (holder, name) in [("second", r"\377\376"), ("third", r"\n")] {
        rename(&agent, name);
        lock(&scene, holder, "after");
        let skip = format!("Skipping database (locked by {holder})");
        until("a skip: the host is unknown", || scene.count(&skip) >= 1);
        assert!(scene.lock().exists(), "{name:?}");
        rename(&agent, "after");
        until("it is known again", || !scene.lock().exists());
    }
    assert_eq!(agent.stop(), Some(0));
}
