//! A claimed database is left alone by the git action in every respect, and its claimer may sync by itself.

use std::fs;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, lock_text, run, this_host, wait_until};

use crate::bench::{Bench, stops_when_naive};
use crate::snapshot::Allowed;

/// There is something to commit, to pull and to push.
#[test]
fn a_held_database_has_no_operation_at_all() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    bench.tempt();
    let lock = bench.here().join(".beads/.exclusive-lock");
    fs::write(
        &lock,
        lock_text("my-tool", std::process::id().into(), &this_host()),
    )
    .expect("write the lock");
    let before = bench.snapshot();
    let told = bench.once();
    bench.untouched_since(&before, Allowed::Nothing, "held");
    told.says("Skipping database (locked by my-tool)", "held");
    told.ends_with(4, "held");
    assert!(!told.log.contains("Starting sync cycle..."), "{}", told.log);
    fs::remove_file(&lock).expect("remove the lock");
    bench.syncs("released");
    assert!(bench.remote_has(".beads/mine.jsonl"));
    assert_eq!(bench.read(".beads/theirs.jsonl"), "theirs\n");
}

/// The use that the document has for tools with a git workflow of their own.
#[test]
fn who_claims_it_commits_and_pushes_beside_the_agent() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let daemon = Running::start(bench.agent(&["--interval", "20ms"]));
    wait_until(PATIENCE, "a first cycle", || {
        bench.log().contains("Sync cycle complete")
    });
    let work = "echo '{}' >.beads/tool.jsonl; for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done
        git add .beads/tool.jsonl && git commit --quiet --message 'of the tool' && git push --quiet";
    let mut hold = bench
        .scene()
        .beadlock(&["hold", "--holder", "tool", ".beads", "--", "sh", "-c", work]);
    hold.current_dir(bench.here());
    let ended = Ended::from(run(hold));
    assert_eq!(ended.code, 0, "{ended:?}; {}", bench.log());
    let skipped = "Skipping database (locked by tool)";
    let complete = |log: &str| log.rfind("Sync cycle complete") > log.rfind(skipped);
    wait_until(PATIENCE, "a cycle after it", || {
        bench.log().contains(skipped) && complete(&bench.log())
    });
    drop(daemon);
    assert_eq!(
        bench.subjects()[..2],
        ["of the tool", "first"],
        "the agent had nothing to add: {}",
        bench.log()
    );
    assert!(bench.remote_has(".beads/tool.jsonl"));
}
