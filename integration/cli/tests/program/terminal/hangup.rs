//! The terminal goes away under a claim.

use beadlock_testkit::{lives, process_is_gone, this_host, until};

use super::{BEADLOCK, Terminal, pid_in};

#[test]
fn a_hangup_ends_command_and_lock() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal
        .type_in("\"$BEADLOCK\" hold -- sh -c 'echo $PPID > us; echo $$ > pid; exec sleep 300'\n");
    let (us, command) = (
        pid_in(&terminal, &scene, "us"),
        pid_in(&terminal, &scene, "pid"),
    );
    assert!(scene.lock().exists());
    terminal.hang_up();
    process_is_gone(us);
    assert!(!lives(command));
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn the_sessions_leader_alone_hears_it_and_passes_it_on() {
    let scene = crate::a_scene();
    let script = "trap 'echo >> heard; exit 5' HUP; echo $$ > pid; while :; do sleep 0.01; done";
    let terminal = Terminal::start(&scene, &[BEADLOCK, "hold", "--", "sh", "-c", script]);
    let command = pid_in(&terminal, &scene, "pid");
    let ended = terminal.hang_up();
    assert_eq!((ended.code, ended.signal), (5, None), "{ended:?}");
    assert!(!lives(command));
    assert_eq!(
        scene.read("heard").lines().count(),
        1,
        "heard more than once"
    );
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn a_hangup_ends_a_wait() {
    for command in [
        "hold --wait 1h -- touch ran",
        "acquire --wait 1h",
        "wait --wait 1h",
    ] {
        let scene = crate::a_scene();
        scene.write_shell_lock("live", i64::from(std::process::id()), &this_host());
        let mut terminal = Terminal::shell(&scene);
        terminal.type_in(&format!(
            "sh -c 'echo $$ > us; exec \"$BEADLOCK\" {command}'\n"
        ));
        let us = pid_in(&terminal, &scene, "us");
        terminal.until("it waits", || terminal.seen().contains("waiting"));
        terminal.hang_up();
        process_is_gone(us);
        assert!(!scene.file("ran").exists());
        assert_eq!(scene.names(), [".exclusive-lock"]);
    }
}

#[test]
fn with_nohup_both_go_on() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal.type_in(
        "nohup \"$BEADLOCK\" hold -- sh -c 'echo $PPID > us; echo $$ > pid; \
         until test -e end; do sleep 0.01; done' > said 2>&1 &\n",
    );
    let (us, command) = (
        pid_in(&terminal, &scene, "us"),
        pid_in(&terminal, &scene, "pid"),
    );
    terminal.hang_up();
    // A stop of a moment: what a hangup ends would be ended by now.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(lives(us) && lives(command) && scene.lock().exists());
    std::fs::write(scene.file("end"), "").unwrap();
    process_is_gone(us);
    until("it says so", || scene.read("said").contains("released"));
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}
