//! A hold as a job of a shell: the terminal is the command's, and stops and goes on as without us.
#![expect(clippy::disallowed_methods, reason = "the holder of a lock goes away")]

use std::fs;

use beadlock_core::gate::Gate;
use beadlock_testkit::{Scene, has_program};

use super::{BEADLOCK, Terminal, pid_in, program, state};

/// Says which process runs it and its own PID, and ends with 5 when it may. It starts nothing: a shell that waits for
/// the start of what is stopped is not stopped itself.
const WORK: &str = "mkfifo end; echo $PPID > us; echo $$ > pid; read -r code < end; exit $code";

fn allow_end(scene: &Scene) {
    fs::write(scene.file("end"), "5\n").unwrap();
}

/// Types a line that ends with the exit code in `code`, and waits for that.
#[track_caller]
fn last(terminal: &mut Terminal, scene: &Scene, line: &str) -> String {
    let _ = fs::remove_file(scene.file("code"));
    terminal.type_in(&format!("{line}; echo $? > code\n"));
    terminal.until(line, || scene.read("code").ends_with('\n'));
    scene.read("code").trim().to_owned()
}

/// The shell reads its next line.
#[track_caller]
fn at_the_prompt(terminal: &mut Terminal, scene: &Scene) {
    let _ = fs::remove_file(scene.file("prompt"));
    terminal.type_in("echo > prompt\n");
    terminal.until("the shell is back", || scene.file("prompt").exists());
}

#[test]
fn an_interactive_command_reads_the_terminal() {
    let scene = crate::a_scene();
    let script = "stty -echo < /dev/tty; echo > ready; read -r line < /dev/tty; stty echo; echo \"$line\" > line; exit 5";
    let mut terminal = Terminal::start(&scene, &[BEADLOCK, "hold", "-q", "--", "sh", "-c", script]);
    terminal.until("it asks", || scene.file("ready").exists());
    terminal.type_in("a secret\n");
    let ended = terminal.end();
    assert_eq!(
        (ended.code, scene.read("line").as_str()),
        (5, "a secret\n"),
        "{ended:?}"
    );
    assert!(!ended.out.contains("secret"), "{ended:?}");
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

/// A hold with an interactive shell as its command, in an interactive shell.
fn shell_under_hold(inner: &str) {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal.type_in(&format!("\"$BEADLOCK\" hold -q -- {inner}\n"));
    terminal.until("the lock stands", || scene.lock().exists());
    terminal.type_in("echo $$ > inner\n");
    let shell = pid_in(&terminal, &scene, "inner");
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    assert_eq!(record["pid"], shell);
    terminal.type_in("sh -c 'echo $$ > pid; exec sleep 300'\n");
    let sleep = pid_in(&terminal, &scene, "pid");
    terminal.until("its job", || program(sleep) == "sleep");
    terminal.type_in("\x1a");
    terminal.until("its job is stopped", || state(sleep) == 'T');
    at_the_prompt(&mut terminal, &scene);
    terminal.type_in("fg\n");
    terminal.until("its job goes on", || state(sleep) == 'S');
    terminal.type_in("\x03");
    terminal.until("its job is ended", || state(sleep) == '-');
    at_the_prompt(&mut terminal, &scene);
    assert!(scene.lock().exists(), "Ctrl-C was the job's alone");
    terminal.type_in("exit 5\n");
    terminal.until("the lock is gone", || scene.names().is_empty());
    assert_eq!(
        last(&mut terminal, &scene, "true"),
        "0",
        "the terminal is the outer shell's again"
    );
    terminal.type_in("exit 6\n");
    assert_eq!(terminal.end().code, 6);
}

#[test]
fn an_interactive_shell_has_its_job_control() {
    shell_under_hold("sh -i");
}

#[test]
fn an_interactive_bash_has_its_job_control() {
    if has_program("bash") {
        shell_under_hold("bash --norc -i");
    }
}

#[test]
fn an_interactive_shell_that_suspends_itself_gives_the_terminal_back() {
    if !has_program("bash") {
        return;
    }
    let scene = crate::a_scene();
    let mut terminal = Terminal::start(&scene, &["bash", "--norc", "-i"]);
    terminal.type_in("\"$BEADLOCK\" hold -q -- bash --norc -i\n");
    terminal.until("the lock stands", || scene.lock().exists());
    terminal.type_in("echo $$ > inner; suspend\n");
    let inner = pid_in(&terminal, &scene, "inner");
    terminal.until("it is stopped", || state(inner) == 'T');
    terminal.type_in("echo $$ > outer\n");
    assert_ne!(pid_in(&terminal, &scene, "outer"), inner);
    assert!(scene.lock().exists());
    terminal.type_in("fg\n");
    terminal.until("it goes on", || state(inner) == 'S');
    terminal.type_in("exit 5\n");
    terminal.until("the lock is gone", || scene.names().is_empty());
    terminal.type_in("exit 6\n");
    assert_eq!(terminal.end().code, 6);
}

#[test]
fn an_interactive_shell_that_is_stopped_gives_the_terminal_back() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal.type_in("\"$BEADLOCK\" hold -q -- sh -i\n");
    terminal.until("the lock stands", || scene.lock().exists());
    terminal.type_in("echo $$ > inner; kill -STOP $$\n");
    let inner = pid_in(&terminal, &scene, "inner");
    terminal.until("it is stopped", || state(inner) == 'T');
    terminal.type_in("echo $$ > outer\n");
    assert_ne!(pid_in(&terminal, &scene, "outer"), inner);
    assert!(scene.lock().exists());
    // It had a group of its own, which `fg` does not know: it can be ended, and the lock with it.
    terminal.type_in("kill -HUP %1; kill -CONT %1\n");
    terminal.until("it is ended", || state(inner) == '-');
    terminal.until("the lock is gone", || scene.names().is_empty());
}

