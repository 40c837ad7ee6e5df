//! The end after a loss is the end of everything that the command has started.
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools do to a lock file"
)]

use std::fs;
use std::time::{Duration, Instant};

use beadlock_testkit::{has_program, lives, until};

use super::{LOST, held};
use crate::keeper::on_pty;

/// Nothing that the command has started is left: not who ignores TERM, nor who has left the group.
#[test]
fn what_ignores_the_end_is_killed() {
    let scene = crate::a_scene();
    let stubborn = |name: &str| {
        format!("sh -c 'trap \"\" TERM; echo $$ > {name}; while :; do sleep 0.01; done'")
    };
    let (near, far) = (stubborn("near"), stubborn("far"));
    let script = format!(
        "trap '' TERM; {near} & setsid {far} & until test -s near -a -s far; do sleep 0.01; done; echo $$ > main; \
         echo > ready; while :; do sleep 0.01; done"
    );
    let running = held(&scene, &["--kill-after", "300ms"], &script);
    let begun = Instant::now();
    fs::remove_file(scene.lock()).unwrap();
    running.end().expect(
        9,
        &[
            "still running 300ms after it was asked to end, killing: PID ",
            LOST,
        ],
    );
    assert!(begun.elapsed() >= Duration::from_millis(300));
    for name in ["near", "far", "main"] {
        assert!(!lives(scene.read(name).trim().parse().unwrap()), "{name}");
    }
}

#[test]
fn a_grandchild_does_not_outlive_a_command_that_obeys() {
    let scene = crate::a_scene();
    let script = "setsid sh -c 'trap \"\" TERM; echo $$ > far; while :; do sleep 0.01; done' & \
                  trap 'exit 0' TERM; until test -s far; do sleep 0.01; done; echo > ready; while :; do sleep 0.01; done";
    let running = held(&scene, &["--kill-after", "200ms"], script);
    fs::remove_file(scene.lock()).unwrap();
    running.end().expect(
        9,
        &[
            "the command has ended; waiting for PID ",
            "killing: PID ",
            LOST,
        ],
    );
    assert!(!lives(scene.read("far").trim().parse().unwrap()));
}

#[test]
fn on_a_terminal_the_whole_tree_is_ended_too() {
    let scene = crate::a_scene();
    let script = "\"$BEADLOCK\" hold --kill-after 200ms -- sh -c 'sleep 300 & echo $! > below; echo > ready; wait'; \
                  echo $? > code";
    let (mut child, _terminal) = on_pty(&scene, script);
    until("the command runs", || scene.file("ready").exists());
    fs::remove_file(scene.lock()).unwrap();
    until("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(scene.read("code"), "9\n");
    assert!(!lives(scene.read("below").trim().parse().unwrap()));
}

/// Each process starts the next and ends, faster than all processes can be looked through.
const CHAIN: &str = r#"
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
beat = os.open("beat", os.O_CREAT | os.O_WRONLY, 0o644)
end = time.time() + 20
if os.fork() == 0:
    os.setsid()
    while time.time() < end:
        if os.fork():
            os._exit(0)
        os.pwrite(beat, b"%f" % time.time(), 0)
    os._exit(0)
open("ready", "w").close()
time.sleep(100)
"#;

#[test]
fn a_chain_of_processes_does_not_outrun_the_end() {
    if !has_program("python3") {
        return;
    }
    let scene = crate::a_scene();
    fs::write(scene.file("chain.py"), CHAIN).unwrap();
    let running = held(&scene, &["--kill-after", "200ms"], "exec python3 chain.py");
    until("the chain runs", || !scene.read("beat").is_empty());
    fs::remove_file(scene.lock()).unwrap();
    running.end().expect(9, &[LOST]);
    let last = scene.read("beat");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(scene.read("beat"), last, "it goes on after the end");
}
