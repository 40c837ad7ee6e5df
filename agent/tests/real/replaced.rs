//! The database's directory is replaced while a cycle's command works: the gate is on the old one, and a claim takes
//! the new one's. That is seen, and the cycle is ended.

use std::fs;

use crate::agent::{OfAgent, fresh_scene};
use beadlock_core::gate::Gate;
use beadlock_testkit::{Scene, lives, until};

/// Writes its PID to `command`, and works until it is told to end.
const WORK: &str =
    "echo $$ > command; trap 'echo asked > asked; exit 0' TERM; while :; do sleep 0.02; done";

const REPLACED: &str =
    "Sync cycle failed: the database's directory was replaced by another one within ";
const VANISHED: &str = "Sync cycle failed: the database's directory was removed or renamed within ";
const WHAT_NOW: &str = "; claims no longer wait for this cycle, so it was ended; look at what its command changed; to switch \
                        between cycles: beadlock hold -- git switch BRANCH";

/// The agent with a log that is not in the database, on [`WORK`].
fn with<'a>(exec: &'a str, log: &'a str) -> [&'a str; 6] {
    ["--interval", "1h", "--log-file", log, "--exec", exec]
}

/// Waits for the end of the command, and for a line of the log that begins so.
#[track_caller]
fn ends(scene: &Scene, command: i32, line: &str) {
    // Within half a second on a machine that has nothing else to do. Unnoticed, it would end after two minutes.
    until("the command's end", || !lives(command));
    let log = || scene.read("log");
    let is_it = |logged: &str| logged.contains(line) && logged.ends_with(WHAT_NOW);
    until("the line", || log().lines().any(is_it));
    assert_eq!(
        scene.read("asked"),
        "asked\n",
        "it was asked to end before it could be killed"
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test renames the directory")]
fn a_directory_renamed_and_made_anew_ends_the_cycle() {
    let scene = fresh_scene();
    let log = scene.file("log").display().to_string();
    let agent = scene.start(&with(WORK, &log));
    let command = scene.pid_in("command");
    fs::rename(scene.beads(), scene.file("old")).unwrap();
    fs::create_dir(scene.beads()).unwrap();
    ends(&scene, command, REPLACED);
    until("the old gate", || {
        Gate::try_take(&scene.file("old")).unwrap().is_some()
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_directory_that_is_gone_ends_the_cycle() {
    let scene = fresh_scene();
    let log = scene.file("log").display().to_string();
    let agent = scene.start(&with(WORK, &log));
    let command = scene.pid_in("command");
    fs::remove_dir_all(scene.beads()).unwrap();
    ends(&scene, command, VANISHED);
    assert_eq!(agent.stop(), Some(0));
}

/// A path through a link is whatever it leads to now.
#[test]
fn a_link_that_leads_elsewhere_ends_the_cycle() {
    let scene = fresh_scene();
    for name in ["one", "other"] {
        fs::create_dir_all(scene.file(name).join(".beads")).unwrap();
    }
    let link = |to: &str| {
        let new = scene.file("new");
        std::os::unix::fs::symlink(to, &new).unwrap();
        assert!(
            std::process::Command::new("mv")
                .arg("-T")
                .arg(&new)
                .arg(scene.file("link"))
                .status()
                .unwrap()
                .success()
        );
    };
    link("one");
    // The runner alone: the agent resolves the paths of its databases.
    let mut runner = scene.agent(&[beadlock_base::helper::RUNNER, "1", "60000", "-"]);
    let gate = fs::File::open(scene.file("link/.beads")).unwrap();
    // It works where it was started: in the directory above the database.
    runner.current_dir(scene.file("one"));
    runner
        .arg(scene.file("link/.beads"))
        .args(["sh", "-c", "echo $$ > command; sleep 60"])
        .stdin(gate);
    let mut runner = runner.spawn().unwrap();
    until("the command", || scene.file("link/command").exists());
    link("other");
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(runner.stderr.take().unwrap()),
        &mut line,
    )
    .unwrap();
    assert_eq!(line, "gate-lost replaced\n");
    runner.wait().unwrap();
}

/// A command that ends by itself before anybody has looked.
#[test]
fn a_short_cycle_whose_directory_was_replaced_has_failed() {
    let scene = fresh_scene();
    let log = scene.file("log").display().to_string();
    let exec = "mv .beads old; mkdir .beads";
    let (code, stderr) = scene.once(&["--log-file", &log, "--exec", exec]);
    assert_eq!(code, 1, "{stderr}");
    assert!(
        scene.read("log").contains(REPLACED),
        "{}",
        scene.read("log")
    );
}

/// What leaves the directory itself in its place is not a loss, whatever it does to the files in it.
#[test]
fn a_directory_whose_files_are_replaced_is_left_alone() {
    // On a busy machine it may be away for longer than a moment. One round in time is enough.
    assert!(
        (0..5).any(|_| one_whose_files_are_replaced()),
        "it is taken for another directory"
    );
}

fn one_whose_files_are_replaced() -> bool {
    let scene = fresh_scene();
    let log = scene.file("log").display().to_string();
    let exec = "mv .beads old && mv old .beads; rm -f .beads/*; touch .beads/new; chmod 0700 .beads; sleep 1";
    scene.once(&["--log-file", &log, "--exec", exec]).0 == 0
}