#[test]
fn ctrl_z_stops_both_and_fg_and_bg_continue_both() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal.type_in(&format!("\"$BEADLOCK\" hold -q -- sh -c '{WORK}'\n"));
    let both = [
        pid_in(&terminal, &scene, "us"),
        pid_in(&terminal, &scene, "pid"),
    ];
    for again in ["fg", "bg"] {
        terminal.type_in("\x1a");
        terminal.until("both are stopped", || {
            both.iter().all(|pid| state(*pid) == 'T')
        });
        at_the_prompt(&mut terminal, &scene);
        assert!(scene.lock().exists());
        terminal.type_in(&format!("{again}\n"));
        terminal.until("both go on", || both.iter().all(|pid| state(*pid) != 'T'));
    }
    at_the_prompt(&mut terminal, &scene);
    terminal.type_in("fg; echo $? > code\n");
    allow_end(&scene);
    terminal.until("it ends", || scene.read("code").ends_with('\n'));
    assert_eq!(scene.read("code"), "5\n", "{:?}", terminal.seen());
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn a_command_that_stops_itself_gives_the_terminal_back() {
    // Alone, and in a pipe.
    for line in [
        "\"$BEADLOCK\" hold -q -- sh -c 'kill -STOP $$; echo > went_on; exit 5'",
        "true | \"$BEADLOCK\" hold -q -- sh -c 'kill -STOP $$; echo > went_on; exit 5'",
    ] {
        let scene = crate::a_scene();
        let mut terminal = Terminal::shell(&scene);
        terminal.type_in(&format!("{line}\n"));
        terminal.until("the lock stands", || scene.lock().exists());
        at_the_prompt(&mut terminal, &scene);
        assert!(scene.lock().exists() && !scene.file("went_on").exists());
        assert_eq!(last(&mut terminal, &scene, "fg"), "5", "{line}");
        assert!(scene.file("went_on").exists());
        assert!(scene.names().is_empty(), "{:?}", scene.names());
    }
}

#[test]
fn a_command_that_stops_itself_instead_of_ending_is_killed() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    let script = "trap \"kill -STOP \\$\\$\" TERM; echo $PPID > us; echo $$ > pid; while :; do sleep 0.01; done";
    terminal.type_in(&format!(
        "\"$BEADLOCK\" hold -q --kill-after 500ms -- sh -c '{script}'; echo $? > code\n"
    ));
    let (us, pid) = (
        pid_in(&terminal, &scene, "us"),
        pid_in(&terminal, &scene, "pid"),
    );
    let (us, signal) = (
        nix::unistd::Pid::from_raw(us),
        nix::sys::signal::Signal::SIGTERM,
    );
    nix::sys::signal::kill(us, signal).unwrap();
    // It stops whenever it goes on; we may not stop with it, or nobody would be left to kill it.
    terminal.until("it ends", || scene.read("code").ends_with('\n'));
    assert_eq!((scene.read("code").as_str(), state(pid)), ("137\n", '-'));
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn a_script_around_a_command_that_stops_itself_is_not_stopped() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    // The script has no job control: nobody would make us go on.
    terminal.type_in("sh -c '\"$BEADLOCK\" hold -q -- sh -c \"echo \\$PPID > us; echo \\$\\$ > pid; kill -STOP \\$\\$; exit 5\"; echo $? > code'\n");
    let (us, pid) = (
        pid_in(&terminal, &scene, "us"),
        pid_in(&terminal, &scene, "pid"),
    );
    terminal.until("it is stopped", || state(pid) == 'T');
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(state(us), 'S');
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGCONT,
    )
    .unwrap();
    terminal.until("it ends", || scene.read("code") == "5\n");
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn a_pager_after_it_reads_the_terminal() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    let pager = "(cat > paged; echo > ready; read -r key < /dev/tty; echo \"$key\" > key)";
    terminal.type_in(&format!(
        "\"$BEADLOCK\" hold -q -- seq 3 | {pager}; echo $? > code\n"
    ));
    terminal.until("the pager asks", || scene.file("ready").exists());
    terminal.type_in("q\n");
    terminal.until("it ends", || scene.read("code") == "0\n");
    assert_eq!(
        (scene.read("paged").as_str(), scene.read("key").as_str()),
        ("1\n2\n3\n", "q\n")
    );
    assert!(scene.names().is_empty(), "{:?}", scene.names());
    // A pager that is left early ends the command by SIGPIPE, as without us.
    assert_eq!(
        last(
            &mut terminal,
            &scene,
            "\"$BEADLOCK\" hold -q -- yes | head -n 1 > one"
        ),
        "0"
    );
    terminal.until("the lock is gone", || scene.names().is_empty());
}

