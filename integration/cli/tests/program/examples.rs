//! Every example of every `--help` runs as it stands there, in a directory that has what it names.

use std::fs;
use std::path::Path;

use beadlock_testkit::{Ended, Scene, has_program, run, write_program};

/// The pages with examples, but for those of `fleet`, which need an etcd: tests/fleet types these commands.
const PAGES: [&[&str]; 29] = [
    &["hold", "--help"],
    &["acquire", "--help"],
    &["release", "--help"],
    &["renew", "--help"],
    &["cycle", "--help"],
    &["check", "--help"],
    &["status", "--help"],
    &["list", "--help"],
    &["wait", "--help"],
    &["break", "--help"],
    &["doctor", "--help"],
    &["log", "--help"],
    &["write", "--help"],
    &["append", "--help"],
    &["update", "--help"],
    &["merge", "--help"],
    &["setup", "--help"],
    &["top", "--help"],
    &["help", "--help"],
    &["man", "--help"],
    &["completions", "--help"],
    &["schema", "--help"],
    &["--help"],
    &["help", "beads"],
    &["help", "lock"],
    &["help", "tower"],
    &["help", "memory"],
    &["help", "file"],
    &["help"],
];

/// Examples that cannot end with 0 here, with the code that they must end with: no such claim, and no agent.
const OTHERS: [(&str, i32); 6] = [
    ("beadlock release lock:@staging --holder agent-7", 9),
    ("beadlock release tower:app-prod --id req_8f3a", 9),
    (
        "beadlock renew lock:@staging --holder agent-7 --max-hold 1h",
        9,
    ),
    ("beadlock renew tower:app-prod --id req_8f3a", 9),
    ("beadlock status --agent unix:agent.sock", 1),
    ("beadlock status --agent localhost:19187 --exit-code", 5),
];

/// A scene with every directory, program and file that the examples name.
fn a_directory() -> Scene {
    let scene = crate::a_scene();
    for dir in ["path/to/.beads", "state", "run", "locks", "bin"] {
        fs::create_dir_all(scene.file(dir)).unwrap();
    }
    let programs = [
        "my-sync.sh",
        "import.sh",
        "deploy.sh",
        "compact.sh",
        "edit.sh",
        "bin/make",
        "bin/git",
    ];
    for program in programs {
        write_program(&scene.file(program), &b"#!/bin/sh\n"[..]);
    }
    let files = [
        ("todo.json", "{\"open\": 1}\n"),
        ("line.json", "{\"n\": 1}\n"),
        ("events.jsonl", ""),
        ("base.jsonl", "{\"id\": \"a\"}\n"),
        ("ours.jsonl", "{\"id\": \"a\"}\n{\"id\": \"b\"}\n"),
        ("theirs.jsonl", "{\"id\": \"a\"}\n"),
        (
            "deploy.yaml",
            "name: app-prod\nintent: deploy\nversion: '1'\n",
        ),
        ("path/to/.beads/issues.jsonl", ""),
    ];
    for (name, text) in files {
        fs::write(scene.file(name), text).unwrap();
    }
    scene
}

fn examples(page: &str) -> Vec<&str> {
    let lines = page.lines().skip_while(|line| *line != "Examples:").skip(1);
    lines
        .take_while(|line| line.starts_with("  "))
        .map(|line| line.trim())
        .collect()
}

fn ends(scene: &Scene, script: &str) -> Ended {
    let mut shell = scene.shell(&format!("set -e\n{script}"));
    let dir = Path::new(env!("CARGO_BIN_EXE_beadlock")).parent().unwrap();
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        scene.file("bin").display(),
        dir.display()
    );
    shell
        .env("PATH", path)
        .env("HOME", scene.path())
        .env("ACTOR", "ann")
        .env("BEADLOCK_LOCK_DIR", scene.file("locks"));
    Ended::from(run(shell))
}

#[test]
fn every_example_of_the_help_runs() {
    if !has_program("jq") {
        return;
    }
    let (mut count, mut wrong) = (0, Vec::new());
    for page in PAGES {
        let help = a_directory().run(page).expect(0, &[]).out;
        let found = examples(&help);
        // One script over several lines.
        let scripts: Vec<String> = match page {
            ["acquire", ..] => vec![found.join("\n")],
            // What it releases.
            ["release", ..] => {
                let acquire = "eval \"$(beadlock acquire)\"\n";
                found
                    .iter()
                    .map(|line| match line.starts_with("eval") {
                        true => format!("{acquire}{line}"),
                        false => (*line).to_owned(),
                    })
                    .collect()
            }
            // What it renews, which ends with the script.
            ["renew", ..] => found
                .iter()
                .map(|line| match line.starts_with("eval") {
                    true => format!(
                        "eval \"$(beadlock acquire --detach)\"\n{line}\nbeadlock release >released"
                    ),
                    false => (*line).to_owned(),
                })
                .collect(),
            _ => found.iter().map(|line| (*line).to_owned()).collect(),
        };
        for script in scripts {
            let scene = a_directory();
            let wanted = OTHERS
                .iter()
                .find(|(line, _)| script.starts_with(line))
                .map_or(0, |(_, code)| *code);
            let ended = ends(&scene, &script);
            if ended.code != wanted || scene.lock().exists() {
                wrong.push(format!("{page:?}: {script}: {ended:?}"));
            }
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count >= 25, "few examples, or the scan sees few: {count}");
}
