//! A database in a repository with a remote, and a second clone of it, for the agent's git action.

use std::sync::LazyLock;

use beadlock_tests::{Ended, run};
use regex::Regex;

use super::shown;
use crate::setting::Setting;

/// `remote.git`, and two clones of it, `here` and `there`, all on `main` and with one commit. The remote is named
/// without the scene's path, so that they can be copied.
const REPOSITORIES: &str = "
    git init -q --bare --template= -b main remote.git; mkdir remote.git/hooks
    git init -q --template= -b main here; mkdir here/.git/hooks here/.git/info here/src here/.beads
    cd here
    printf 'one\\ntwo\\n' >src/x.rs; echo one >src/y.rs
    echo '{\"id\":\"bd-1\"}' >.beads/issues.jsonl
    git add .; git commit -qm first
    git remote add origin ../remote.git; git push -qu origin main
    cp -a . ../there
";

/// For the scripts that set a scene. `there` does what it is told in the other clone, commits that and pushes it.
const WORDS: &str = "
    there() { (cd ../there; git pull -q --rebase; eval \"$1\"; git add -Af; git commit -qm theirs; git push -q) }
    hook() { printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\"; chmod +x \"$1\"; }
    sqlite() { printf 'SQLite format 3\\0%4096s' '' >\"$1\"; }
";

/// The repositories as they are before any person's script, made once for a room.
pub struct Repositories(Setting);

impl Repositories {
    pub fn make() -> Self {
        let setting = of_a_person();
        setting
            .run(&format!("set -e; {REPOSITORIES}"))
            .expect(0, &[]);
        Self(setting)
    }

    /// A setting with a copy of them, after this script of a person in `here`.
    pub fn after(&self, script: &str) -> Setting {
        let setting = of_a_person();
        let made = self.0.scene.path().display();
        let there = if script.contains("there") {
            format!("{made}/there")
        } else {
            String::new()
        };
        let copy = format!("cp -a {made}/remote.git {made}/here {there} .");
        let mut shell = setting
            .scene
            .shell(&format!("set -e; {copy}; cd here\n{WORDS}\n{script}"));
        shell.envs(setting.variables.iter().map(|(name, value)| (*name, value)));
        Ended::from(run(shell)).expect(0, &[]);
        setting
    }
}

fn of_a_person() -> Setting {
    let setting = Setting::free().variable("GIT_CONFIG_NOSYSTEM", "1");
    let setting = setting
        .variable("GIT_AUTHOR_NAME", "Ann")
        .variable("GIT_AUTHOR_EMAIL", "ann@example.org");
    setting
        .variable("GIT_COMMITTER_NAME", "Ann")
        .variable("GIT_COMMITTER_EMAIL", "ann@example.org")
}

/// How a line ends that is typed in `here`.
pub fn in_here(setting: &Setting, line: &str) -> Ended {
    let mut command = setting.command(line);
    command.current_dir(setting.scene.file("here"));
    run(command).into()
}

/// The text as a snapshot has it: `[FIRST]` stands for the commit of that subject.
pub fn shown_with_commits(text: &str, setting: &Setting) -> String {
    let mut known = setting.known.clone();
    // A PID may look like a commit, so this is asked of what is left when all else is hidden.
    if COMMIT.is_match(&shown(text, &known)) {
        let commits = in_here(setting, "git log --all --reflog --format='%H %s'")
            .expect(0, &[])
            .out;
        for (commit, subject) in commits.lines().filter_map(|line| line.split_once(' ')) {
            let word = match subject {
                "first" => "FIRST",
                "theirs" => "THEIRS",
                "mine" => "MINE",
                _ => "SYNC",
            };
            known.values.push((commit.to_owned(), word));
            known.values.push((commit[..7].to_owned(), word));
        }
    }
    OBJECT
        .replace_all(&shown(text, &known), "[OBJECT]")
        .into_owned()
}

/// What may be a commit, in full or as the log has it.
static COMMIT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[0-9a-f]{7}(?:[0-9a-f]{33})?\b").expect("an expression"));

/// A tree, for example.
static OBJECT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[0-9a-f]{40}\b").expect("an expression"));
