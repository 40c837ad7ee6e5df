//! The people: they write, edit, commit and push by hand, and try again when git tells them to.

use beadlock_tests::{Ended, run};

use super::ledger::in_one_line;
use super::world::World;

/// A tool that adds lines to a file of its own in the database, and never asks anybody.
pub fn writes_lines(world: &World, clone: char) {
    let mut dice = world.dice("lines", clone);
    let mut count = 0;
    while !world.is_over() {
        dice.pause(20, 200);
        count += 1;
        writes_line(world, clone, &format!("{{\"id\":\"{clone}-{count}\"}}"));
    }
}

pub fn writes_line(world: &World, clone: char, line: &str) {
    let path = format!(".beads/{clone}.jsonl");
    world.append(clone, &path, line);
    world
        .ledger()
        .lines
        .entry(path)
        .or_default()
        .push(line.to_owned());
}

/// Somebody who works outside of the database, commits, and sometimes pushes.
pub fn works_beside(world: &World, clone: char) {
    let mut dice = world.dice("works", clone);
    let path = format!("src/{clone}.txt");
    let note = format!("src/{clone}.note");
    let mut count = 0;
    while !world.is_over() {
        dice.pause(300, 2000);
        count += 1;
        let subject = format!("by hand in {clone}, {count}");
        world.append(clone, &path, &subject);
        world.append(clone, &note, &subject);
        {
            let mut ledger = world.ledger();
            ledger
                .lines
                .entry(path.clone())
                .or_default()
                .push(subject.clone());
            ledger
                .own_lines
                .entry((clone, note.clone()))
                .or_default()
                .push(subject.clone());
        }
        dice.pause(1, 500);
        let staged_first = dice.below(2) == 0;
        commits(world, clone, &path, &subject, staged_first);
        if dice.below(3) == 0 {
            pushes(world, clone);
        }
    }
}

/// Until git takes it: the index is locked for a moment, or the branch has moved.
fn commits(world: &World, clone: char, path: &str, subject: &str, staged_first: bool) {
    for _ in 0..200 {
        let args: &[&str] = if staged_first {
            if world.git(clone, &["add", "--", path]).code != 0 {
                world
                    .ledger()
                    .count(format!("git add tried again in {clone}"));
                std::thread::sleep(std::time::Duration::from_millis(30));
                continue;
            }
            &["commit", "--quiet", "--message", subject]
        } else {
            &["commit", "--quiet", "--message", subject, "--", path]
        };
        let ended = world.git(clone, args);
        if ended.code == 0 {
            world
                .ledger()
                .commits
                .entry(clone)
                .or_default()
                .push(subject.to_owned());
            return;
        }
        world
            .ledger()
            .count(format!("git commit tried again in {clone}"));
        if ended.err.contains("but expected") {
            takes_the_index_of_the_branch(world, clone);
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    world.ledger().count(format!("commits given up in {clone}"));
}

/// The branch has moved while git had the index in hand, which it has then written as it was before.
fn takes_the_index_of_the_branch(world: &World, clone: char) {
    world.ledger().count(format!(
        "commits that the branch has moved under in {clone}"
    ));
    for _ in 0..200 {
        if world.git(clone, &["reset", "--quiet", "--", ".beads"]).code == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
}

/// Rejected, it is for the daemon to pull first.
pub fn pushes(world: &World, clone: char) {
    let made = world.ledger().commits.get(&clone).map_or(0, Vec::len);
    if world.git(clone, &["push", "--quiet"]).code == 0 {
        let mut ledger = world.ledger();
        ledger.pushed.insert(clone, made);
        ledger.count(format!("pushed by hand in {clone}"));
    }
}

/// Somebody without a daemon, who does everything by hand.
pub fn syncs_by_hand(world: &World, clone: char) {
    let mut dice = world.dice("syncs", clone);
    let (lines, path) = (format!(".beads/{clone}.jsonl"), format!("src/{clone}.txt"));
    let mut count = 0;
    while !world.is_over() {
        dice.pause(200, 1200);
        count += 1;
        let line = format!("{{\"id\":\"{clone}-{count}\"}}");
        let subject = format!("by hand in {clone}, {count}");
        world.append(clone, &lines, &line);
        world.append(clone, &path, &subject);
        {
            let mut ledger = world.ledger();
            ledger.lines.entry(lines.clone()).or_default().push(line);
            ledger
                .lines
                .entry(path.clone())
                .or_default()
                .push(subject.clone());
        }
        let steps: [&[&str]; 2] = [
            &["add", "--", ".beads/*.jsonl", "src"],
            &["commit", "--quiet", "--message", &subject],
        ];
        let failed = steps
            .into_iter()
            .map(|args| world.git(clone, args))
            .find(|ended| ended.code != 0);
        match failed {
            Some(ended) => {
                world.ledger().found.push(format!(
                    "git fails in {clone}, where nobody else is: {ended:?}"
                ));
            }
            None => world
                .ledger()
                .commits
                .entry(clone)
                .or_default()
                .push(subject),
        }
        catches_up(world, clone);
    }
}

/// Pulls and pushes until it is through, under a claim: a rebase writes files anew that others add lines to.
pub fn catches_up(world: &World, clone: char) {
    const SCRIPT: &str = "git add -- '.beads/*.jsonl' src
        git diff --cached --quiet || git commit --quiet --message 'lines of others'
        git pull --quiet --rebase || { git rebase --abort; exit 40; }
        git push --quiet || exit 41";
    for _ in 0..5 {
        let made = world.ledger().commits.get(&clone).map_or(0, Vec::len);
        let mut hold = world
            .bench
            .scene()
            .beadlock(&["hold", "-q", "--", "sh", "-c", SCRIPT]);
        hold.current_dir(world.clone_of(clone));
        let ended = Ended::from(run(hold));
        match ended.code {
            0 => {
                let mut ledger = world.ledger();
                ledger.pushed.insert(clone, made);
                ledger.count(format!("pushed by hand in {clone}"));
                return;
            }
            9 => {
                let words = in_one_line(&ended.err);
                world.ledger().found.push(format!(
                    "claim by hold in {clone} is lost under a pull: {words}"
                ));
            }
            40 => world.ledger().count(format!(
                "conflicts by hand in {clone}: {}",
                ended.err.trim()
            )),
            code => world
                .ledger()
                .count(format!("pushes tried again in {clone}: exit code {code}")),
        }
    }
}
