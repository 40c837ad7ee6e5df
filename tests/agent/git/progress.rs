//! While a person is in the middle of something, nothing is done; when it is over, syncing goes on by itself.

use crate::bench::{Bench, each};
use crate::snapshot::Allowed;

/// What is in progress: its name in the log, how it is begun, how it is brought to an end.
struct Row {
    name: &'static str,
    line: &'static str,
    begin: &'static str,
    end: &'static str,
}

/// Two branches that change the same line of src/x.rs; `side` is one of them.
const SIDE: &str = "git checkout -qb side; echo side >src/x.rs; git commit -qam side; git checkout -q main; \
    echo main >src/x.rs; git commit -qam main; git push -q; ";

const ROWS: &[Row] = &[
    Row {
        name: "merge, conflict",
        line: "merge",
        begin: "git merge -q side",
        end: "git merge --abort",
    },
    Row {
        name: "merge, solved",
        line: "merge",
        begin: "git merge -q side; echo both >src/x.rs; git add src/x.rs",
        end: "git merge --abort",
    },
    Row {
        name: "merge, not committed",
        line: "merge",
        begin: "git merge -q --no-commit -s ours side",
        end: "git merge --abort",
    },
    Row {
        name: "rebase",
        line: "rebase",
        begin: "git rebase -q side",
        end: "git rebase --abort",
    },
    Row {
        name: "rebase, the other kind",
        line: "rebase",
        begin: "git rebase -q --apply side",
        end: "git rebase --abort",
    },
    Row {
        name: "rebase, stopped to edit",
        line: "rebase",
        begin: "GIT_SEQUENCE_EDITOR='sed -i s/^pick/edit/' git rebase -q -i HEAD~1",
        end: "git rebase --abort",
    },
    Row {
        name: "cherry-pick",
        line: "cherry-pick",
        begin: "git cherry-pick side",
        end: "git cherry-pick --abort",
    },
    Row {
        name: "cherry-pick of several",
        line: "cherry-pick",
        begin: "git cherry-pick side~1 side 2>/dev/null; git cherry-pick side side",
        end: "git cherry-pick --abort",
    },
    Row {
        name: "revert",
        line: "revert",
        begin: "echo later >src/x.rs; git commit -qam later; git push -q; git revert --no-edit HEAD~1",
        end: "git revert --abort",
    },
    Row {
        name: "bisect",
        line: "bisect",
        begin: "git bisect start -q HEAD HEAD~1",
        end: "git bisect reset",
    },
    Row {
        name: "bisect, on the branch",
        line: "bisect",
        begin: "git bisect start -q",
        end: "git bisect reset",
    },
    Row {
        name: "am",
        line: "in progress",
        begin: "git format-patch -q -1 side --stdout >../patch; git am -q ../patch",
        end: "git am --abort",
    },
    Row {
        name: "unmerged after stash pop",
        line: "conflicts in ",
        begin: "echo stashed >src/x.rs; git stash -q; echo other >src/x.rs; git commit -qam other; git push -q; git stash pop -q",
        end: "git checkout -q --ours src/x.rs; git reset -q --hard; git stash drop -q",
    },
    Row {
        name: "unmerged in .beads",
        line: "conflicts in ",
        begin: "echo a >.beads/issues.jsonl; git stash -q; echo b >.beads/issues.jsonl; git commit -qam other; git push -q; git stash pop -q",
        end: "git checkout -q HEAD -- .beads/issues.jsonl; git stash drop -q",
    },
    Row {
        name: "index.lock",
        line: "index.lock",
        begin: ": >.git/index.lock",
        end: "rm .git/index.lock",
    },
];

#[test]
fn nothing_is_done_while_something_is_in_progress() {
    each(
        ROWS,
        |row| row.name.to_owned(),
        |row| {
            let bench = Bench::new();
            bench.shell(SIDE);
            let script = format!("{}; true", row.begin);
            bench.shell(&script);
            bench.tempt();
            bench.refuses(row.line, row.name);
            let told = bench.once();
            assert!(
                told.log.contains("Sync cycle failed") || crate::bench::is_naive(),
                "{}",
                told.log
            );
            bench.shell(row.end);
            bench.syncs("when it is over");
            assert!(
                bench.here().join(".beads/theirs.jsonl").exists(),
                "not pulled when it was over"
            );
        },
    );
}

/// Syncing goes on by itself: the daemon is not started again.
#[test]
fn a_daemon_goes_on_when_it_is_over() {
    use beadlock_tests::{Running, wait::PATIENCE, wait_until};
    let bench = Bench::new();
    bench.shell(": >.git/index.lock");
    bench.tempt();
    let before = bench.snapshot();
    let daemon = Running::start(bench.agent(&["--interval", "50ms"]));
    wait_until(PATIENCE, "three refusals", || {
        bench.log().matches("Starting sync cycle...").count() >= 3
    });
    bench.untouched_since(&before, Allowed::Fetch, "index.lock");
    bench.shell("rm .git/index.lock");
    wait_until(PATIENCE, "a push", || bench.remote_has(".beads/mine.jsonl"));
    wait_until(PATIENCE, "a pull", || {
        bench.here().join(".beads/theirs.jsonl").exists()
    });
    drop(daemon);
}
