//! What comes in between: a shut gate, a signal, a crash, no permission, another break. Nothing is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use beadlock_core::gate::Gate;
use beadlock_testkit::{Ended, Running, as_nobody, dead_pid, shell_lock_text, this_host, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{id, kept, me};

/// An empty file of this moment is a lock that somebody is writing.
#[test]
fn a_file_that_may_be_in_the_middle_of_being_written_is_waited_for() {
    let scene = crate::a_scene();
    fs::write(scene.lock(), "").unwrap();
    let begun = Instant::now();
    scene
        .run(&["break", "--malformed"])
        .expect(0, &["waiting for ", "malformed lock file: unexpected EOF"]);
    assert!(
        begun.elapsed() >= Duration::from_millis(1900),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(kept(&scene).len(), 1);

    let scene = crate::a_scene();
    fs::write(scene.lock(), "").unwrap();
    let breaking = Running::apart(scene.beadlock(&["break", "--malformed"]));
    until("it waits", || breaking.err().contains("waiting for "));
    scene.write_shell_lock("slow", me(), &this_host());
    breaking
        .end()
        .expect(4, &["is not unreadable: it is held by slow (PID "]);
    assert_eq!(scene.names(), [".exclusive-lock"]);
}

/// The lock has gone with its database, and is not broken.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test moves the database away"
)]
fn a_database_that_vanishes_meanwhile_is_exit_1() {
    for is_replaced in [false, true] {
        let scene = crate::a_scene();
        // In the middle of being written: looked at again and again.
        fs::write(scene.lock(), "").unwrap();
        let breaking = Running::apart(scene.beadlock(&["break", "--malformed", "--json"]));
        until("it waits", || breaking.err().contains("waiting for "));
        fs::rename(scene.beads(), scene.file("moved")).unwrap();
        let words = if is_replaced {
            fs::create_dir(scene.beads()).unwrap();
            "is another directory by now"
        } else {
            ".beads is not there any more (no such file or directory)"
        };
        let json = breaking.end().expect(1, &[words]).json();
        assert_eq!(
            (&json["error"]["code"], &json["data"]),
            (&json!("NO_TARGET"), &Value::Null)
        );
        assert_eq!(fs::read(scene.file("moved/.exclusive-lock")).unwrap(), b"");
    }
}

#[test]
fn a_gate_that_stays_shut_is_a_drain_time_out() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let held_by = format!("did not open within 10s; it is held by PID {} (", me());
    let json = scene
        .run(&["break", "--holder", "vc", "--json"])
        .expect(
            4,
            &[
                &held_by,
                "try again when that has ended",
                "waiting for the gate of ",
            ],
        )
        .json();
    assert_eq!(
        (&json["error"]["code"], &json["error"]["retryable"]),
        (&json!("DRAIN_TIMEOUT"), &json!(true))
    );
    drop(gate);
    assert_eq!(scene.names(), [".exclusive-lock"]);
}

#[test]
fn inside_a_cycle_it_fails_at_once() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let _gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let mut command = scene.beadlock(&["break", "--holder", "vc"]);
    command.env("BEADLOCK_CYCLE", scene.beads());
    let begun = Instant::now();
    Running::apart(command)
        .end()
        .expect(4, &["inside a sync cycle", "which a break would wait for"]);
    // The gate would be waited for, 10 s long.
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(scene.names(), [".exclusive-lock"]);
}

#[test]
fn a_signal_ends_the_wait_for_the_gate_and_nothing_is_touched() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let scene = crate::a_scene();
        scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
        let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
        let breaking = Running::apart(scene.beadlock(&["break", "--holder", "vc"]));
        until("it waits", || {
            breaking.err().contains("waiting for the gate")
        });
        breaking.signal(signal);
        let ended = breaking
            .end()
            .expect(code, &["before anything was changed"]);
        assert_eq!(
            ended.signal,
            (signal == Signal::SIGINT).then_some(2),
            "{ended:?}"
        );
        drop(gate);
        assert_eq!(scene.names(), [".exclusive-lock"]);
    }
}

