//! What must be true in the end, and how much has happened.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use super::claims::KINDS;
use super::world::{ALL, World};

/// The subject of an agent's commits begins so.
const OURS: &str = "chore: sync .beads";

/// Everything that is not as it must be, in words.
pub fn wrong(world: &World, settled: bool) -> Vec<String> {
    let mut wrong = world.ledger().found.clone();
    if !settled {
        wrong.push(unsettled(world));
    }
    let ledger = world.ledger();
    for clone in ALL {
        for (path, lines) in &ledger.lines {
            wrong.extend(lines_wrong(world, clone, path, lines));
        }
        let subjects = world.git(clone, &["log", "--format=%s"]).out;
        let remote = world
            .bench
            .try_git(world.bench.remote(), &["log", "--format=%s", "main"])
            .out;
        let made = ledger
            .commits
            .get(&clone)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let pushed = ledger.pushed.get(&clone).copied().unwrap_or_default();
        for (number, subject) in made.iter().enumerate() {
            let count = |log: &str| log.lines().filter(|line| line == subject).count();
            if count(&subjects) != 1 {
                wrong.push(format!(
                    "commit {subject:?} is {} times in {clone}",
                    count(&subjects)
                ));
            }
            if number < pushed && count(&remote) != 1 {
                wrong.push(format!(
                    "commit {subject:?} was pushed, and is {} times in the remote",
                    count(&remote)
                ));
            }
        }
    }
    for ((clone, path), lines) in &ledger.own_lines {
        wrong.extend(lines_wrong(world, *clone, path, lines));
    }
    drop(ledger);
    wrong.extend(in_claims(world));
    wrong.extend(mixed(world));
    wrong
}

pub fn unsettled(world: &World) -> String {
    let mut words = "the clones do not come together:\n".to_owned();
    for clone in ALL {
        let head = world.git(clone, &["log", "--oneline", "-3"]).out;
        let status = world.git(clone, &["status"]).out;
        let _ = writeln!(words, "{clone}:\n{head}{status}");
    }
    for daemon in &world.daemons {
        let log = fs::read_to_string(daemon.log(&world.bench)).unwrap_or_default();
        let tail: Vec<_> = log.lines().rev().take(12).collect();
        let _ = writeln!(
            words,
            "log:\n{}",
            tail.into_iter().rev().collect::<Vec<_>>().join("\n")
        );
    }
    words
}

/// Every line ever written, once, and no other.
fn lines_wrong(world: &World, clone: char, path: &str, lines: &[String]) -> Vec<String> {
    let text = fs::read_to_string(world.clone_of(clone).join(path)).unwrap_or_default();
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines() {
        *found.entry(line).or_default() += 1;
    }
    let mut wrong = Vec::new();
    for line in lines {
        match found.remove(line.as_str()) {
            Some(1) => {}
            count => wrong.push(format!(
                "line {line} is {} times in {clone}/{path}",
                count.unwrap_or_default()
            )),
        }
    }
    wrong.extend(
        found
            .keys()
            .map(|line| format!("line {line:?} of nobody in {clone}/{path}")),
    );
    wrong
}

/// No change by a daemon in a time of claim.
fn in_claims(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let ledger = world.ledger();
    for daemon in &world.daemons {
        let clone = daemon.clone;
        let changes = daemon.changes();
        for (_, kind, claim) in ledger.claims.iter().filter(|claim| claim.0 == clone) {
            for (change, what) in &changes {
                if change.0 < claim.1 && claim.0 < change.1 {
                    let after = (change.0.max(claim.0) - claim.0) / 1_000_000;
                    wrong.push(format!("git {what} in {clone} in a time of claim ({kind}), {after} ms after it began"));
                }
            }
        }
    }
    wrong
}

/// An agent's commit has nothing but the database in it, and a commit by hand in `a` or `b` nothing of it.
fn mixed(world: &World) -> Vec<String> {
    let log = world
        .bench
        .try_git(
            world.bench.remote(),
            &["log", "--format=%x01%s", "--name-only", "main"],
        )
        .out;
    let mut wrong = Vec::new();
    for commit in log.split('\u{1}').skip(1) {
        let mut lines = commit.lines().filter(|line| !line.is_empty());
        let subject = lines.next().unwrap_or_default();
        let is_ours = subject.starts_with(OURS) || subject == "sync";
        let is_beside = world
            .synced()
            .any(|clone| subject.starts_with(&format!("by hand in {clone}")));
        for path in lines {
            if is_ours && !path.starts_with(".beads/") || is_beside && path.starts_with(".beads/") {
                wrong.push(format!("commit {subject:?} has {path} in it"));
            }
        }
    }
    wrong
}

/// How often each daemon said what.
fn said(world: &World) -> BTreeMap<String, usize> {
    let mut said = BTreeMap::new();
    for daemon in &world.daemons {
        let clone = daemon.clone;
        let log = fs::read_to_string(daemon.log(&world.bench)).unwrap_or_default();
        for line in log.lines() {
            let line = line.split_once("] ").map_or(line, |(_, rest)| rest);
            let what = [
                "Committed",
                "Pulled",
                "Pushed",
                "Skipping",
                "Not pulling",
                "Not pushing",
                "conflict",
                "Starting",
            ]
            .into_iter()
            .find(|what| line.starts_with(what))
            .map(str::to_owned)
            .or_else(|| {
                line.strip_prefix("Sync cycle failed: ")
                    .map(|why| format!("failed: {}", without_digits(why)))
            });
            if let Some(what) = what {
                *said.entry(format!("{clone}: {what}")).or_default() += 1;
            }
        }
    }
    said
}

fn without_digits(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_ascii_digit())
        .take(110)
        .collect()
}

/// All counts, one a line.
pub fn counts(world: &World) -> String {
    let mut text = format!("seed {}\n", world.seed);
    for (clone, commits) in &world.ledger().commits {
        let _ = writeln!(text, "{:5} commits by hand in {clone}", commits.len());
    }
    let lines: usize = world.ledger().lines.values().map(Vec::len).sum();
    let _ = writeln!(text, "{lines:5} lines written");
    for (what, count) in world.ledger().counts.iter() {
        let _ = writeln!(text, "{count:5} {what}");
    }
    for (what, count) in said(world) {
        let _ = writeln!(text, "{count:5} {what}");
    }
    text
}

/// # Panics
/// When too little has happened for the test to show anything.
pub fn shows_something(world: &World) {
    let said = said(world);
    for daemon in &world.daemons {
        let clone = daemon.clone;
        for what in ["Committed", "Pulled", "Pushed", "Skipping"] {
            let count = said
                .get(&format!("{clone}: {what}"))
                .copied()
                .unwrap_or_default();
            assert!(
                count > 0,
                "{clone} never said {what}: the test shows nothing\n{}",
                counts(world)
            );
        }
        assert!(
            !daemon.changes().is_empty(),
            "no change of {clone} was traced: the test shows nothing"
        );
    }
    for kind in KINDS {
        assert!(
            world.ledger().counted(&format!("claims by {kind}")) > 0,
            "no claim by {kind}"
        );
    }
}
