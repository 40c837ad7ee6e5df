//! Two databases in one repository: their syncs wait for each other, and each finishes what the other has left.

use std::fs::{self, File};
use std::process::Command;
use std::time::Instant;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use crate::bench::{Bench, each, stops_when_naive};
use crate::snapshot::Allowed;
use crate::wrapper::{AFTER_THE_FILES, KILL_ALL};

const OTHER: &str = "sub/.beads";

/// What comes in: a change of the second database and one outside.
const THEIRS: [(&str, &str); 2] = [
    ("sub/.beads/issues.jsonl", "{\"id\":\"theirs\"}\n"),
    ("src/x.rs", "theirs\n"),
];

/// A bench with a second database, which is upstream too.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("sub/.beads/issues.jsonl", "{}\n");
    bench.shell("git add sub; git commit -qm second; git push -q");
    bench
}

/// An agent on these databases.
fn agent(bench: &Bench, databases: &[&str], args: &[&str]) -> Command {
    let mut agent = bench.scene().agent(&["--action", "git"]);
    for database in databases {
        agent.arg("--db").arg(bench.here().join(database));
    }
    agent.args(args);
    agent
}

fn logs(bench: &Bench) -> String {
    let log = fs::read_to_string(bench.here().join(OTHER).join("daemon.log"));
    bench.log() + "--\n" + &log.unwrap_or_default()
}

/// One database's sync is killed in a pull; what it has begun is taken back by the other's, which pulls then.
#[test]
fn the_other_ones_sync_takes_a_move_back() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    each(
        &[AFTER_THE_FILES, ("update-ref -m pull (beadlock-agent)", 1)],
        |(words, _)| (*words).to_owned(),
        |(words, nth)| {
            bench.pushed_there(&[("src/x.rs", words), (".beads/issues.jsonl", words)]);
            bench.write("sub/.beads/mine.jsonl", words);
            bench
                .once_before_nth(words, *nth, KILL_ALL)
                .ends_with(1, "killed");
            assert!(
                bench.here().join(".git/index.lock").exists(),
                "nothing is left to be finished"
            );
            let ended = beadlock_tests::Ended::from(beadlock_tests::run(agent(
                &bench,
                &[OTHER],
                &["--once"],
            )));
            let logs = logs(&bench);
            assert_eq!(ended.code, 0, "{logs}");
            assert!(!logs.contains("remove that file"), "{logs}");
            bench.is_synced(words);
            bench.is_whole(words);
            assert!(bench.remote_has("sub/.beads/mine.jsonl"), "{logs}");
        },
    );
}

/// Both have something to commit at every tick.
#[test]
fn both_commit_at_the_same_time() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    let daemon = Running::start(agent(
        &bench,
        &[".beads", OTHER],
        &["--interval", "20ms", "--jobs", "2"],
    ));
    for round in 0..20 {
        let text = format!("{round}\n");
        bench.write(".beads/mine.jsonl", &text);
        bench.write("sub/.beads/mine.jsonl", &text);
        let has = |path: &str| bench.try_git(bench.remote(), &["show", path]).out == text;
        wait_until(PATIENCE, "both are pushed", || {
            has("main:.beads/mine.jsonl") && has("main:sub/.beads/mine.jsonl")
        });
    }
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
    let logs = logs(&bench);
    assert!(
        !logs.contains("failed") && !logs.contains("index.lock"),
        "{logs}"
    );
    bench.is_whole("both");
}

/// A move that would be taken back changes a database that is claimed by now.
#[test]
fn a_claim_on_the_other_is_waited_for() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    bench.pushed_there(&THEIRS);
    let (words, nth) = AFTER_THE_FILES;
    bench
        .once_before_nth(words, nth, KILL_ALL)
        .ends_with(1, "killed");
    let before = bench.read("sub/.beads/issues.jsonl");
    let mut hold = bench.scene().beadlock(&["hold"]);
    hold.arg(bench.here().join(OTHER))
        .args(["--", "sleep", "60"]);
    let hold = Running::start(hold);
    let lock = bench.here().join(OTHER).join(".exclusive-lock");
    wait_until(PATIENCE, "a claim", || lock.exists());
    let told = bench.once();
    told.says("sub/.beads: Skipping database (locked by sleep)", "claimed");
    assert_eq!(
        bench.read("sub/.beads/issues.jsonl"),
        before,
        "harm: {}",
        told.log
    );
    hold.signal(Signal::SIGTERM);
    hold.finish(PATIENCE);
    bench.syncs("not claimed any more");
    bench.is_whole("not claimed any more");
    assert_eq!(
        bench.read("sub/.beads/issues.jsonl"),
        "{\"id\":\"theirs\"}\n"
    );
}