#[test]
fn without_a_gate_or_a_permission_nothing_is_changed() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    for (mode, word) in [
        (0o733, "there is no gate here ("),
        (0o755, "failed to move aside "),
    ] {
        fs::set_permissions(scene.beads(), fs::Permissions::from_mode(mode)).unwrap();
        let mut command = scene.beadlock(&["break", ".beads", "--holder", "vc", "--json"]);
        if !as_nobody(&mut command) {
            return;
        }
        let json = Running::apart(command)
            .end()
            .expect(1, &[word, "permission denied"])
            .json();
        assert_eq!(json["error"]["code"], "NOT_PERMITTED");
        assert_eq!(scene.names(), [".exclusive-lock"]);
    }
}

/// A crash has left the lock aside: it is put back first, and is what is meant.
#[test]
fn what_a_crash_has_left_aside_is_broken_too() {
    let scene = crate::a_scene();
    let text = shell_lock_text("old", me(), &this_host());
    fs::write(scene.beads().join(".exclusive-lock.aside"), &text).unwrap();
    scene
        .run(&["break", "--holder", "old"])
        .expect(4, &["is held by old (PID "]);
    assert_eq!(scene.names(), [".exclusive-lock"]);
    let mv = "mv .beads/.exclusive-lock .beads/.exclusive-lock.aside";
    Running::apart(scene.shell(mv)).end().expect(0, &[]);
    scene
        .run(&["break", "--holder", "old", "--even-if-live"])
        .expect(0, &["broke the lock of old"]);
    assert_eq!(
        (
            fs::read_to_string(&kept(&scene)[0]).unwrap(),
            scene.names().len()
        ),
        (text, 1)
    );
}

/// Killed in the middle it has done nothing, once the next check has come by; asked to end, it ends what it has begun.
#[test]
fn a_break_that_is_ended_in_the_middle_loses_nothing() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let scene = crate::a_scene();
        let aside = scene.beads().join(".exclusive-lock.aside");
        // It is aside for a tenth of a second; on a machine that is busier than that it is seen another time.
        let ended = (0..50).find_map(|_| {
            Running::apart(scene.shell("rm -f .beads/.exclusive-lock*"))
                .end()
                .expect(0, &[]);
            scene.write_shell_lock("old", me(), &this_host());
            let mut breaking =
                Running::apart(scene.beadlock(&["break", "--holder", "old", "--even-if-live"]));
            until("it is aside, or has been", || {
                aside.exists() || breaking.has_ended()
            });
            if breaking.has_ended() {
                return None;
            }
            breaking.signal(signal);
            let ended = breaking.end();
            let was_in_time = signal == Signal::SIGTERM || aside.exists();
            was_in_time.then_some(ended)
        });
        let ended = ended.expect("one was seen in the middle");
        match signal {
            Signal::SIGKILL => {
                assert_eq!(scene.names(), [".exclusive-lock.aside"], "{ended:?}");
                assert_eq!(
                    scene.run(&["check"]).expect(4, &[]).out,
                    "Skipping database (locked by old)\n"
                );
                assert_eq!(scene.names(), [".exclusive-lock"]);
            }
            _ => {
                let ended = ended.expect(0, &["broke the lock of old"]);
                assert_eq!(
                    (kept(&scene).len(), scene.names().len()),
                    (1, 1),
                    "{ended:?}"
                );
            }
        }
    }
}

#[test]
fn many_breaks_of_one_lock_keep_it_once() {
    let scene = crate::a_scene();
    scene.write_shell_lock("old", me(), &this_host());
    let id = id(&scene);
    let breaking: Vec<Running> = (0..8)
        .map(|_| Running::apart(scene.beadlock(&["break", "--id", &id, "--even-if-live"])))
        .collect();
    let ended: Vec<Ended> = breaking
        .into_iter()
        .map(|breaking| breaking.end().expect(0, &[]))
        .collect();
    let broke = ended
        .iter()
        .filter(|ended| ended.err.contains("broke the lock of old"))
        .count();
    let late = ended
        .iter()
        .filter(|ended| ended.err.contains("nothing to break"))
        .count();
    assert_eq!((broke, late), (1, 7), "{ended:?}");
    assert_eq!((kept(&scene).len(), scene.names().len()), (1, 1));
}
