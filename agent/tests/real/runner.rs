//! The gate outlives the agent as long as the work does, and no longer: time-outs, kills, what is left behind.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use crate::agent::{OfAgent, fresh_scene};
use beadlock_base::helper::RUNNER as ARGUMENT;
use beadlock_base::sys::{Flock, flock};
use beadlock_testkit::{PATIENCE, Running, children, lives, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getsid};

/// The runner of the agent's only cycle.
fn runner(agent: &Running) -> i32 {
    let has_a_session = |pid: &i32| getsid(Some(Pid::from_raw(*pid))) == Ok(Pid::from_raw(*pid));
    let runner = || children(agent.pid()).into_iter().find(has_a_session);
    until("a runner", || runner().is_some());
    runner().unwrap()
}

#[test]
fn a_time_out_ends_the_whole_group_before_the_gate_is_let_go() {
    let scene = fresh_scene();
    // A grandchild that ignores TERM (and HUP, which a group with a stopped member gets when it is orphaned), and
    // one that stands still.
    let exec = "sh -c 'trap \"\" TERM HUP; echo $$ > stubborn; while :; do sleep 1; done' & \
                sh -c 'echo $$ > stopped; kill -STOP $$' & sleep 60";
    let agent = scene.start(&["--interval", "10m", "--cycle-timeout", "4s", "--exec", exec]);
    let (stubborn, stopped) = (scene.pid_in("stubborn"), scene.pid_in("stopped"));
    let begun = Instant::now();
    until("the stopped one's end", || !lives(stopped));
    assert!(
        begun.elapsed() < Duration::from_secs(12),
        "TERM is followed by CONT, and not by KILL alone"
    );
    while !scene.gate_is_free() {
        std::thread::sleep(Duration::from_millis(10));
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "the gate is never let go"
        );
    }
    assert!(begun.elapsed() > Duration::from_secs(9), "after the grace");
    assert!(
        !lives(stubborn),
        "the gate is let go only when the group is gone"
    );
    until("the line", || {
        scene.count("Sync cycle timed out after 4s; command ended") == 1
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn an_agent_killed_leaves_the_gate_shut_until_the_command_is_gone() {
    let scene = fresh_scene();
    // It writes after the agent's death, and must not die of it.
    let exec =
        "echo $$ > command; while ! test -e go; do echo tick; sleep 0.02; done; touch finished";
    let mut agent = scene.start(&["--interval", "10m", "--exec", exec]);
    let command = scene.pid_in("command");
    agent.signal(Signal::SIGKILL);
    agent.wait(PATIENCE);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        assert!(!scene.gate_is_free(), "the command is still at work");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(lives(command));
    std::fs::write(scene.file("go"), "").unwrap();
    until("the gate", || scene.gate_is_free());
    assert!(
        !lives(command) && scene.file("finished").exists(),
        "it ended by itself"
    );
}

#[test]
fn the_time_out_holds_when_the_agent_is_dead() {
    let scene = fresh_scene();
    let mut agent = scene.start(&[
        "--interval",
        "10m",
        "--cycle-timeout",
        "6s",
        "--exec",
        "echo $$ > command; sleep 60",
    ]);
    let command = scene.pid_in("command");
    agent.signal(Signal::SIGKILL);
    agent.wait(PATIENCE);
    assert!(!scene.gate_is_free());
    until("the gate", || scene.gate_is_free());
    assert!(!lives(command));
}

#[test]
fn a_runner_killed_takes_the_command_with_it() {
    let scene = fresh_scene();
    let exec = "echo $$ > command; sh -c 'echo $$ > grandchild; trap \"\" TERM HUP; while :; do sleep 1; done'";
    let agent = scene.start(&["--interval", "10m", "--exec", exec]);
    let (command, grandchild) = (scene.pid_in("command"), scene.pid_in("grandchild"));
    kill(Pid::from_raw(runner(&agent)), Signal::SIGKILL).unwrap();
    until("the gate", || scene.gate_is_free());
    assert!(
        !lives(command) && !lives(grandchild),
        "nobody works on without a gate"
    );
    until("the line", || {
        scene
            .lines()
            .iter()
            .any(|line| line.starts_with("Sync cycle failed: its runner was killed; "))
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn the_runner_does_not_die_of_the_signals_that_end_a_daemon() {
    let scene = fresh_scene();
    let exec = "echo $$ > command; while ! test -e go; do sleep 0.02; done; echo done";
    let agent = scene.start(&["--interval", "10m", "--exec", exec]);
    scene.pid_in("command");
    let runner = runner(&agent);
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        kill(Pid::from_raw(runner), signal).unwrap();
    }
    std::fs::write(scene.file("go"), "").unwrap();
    until("the end", || scene.count("Sync cycle complete") == 1);
    assert_eq!(scene.count("done"), 1);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn the_command_has_the_gate_and_no_deaf_ears() {
    let scene = fresh_scene();
    // Descriptors of the command that lead into the database; what it ignores and has blocked of the signals 1 to 15,
    // in hex.
    let exec = "ls -l /proc/self/fd | sed -nE 's/.* ([0-9]+) -> (.*beads.*)/\\1 \\2/p'; \
                sed -nE 's/^Sig(Ign|Blk):.*(....)$/\\2/p' /proc/self/status";
    assert_eq!(scene.once(&["--exec", exec]).0, 0);
    let gate = format!("20 {}", scene.beads().display());
    assert_eq!(scene.lines()[3..6], [gate.as_str(), "0000", "0000"]);
}

#[test]
fn what_a_command_leaves_behind_keeps_neither_the_gate_nor_the_cycle() {
    let scene = fresh_scene();
    let exec = "echo first; setsid sh -c 'echo $$ > left; exec sleep 60' & while ! test -s left; do sleep 0.01; done; echo last";
    let agent = scene.start(&["--interval", "10m", "--exec", exec]);
    let left = scene.pid_in("left");
    until("the cycle's end", || {
        scene.count("Sync cycle complete") == 1
    });
    assert_eq!(
        (scene.count("first"), scene.count("last")),
        (1, 1),
        "what was written is in the log"
    );
    until("the gate", || scene.gate_is_free());
    assert!(lives(left), "it lives on");
    assert_eq!(agent.stop(), Some(0));
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
}

#[test]
fn a_runner_killed_takes_those_along_who_have_left_its_session() {
    let scene = fresh_scene();
    let agent = scene.start(&[
        "--interval",
        "10m",
        "--exec",
        "setsid --wait sh -c 'echo $$ > worker; while :; do sleep 1; done'",
    ]);
    let worker = scene.pid_in("worker");
    kill(Pid::from_raw(runner(&agent)), Signal::SIGKILL).unwrap();
    until("the gate", || scene.gate_is_free());
    assert!(!lives(worker), "nobody works on without a gate");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn who_does_not_read_the_output_does_not_keep_the_gate() {
    let scene = fresh_scene();
    let mut runner = scene.agent(&[ARGUMENT, "1", "300", "-"]);
    let mut runner = runner.arg(scene.beads()).arg("yes").spawn().unwrap();
    let begun = Instant::now();
    let mut line = String::new();
    let mut word = BufReader::new(runner.stderr.take().unwrap());
    word.read_line(&mut line).unwrap();
    assert_eq!(line, "timed-out\n");
    drop(word); // As the agent does when it has let the gate go, and the kernel when the agent was killed.
    until("its end", || runner.try_wait().unwrap().is_some());
    assert!(begun.elapsed() < Duration::from_secs(8));
}

/// The agent was killed after its runner has said how the command has ended, and before it has let the gate go. A
/// process that the command has left behind has a copy of the gate, and does not keep it.
#[test]
fn an_agent_killed_at_the_very_end_does_not_leave_the_gate_to_a_daemon() {
    let scene = fresh_scene();
    let leaves =
        "setsid sh -c 'echo $$ > left; exec sleep 60' & until test -s left; do sleep 0.01; done";
    let gate = std::fs::File::open(scene.beads()).unwrap();
    assert!(flock(&gate, Flock::Try).unwrap());
    let mut runner = scene.agent(&[ARGUMENT, "1", "60000", "-"]);
    runner
        .arg(scene.beads())
        .args(["sh", "-c", leaves])
        .stdin(gate);
    let mut runner = runner.spawn().unwrap();
    let mut line = String::new();
    let mut word = BufReader::new(runner.stderr.take().unwrap());
    word.read_line(&mut line).unwrap();
    assert_eq!(line, "exit 0\n");
    std::thread::sleep(Duration::from_millis(100));
    assert!(
        !scene.gate_is_free(),
        "for as long as an agent could have something to do"
    );
    assert!(runner.try_wait().unwrap().is_none());
    drop(word);
    until("its end", || runner.try_wait().unwrap().is_some());
    let left = scene.pid_in("left");
    assert!(
        lives(left) && scene.gate_is_free(),
        "an unlock counts for every copy"
    );
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
}
