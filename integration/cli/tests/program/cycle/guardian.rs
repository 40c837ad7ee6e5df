//! The gate stays shut for as long as the command works, whichever process is killed: us, the guardian, the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_base::process::{self, Stat};
use beadlock_core::helper_request::{OpenGate, WatchdogRequest};
use beadlock_testkit::{Running, lives, process_is_gone, until};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{WORK, gate_is_free, guardians, start};

/// Whether no process has this PID, not even a zombie.
fn is_gone(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

#[test]
fn without_a_guardian_nothing_runs() {
    let scene = crate::a_scene();
    let (mut codes, mut without) = (Vec::new(), [false, false]);
    // With ever more descriptors it comes ever further.
    for limit in 5..64 {
        let script = format!("ulimit -n {limit}; exec \"$BEADLOCK\" cycle -- touch ran");
        let ended = Running::apart(scene.shell(&script)).end();
        codes.push(ended.code);
        assert!(gate_is_free(&scene));
        if ended.code == 0 {
            break;
        }
        let ended = ended.expect(*codes.last().unwrap(), &["too many open files"]);
        // With the gate taken: its own process, or the guardian's.
        let made = [
            "the command's process",
            "the process that keeps the gate with us",
        ]
        .map(|process| ended.err.contains(&format!("failed to make {process}: ")));
        if made.contains(&true) {
            assert_eq!(ended.code, 125, "{ended:?}");
        }
        without = [without[0] || made[0], without[1] || made[1]];
        assert!(!scene.file("ran").exists());
    }
    assert!(
        scene.file("ran").exists() && without == [true, true],
        "{without:?} {codes:?}"
    );
}

#[test]
fn killed_it_leaves_the_gate_shut_until_the_command_has_ended() {
    let scene = crate::a_scene();
    let (running, command, guardian) = start(&scene);
    running.signal(Signal::SIGKILL);
    running.end().expect(137, &[]);
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
    ] {
        kill(Pid::from_raw(guardian), signal).unwrap();
    }
    let status = scene.run(&["status"]).expect(0, &[]).out;
    assert!(
        status.contains(&format!("PID {command} (sh -c ")),
        "what keeps it shut: {status}"
    );
    scene
        .run(&["hold", "--no-wait", "--drain", "100ms", "--", "true"])
        .expect(4, &["the gate did not open"]);
    scene.run(&["cycle", "--", "true"]).expect(4, &[]);
    assert!(lives(command) && lives(guardian) && !gate_is_free(&scene));
    fs::write(scene.file("go"), "").unwrap();
    process_is_gone(command);
    assert!(scene.file("done").exists(), "it ended by itself");
    process_is_gone(guardian);
    assert!(gate_is_free(&scene));
}

