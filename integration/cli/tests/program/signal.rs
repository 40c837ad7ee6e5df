//! Signals without a terminal: passed on, and the lock is released only when the whole tree has ended.

use std::fs;

use beadlock_testkit::write_program;
use beadlock_testkit::{Running, as_nobody, children, lives, this_host, until};
use nix::sys::signal::Signal;

use crate::terminal::state;

#[test]
fn a_signal_reaches_the_command_whose_code_counts() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGINT,
    ] {
        let scene = crate::a_scene();
        let name = signal.as_str().trim_start_matches("SIG");
        let script = format!(
            "trap 'echo {name} >> got; exit 3' {name}; echo $$ > pid; while :; do sleep 0.01; done"
        );
        let running = Running::apart(scene.beadlock(&["hold", "--", "sh", "-c", &script]));
        scene.pid_in("pid");
        running.signal(signal);
        let ended = running.end().expect(3, &["released"]);
        assert_eq!(
            (scene.read("got"), ended.signal),
            (format!("{name}\n"), None)
        );
        assert!(scene.names().is_empty());
    }
}

#[test]
fn a_command_killed_by_a_signal_is_128_and_its_number() {
    let scene = crate::a_scene();
    scene
        .run(&["hold", "--", "sh", "-c", "kill -KILL $$"])
        .expect(137, &["released"]);
    scene
        .run(&["hold", "--", "sh", "-c", "kill -34 $$"])
        .expect(162, &["released"]);
    let alone = scene
        .run(&["hold", "--", "sh", "-c", "kill -INT $$"])
        .expect(130, &["released"]);
    assert_eq!(alone.signal, None, "nobody interrupted us");
    let pipe = scene
        .run(&["hold", "--", "sh", "-c", "kill -PIPE $$"])
        .expect(141, &["released"]);
    assert_eq!(pipe.signal, None);
    let both = scene
        .run(&["hold", "--", "sh", "-c", "kill -INT $PPID; exec sleep 300"])
        .expect(130, &["released"]);
    assert_eq!(
        both.signal,
        Some(Signal::SIGINT as i32),
        "so that a script around it stops"
    );
}

#[test]
fn a_stopped_command_goes_on_to_hear_a_signal() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGINT,
    ] {
        let scene = crate::a_scene();
        let script = "echo $$ > pid; kill -STOP $$";
        let running = Running::apart(scene.beadlock(&[
            "hold",
            "--kill-after",
            "60s",
            "--",
            "sh",
            "-c",
            script,
        ]));
        let pid = scene.pid_in("pid");
        until("it is stopped", || state(pid) == 'T');
        running.signal(signal);
        running.end().expect(128 + signal as i32, &["released"]);
        assert!(scene.names().is_empty());
    }
}

#[test]
fn without_a_terminal_the_command_has_its_own_group_and_all_of_it_hears() {
    let scene = crate::a_scene();
    let script =
        "cut -d ' ' -f 5 /proc/$$/stat > group; echo $$ > pid; sleep 300 & echo $! > below; wait";
    let running = Running::apart(scene.beadlock(&["hold", "--", "sh", "-c", script]));
    let below = scene.pid_in("below");
    assert_eq!(scene.read("group").trim(), scene.read("pid").trim());
    running.signal(Signal::SIGTERM);
    running.end().expect(143, &[]);
    assert!(!lives(below));
}

#[test]
fn what_ignores_the_signal_is_killed_and_only_then_the_lock_released() {
    let scene = crate::a_scene();
    // In a session of its own, so that the group's signal does not reach it.
    let script =
        "setsid sh -c 'trap \"\" TERM; echo $$ > below; while :; do sleep 0.01; done' & sleep 300";
    let running = Running::apart(scene.beadlock(&[
        "hold",
        "--kill-after",
        "500ms",
        "--",
        "sh",
        "-c",
        script,
    ]));
    let below = scene.pid_in("below");
    running.signal(Signal::SIGTERM);
    until("the lock goes", || !scene.lock().exists());
    assert!(!lives(below), "the lock was released while the tree lived");
    running.end().expect(
        143,
        &[
            "the command has ended; waiting for PID ",
            "500ms after it was asked to end, killing: PID ",
            "released",
        ],
    );
}

#[test]
fn a_command_that_ignores_it_is_killed_too() {
    let scene = crate::a_scene();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let mut command = scene.beadlock(&["hold", "--", "sh", "-c", script]);
    command.env("BEADLOCK_KILL_AFTER", "200ms");
    let running = Running::apart(command);
    scene.pid_in("pid");
    running.signal(Signal::SIGTERM);
    running.end().expect(
        137,
        &["200ms after it was asked to end, killing: PID ", "released"],
    );
}