#[test]
fn in_the_background_it_writes_to_the_terminal() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal.type_in(&format!(
        "\"$BEADLOCK\" hold -- sh -c 'echo from the back''ground; {WORK}' &\n"
    ));
    terminal.until("its output", || {
        terminal.seen().contains("from the background")
    });
    at_the_prompt(&mut terminal, &scene);
    allow_end(&scene);
    assert_eq!(last(&mut terminal, &scene, "wait $!"), "5");
    assert!(
        terminal.seen().contains("beadlock: released"),
        "{:?}",
        terminal.seen()
    );
}

#[test]
fn in_the_background_it_stops_where_it_may_not_write_or_read() {
    for (before, script) in [
        (
            "stty tostop",
            "echo $PPID > us; echo $$ > pid; echo text; echo > went_on; exit 5",
        ),
        (
            "true",
            "echo $PPID > us; echo $$ > pid; read -r line < /dev/tty; echo > went_on; exit 5",
        ),
    ] {
        let scene = crate::a_scene();
        let mut terminal = Terminal::shell(&scene);
        terminal.type_in(&format!(
            "{before}; \"$BEADLOCK\" hold -q -- sh -c '{script}' &\n"
        ));
        let both = [
            pid_in(&terminal, &scene, "us"),
            pid_in(&terminal, &scene, "pid"),
        ];
        terminal.until("both are stopped", || {
            both.iter().all(|pid| state(*pid) == 'T')
        });
        at_the_prompt(&mut terminal, &scene);
        assert!(!scene.file("went_on").exists() && scene.lock().exists());
        terminal.type_in("fg; echo $? > code\n");
        terminal.until("both go on", || both.iter().all(|pid| state(*pid) != 'T'));
        terminal.type_in("\n");
        terminal.until("it ends", || scene.read("code").ends_with('\n'));
        assert_eq!(scene.read("code"), "5\n");
        assert!(scene.names().is_empty(), "{:?}", scene.names());
    }
}

#[test]
fn a_window_that_changes_its_size_is_the_commands_to_hear() {
    let scene = crate::a_scene();
    let script = "trap 'stty size > size' WINCH; echo > ready; until test -s size; do sleep 0.01; done; exit 5";
    let terminal = Terminal::start(&scene, &[BEADLOCK, "hold", "-q", "--", "sh", "-c", script]);
    terminal.until("the command runs", || scene.file("ready").exists());
    terminal.resize(123);
    assert_eq!(terminal.end().code, 5);
    assert!(
        scene.read("size").trim().ends_with(" 123"),
        "{:?}",
        scene.read("size")
    );
}

#[test]
fn a_cycle_that_is_stopped_keeps_the_gate() {
    let scene = crate::a_scene();
    let mut terminal = Terminal::shell(&scene);
    terminal.type_in(&format!("\"$BEADLOCK\" cycle -- sh -c '{WORK}'\n"));
    let both = [
        pid_in(&terminal, &scene, "us"),
        pid_in(&terminal, &scene, "pid"),
    ];
    terminal.type_in("\x1a");
    terminal.until("both are stopped", || {
        both.iter().all(|pid| state(*pid) == 'T')
    });
    at_the_prompt(&mut terminal, &scene);
    assert!(Gate::try_take(&scene.beads()).unwrap().is_none());
    terminal.type_in("fg; echo $? > code\n");
    allow_end(&scene);
    terminal.until("it ends", || scene.read("code").ends_with('\n'));
    assert_eq!(scene.read("code"), "5\n");
    assert!(Gate::try_take(&scene.beads()).unwrap().is_some());
}
