//! As the first process of a container, and as a subreaper: orphans fall to the program, which collects them. A holder
//! that was killed is no zombie for long, and its lock does not stay.

use std::process::Command;

use beadlock_tests::{Running, Scene, tool, wait::PATIENCE, wait_until};

const CONTAINER: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// `$1` and what follows is executed in this process, once another tool has claimed the database. When the file `$SEEN`
/// has the word `$WORD`, the tool and its command are killed: nobody but this process can collect them.
const SCRIPT: &str = r#"
until_it() { until "$@" 2>/dev/null; do sleep 0.05; done; }
echo $$ >us
setsid sh -c '"$BEADLOCK" hold .beads --holder import -- sleep 300 >/dev/null 2>&1 & echo $! >holder'
until_it test -s .beads/.exclusive-lock
command=$(sed -n 's/^ *"pid": \([0-9]*\).*/\1/p' .beads/.exclusive-lock)
(
    until_it grep -q "$WORD" "$SEEN"
    kill -9 "$(cat holder)" "$command"
    for pid in "$(cat holder)" "$command"; do until_it sh -c "! grep -q '^State:.[^Z]' /proc/$pid/status"; done
    echo >killed
    until_it test -e ran
    for pid in "$(cat holder)" "$command"; do ! grep -qs '^State:.Z' "/proc/$pid/status" || echo >zombie; done
    echo >looked
) &
exec "$@""#;

/// The words as the arguments of [`SCRIPT`].
fn in_its_place_of(
    mut command: Command,
    scene: &Scene,
    words: &[&str],
    seen: [&str; 2],
) -> Command {
    command.arg("sh").args(words);
    command.env("BEADLOCK", scene.beadlock(&[]).get_program());
    command.env("SEEN", seen[0]).env("WORD", seen[1]);
    command
}

fn collects_the_holder(scene: &Scene, command: Command) -> Running {
    let running = Running::start(command);
    for name in ["killed", "ran", "looked"] {
        wait_until(PATIENCE, name, || scene.path().join(name).exists());
    }
    assert!(!scene.path().join("zombie").exists());
    running
}

const SKIPPED: [&str; 2] = [".beads/daemon.log", "Skipping"];

/// The agent, and the words that execute it.
fn agent(scene: &Scene) -> Vec<String> {
    let program = scene.agent(&[]).get_program().to_str().unwrap().to_owned();
    let words = [
        "--db",
        ".beads",
        "--interval",
        "100ms",
        "--exec",
        "touch ran",
    ];
    [program]
        .into_iter()
        .chain(words.map(str::to_owned))
        .collect()
}

fn ends_well(scene: &Scene, running: &mut Running, pid: i32) {
    let log = scene.read(".beads/daemon.log");
    assert!(!log.contains("has not collected"), "{log}");
    assert!(log.contains("Removed stale lock (import)"), "{log}");
    // The status of its own children is its own.
    assert!(
        log.contains("Sync cycle complete") && !log.contains("failed"),
        "{log}"
    );
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    let _ = running;
}

#[test]
fn an_agent_as_the_first_process_collects_a_dead_holder() {
    let scene = Scene::new();
    let Some(command) = scene.in_namespaces(&CONTAINER, SCRIPT) else {
        return;
    };
    let words = agent(&scene);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let command = in_its_place_of(command, &scene, &words, SKIPPED);
    let mut running = collects_the_holder(&scene, command);
    assert_eq!(scene.read("us"), "1\n");
    let first = beadlock_tests::children(running.pid())[0];
    ends_well(&scene, &mut running, first);
    running.end().expect(0, &[]);
}

#[test]
fn an_agent_as_a_subreaper_collects_a_dead_holder() {
    let Some(python) = tool("python3") else {
        return;
    };
    let scene = Scene::new();
    let become_one = "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = scene.command(python);
    command.args(["-c", become_one, "/bin/sh", "-c", SCRIPT]);
    let words = agent(&scene);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let command = in_its_place_of(command, &scene, &words, SKIPPED);
    let mut running = collects_the_holder(&scene, command);
    let pid = running.pid();
    ends_well(&scene, &mut running, pid);
    running.end().expect(0, &[]);
}

/// Whether it waits for the holder, or finds it dead already at its first look.
#[test]
fn a_command_as_the_first_process_gets_the_lock_of_a_dead_holder() {
    let work = "echo >ran; until test -e looked; do sleep 0.05; done";
    for (words, word) in [
        (&["hold", "--wait", "30s"][..], "waiting"),
        (&["hold", "--no-wait"], ""),
        (&["cycle"], ""),
    ] {
        let scene = Scene::new();
        let dead_first = "while ! test -e killed; do :; done; exec \"$@\"";
        let script = match word {
            "" => SCRIPT.replace("exec \"$@\"", dead_first),
            _ => SCRIPT.to_owned(),
        };
        let script = format!("exec 2>err; echo >>err; {script}");
        let Some(command) = scene.in_namespaces(&CONTAINER, &script) else {
            return;
        };
        let program = scene.beadlock(&[]);
        let beadlock = [program.get_program().to_str().unwrap()];
        let words = [&beadlock, words, &[".beads", "--", "sh", "-c", work]].concat();
        let command = in_its_place_of(command, &scene, &words, ["err", word]);
        collects_the_holder(&scene, command).end().expect(0, &[]);
    }
}
