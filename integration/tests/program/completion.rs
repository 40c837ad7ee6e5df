//! Completion in bash, zsh and fish: each shell completes for real, with the script that the program prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use beadlock_testkit::wait::fastest;
use beadlock_testkit::{Ended, PATIENCE, Scene, run, tool};

use crate::terminal::{BEADLOCK, Terminal};

/// A tree with two databases, named locks, a directory and a claim whose id is known.
fn a_tree() -> Scene {
    let scene = crate::a_scene();
    for dir in ["project/.beads", "project/src", "state", "locks"] {
        fs::create_dir_all(scene.file(dir)).unwrap();
    }
    fs::write(scene.file("locks/app-prod.lock"), "{}").unwrap();
    fs::write(scene.file("notes.json"), "{}").unwrap();
    scene
}

/// The folder with the program first in PATH, and the lock directory.
fn setting(scene: &Scene) -> String {
    let folder = Path::new(BEADLOCK).parent().unwrap().display();
    format!("export PATH={folder}:/usr/bin:/bin BEADLOCK_LOCK_DIR={}", scene.file("locks").display())
}

/// What is typed, and the line that a tab makes of it.
const LINES: [(&str, &str); 8] = [
    ("beadlock sta", "beadlock status "),
    ("beadlock hold --wait-", "beadlock hold --wait-group "),
    ("beadlock hold proj", "beadlock hold project/"),
    ("beadlock hold project/.b", "beadlock hold project/.beads "),
    ("beadlock hold tower:a", "beadlock hold tower:app-prod "),
    ("beadlock hold mem", "beadlock hold memory:"),
    ("beadlock hold memory:st", "beadlock hold memory:state/"),
    ("beadlock help tow", "beadlock help tower "),
];

/// Types each line and a tab, until the shell has made of it what it should. `show` makes the shell write its line to
/// the file `line`. A busy machine may leave an answer empty once.
#[expect(clippy::disallowed_methods, reason = "the file is the test's own")]
fn complete(scene: &Scene, shell: &mut Terminal, show: &str, lines: &[(&str, String)]) {
    let file = scene.file("line");
    shell.type_in(&format!("{}\n", setting(scene)));
    shell.type_in(&format!("{show}; touch ready\n"));
    shell.until("the shell is ready", || scene.file("ready").exists());
    for (typed, line) in lines {
        let begun = Instant::now();
        loop {
            let _ = fs::remove_file(&file);
            shell.type_in(&format!("\u{15}{typed}\t\u{18}"));
            shell.until("the line", || file.exists());
            let mut made = String::new();
            shell.until("all of the line", || {
                made = fs::read_to_string(&file).unwrap();
                made.ends_with('\n')
            });
            if made.trim_end_matches('\n') == line {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{typed}: {made:?}, and not {line:?}\n{}", shell.seen());
        }
    }
    // An empty line and the end.
    shell.type_in("\u{15}exit\n");
}

fn lines(id: &str) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&str, String)> = LINES.map(|(typed, line)| (typed, line.to_owned())).into();
    lines.push(("beadlock break --id ", format!("beadlock break --id {id} ")));
    lines.push(("beadlock release --id ", format!("beadlock release --id {id} ")));
    lines
}

