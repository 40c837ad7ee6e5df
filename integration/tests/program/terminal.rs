//! Signals from a terminal: the command has them already, and so they are not passed on.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Command;

use crate::support::{Ended, Scene, ended, until};

/// Runs a hold as the leader of a session whose terminal is a pty, and types Ctrl-C once `ready` is there.
fn interrupted(scene: &Scene, script: &str) -> Ended {
    let pty = nix::pty::openpty(None, None).unwrap();
    let stream = |fd: &OwnedFd| fd.try_clone().unwrap();
    let mut command = Command::new("setsid");
    command.args(["--ctty", env!("CARGO_BIN_EXE_beadlock"), "hold", "-q", "--", "sh", "-c", script]);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("SCENE", scene.path()).current_dir(scene.path());
    command.stdin(stream(&pty.slave)).stdout(stream(&pty.slave)).stderr(stream(&pty.slave));
    let mut child = command.spawn().unwrap();
    drop(pty.slave);
    until("the command runs", || scene.file("ready").exists());
    File::from(pty.master.try_clone().unwrap()).write_all(b"\x03").unwrap();
    until("it ends", || child.try_wait().unwrap().is_some());
    ended(&child.wait_with_output().unwrap())
}

#[test]
fn ctrl_c_ends_both_by_sigint() {
    let scene = Scene::new();
    let ended = interrupted(&scene, "echo > ready; sleep 300");
    assert_eq!(ended.signal, Some(2), "{ended:?}");
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn ctrl_c_is_heard_once_and_a_command_that_survives_it_decides() {
    let scene = Scene::new();
    let script = "trap 'echo got >> log' INT; echo > ready; until test -e log; do sleep 0.01; done; \
                  sleep 0.3; cut -d ' ' -f 5 /proc/$$/stat /proc/$PPID/stat > group; exit 5";
    let ended = interrupted(&scene, script);
    assert_eq!((ended.code, ended.signal), (5, None), "{ended:?}");
    assert_eq!(scene.read("log"), "got\n", "passed on twice");
    let groups = scene.read("group");
    let groups: Vec<&str> = groups.split_ascii_whitespace().collect();
    assert_eq!(groups.first(), groups.get(1), "the command stays in our group");
    assert!(scene.names().is_empty());
}
