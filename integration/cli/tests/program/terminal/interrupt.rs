//! Ctrl-C: the command has it already, and so it is not passed on; a command that dies of it dies as it would alone.

use beadlock_core::gate::Gate;
use beadlock_testkit::{Ended, Scene, has_program, lives, process_is_gone, this_host};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::screen::rows;
use super::{BEADLOCK, Terminal, pid_in, program};

/// Runs a hold with these words, and types Ctrl-C once `ready` is there.
fn interrupted(scene: &Scene, words: &[&str]) -> Ended {
    let mut terminal = Terminal::start(scene, &[&[BEADLOCK, "hold", "-q"], words].concat());
    terminal.until("the command runs", || scene.file("ready").exists());
    terminal.type_in("\x03");
    terminal.end()
}

#[test]
fn ctrl_c_ends_both_by_sigint() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::start(&scene, &[BEADLOCK, "hold", "-q", "--", "sleep", "300"]);
    terminal.until_runs(&scene, "sleep");
    terminal.type_in("\x03");
    let ended = terminal.end();
    assert_eq!(ended.signal, Some(2), "{ended:?}");
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn ctrl_c_is_heard_once_and_a_command_that_survives_it_decides() {
    let scene = crate::a_scene();
    let script = "trap 'echo got >> log' INT; echo > ready; until test -e log; do sleep 0.01; done; \
                  sleep 0.3; test -e .beads/.exclusive-lock && echo > locked; cut -d ' ' -f 5 /proc/$$/stat /proc/$PPID/stat > group; exit 5";
    let ended = interrupted(&scene, &["--", "sh", "-c", script]);
    assert_eq!((ended.code, ended.signal), (5, None), "{ended:?}");
    assert_eq!(scene.read("log"), "got\n", "passed on twice");
    assert!(scene.file("locked").exists(), "it keeps its lock");
    let groups = scene.read("group");
    let groups: Vec<&str> = groups.split_ascii_whitespace().collect();
    assert_eq!(
        groups.first(),
        groups.get(1),
        "the command stays in our group"
    );
    assert!(scene.names().is_empty());
}

#[test]
fn ctrl_c_reaches_a_command_that_has_left_our_group() {
    let scene = crate::a_scene();
    let script = "trap 'exit 5' INT; echo > ready; while :; do sleep 0.01; done";
    let ended = interrupted(&scene, &["--", "setsid", "sh", "-c", script]);
    assert_eq!((ended.code, ended.signal), (5, None), "{ended:?}");
    assert!(scene.names().is_empty());
}

/// Ctrl-C, on a command that ends with 0 and leaves a process behind that has not heard it.
fn tidied_up(kill_after: &str, script: &str) -> (Scene, i32) {
    let scene = crate::a_scene();
    let script = format!(
        "setsid sleep 300 & echo $! > below; until grep -q sleep /proc/$!/comm; do :; done; {script}; echo > ready; until test -e end; do sleep 0.01; done; exit 0"
    );
    let ended = interrupted(
        &scene,
        &["--kill-after", kill_after, "--", "sh", "-c", &script],
    );
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
    kill(Pid::from_raw(below), Signal::SIGKILL).unwrap();
    process_is_gone(below);
}

/// What a script does after a hold in it was interrupted, once `command` is the program of this name: nothing, or
/// `after` is there.
fn script_goes_on(shell: &str, command: &str, program: &str) -> bool {
    let scene = crate::a_scene();
    let script = format!("\"$BEADLOCK\" hold -q -- {command}; echo > after");
    let mut terminal = Terminal::start(&scene, &[shell, "-c", &script]);
    terminal.until_runs(&scene, program);
    terminal.until("it is ready", || {
        program == "sleep" || scene.file("ready").exists()
    });
    terminal.type_in("\x03");
    terminal.end();
    assert!(scene.names().is_empty(), "{:?}", scene.names());
    scene.file("after").exists()
}

#[test]
fn a_script_around_it_stops() {
    assert!(!script_goes_on("sh", "sleep 300", "sleep"));
    // This one asks how the interrupted program ended, and goes on when it has dealt with it.
    if has_program("bash") {
        assert!(!script_goes_on("bash", "sleep 300", "sleep"));
        let handles = r#"sh -c 'trap "exit 0" INT; echo > ready; while :; do sleep 0.01; done'"#;
        assert!(script_goes_on("bash", handles, "sh"));
    }
}

#[test]
fn ctrl_backslash_ends_both_and_the_lock() {
    let scene = crate::a_scene();
    let script = "ulimit -c 0; echo > ready; sleep 300";
    let mut terminal = Terminal::start(&scene, &[BEADLOCK, "hold", "-q", "--", "sh", "-c", script]);
    terminal.until("the command runs", || scene.file("ready").exists());
    terminal.type_in("\x1c");
    assert_eq!(terminal.end().code, 131);
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn ctrl_c_ends_a_wait_and_takes_its_line_away() {
    for command in [
        &["hold", "--wait", "1h", "--", "true"][..],
        &["acquire", "--wait", "1h"],
        &["wait", "--wait", "1h"],
    ] {
        let scene = crate::a_scene();
        scene.write_shell_lock("live", i64::from(std::process::id()), &this_host());
        let script = "stty rows 24 cols 80; exec \"$BEADLOCK\" \"$@\"";
        let mut terminal =
            Terminal::start(&scene, &[&["sh", "-c", script, "sh"], command].concat());
        terminal.until("it waits", || terminal.seen().contains("waiting"));
        terminal.type_in("\x03");
        let ended = terminal.end();
        assert_eq!(ended.signal, Some(2), "{command:?}: {ended:?}");
        let rows = rows(&ended.out, 80);
        assert!(
            !rows.iter().any(|row| row.contains("waiting")),
            "{command:?}: {rows:?}"
        );
        assert_eq!(scene.names(), [".exclusive-lock"]);
    }
}

#[test]
fn ctrl_c_is_a_cycles_to_deal_with_too() {
    let scene = crate::a_scene();
    let script = "trap 'echo got >> log' INT; echo > ready; until test -e log; do sleep 0.01; done; \
                  echo > on; until test -e end; do sleep 0.01; done; exit 5";
    let mut terminal = Terminal::start(&scene, &[BEADLOCK, "cycle", "--", "sh", "-c", script]);
    terminal.until("the command runs", || scene.file("ready").exists());
    let is_open = || Gate::try_take(&scene.beads()).unwrap().is_some();
    terminal.type_in("\x03");
    terminal.until("it goes on", || scene.file("on").exists());
    assert!(!is_open(), "the cycle goes on");
    std::fs::write(scene.file("end"), "").unwrap();
    let ended = terminal.end();
    assert_eq!(
        (ended.code, ended.signal, scene.read("log").as_str()),
        (5, None, "got\n"),
        "{ended:?}"
    );
    assert!(is_open());

    let mut terminal = Terminal::start(
        &scene,
        &[
            BEADLOCK,
            "cycle",
            "--",
            "sh",
            "-c",
            "echo $$ > pid; exec sleep 300",
        ],
    );
    let pid = pid_in(&terminal, &scene, "pid");
    terminal.until("it runs", || program(pid) == "sleep");
    terminal.type_in("\x03");
    assert_eq!(terminal.end().signal, Some(2));
    assert!(is_open());
}
