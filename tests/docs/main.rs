//! The documents are tried: sessions are typed again, the Python of docs/protocol.md joins the gate, the examples run,
//! the demo tells a claim from none, and links and rows lead to something. The lines that a page explains are written, and the commands of a page are there.
//! Nothing here judges how a sentence reads.

mod citations;
mod crates;
mod dependencies;
mod examples;
mod packages;
mod pre_commit;
mod protocols;
mod release;
mod revision;
mod schemas;
mod scripts;
mod sessions;
mod sizes;
mod tutorial;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use beadlock_core::gate::Gate;
use beadlock_tests::skip::checkout;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, become_subreaper, binaries, run, tool, wait_until};
use nix::sys::signal::Signal;

fn document(name: &str) -> String {
    fs::read_to_string(checkout().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// PATH with the two programs first, for scripts that start them by name.
fn path_with_programs() -> String {
    format!(
        "{}:{}",
        binaries::directory().display(),
        std::env::var("PATH").unwrap_or_default()
    )
}

/// Every `program …` that a document types, cut at what ends a command: in code blocks the whole line, in prose
/// what stands between backticks.
fn typed(text: &str, program: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for (block, part) in text.split("```").enumerate() {
        let pieces: Vec<&str> = if block % 2 == 1 {
            part.lines().collect()
        } else {
            part.split('`').skip(1).step_by(2).collect()
        };
        for piece in pieces {
            let line = piece.trim_start_matches("$ ").trim();
            let words = line
                .split_whitespace()
                .take_while(|word| !["--", "#", "|", "&&", "&"].contains(word));
            let words: Vec<_> = words.collect();
            if words.first() == Some(&program) {
                commands.push(words.join(" "));
            }
        }
    }
    commands
}

/// A line of the log, or of ours, that the page begins a row with is one that the sources can write.
#[test]
fn the_lines_that_troubleshooting_explains_are_really_written() {
    let mut sources = String::new();
    for folder in [
        "checker/base/src",
        "checker/core/src",
        "checker/supervise/src",
        "integration/src",
        "integration/claim/src",
        "integration/cli/src",
        "integration/console/src",
        "integration/explain/src",
        "integration/files/src",
        "integration/log/src",
        "integration/oncall/src",
        "integration/session/src",
        "agent/src",
        "agent/git/src",
        "agent/repository/src",
        "agent/trust/src",
    ] {
        read_all(&checkout().join(folder), &mut sources);
    }
    let page = document("docs/troubleshooting.md");
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut count = 0;
    for (line, _) in rows.filter(|(line, _)| line.contains(' ')) {
        // What stands between what changes from case to case.
        let fixed = line.split(['…', '(', ')', ':']).flat_map(|piece| {
            let words = piece.split(' ').filter(|word| !word.is_empty());
            let is_filled_in = |word: &&str| word.chars().any(char::is_uppercase) && word.len() < 7;
            words
                .filter(move |word| !is_filled_in(word))
                .filter(|word| word.len() > 3)
        });
        for word in fixed {
            let word = word.trim_end_matches([',', ';']);
            assert!(
                sources.contains(word),
                "{word:?} of {line:?} is nowhere in the sources"
            );
        }
        count += 1;
    }
    assert!(count >= 20, "few rows, or the scan sees few: {count}");
}

/// Every source below a folder, one after the other.
fn read_all(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("read the sources").flatten() {
        match entry.path() {
            path if path.is_dir() => read_all(&path, text),
            path => text.push_str(&fs::read_to_string(path).expect("read a source")),
        }
    }
}

#[test]
fn the_readme_names_only_files_that_exist() {
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = document(name);
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(link, _)| link)
        {
            let (file, _) = link.split_once('#').unwrap_or((link, ""));
            assert!(
                link.contains("://") || checkout().join(file).exists(),
                "{name} links to {link}"
            );
        }
    }
}