#[test]
fn a_stopped_command_is_made_to_go_on_to_take_its_term() {
    let scene = crate::a_scene();
    let script = "trap 'exit 3' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let running =
        Running::apart(scene.beadlock(&["hold", "--kill-after", "1h", "--", "sh", "-c", script]));
    let pid = scene.pid_in("pid");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    until("it is stopped", || {
        fs::read_to_string(format!("/proc/{pid}/stat"))
            .unwrap()
            .contains(") T ")
    });
    running.signal(Signal::SIGTERM);
    running.end().expect(3, &["released"]);
}

#[test]
fn a_signal_during_the_wait_ends_it_and_the_command_never_runs() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGINT,
    ] {
        let scene = crate::a_scene();
        scene.write_shell_lock("live", i64::from(std::process::id()), &this_host());
        let running =
            Running::apart(scene.beadlock(&["hold", "--wait", "1h", "--", "touch", "ran"]));
        until("it waits", || running.err().contains("waiting"));
        let [child] = children(running.pid())[..] else {
            panic!("one child")
        };
        running.signal(signal);
        let ended = running
            .end()
            .expect(128 + signal as i32, &["before the command was started"]);
        assert_eq!(
            ended.signal.is_some(),
            signal == Signal::SIGINT,
            "{ended:?}"
        );
        assert!(!lives(child) && !scene.file("ran").exists());
        assert_eq!(scene.names(), [".exclusive-lock"]);
    }
}

#[test]
fn what_is_ignored_on_entry_stays_ignored_for_both() {
    let scene = crate::a_scene();
    let script =
        "trap '' HUP; exec \"$BEADLOCK\" hold -- sh -c 'kill -HUP $PPID; kill -HUP $$; exit 7'";
    Running::apart(scene.shell(script))
        .end()
        .expect(7, &["released"]);
    let script = "trap '' PIPE; exec \"$BEADLOCK\" hold -- sh -c 'kill -PIPE $$; exit 7'";
    Running::apart(scene.shell(script))
        .end()
        .expect(7, &["released"]);
    // A parent that ignores SIGCHLD would never hear of the end.
    let script = "trap '' CHLD; exec \"$BEADLOCK\" hold -- sh -c 'exit 7'";
    Running::apart(scene.shell(script))
        .end()
        .expect(7, &["released"]);
}

#[test]
fn the_command_starts_with_the_mask_and_the_dispositions_of_any_other() {
    let scene = crate::a_scene();
    // What the tests themselves were started with is inherited either way.
    let script = "grep -E 'Sig(Blk|Ign)' /proc/self/status > masks";
    Running::apart(scene.shell(script)).end().expect(0, &[]);
    let without = scene.read("masks");
    scene
        .run(&["hold", "--", "sh", "-c", script])
        .expect(0, &[]);
    assert_eq!(scene.read("masks"), without);
    assert_eq!(without.lines().count(), 2, "{without}");
}

#[test]
fn a_nameless_signal_is_known_also_of_a_command_that_is_somebody_elses() {
    let scene = crate::a_scene();
    write_program(&scene.file("sh"), fs::File::open("/bin/sh").unwrap());
    // Set-user-ID: /proc then hides from us how it ended.
    fs::set_permissions(
        scene.file("sh"),
        std::os::unix::fs::PermissionsExt::from_mode(0o4755),
    )
    .unwrap();
    for path in [scene.path(), &scene.beads()] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    }
    let mut command = scene.beadlock(&["hold", "--", "./sh", "-p", "-c", "kill -34 $$"]);
    if as_nobody(&mut command) {
        Running::apart(command).end().expect(162, &["released"]);
    }
}

#[test]
fn a_signal_between_the_claim_and_the_start_is_heard() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let scene = crate::a_scene();
        let gate = beadlock_core::gate::Gate::try_take(&scene.beads())
            .unwrap()
            .unwrap();
        let running = Running::apart(scene.beadlock(&["hold", "--", "touch", "ran"]));
        until("it waits", || running.err().contains("waiting"));
        let [child] = children(running.pid())[..] else {
            panic!("one child")
        };
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child), Signal::SIGSTOP).unwrap();
        until("it is stopped", || {
            fs::read_to_string(format!("/proc/{child}/stat"))
                .unwrap()
                .contains(") T ")
        });
        drop(gate);
        until("it is claimed", || running.err().contains("claimed"));
        running.signal(signal);
        // Of the signal, not of the KILL after it.
        running.end().expect(128 + signal as i32, &["released"]);
        assert!(scene.names().is_empty() && !scene.file("ran").exists());
    }
}