/// A pull would put a lock over the one that lives there.
#[test]
fn a_lock_of_the_other_is_not_pulled() {
    let bench = bench();
    bench.pushed_there(&[
        ("sub/.beads/.exclusive-lock", "{}\n"),
        ("src/x.rs", "theirs\n"),
    ]);
    let before = bench.snapshot();
    bench.once().ends_with(1, "a lock upstream");
    bench.untouched_since(&before, Allowed::Fetch, "a lock upstream");
    bench.refuses(
        "origin/main has sub/.beads/.exclusive-lock, and a pull would put it over",
        "a lock upstream",
    );
}

/// Of two syncs that want each other's database, the one whose path comes first waits for the other one's end. That one
/// is a gate here, which is let go when the first has come upon it and has let its turn go.
#[test]
fn one_of_two_that_want_each_other_waits() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    bench.pushed_there(&THEIRS);
    let gate = "turn=.git/beadlock.turn
        flock -n sub/.beads sh -c \"touch ../is-held; until [ -e $turn ]; do :; done; while [ -e $turn ]; do :; done\" &
        until [ -e ../is-held ]; do sleep 0.01; done";
    let told = bench.once_before("fetch", gate);
    told.ends_with(0, "it waits");
    assert!(!told.log.contains("Not pulling"), "{}", told.log);
    let fetches = fs::read_to_string(bench.path().join("bin/seen")).expect("what was called");
    assert_eq!(fetches.lines().count(), 2, "it has not come upon the gate");
    assert_eq!(
        bench.read("sub/.beads/issues.jsonl"),
        "{\"id\":\"theirs\"}\n"
    );
    bench.is_whole("it waits");
}

/// The other one's next sync begins while the first, which has waited for its end, comes back: the first has kept the
/// gate.
#[test]
fn one_that_waits_keeps_the_gate_that_it_has_waited_for() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    bench.pushed_there(&THEIRS);
    let gate = "turn=.git/beadlock.turn
        is_over() { [ -e ../is-over ] || [ ! -d .git ]; }
        { flock -n sub/.beads sh -c \"touch ../is-held; until [ -e $turn ]; do :; done; while [ -e $turn ]; do :; done\"
          until [ $(wc -l <../bin/seen) -ge 2 ] || is_over; do :; done
          flock -n sub/.beads sh -c 'touch ../is-taken; until [ -e ../is-over ] || [ ! -d .git ]; do sleep 0.01; done'
          touch ../is-ended; } >../out 2>&1 &
        until [ -e ../is-held ]; do sleep 0.01; done";
    let told = bench.once_before("fetch", gate);
    let path = |name: &str| bench.path().join(name);
    fs::write(path("is-over"), "").expect("write");
    wait_until(PATIENCE, "the other ends", || path("is-ended").exists());
    told.ends_with(0, "it waits");
    assert!(!told.log.contains("Not pulling"), "{}", told.log);
    assert!(!path("is-taken").exists(), "{}", told.log);
    assert_eq!(
        bench.read("sub/.beads/issues.jsonl"),
        "{\"id\":\"theirs\"}\n"
    );
    bench.is_whole("it waits");
}

/// The one whose path comes later gives way, and pulls once the first is done.
#[test]
fn the_other_of_two_that_want_each_other_gives_way() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    bench.pushed_there(&[
        (".beads/issues.jsonl", "{\"id\":\"theirs\"}\n"),
        ("src/x.rs", "theirs\n"),
    ]);
    let once = || {
        let agent = agent(&bench, &[OTHER], &["--once"]);
        beadlock_tests::Ended::from(beadlock_tests::run(agent))
    };
    let gate = File::open(bench.here().join(".beads")).expect("open .beads");
    let gate = Flock::lock(gate, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno);
    let begun = Instant::now();
    once();
    assert!(logs(&bench).contains("Not pulling"), "{}", logs(&bench));
    assert!(begun.elapsed() < PATIENCE, "it has waited");
    drop(gate.expect("the gate is free"));
    assert_eq!(once().code, 0, "{}", logs(&bench));
    assert_eq!(bench.read(".beads/issues.jsonl"), "{\"id\":\"theirs\"}\n");
}
