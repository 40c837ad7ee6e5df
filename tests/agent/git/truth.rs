//! A cycle is only called complete when everything is at the remote, and everything of the remote is here.

use std::fs;

use crate::bench::{Bench, each};

/// What hinders a sync, the end of the line of its cycle, and its exit code.
const HINDRANCES: &[(&str, &str, &str)] = &[
    (
        "the remote is gone, and nothing is to be pushed",
        "mv ../remote.git ../away.git",
        "Sync cycle incomplete: origin cannot be reached: ",
    ),
    (
        "the remote is gone, and commits wait",
        "mv ../remote.git ../away.git; echo 1 >>.beads/issues.jsonl",
        "Sync cycle incomplete: origin cannot be reached: ",
    ),
    (
        "no remote",
        "git remote remove origin",
        "Sync cycle incomplete: there is no remote",
    ),
    (
        "no upstream",
        "git branch --unset-upstream; echo 1 >>.beads/issues.jsonl",
        "Sync cycle incomplete: the branch main has no upstream; 1 commit waits",
    ),
    (
        "commits of a person",
        "echo 1 >>src/x.rs; git commit -qam mine; echo 1 >>.beads/issues.jsonl",
        "Sync cycle incomplete: 1 commit that is not ours: ",
    ),
    (
        "a dirty tree",
        "git -C ../there commit -q --allow-empty -m theirs; git -C ../there push -q; echo 1 >>src/x.rs",
        "Sync cycle incomplete: uncommitted changes outside .beads (src/x.rs)",
    ),
    (
        "no repository any more",
        "mv .git ../away",
        "Sync cycle failed: HERE/.beads is in no git repository",
    ),
    (
        "a detached HEAD",
        "git checkout -q --detach",
        "Sync cycle failed: HEAD is detached in HERE",
    ),
    (
        "a rewritten upstream",
        "git commit -q --allow-empty -m more; git push -q; git -C ../there pull -q; \
         git -C ../there commit -q --amend --allow-empty -m other; git -C ../there push -qf; echo 1 >>.beads/issues.jsonl",
        "Sync cycle failed: origin/main was rewritten; 1 commit of yours is on what it gave up; type: git -C HERE pull --rebase",
    ),
];

#[test]
fn a_hindered_sync_is_not_complete() {
    each(
        HINDRANCES,
        |row| row.0.to_owned(),
        |(name, how, line)| {
            let bench = Bench::new();
            bench.shell(how);
            let told = bench.once();
            told.says(&line.replace("HERE", &bench.here().to_string_lossy()), name);
            told.never_says("Sync cycle complete", name);
            told.ends_with(1, name);
        },
    );
}

/// While a remote is out, it is not asked in each cycle; but each cycle says so.
#[test]
fn an_outage_is_told_by_every_cycle() {
    let bench = Bench::new();
    let away = bench.path().join("away.git");
    fs::rename(bench.remote(), &away).expect("take the remote away");
    bench.write(".beads/issues.jsonl", "{}\n");
    let told = bench.cycles(6);
    told.says_once("Cannot reach origin", "an outage");
    told.never_says("Sync cycle complete", "an outage");
    let incomplete = told
        .log
        .matches("Sync cycle incomplete: origin cannot be reached: ")
        .count();
    assert!(crate::bench::is_naive() || incomplete >= 5, "{}", told.log);
    assert!(
        crate::bench::is_naive() || told.log.matches("; 1 commit waits").count() >= 5,
        "{}",
        told.log
    );
    fs::rename(&away, bench.remote()).expect("bring the remote back");
    bench.syncs("it is back");
}
