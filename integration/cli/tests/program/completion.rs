//! Completion in bash, which completes for real with the script that the program prints, and what every shell is
//! answered. zsh and fish are in `tests/more`.

mod typed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use beadlock_testkit::wait::fastest;
use beadlock_testkit::{Ended, PATIENCE, Scene, run, tool};

use crate::terminal::Terminal;
use typed::{HOSTILE, a_tree, complete, id, lines};

#[test]
fn bash_completes_commands_targets_and_ids() {
    let Some(bash) = tool("bash") else { return };
    let scene = a_tree();
    scene.claim("importer", std::process::id() as i32);
    let lines = lines(&id(&scene));
    let mut shell = Terminal::start(
        &scene,
        &[bash.to_str().unwrap(), "--norc", "--noprofile", "-i"],
    );
    let show = "source <(beadlock completions bash); bind -x '\"\\C-x\": printf \"%s\\n\" \"$READLINE_LINE\" > line'";
    complete(&scene, &mut shell, show, &lines);
}

/// The program's answer to a shell; fish's form has one candidate a line.
fn answer(scene: &Scene, words: &[&str]) -> Vec<String> {
    let mut command = scene.beadlock(&[&["--"], words].concat());
    command
        .env("BEADLOCK_COMPLETE", "fish")
        .env("BEADLOCK_LOCK_DIR", scene.file("locks"));
    let ended = Ended::from(run(command)).expect(0, &[]);
    assert_eq!(ended.err, "", "{words:?}");
    ended.out.lines().map(str::to_owned).collect()
}

fn until_answer(scene: &Scene, words: &[&str], wanted: &[&str]) {
    let begun = Instant::now();
    while answer(scene, words) != wanted {
        assert!(
            begun.elapsed() < PATIENCE,
            "{words:?}: {:?}, and not {wanted:?}",
            answer(scene, words)
        );
    }
}

#[test]
fn targets_are_databases_locks_names_and_directories() {
    let scene = a_tree();
    fs::create_dir(scene.file("run")).unwrap();
    let held = scene.beadlock(&[
        "hold",
        "lock:run/import.lock",
        "--",
        "cp",
        "run/import.lock",
        "run/copy.lock",
    ]);
    Ended::from(run(held)).expect(0, &[]);
    let wanted = [
        ".beads",
        "project/.beads",
        "lock:run/copy.lock",
        "locks/",
        "project/",
        "run/",
        "state/",
        &format!("{HOSTILE}/"),
        "tower:app-prod",
        "beads:",
        "dir:",
        "lock:",
        "tower:",
        "memory:",
        "file:",
        "flock:",
    ];
    for command in [
        "hold", "acquire", "release", "renew", "break", "wait", "check", "status",
    ] {
        until_answer(&scene, &["beadlock", command, ""], &wanted);
    }
    until_answer(
        &scene,
        &["beadlock", "hold", "--and", "tower:"],
        &["tower:app-prod"],
    );
    for option in ["--wait", "--drain"] {
        until_answer(&scene, &["beadlock", "hold", option, ""], &["forever"]);
    }
    until_answer(
        &scene,
        &["beadlock", "--lock-dir", "state", "hold", "tower:"],
        &[],
    );
    until_answer(
        &scene,
        &["beadlock", "status", ".beads", "tower:a"],
        &["tower:app-prod"],
    );
    // The id of the target that is named, with the option of another protocol shown because of it.
    let id = scene.json(&["status", "lock:run/copy.lock"]).1["data"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    until_answer(
        &scene,
        &["beadlock", "break", "lock:run/copy.lock", "--id", ""],
        &[&id],
    );
}

/// A shell may ask at any time: nothing is made, removed or touched, and nothing else is printed.
#[test]
fn an_answer_changes_nothing() {
    let scene = a_tree();
    scene.write_stale_lock("gone");
    let (lock, names) = (scene.lock_text(), all_names(scene.path()));
    for words in [
        &["beadlock", "hold", ""][..],
        &["beadlock", "break", "--id", ""],
        &["beadlock", "check", ".beads", ""],
        &["beadlock", "hold", "--", ""],
        &["beadlock", "hold", "--", "touch", "made"],
        &["beadlock", "hold", ".beads", "--create", ""],
        &["beadlock"],
        &[],
    ] {
        answer(&scene, words);
    }
    assert_eq!((scene.lock_text(), all_names(scene.path())), (lock, names));
    assert_eq!(
        answer(&scene, &["beadlock", "hold", "--", ""]),
        [""; 0],
        "another command stands there"
    );
}

fn all_names(top: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = Vec::new();
    let mut left = vec![top.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            left.extend(entry.file_type().unwrap().is_dir().then(|| entry.path()));
            names.push(entry.path());
        }
    }
    names.sort();
    names
}

#[test]
fn an_answer_takes_a_tenth_of_a_second() {
    let scene = a_tree();
    for number in 0..500 {
        fs::create_dir_all(scene.file(&format!("wide/{number}"))).unwrap();
    }
    let took = fastest(Duration::from_millis(100), || {
        let begun = Instant::now();
        answer(&scene, &["beadlock", "hold", ""]);
        begun.elapsed()
    });
    assert!(took < Duration::from_millis(100), "{took:?}");
}

/// A variable that names no shell is none of a shell's.
#[test]
fn only_the_scripts_get_an_answer() {
    let scene = crate::a_scene();
    for value in ["", "0", "tcsh", "/bin/bash"] {
        let mut command: Command = scene.beadlock(&["--version"]);
        command.env("BEADLOCK_COMPLETE", value);
        assert!(
            Ended::from(run(command))
                .expect(0, &[])
                .out
                .starts_with("beadlock "),
            "{value:?}"
        );
    }
    scene.run(&["completions", "tcsh"]).expect(2, &["tcsh"]);
}

/// Others write the file, and people paste the id: text that is not one is not offered, and stands in no line to type.
#[test]
fn an_id_that_does_not_look_like_one_is_not_offered() {
    let scene = a_tree();
    scene.claim("importer", std::process::id() as i32);
    for id in [
        "$(touch${IFS}ran)",
        "--even-if-live",
        "a b",
        "a;b",
        "'",
        "\u{202e}x",
        "",
    ] {
        let mut record: serde_json::Value = serde_json::from_str(&scene.lock_text()).unwrap();
        record["beadlock"]["id"] = id.into();
        fs::write(scene.lock(), record.to_string()).unwrap();
        let status = scene.run(&["status", "-v"]).expect(0, &[]);
        assert!(
            id.is_empty() || !status.out.contains(&format!("--id {id}")),
            "{}",
            status.out
        );
        let name = self::id(&scene);
        assert!(name.starts_with("sha256:"), "{name}");
        for command in ["release", "renew"] {
            until_answer(&scene, &["beadlock", command, "--id", ""], &[&name]);
        }
    }
}
