//! The machine gets another name while an agent runs, in a UTS namespace of its own.

use std::process::Command;

use crate::scene::{Agent, Holder, Scene, wait_until};

/// The agent under the host name `before`. `None`, with a line, where there are no namespaces for us.
fn start(scene: &Scene) -> Option<Agent> {
    let script = "printf before >/proc/sys/kernel/hostname && exec \"$AGENT\" \"$@\"";
    let user = if nix::unistd::geteuid().is_root() { &[][..] } else { &["--map-root-user"] };
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(user).args(["--uts", "sh", "-c", script, "sh"]).current_dir(&scene.repo).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("AGENT", env!("CARGO_BIN_EXE_beadlock-agent")).stdin(std::process::Stdio::null());
        command
    };
    let probe = unshare("printf probe >/proc/sys/kernel/hostname").output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        eprintln!("skipped: another host name needs unshare and a UTS namespace");
        return None;
    }
    let mut agent = unshare(script);
    agent.args(["--db", ".beads", "--interval", "100ms", "--action", "none"]);
    Some(scene.start_command(agent))
}

/// Gives the machine of the agent another name, as the format of a `printf`; a line end alone is an empty one.
fn rename(agent: &Agent, name: &str) {
    let mut nsenter = Command::new("nsenter");
    nsenter.args(["--uts", &format!("--target={}", agent.pid())]);
    if !nix::unistd::geteuid().is_root() {
        nsenter.args(["--user", "--preserve-credentials"]);
    }
    let output = nsenter.args(["sh", "-c", &format!("printf '{name}' >/proc/sys/kernel/hostname")]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// A lock of a process that is gone, on a machine of this name.
fn lock(scene: &Scene, holder: &str, host: &str) {
    let text = format!(
        r#"{{"holder":"{holder}","pid":{},"hostname":"{host}","started_at":"2026-01-02T03:04:05Z"}}"#,
        Holder::dead_pid()
    );
    std::fs::write(scene.lock_file(), text).unwrap();
}

#[test]
fn the_next_check_sees_the_machines_new_name() {
    let scene = Scene::new();
    lock(&scene, "first", "after");
    let Some(agent) = start(&scene) else { return };
    wait_until("a skip: another host's", || scene.count("Skipping database (locked by first)") >= 1);
    rename(&agent, "after");
    wait_until("its own host's stale lock is removed", || !scene.lock_file().exists());

    // A name that no record can have: nothing is stale on a host that nobody knows.
    for (holder, name) in [("second", r"\377\376"), ("third", r"\n")] {
        rename(&agent, name);
        lock(&scene, holder, "after");
        let skip = format!("Skipping database (locked by {holder})");
        wait_until("a skip: the host is unknown", || scene.count(&skip) >= 1);
        assert!(scene.lock_file().exists(), "{name:?}");
        rename(&agent, "after");
        wait_until("it is known again", || !scene.lock_file().exists());
    }
    assert_eq!(agent.stop(), Some(0));
}
