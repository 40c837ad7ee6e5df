//! The line of a wait: one, rewritten in place, cut to the terminal's width, gone when the wait is over.
#![expect(clippy::disallowed_methods, reason = "the holder of a lock goes away")]

use std::fs;

use beadlock_testkit::{Scene, this_host};

use super::screen::rows;
use super::{BEADLOCK, Terminal, pid_in, state};

const WAITS: [&[&str]; 3] = [
    &["hold", "--wait", "1h", "--", "true"],
    &["acquire", "--wait", "1h"],
    &["wait", "--wait", "1h"],
];

fn held_scene() -> Scene {
    let scene = crate::a_scene();
    scene.write_shell_lock(
        "some long name of a release job",
        i64::from(std::process::id()),
        &this_host(),
    );
    scene
}

#[test]
fn a_wait_has_one_live_line() {
    for command in WAITS {
        let scene = held_scene();
        let script = "stty rows 24 cols 40; exec \"$BEADLOCK\" \"$@\"";
        let terminal = Terminal::start(&scene, &[&["sh", "-c", script, "sh"], command].concat());
        let frames = || terminal.seen().matches("\x1b[?7h").count();
        terminal.until("it is rewritten", || frames() >= 3);
        fs::remove_file(scene.lock()).unwrap();
        let ended = terminal.end();
        assert_eq!(ended.code, 0, "{ended:?}");
        let ends: Vec<usize> = ended
            .out
            .match_indices("\x1b[?7h")
            .map(|(at, end)| at + end.len())
            .collect();
        let mut shown = Vec::new();
        for end in ends {
            let [line] = &rows(&ended.out[..end], 40)[..] else {
                panic!("{command:?}: one line: {ended:?}")
            };
            // With room for the `^C` that a terminal echoes.
            let is_cut = line.chars().count() <= 37 && line.contains('…');
            let (begins, ends) = (
                line.starts_with("beadlock: waiting "),
                line.ends_with(" left"),
            );
            assert!(is_cut && begins && ends, "{command:?}: {line:?}");
            shown.push(line.clone());
        }
        shown.dedup();
        assert!(
            shown.len() >= 2,
            "{command:?}: nothing new was said: {shown:?}"
        );
        let rows = rows(&ended.out, 200);
        assert!(
            !rows.iter().any(|row| row.contains("waiting")),
            "{command:?}: {rows:?}"
        );
    }
}

/// The name is whole where there is room for it, and left out between words where there is not.
#[test]
fn no_word_of_the_line_is_torn_on_any_terminal() {
    for columns in [60, 80, 120] {
        let scene = crate::a_scene();
        let holder = "a nightly import of all the trackers, 日本語 too";
        scene.write_shell_lock(holder, i64::from(std::process::id()), &this_host());
        let script = format!("stty rows 24 cols {columns}; exec \"$BEADLOCK\" wait --wait 1h");
        let terminal = Terminal::start(&scene, &["sh", "-c", &script]);
        let frames = || terminal.seen().matches("\x1b[?7h").count();
        terminal.until("it is rewritten", || frames() >= 2);
        fs::remove_file(scene.lock()).unwrap();
        let ended = terminal.end();
        let first = ended.out.find("\x1b[?7h").expect("a frame");
        let line = rows(&ended.out[..first], columns)[0].clone();
        let whole = format!(
            "beadlock: waiting for {holder} (PID {}), held ",
            std::process::id()
        );
        assert!(
            line.starts_with("beadlock: waiting for a nightly ") && line.ends_with(" left"),
            "{line}"
        );
        assert_eq!(line.starts_with(&whole), columns == 120, "{line}");
        for word in line.split_whitespace().filter(|word| *word != "…") {
            let is_time = word.starts_with(|first: char| first.is_ascii_digit());
            assert!(
                is_time
                    || ["left", "held"].contains(&word)
                    || whole.split(' ').any(|whole| whole == word),
                "{word}: {line}"
            );
        }
    }
}

#[test]
fn a_quiet_wait_says_nothing() {
    for command in WAITS {
        let scene = held_scene();
        let script = "echo $$ > us; exec \"$BEADLOCK\" -q \"$@\" > out";
        let terminal = Terminal::start(&scene, &[&["sh", "-c", script, "sh"], command].concat());
        pid_in(&terminal, &scene, "us");
        std::thread::sleep(std::time::Duration::from_millis(700));
        fs::remove_file(scene.lock()).unwrap();
        let ended = terminal.end();
        assert_eq!((ended.code, ended.out.as_str()), (0, ""), "{command:?}");
    }
}

#[test]
fn a_dumb_terminal_gets_one_plain_line() {
    for command in WAITS {
        let scene = held_scene();
        let terminal = Terminal::start_as(&scene, "dumb", &[&[BEADLOCK], command].concat());
        terminal.until("it waits", || terminal.seen().contains('\n'));
        // Longer than it takes to bring a live line up to date.
        std::thread::sleep(std::time::Duration::from_millis(1300));
        fs::remove_file(scene.lock()).unwrap();
        let ended = terminal.end();
        assert_eq!(
            ended.out.matches("waiting").count(),
            1,
            "{command:?}: {ended:?}"
        );
        assert!(
            !ended.out.contains('\x1b') && ended.out.starts_with("beadlock: waiting "),
            "{ended:?}"
        );
    }
}

#[test]
fn in_the_background_it_leaves_the_line_that_is_typed_alone() {
    let scene = held_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal.type_in("sh -c 'echo $$ > us; exec \"$BEADLOCK\" hold --wait 1h -- true' &\n");
    pid_in(&terminal, &scene, "us");
    let waits = || terminal.seen().matches("beadlock: waiting").count();
    terminal.until("it waits", || waits() > 0);
    std::thread::sleep(std::time::Duration::from_millis(1300));
    assert_eq!(waits(), 1, "{:?}", terminal.seen());
    fs::remove_file(scene.lock()).unwrap();
    terminal.until("it ends", || terminal.seen().contains("released"));
    assert!(!terminal.seen().contains("\x1b["), "{:?}", terminal.seen());
}

#[test]
fn after_ctrl_z_and_fg_it_goes_on() {
    let scene = held_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal.type_in("sh -c 'echo $$ > us; exec \"$BEADLOCK\" hold --wait 1h -- sh -c \"exit 5\"'; echo $? > code\n");
    let us = pid_in(&terminal, &scene, "us");
    terminal.until("it waits", || terminal.seen().contains("waiting"));
    terminal.type_in("\x1a");
    terminal.until("it is stopped", || state(us) == 'T');
    terminal.type_in("echo > prompt\n");
    terminal.until("the shell is back", || scene.file("prompt").exists());
    fs::remove_file(scene.lock()).unwrap();
    fs::remove_file(scene.file("code")).unwrap();
    terminal.type_in("fg; echo $? > code\n");
    terminal.until("it ends", || scene.read("code").ends_with('\n'));
    assert_eq!(scene.read("code"), "5\n");
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}
