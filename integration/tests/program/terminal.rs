//! What comes from a terminal: the command has the signals already, and so they are not passed on.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use crate::support::{Ended, Scene, ended, lives, reap, until};

/// Starts a program as the leader of a session whose terminal is a pty; the other end comes with it.
pub fn on_terminal(scene: &Scene, program: &[&str]) -> (Child, File) {
    let pty = nix::pty::openpty(None, None).unwrap();
    let stream = |fd: &OwnedFd| fd.try_clone().unwrap();
    let mut command = Command::new("setsid");
    command.arg("--ctty").args(program).env_clear().current_dir(scene.path());
    command.env("PATH", "/usr/bin:/bin").env("SCENE", scene.path()).env("BEADLOCK", BEADLOCK);
    command.stdin(stream(&pty.slave)).stdout(stream(&pty.slave)).stderr(stream(&pty.slave));
    (command.spawn().unwrap(), File::from(pty.master))
}

pub const BEADLOCK: &str = env!("CARGO_BIN_EXE_beadlock");

pub fn end(mut child: Child) -> Ended {
    until("it ends", || child.try_wait().unwrap().is_some());
    ended(&child.wait_with_output().unwrap())
}

/// Runs a hold with these words, and types Ctrl-C once `ready` is there.
fn interrupted(scene: &Scene, words: &[&str]) -> Ended {
    let (child, mut keyboard) = on_terminal(scene, &[&[BEADLOCK, "hold", "-q"], words].concat());
    until("the command runs", || scene.file("ready").exists());
    keyboard.write_all(b"\x03").unwrap();
    end(child)
}

#[test]
fn ctrl_c_ends_both_by_sigint() {
    let scene = Scene::new();
    let ended = interrupted(&scene, &["--", "sh", "-c", "echo > ready; sleep 300"]);
    assert_eq!(ended.signal, Some(2), "{ended:?}");
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn ctrl_c_is_heard_once_and_a_command_that_survives_it_decides() {
    let scene = Scene::new();
    let script = "trap 'echo got >> log' INT; echo > ready; until test -e log; do sleep 0.01; done; \
                  sleep 0.3; cut -d ' ' -f 5 /proc/$$/stat /proc/$PPID/stat > group; exit 5";
    let ended = interrupted(&scene, &["--", "sh", "-c", script]);
    assert_eq!((ended.code, ended.signal), (5, None), "{ended:?}");
    assert_eq!(scene.read("log"), "got\n", "passed on twice");
    let groups = scene.read("group");
    let groups: Vec<&str> = groups.split_ascii_whitespace().collect();
    assert_eq!(groups.first(), groups.get(1), "the command stays in our group");
    assert!(scene.names().is_empty());
}

#[test]
fn ctrl_c_reaches_a_command_that_has_left_our_group() {
    let scene = Scene::new();
    let script = "trap 'exit 5' INT; echo > ready; while :; do sleep 0.01; done";
    let ended = interrupted(&scene, &["--", "setsid", "sh", "-c", script]);
    assert_eq!((ended.code, ended.signal), (5, None), "{ended:?}");
    assert!(scene.names().is_empty());
}

/// Ctrl-C, on a command that ends with 0 and leaves a process behind that has not heard it.
fn tidied_up(kill_after: &str, script: &str) -> (Scene, i32) {
    let scene = Scene::new();
    let script = format!(
        "setsid sleep 300 & echo $! > below; {script}; echo > ready; until test -e end; do sleep 0.01; done; exit 0"
    );
    let ended = interrupted(&scene, &["--kill-after", kill_after, "--", "sh", "-c", &script]);
    assert_eq!((ended.code, ended.signal), (0, None), "{ended:?}");
    assert!(scene.names().is_empty());
    let below = scene.read("below").trim().parse().unwrap();
    (scene, below)
}

#[test]
fn what_a_command_ended_by_ctrl_c_leaves_is_not_left_whatever_its_code() {
    let (_scene, below) = tidied_up("2s", "trap 'echo > end' INT");
    assert!(!lives(below));
}

#[test]
fn who_lives_on_after_a_ctrl_c_was_not_ended_by_it() {
    let (_scene, below) = tidied_up("100ms", "trap 'sleep 0.5; echo > end' INT");
    assert!(lives(below));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(below), nix::sys::signal::Signal::SIGKILL).unwrap();
    reap(below);
}

#[test]
fn a_command_that_stops_itself_gives_the_terminal_back() {
    let scene = Scene::new();
    let script = "set -m; \"$BEADLOCK\" hold -q -- sh -c 'kill -STOP $$; echo > went_on; exit 5'; \
                  test -e .beads/.exclusive-lock && echo > back; fg; echo $? > code";
    let (child, _keyboard) = on_terminal(&scene, &["sh", "-c", script]);
    end(child);
    assert!(scene.file("back").exists() && scene.file("went_on").exists());
    assert_eq!(fs::read_to_string(scene.file("code")).unwrap(), "5\n");
    assert!(scene.names().is_empty());
}