/// The command has ended, and what it has started in its group still works.
#[test]
fn killed_it_leaves_the_gate_shut_until_the_commands_group_has_ended() {
    for ends_first in [true, false] {
        let scene = crate::a_scene();
        let script = "(trap '' TERM; touch deaf; until test -e go; do sleep 0.01; done; touch done) & \
                      echo $! > member; echo $$ > pid; wait";
        let mut command = scene.beadlock(&["cycle", "--", "sh", "-c", script]);
        command.env("BEADLOCK_KILL_AFTER", "1h");
        let running = Running::apart(command);
        let (command, member) = (scene.pid_in("pid"), scene.pid_in("member"));
        until("the member hears no TERM", || scene.file("deaf").exists());
        let [guardian] = guardians(running.pid())[..] else {
            panic!("one guardian")
        };
        if ends_first {
            running.signal(Signal::SIGTERM);
            until("the command has ended", || !lives(command));
            until("it waits for the rest", || {
                running
                    .err()
                    .contains("the command has ended; waiting for PID ")
            });
            assert!(lives(guardian), "as long as the cycle has not ended");
            running.signal(Signal::SIGKILL);
            running.end().expect(137, &[]);
        } else {
            running.signal(Signal::SIGKILL);
            running.end().expect(137, &[]);
            kill(Pid::from_raw(command), Signal::SIGKILL).unwrap();
            process_is_gone(command);
        }
        for _ in 0..20 {
            assert!(
                lives(member) && lives(guardian) && !gate_is_free(&scene),
                "{ends_first}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        let status = scene.run(&["status"]).expect(0, &[]).out;
        assert!(
            status.contains(&format!("PID {member} (")),
            "what keeps it shut: {status}"
        );
        fs::write(scene.file("go"), "").unwrap();
        until("the guardian ends", || !lives(guardian));
        assert!(scene.file("done").exists() && gate_is_free(&scene));
    }
}

#[test]
fn killed_at_any_moment_no_command_runs_beside_an_open_gate() {
    let mut ran = 0;
    for quarter in 0..32 {
        let scene = crate::a_scene();
        let script = "echo $$ > pid; until test -e go; do sleep 0.01; done";
        let running = Running::apart(scene.beadlock(&["cycle", "--", "sh", "-c", script]));
        std::thread::sleep(Duration::from_micros(250 * quarter));
        running.signal(Signal::SIGKILL);
        let parent = running.pid();
        running.end();
        let guards = || {
            let is_ours = |request: WatchdogRequest<OpenGate>| request.parent == parent;
            let guards = |stat: Stat| {
                WatchdogRequest::of_process(stat.pid).is_some_and(is_ours) && lives(stat.pid)
            };
            process::all().into_iter().any(guards)
        };
        // It is there for as long as there is a process that may become the command, or is it.
        let command = || scene.read("pid").trim().parse::<i32>().ok();
        until("the end, or the command's start", || {
            let started = command().is_some_and(lives);
            let free = gate_is_free(&scene);
            assert!(
                !free || !started,
                "the command runs, and the gate is open: after {quarter} quarters"
            );
            started || !guards()
        });
        // A process that has not started by now never will.
        if let Some(command) = command() {
            ran += 1;
            assert!(lives(command) && !gate_is_free(&scene) && guards());
            fs::write(scene.file("go"), "").unwrap();
            process_is_gone(command);
        }
        until("the guardian's end", || !guards() && gate_is_free(&scene));
    }
    assert!(ran < 32, "no kill came before the start");
}

#[test]
fn a_guardian_killed_leaves_the_gate_with_us() {
    let scene = crate::a_scene();
    let (running, command, guardian) = start(&scene);
    kill(Pid::from_raw(guardian), Signal::SIGKILL).unwrap();
    until("it has ended", || is_gone(guardian));
    assert!(lives(command) && !gate_is_free(&scene));
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(7, &[]);
    assert!(gate_is_free(&scene));
}

#[test]
fn a_guardian_that_is_stopped_keeps_nobody_waiting() {
    let scene = crate::a_scene();
    let (running, _, guardian) = start(&scene);
    kill(Pid::from_raw(guardian), Signal::SIGSTOP).unwrap();
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(7, &[]);
    assert!(is_gone(guardian) && gate_is_free(&scene));
}

#[test]
fn the_guardian_has_nothing_but_the_gate_and_ends_with_the_cycle() {
    let scene = crate::a_scene();
    let script = format!("exec 9> open; exec \"$BEADLOCK\" cycle -- sh -c '{WORK}'");
    let running = Running::apart(scene.shell(&script));
    scene.pid_in("pid");
    let [guardian] = guardians(running.pid())[..] else {
        panic!("one guardian")
    };
    let link = |name: &str| fs::read_link(format!("/proc/{guardian}/{name}")).unwrap();
    let gate = fs::canonicalize(scene.beads()).unwrap();
    until(
        "it has only the gate, and what tells it of the two ends",
        || {
            let fds = fs::read_dir(format!("/proc/{guardian}/fd"))
                .unwrap()
                .flatten();
            let links = fds
                .map(|fd| fs::read_link(fd.path()).unwrap_or_default())
                .collect::<Vec<_>>();
            let is_named = |link: &&PathBuf| link.is_absolute() && link.as_os_str() != "/dev/null";
            links.len() <= 5 && links.iter().filter(is_named).eq([&gate])
        },
    );
    assert!(link("fd/0").to_string_lossy().starts_with("pipe:"));
    assert_eq!(
        [link("fd/1"), link("fd/2")],
        ["/dev/null"; 2].map(PathBuf::from)
    );
    assert_eq!(link("cwd"), Path::new("/"));
    assert_eq!(Stat::read(guardian).unwrap().session, guardian);
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(7, &[]);
    assert!(is_gone(guardian), "reaped before the end");
}

#[test]
fn the_hidden_argument_is_for_nobody_else() {
    let scene = crate::a_scene();
    scene
        .run(&["__helper", "x"])
        .expect(2, &["this is for beadlock's own use"]);
}