/// The id of the claim in the database of the scene.
fn id(scene: &Scene) -> String {
    scene.json(&["status"]).1["data"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn bash_completes_commands_targets_and_ids() {
    let Some(bash) = tool("bash") else { return };
    let scene = a_tree();
    scene.claim("importer", std::process::id() as i32);
    let lines = lines(&id(&scene));
    let mut shell = Terminal::start(&scene, &[bash.to_str().unwrap(), "--norc", "--noprofile", "-i"]);
    let show = "source <(beadlock completions bash); bind -x '\"\\C-x\": printf \"%s\\n\" \"$READLINE_LINE\" > line'";
    complete(&scene, &mut shell, show, &lines);
}

#[test]
fn zsh_completes_commands_targets_and_ids() {
    let Some(zsh) = tool("zsh") else { return };
    let scene = a_tree();
    scene.claim("importer", std::process::id() as i32);
    let lines = lines(&id(&scene));
    let mut shell = Terminal::start(&scene, &[zsh.to_str().unwrap(), "-f", "-i"]);
    let show = "autoload -U compinit; compinit -u -D; source <(beadlock completions zsh); \
                show() { print -r -- \"$BUFFER\" > line }; zle -N show; bindkey '^X' show; bindkey '^U' kill-whole-line";
    complete(&scene, &mut shell, show, &lines);
}

/// Where a package has it: zsh reads the file at the first tab, which must complete already.
#[test]
fn zsh_completes_with_an_installed_file_at_the_first_tab() {
    let Some(zsh) = tool("zsh") else { return };
    let scene = a_tree();
    fs::create_dir(scene.file("functions")).unwrap();
    fs::write(scene.file("functions/_beadlock"), scene.run(&["completions", "zsh"]).expect(0, &[]).out).unwrap();
    let mut shell = Terminal::start(&scene, &[zsh.to_str().unwrap(), "-f", "-i"]);
    let show = "fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D; \
                show() { print -r -- \"$BUFFER\" > line }; zle -N show; bindkey '^X' show; bindkey '^U' kill-whole-line";
    complete(&scene, &mut shell, show, &[("beadlock sta", "beadlock status ".to_owned())]);
}

#[test]
fn fish_completes_commands_targets_and_ids() {
    let Some(fish) = tool("fish") else { return };
    let scene = a_tree();
    scene.claim("importer", std::process::id() as i32);
    let id = id(&scene);
    let offered = |line: &str| {
        let script = format!("{}; beadlock completions fish | source; complete -C '{line}'", setting(&scene));
        let mut command = scene.command(&fish);
        command.args(["--no-config", "-c", &script]).env("HOME", scene.path());
        let ended = Ended::from(run(command)).expect(0, &[]);
        ended.out.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let until = |line: &str, wanted: &[&str]| {
        let begun = Instant::now();
        loop {
            let found = offered(line);
            if found == wanted {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{line}: {found:?}");
        }
    };
    until("beadlock sta", &["status"]);
    until("beadlock hold --wait-", &["--wait-group"]);
    until("beadlock hold tower:", &["tower:app-prod"]);
    until("beadlock hold memory:st", &["memory:state/"]);
    until("beadlock hold file:n", &["file:notes.json"]);
    until("beadlock break --id ", &[&id]);
    until("beadlock release --id ", &[&id]);
}

/// What the program answers to a shell; fish's form has one candidate a line.
fn answer(scene: &Scene, words: &[&str]) -> Vec<String> {
    let mut command = scene.beadlock(&[&["--"], words].concat());
    command.env("BEADLOCK_COMPLETE", "fish").env("BEADLOCK_LOCK_DIR", scene.file("locks"));
    let ended = Ended::from(run(command)).expect(0, &[]);
    assert_eq!(ended.err, "", "{words:?}");
    ended.out.lines().map(str::to_owned).collect()
}

fn until_answer(scene: &Scene, words: &[&str], wanted: &[&str]) {
    let begun = Instant::now();
    while answer(scene, words) != wanted {
        assert!(begun.elapsed() < PATIENCE, "{words:?}: {:?}, and not {wanted:?}", answer(scene, words));
    }
}

#[test]
fn targets_are_databases_locks_names_and_directories() {
    let scene = a_tree();
    fs::create_dir(scene.file("run")).unwrap();
    let held = scene.beadlock(&["hold", "lock:run/import.lock", "--", "cp", "run/import.lock", "run/copy.lock"]);
    Ended::from(run(held)).expect(0, &[]);
    let wanted = [
        ".beads",
        "project/.beads",
        "lock:run/copy.lock",
        "locks/",
        "project/",
        "run/",
        "state/",
        "tower:app-prod",
        "beads:",
        "lock:",
        "tower:",
        "memory:",
        "file:",
    ];
    for command in ["hold", "acquire", "release", "break", "wait", "check", "status"] {
        until_answer(&scene, &["beadlock", command, ""], &wanted);
    }
    until_answer(&scene, &["beadlock", "hold", "--and", "tower:"], &["tower:app-prod"]);
    until_answer(&scene, &["beadlock", "--lock-dir", "state", "hold", "tower:"], &[]);
    until_answer(&scene, &["beadlock", "status", ".beads", "tower:a"], &["tower:app-prod"]);
    // The id of the target that is named, with the option of another protocol shown because of it.
    let id = scene.json(&["status", "lock:run/copy.lock"]).1["data"][0]["id"].as_str().unwrap().to_owned();
    until_answer(&scene, &["beadlock", "break", "lock:run/copy.lock", "--id", ""], &[&id]);
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
    assert_eq!(answer(&scene, &["beadlock", "hold", "--", ""]), [""; 0], "another command stands there");
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
        assert!(Ended::from(run(command)).expect(0, &[]).out.starts_with("beadlock "), "{value:?}");
    }
    scene.run(&["completions", "tcsh"]).expect(2, &["tcsh"]);
}
