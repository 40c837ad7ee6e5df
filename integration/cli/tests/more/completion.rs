//! Completion in zsh and fish: each completes for real, with the script that the program prints.

use std::fs;
use std::time::Instant;

use beadlock_testkit::{Ended, PATIENCE, Terminal, run, tool};

use crate::typed::{HOSTILE, a_tree, complete, id, lines, setting};

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
    fs::write(
        scene.file("functions/_beadlock"),
        scene.run(&["completions", "zsh"]).expect(0, &[]).out,
    )
    .unwrap();
    let mut shell = Terminal::start(&scene, &[zsh.to_str().unwrap(), "-f", "-i"]);
    let show = "fpath=($PWD/functions $fpath); autoload -U compinit; compinit -u -D; \
                show() { print -r -- \"$BUFFER\" > line }; zle -N show; bindkey '^X' show; bindkey '^U' kill-whole-line";
    complete(
        &scene,
        &mut shell,
        show,
        &[("beadlock sta", "beadlock status ".to_owned())],
    );
}

#[test]
fn fish_completes_commands_targets_and_ids() {
    let Some(fish) = tool("fish") else { return };
    let scene = a_tree();
    scene.claim("importer", std::process::id() as i32);
    let id = id(&scene);
    let offered = |line: &str| {
        let script = format!(
            "{}; beadlock completions fish | source; complete -C '{line}'",
            setting(&scene)
        );
        let mut command = scene.command(&fish);
        command
            .args(["--no-config", "-c", &script])
            .env("HOME", scene.path());
        let ended = Ended::from(run(command)).expect(0, &[]);
        ended
            .out
            .lines()
            .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
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

/// `complete -C` shows names without quotes. What a tab puts into the line has them.
#[test]
fn fish_quotes_what_others_have_named() {
    let Some(fish) = tool("fish") else { return };
    let scene = a_tree();
    fs::create_dir(scene.file("home")).unwrap();
    let mut shell = Terminal::start(
        &scene,
        &[
            "/usr/bin/env",
            "HOME=home",
            fish.to_str().unwrap(),
            "--no-config",
            "--interactive",
        ],
    );
    let show = "beadlock completions fish | source; bind \\cx 'commandline > line'; bind \\cu kill-whole-line";
    let line = (
        "beadlock status x",
        format!("beadlock status {}/", fish_quoted(HOSTILE)),
    );
    complete(&scene, &mut shell, show, &[line]);
}

/// The name, quoted as fish puts it into the command line.
fn fish_quoted(name: &str) -> String {
    name.chars()
        .flat_map(|c| {
            let special = "$(){}".contains(c).then_some('\\');
            special.into_iter().chain([c])
        })
        .collect()
}
