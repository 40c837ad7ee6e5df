//! The question on a terminal: the lock is shown, and its id is typed.

use beadlock_testkit::{Ended, Scene, dead_pid, this_host};

use super::{id, kept, me};
use crate::terminal::{BEADLOCK, Terminal};

/// Runs a `break` without a choice on a terminal, types `keys` at its question, and answers how it ended and what was
/// shown.
fn asked(scene: &Scene, args: &[&str], keys: &str) -> (Ended, String) {
    let words = [&[BEADLOCK, "break", "--color", "never"], args].concat();
    let mut terminal = Terminal::start_as(scene, "dumb", &words);
    terminal.until("it asks", || {
        terminal.seen().contains("Type its id to break it: ")
    });
    terminal.type_in(keys);
    let ended = terminal.end();
    let shown = ended.out.clone();
    (ended, shown)
}

/// Runs a `break` without a choice on a terminal, and asserts that it asks no question.
fn not_asked(scene: &Scene) -> Ended {
    let ended = Terminal::start_as(scene, "dumb", &[BEADLOCK, "break", "--color", "never"]).end();
    assert!(!ended.out.contains("Type its id"), "{ended:?}");
    ended
}

#[test]
fn on_a_terminal_the_lock_is_shown_and_its_id_is_typed() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc\u{1b}[2J", i64::from(dead_pid()), &this_host());
    let id = id(&scene);
    let (ended, shown) = asked(&scene, &[], &format!("  {id} \n"));
    assert_eq!(ended.code, 0, "{shown}");
    for word in [
        r".beads: stale, left by vc\u{1b}[2J (PID ",
        "says ESRCH: it is gone",
        &format!("id: {id}"),
        "broke the lock of ",
    ] {
        assert!(shown.contains(word), "{word:?} in {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert_eq!(kept(&scene).len(), 1);
}

#[test]
fn on_a_terminal_anything_but_the_id_touches_nothing() {
    for (keys, code, signal) in [
        ("nonsense\n", 1, None),
        ("\n", 1, None),
        ("yes\n", 1, None),
        ("\u{4}", 1, None),
        ("half\u{3}", 130, Some(2)),
    ] {
        let scene = crate::a_scene();
        scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
        let (ended, shown) = asked(&scene, &[], keys);
        assert_eq!(
            (ended.code, ended.signal),
            (code, signal),
            "{keys:?}: {shown}"
        );
        assert_eq!(scene.names(), [".exclusive-lock"], "{keys:?}");
    }
}

#[test]
fn on_a_terminal_a_held_lock_is_shown_and_not_asked_for() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", me(), &this_host());
    let ended = not_asked(&scene);
    assert_eq!(ended.code, 4, "{ended:?}");
    for word in [".beads: held by vc (PID ", " --even-if-live\r\n"] {
        assert!(ended.out.contains(word), "{word:?} in {ended:?}");
    }
    assert_eq!(scene.names(), [".exclusive-lock"]);
    let id = id(&scene);
    let (ended, shown) = asked(&scene, &["--even-if-live"], &format!("{id}\n"));
    assert_eq!((ended.code, kept(&scene).len()), (0, 1), "{shown}");
}

#[test]
fn on_a_terminal_the_one_lock_of_a_directory_is_asked_for_too() {
    let scene = crate::a_scene();
    std::fs::create_dir(scene.file("memory")).unwrap();
    let (dead, host) = (dead_pid(), this_host());
    let lock = format!(
        r#"{{"pid": {dead}, "session_id": "main", "hostname": "{host}", "operation": "x"}}"#
    );
    std::fs::write(scene.file("memory/.lock"), lock).unwrap();
    let (ended, shown) = asked(&scene, &["memory:memory"], "no\n");
    assert_eq!(ended.code, 1, "{shown}");
    assert!(scene.file("memory/.lock").exists(), "{shown}");
    let id = shown
        .split_once("id: ")
        .unwrap()
        .1
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    let (ended, shown) = asked(&scene, &["memory:memory"], &format!("{id}\n"));
    assert_eq!(ended.code, 0, "{shown}");
    assert!(
        shown.contains(&format!("beadlock: Broke lock held by PID {dead}\r\n")),
        "{shown}"
    );
    assert!(!scene.file("memory/.lock").exists(), "{shown}");
}

#[test]
fn on_a_terminal_what_has_no_id_is_shown_with_what_to_type() {
    let scene = crate::a_scene();
    std::os::unix::fs::symlink("/nowhere", scene.lock()).unwrap();
    let ended = not_asked(&scene);
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(
        ended
            .out
            .contains("to break it: beadlock break .beads --malformed\r\n"),
        "{ended:?}"
    );
    assert!(scene.lock().is_symlink());
}
