//! What the other tests are worth: what is usually written in a daemon's place does harm, and they see it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use beadlock_tests::{Ended, run};

use crate::bench::{Bench, NAIVE};
use crate::snapshot::Allowed;

/// Runs the naive script in a repository that is in this state, and returns what it did that it must not.
fn harm(state: &str) -> String {
    let bench = Bench::new();
    bench.shell(state);
    bench.tempt();
    let before = bench.snapshot();
    let mut agent = bench.scene().agent(&["--once", "--exec", NAIVE, "--db"]);
    agent.arg(bench.here().join(".beads"));
    let _ = Ended::from(run(agent));
    let look = || bench.untouched_since(&before, Allowed::Sync, "naive");
    let why = catch_unwind(AssertUnwindSafe(look)).err();
    why.and_then(|why| why.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

#[test]
fn a_naive_daemon_is_seen_to_do_harm() {
    let staged = harm("echo more >>src/x.rs; git add src/x.rs; echo again >>src/x.rs");
    assert!(
        staged.contains("index entry") && staged.contains("src/x.rs"),
        "{staged}"
    );
    let deleted = harm("git rm -q --cached src/y.rs");
    assert!(deleted.contains("index entry"), "{deleted}");
    let merging = harm(
        "git checkout -qb side; echo s >src/x.rs; git commit -qam s; git checkout -q main; echo m >src/x.rs; git commit -qam m; git push -q; git merge -q side",
    );
    assert!(merging.contains("gone: .git/MERGE_HEAD"), "{merging}");
}