/// The snippet of docs/protocol.md as a file in the scene.
fn snippet(scene: &Scene) {
    let page = document("docs/protocol.md");
    let code = page
        .split("```python\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    fs::write(scene.path().join("cycle.py"), code.expect("a python block"))
        .expect("write the snippet");
}

/// The snippet as a program, its check included.
fn python(scene: &Scene, python: &Path, work: &str) -> Command {
    let mut command = scene.command(python);
    command
        .args(["cycle.py", ".beads", "sh", "-c", work])
        .env("PATH", path_with_programs());
    command
}

/// The snippet's guarded part alone, without the check before it: prints `True` when it skipped.
fn cycle_alone(scene: &Scene, python: &Path) -> String {
    let mut command = scene.command(python);
    command.args([
        "-c",
        "import cycle; print(cycle.cycle('.beads', ['touch', 'ran']) is None)",
    ]);
    Ended::from(run(command)).out.trim().to_owned()
}

#[test]
fn the_python_cycle_skips_a_claim_and_a_busy_gate() {
    let Some(interpreter) = tool("python3") else {
        return;
    };
    let scene = Scene::new();
    snippet(&scene);
    let hold = scene.hold(&["--", "sleep", "30"]);
    let skipped = Ended::from(run(python(&scene, &interpreter, "touch ran")));
    assert_eq!(
        (skipped.code, skipped.out.as_str()),
        (1, "Skipping database (locked by sleep)\n"),
        "{skipped:?}"
    );
    assert_eq!(cycle_alone(&scene, &interpreter), "True", "a lock is there");
    drop(hold);
    let _ = fs::remove_file(scene.lock());

    let gate = scene.take_gate();
    assert_eq!(
        cycle_alone(&scene, &interpreter),
        "True",
        "the gate is busy"
    );
    drop(gate);

    scene.write_stale_lock("vc-executor");
    assert_eq!(
        cycle_alone(&scene, &interpreter),
        "True",
        "a dead lock is for the check to remove"
    );
    assert!(!scene.path().join("ran").exists());
    let ran = Ended::from(run(python(&scene, &interpreter, "touch ran")));
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (
            0,
            "Removed stale lock (vc-executor), proceeding with sync\n"
        ),
        "{ran:?}"
    );
    assert!(scene.path().join("ran").exists());
}

/// A claim waits for the snippet's cycle, also when its Python is killed and only the work is left.
#[test]
fn a_claim_waits_for_the_python_cycle() {
    let Some(interpreter) = tool("python3") else {
        return;
    };
    become_subreaper();
    for kill in [false, true] {
        let scene = Scene::new();
        snippet(&scene);
        let mut cycle = Running::start(python(
            &scene,
            &interpreter,
            "touch begun; sleep 1.5; touch ended",
        ));
        wait_until(PATIENCE, "the cycle begins", || {
            scene.path().join("begun").exists()
        });
        if kill {
            cycle.signal(Signal::SIGKILL);
            cycle.wait(PATIENCE);
        }
        let claim = scene.run(&["hold", "--", "test", "-e", "ended"]);
        assert_eq!(
            claim.code, 0,
            "killed: {kill}; the command began before the cycle's work had ended: {claim:?}"
        );
    }
}

#[test]
fn the_example_of_a_daemon_runs() {
    let scene = Scene::new();
    let daemon = |cycles: &str| {
        let mut command = scene.command(binaries::example("daemon_loop"));
        command.args([".beads", cycles]);
        Ended::from(run(command))
    };
    assert_eq!(
        daemon("2").out,
        "synced 1 issues\nsynced 1 issues\nfree now\n"
    );
    let hold = scene.hold(&["--", "sleep", "30"]);
    // The lock is there a moment before the claimer lets the gate go.
    wait_until(PATIENCE, "the gate is open", || {
        matches!(Gate::try_take(&scene.beads()), Ok(Some(_)))
    });
    assert_eq!(
        daemon("1").out,
        "Skipping database (locked by sleep)\nclaimed now\n"
    );
    drop(hold);
    scene.write_stale_lock("vc-executor");
    let line = "Removed stale lock (vc-executor), proceeding with sync\n";
    assert_eq!(
        daemon("1").out,
        format!("{line}synced 1 issues\nfree now\n")
    );
}

#[test]
fn the_example_of_a_lock_from_rust_runs() {
    let scene = Scene::new();
    let mut command = scene.command(binaries::example("take_lock"));
    command.arg(".beads");
    let ended = Ended::from(run(command));
    assert_eq!(
        ended.out, "claimed: Skipping database (locked by importer)\nreleased\n",
        "{ended:?}"
    );
    assert_eq!(ended.code, 0);
    assert_eq!(scene.names(), ["issues.jsonl"]);
    let issues = fs::read_to_string(scene.beads().join("issues.jsonl")).expect("read the issues");
    assert_eq!(issues.lines().count(), 2);
}

fn demo(scene: &Scene, claim: bool) -> Ended {
    let mut command = scene.command(checkout().join("scripts/demo.sh"));
    command
        .env("BEADLOCK_BIN", binaries::directory())
        .env("TMPDIR", scene.path());
    if !claim {
        command.env("DEMO_NO_CLAIM", "1");
    }
    Running::start(command)
        .finish(Duration::from_secs(180))
        .into()
}

