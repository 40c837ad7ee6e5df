//! Those who wait for one lock go on in the order in which they came.
#![expect(
    clippy::disallowed_methods,
    reason = "how the holder of a lock lets it go"
)]

use std::fs;

use beadlock_testkit::{Running, Scene, until};
use nix::sys::signal::Signal;

use crate::acquire::Sleeper;

/// A claim that waits for the lock, and then writes down its name.
fn waiting(scene: &Scene, name: &str) -> Running {
    let script = "echo \"$0\" >> served; sleep 0.05";
    let command = scene.beadlock(&[
        "hold",
        "lock:x.lock",
        "--wait",
        "1h",
        "--",
        "sh",
        "-c",
        script,
        name,
    ]);
    let waits = Running::apart(command);
    until("it is in the line", || {
        watches(waits.pid()) || is_blocked(waits.pid())
    });
    waits
}

/// Whether it looks for the lock's end.
fn watches(pid: i32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    files
        .flatten()
        .filter_map(|file| fs::read_link(file.path()).ok())
        .any(|file| file.as_os_str() == "anon_inode:inotify")
}

/// Whether it stands in the line, behind another.
fn is_blocked(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok())
        .any(|name| name == "line\n")
}

/// A lock of a process that lives, until it is taken away.
fn held(scene: &Scene) -> Sleeper {
    let holder = Sleeper::start();
    scene
        .run(&["acquire", "-q", "lock:x.lock", "--for", &holder.pid()])
        .expect(0, &[]);
    holder
}

#[test]
fn they_are_served_in_order_and_one_alone_watches() {
    let scene = crate::a_scene();
    let holder = held(&scene);
    let names: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    let line: Vec<Running> = names.iter().map(|name| waiting(&scene, name)).collect();
    assert!(watches(line[0].pid()));
    for behind in &line[1..] {
        assert!(is_blocked(behind.pid()) && !watches(behind.pid()));
    }
    fs::remove_file(scene.file("x.lock")).unwrap();
    for claim in line {
        claim.end().expect(0, &[]);
    }
    let served = scene.read("served");
    assert_eq!(served.lines().collect::<Vec<_>>(), names);
    drop(holder);
}

#[test]
fn a_front_that_was_stopped_is_passed_and_one_that_was_killed_is_gone() {
    let scene = crate::a_scene();
    let holder = held(&scene);
    let (first, second) = (waiting(&scene, "first"), waiting(&scene, "second"));
    first.signal(Signal::SIGSTOP);
    fs::remove_file(scene.file("x.lock")).unwrap();
    second.end().expect(0, &[]);
    assert_eq!(scene.read("served"), "second\n");
    first.signal(Signal::SIGCONT);
    first.end().expect(0, &[]);
    assert_eq!(scene.read("served"), "second\nfirst\n");

    let next = held(&scene);
    let (third, fourth) = (waiting(&scene, "third"), waiting(&scene, "fourth"));
    third.signal(Signal::SIGKILL);
    until("the next one watches", || watches(fourth.pid()));
    fs::remove_file(scene.file("x.lock")).unwrap();
    fourth.end().expect(0, &[]);
    assert_eq!(scene.read("served"), "second\nfirst\nfourth\n");
    drop((holder, next));
}

/// Nothing but the order depends on it.
#[test]
fn who_gives_up_in_the_line_is_in_nobody_s_way() {
    let scene = crate::a_scene();
    let holder = held(&scene);
    let first = waiting(&scene, "first");
    let ended = scene.run(&["hold", "lock:x.lock", "--wait", "100ms", "--", "true"]);
    ended.expect(4, &["acquisition timed out after 100ms"]);
    let last = waiting(&scene, "last");
    fs::remove_file(scene.file("x.lock")).unwrap();
    first.end().expect(0, &[]);
    last.end().expect(0, &[]);
    assert_eq!(scene.read("served"), "first\nlast\n");
    drop(holder);
}
