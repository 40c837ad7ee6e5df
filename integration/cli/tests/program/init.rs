//! As PID 1 of a container: it reaps whatever is orphaned, and passes on what it is sent.
#![expect(clippy::disallowed_methods, reason = "the holder of a lock goes away")]

use std::fs;
use std::process::Command;

use beadlock_testkit::{Running, Scene, children, skip, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::terminal::{BEADLOCK, Terminal};

/// What starts a container of the poorest kind: PID and mount namespaces and a `/proc` of its own.
const UNSHARE: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// The program as PID 1; none, after a line that says so, where there are no containers for us.
fn container(scene: &Scene, args: &[&str]) -> Option<Running> {
    contained(scene, &[&[BEADLOCK], args].concat())
}

/// Any program as PID 1.
fn contained(scene: &Scene, words: &[&str]) -> Option<Running> {
    // The shell becomes the first of the words; its script makes no more than one program of them.
    let mut command = scene.shell("exec \"$@\"");
    command.arg("sh").args(UNSHARE).args(words);
    can_have_containers().then(|| Running::apart(command))
}

fn can_have_containers() -> bool {
    // Anybody else's container is in a user namespace, too.
    if !skip::root() {
        return false;
    }
    let mut probe = Command::new(UNSHARE[0]);
    let there = probe
        .args(&UNSHARE[1..])
        .arg("true")
        .output()
        .is_ok_and(|output| output.status.success());
    if !there {
        skip::cannot("needs namespaces");
    }
    there
}

/// PID 1 of the container, as it is called outside.
fn init(container: &Running) -> Pid {
    until("PID 1", || children(container.pid()).len() == 1);
    Pid::from_raw(children(container.pid())[0])
}

/// `unshare --pid` alone: `/proc` is the namespace's outside, where our numbers are others'.
#[test]
fn beside_somebody_elses_proc_it_ends_and_takes_no_strangers_for_its_own() {
    if !can_have_containers() {
        return;
    }
    let scene = crate::a_scene();
    for command in ["hold", "cycle"] {
        let mut shell = scene.shell("exec unshare --pid --fork --kill-child \"$@\"");
        shell.args(["sh", BEADLOCK, command, "--", "sh", "-c", "exit 6"]);
        let ended = Running::apart(shell).end().expect(6, &[]);
        assert!(!ended.err.contains("behind"), "{ended:?}");
        assert!(scene.names().is_empty(), "{:?}", scene.names());
    }
}

#[test]
fn exit_codes_pass_and_the_lock_is_released() {
    for code in [0, 7, 143] {
        let scene = crate::a_scene();
        let script = format!("cp .beads/.exclusive-lock seen; echo $PPID > us; exit {code}");
        let Some(container) = container(&scene, &["hold", "--", "sh", "-c", &script]) else {
            return;
        };
        container.end().expect(code, &["claimed", "released"]);
        assert_eq!(scene.read("us"), "1\n");
        assert!(
            scene.read("seen").contains("\"pid\": 2"),
            "{}",
            scene.read("seen")
        );
        assert!(scene.names().is_empty(), "{:?}", scene.names());
    }
    let scene = crate::a_scene();
    let Some(container) = container(&scene, &["hold", "--", "nosuch"]) else {
        return;
    };
    container.end().expect(127, &["nosuch"]);
}

#[test]
fn orphans_are_reaped_while_the_command_runs() {
    let scene = crate::a_scene();
    // Many that end at different moments, each orphaned by a shell that has gone before it.
    let script = "i=0; while [ $i -lt 60 ]; do (sleep 0.$((i % 7)) &); i=$((i + 1)); done; echo > started
                  while grep -qs '^Name:.sleep$' /proc/[0-9]*/status; do :; done; echo > clean; exit 5";
    let Some(container) = container(&scene, &["hold", "--", "sh", "-c", script]) else {
        return;
    };
    until("no orphan is left, dead or alive", || {
        scene.file("clean").exists()
    });
    container.end().expect(5, &["released"]);
}

#[test]
fn a_term_from_outside_is_passed_on_and_ends_the_container() {
    for (script, code) in [
        ("echo > ready; exec sleep 300", 143),
        (
            "trap 'exit 9' TERM; echo > ready; while :; do sleep 0.01; done",
            9,
        ),
    ] {
        let scene = crate::a_scene();
        let Some(container) = container(&scene, &["hold", "--", "sh", "-c", script]) else {
            return;
        };
        until("it runs", || scene.file("ready").exists());
        kill(init(&container), Signal::SIGTERM).unwrap();
        container.end().expect(code, &["released"]);
        assert!(scene.names().is_empty(), "{:?}", scene.names());
    }
}

#[test]
fn an_interrupt_from_outside_ends_the_container_though_nobody_dies_of_it_as_pid_1() {
    let scene = crate::a_scene();
    let Some(container) = container(&scene, &["hold", "--", "sleep", "300"]) else {
        return;
    };
    until("it runs", || scene.lock().exists());
    kill(init(&container), Signal::SIGINT).unwrap();
    let ended = container.end().expect(130, &["released"]);
    assert_eq!(ended.signal, None);
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn what_does_not_hear_the_term_is_killed_before_the_lock_is_released() {
    let scene = crate::a_scene();
    let script =
        "setsid sh -c 'trap \"\" TERM; echo > deaf; while :; do sleep 0.01; done' & sleep 300";
    let args = ["hold", "--kill-after", "300ms", "--", "sh", "-c", script];
    let Some(container) = container(&scene, &args) else {
        return;
    };
    until("it runs", || scene.file("deaf").exists());
    kill(init(&container), Signal::SIGTERM).unwrap();
    container.end().expect(143, &["killing: PID ", "released"]);
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn daemons_that_the_command_leaves_are_named_or_waited_for() {
    let daemon = "(setsid sh -c 'echo > there; until test -e go; do sleep 0.01; done; \
                  test -e .beads/.exclusive-lock && echo > locked; echo > done' \
                  > /dev/null 2>&1 &); until test -e there; do sleep 0.01; done; exit 5";
    let scene = crate::a_scene();
    let Some(container) = container(&scene, &["hold", "--", "sh", "-c", daemon]) else {
        return;
    };
    container
        .end()
        .expect(5, &["left processes behind", "--wait-group", "released"]);
    assert!(
        scene.names().is_empty() && !scene.file("done").exists(),
        "its end is the container's"
    );

    let scene = crate::a_scene();
    let Some(container) =
        self::container(&scene, &["hold", "--wait-group", "--", "sh", "-c", daemon])
    else {
        return;
    };
    until("it is waited for", || {
        container.err().contains("waiting for PID ")
    });
    fs::write(scene.file("go"), "").unwrap();
    container.end().expect(5, &["released"]);
    assert!(
        scene.names().is_empty() && scene.file("done").exists() && scene.file("locked").exists()
    );
}

#[test]
fn a_wait_ends_at_a_term_too() {
    for args in [
        &["hold", "--wait", "1h", "--", "touch", "ran"][..],
        &["wait", "--wait", "1h"],
    ] {
        let scene = crate::a_scene();
        scene.write_shell_lock("live", 1, "another-host");
        let Some(container) = container(&scene, args) else {
            return;
        };
        until("it waits", || container.err().contains("waiting"));
        kill(init(&container), Signal::SIGTERM).unwrap();
        container.end().expect(143, &[]);
        assert!(!scene.file("ran").exists());
        assert_eq!(scene.names(), [".exclusive-lock"]);
    }
}

#[test]
fn orphans_of_whoever_was_pid_1_before_are_reaped_during_a_wait() {
    let scene = crate::a_scene();
    scene.write_shell_lock("live", 1, "another-host");
    let script = "sleep 0.2 & sleep 0.4 & exec \"$BEADLOCK\" hold --wait 1h -- true";
    let Some(container) = contained(&scene, &["sh", "-c", script]) else {
        return;
    };
    until("it waits", || container.err().contains("waiting"));
    let init = init(&container).as_raw();
    until("nobody but the command-to-be is left", || {
        children(init).len() == 1
    });
    fs::remove_file(scene.lock()).unwrap();
    container.end().expect(0, &["released"]);
}

#[test]
fn a_cycle_does_the_same() {
    let scene = crate::a_scene();
    let script = "i=0; while [ $i -lt 20 ]; do (sleep 0.$((i % 7)) &); i=$((i + 1)); done
                  while grep -qs '^Name:.sleep$' /proc/[0-9]*/status; do :; done; echo > clean; exec sleep 300";
    let Some(container) = container(&scene, &["cycle", "--", "sh", "-c", script]) else {
        return;
    };
    until("no orphan is left, dead or alive", || {
        scene.file("clean").exists()
    });
    kill(init(&container), Signal::SIGTERM).unwrap();
    container.end().expect(143, &[]);
    drop(
        beadlock_core::gate::Gate::try_take(&scene.beads())
            .unwrap()
            .expect("the gate is open"),
    );
}

#[test]
fn on_a_terminal_ctrl_c_ends_the_container() {
    if !can_have_containers() {
        return;
    }
    let scene = crate::a_scene();
    let words = [
        &UNSHARE[..],
        &[
            BEADLOCK,
            "hold",
            "-q",
            "--",
            "sh",
            "-c",
            "trap 'exit 5' INT; echo > ready; while :; do sleep 0.01; done",
        ],
    ]
    .concat();
    let mut terminal = Terminal::start(&scene, &words);
    terminal.until("the command runs", || scene.file("ready").exists());
    terminal.type_in("\x03");
    assert_eq!(terminal.end().code, 5);
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}