#[test]
fn the_demo_tells_a_claim_from_none() {
    if tool("git").is_none() {
        return;
    }
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let scene = Scene::new();
            let with = demo(&scene, true);
            assert_eq!(with.code, 0, "{}{}", with.out, with.err);
            assert!(
                with.out.contains("Skipping database (locked by bash)"),
                "{}",
                with.out
            );
            assert_nothing_left(&scene);
        });
        threads.spawn(|| {
            let scene = Scene::new();
            let without = demo(&scene, false);
            assert_eq!(without.code, 1, "{}{}", without.out, without.err);
            assert!(without.out.contains("FAILED"), "{}", without.out);
            assert_nothing_left(&scene);
        });
    });
}

fn assert_nothing_left(scene: &Scene) {
    let left: Vec<_> = fs::read_dir(scene.path())
        .expect("list")
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, [".beads"], "the demo's directory is gone");
    assert!(
        beadlock_tests::process::marked_by(scene).is_empty(),
        "no process is left"
    );
}

/// What is typed to see a figure of docs/reliability.md again is there to be typed.
#[test]
fn what_was_tried_can_be_tried_again() {
    let table = document("docs/reliability.md");
    let makefile = document("Makefile");
    let made = typed(&table, "make");
    for target in made
        .iter()
        .map(|command| command.split(' ').nth(1).expect("a target"))
    {
        assert!(makefile.contains(&format!("\n{target}:")), "make {target}");
    }
    let directories = packages();
    let tested: Vec<_> = table
        .split('`')
        .filter(|command| command.contains("cargo test "))
        .collect();
    for command in tested.iter().flat_map(|commands| commands.split("; ")) {
        let words: Vec<_> = command.split(' ').collect();
        let after = |option| {
            words
                .iter()
                .position(|word| *word == option)
                .map(|at| words[at + 1])
        };
        let package = after("-p").expect("a package");
        let package = directories.get(package).expect("a member");
        let name = after("--test");
        let dirs = match name {
            Some(name) => {
                // In the directory of its kind, those that no single crate can promise.
                let top = checkout().join(package);
                let kinds = fs::read_dir(&top)
                    .expect("list")
                    .flatten()
                    .map(|entry| entry.path());
                let dirs = kinds.filter(|path| path.is_dir()).chain([top.clone()]);
                dirs.flat_map(|dir| [dir.join(format!("{name}.rs")), dir.join(name)])
                    .collect()
            }
            None => vec![
                checkout().join(package).join("src"),
                checkout().join(package).join("tests"),
            ],
        };
        let files: Vec<_> = dirs
            .into_iter()
            .flat_map(|path| {
                if path.is_dir() {
                    sources(&path)
                } else {
                    vec![path]
                }
            })
            .filter(|path| path.exists())
            .collect();
        assert!(!files.is_empty(), "{command}");
        let has_it = |path: &PathBuf, part: &str| {
            let text = fs::read_to_string(path).expect("a source");
            path.file_stem().is_some_and(|stem| stem == part)
                || text
                    .lines()
                    .any(|line| line.trim_start().starts_with("fn ") && line.contains(part))
        };
        let begun = words
            .iter()
            .position(|word| *word == "-p")
            .expect("a package");
        let is_filter = |word: &&str| {
            !word.starts_with('-') && Some(*word) != name && word.parse::<u8>().is_err()
        };
        for filter in words[begun + 2..].iter().copied().filter(is_filter) {
            for part in filter.split("::").filter(|part| !part.is_empty()) {
                assert!(
                    files.iter().any(|path| has_it(path, part)),
                    "{command}: {part}"
                );
            }
        }
    }
    assert!(made.len() > 5 && tested.len() > 5, "{made:?} {tested:?}");
}

/// The directory of each package of the workspace.
fn packages() -> HashMap<String, String> {
    let workspace = document("Cargo.toml");
    let members = workspace
        .lines()
        .find_map(|line| line.strip_prefix("members = "))
        .expect("a line with the members");
    members
        .split('"')
        .skip(1)
        .step_by(2)
        .map(|dir| {
            let manifest = document(&format!("{dir}/Cargo.toml"));
            let name = manifest
                .lines()
                .find_map(|line| line.strip_prefix("name = ")?.split('"').nth(1));
            (name.expect("a name").to_owned(), dir.to_owned())
        })
        .collect()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                sources(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
