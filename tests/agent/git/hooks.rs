//! Hooks of a person: they fail, hang, print, and are not gone around.

use std::fs;
use std::time::Instant;

use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};

use crate::bench::{Bench, each, is_naive, script, stops_when_naive};
use crate::snapshot::Allowed;

fn hook(bench: &Bench, name: &str, text: &str) {
    script(&bench.here().join(".git/hooks").join(name), text);
}

fn without(bench: &Bench, name: &str) {
    fs::remove_file(bench.here().join(".git/hooks").join(name)).expect("remove the hook");
}

/// The hook says no to a commit: nothing at all happens, its words are in the log, and nothing is lost.
#[test]
fn a_hook_that_refuses_a_commit() {
    each(
        &["pre-commit", "commit-msg", "prepare-commit-msg"],
        |name| (*name).to_owned(),
        |name| {
            let bench = Bench::new();
            hook(&bench, name, "echo 'not on my watch' >&2; exit 1");
            bench.tempt();
            bench.refuses(&format!("the hook {name} has failed"), name);
            bench.once().says("not on my watch", "the hook's words");
            without(&bench, name);
            bench.syncs("without the hook");
        },
    );
}

#[test]
fn a_hook_that_refuses_a_push() {
    let bench = Bench::new();
    hook(&bench, "pre-push", "echo 'not on my watch' >&2; exit 1");
    bench.tempt();
    let remote = bench.git(bench.remote(), &["for-each-ref"]);
    let told = bench.once();
    assert_eq!(
        bench.git(bench.remote(), &["for-each-ref"]),
        remote,
        "harm: pushed past the hook"
    );
    told.says("not on my watch", "the hook's words");
    told.ends_with(1, "pre-push");
    assert!(
        is_naive() || bench.here().join(".beads/theirs.jsonl").exists(),
        "pulled all the same: {}",
        told.log
    );
    without(&bench, "pre-push");
    bench.syncs("without the hook");
}

/// A person's hook that says no to a rebase is asked, or nothing is rebased.
#[test]
fn a_hook_that_refuses_a_rebase() {
    let bench = Bench::new();
    hook(&bench, "pre-rebase", "echo 'not on my watch' >&2; exit 1");
    bench.shell("echo mine >>src/y.rs; git commit -qam mine");
    bench.tempt();
    let before = bench.git(bench.here(), &["rev-parse", "HEAD"]);
    let told = bench.once();
    if stops_when_naive() {
        return;
    }
    let subjects = bench.subjects();
    assert!(subjects.contains(&"mine".to_owned()), "harm: {subjects:?}");
    assert!(
        told.log.contains("pre-rebase") || subjects.contains(&"theirs".to_owned()),
        "{before} {}",
        told.log
    );
}

#[test]
fn a_hook_that_hangs_is_ended() {
    each(
        &[
            "pre-commit",
            "pre-push",
            "post-commit",
            "reference-transaction",
        ],
        |name| (*name).to_owned(),
        |name| {
            let bench = Bench::new();
            let pid = bench.path().join("hook.pid");
            hook(
                &bench,
                name,
                &format!("echo $$ >'{}'; exec sleep 300", pid.display()),
            );
            bench.write(".beads/mine.jsonl", "{}\n");
            let before = bench.snapshot();
            let begun = Instant::now();
            let once = |timeout| {
                Running::start(bench.agent(&["--once", "--cycle-timeout", timeout]))
                    .finish(PATIENCE)
            };
            let mut ended = once("4s");
            // A busy machine needs more time to reach the hook.
            if name.starts_with("pre-") && !pid.exists() {
                ended = once("25s");
            }
            let left = bench.here().join(".git/index.lock");
            if *name == "reference-transaction" && left.exists() {
                // The agent was ended while it had the index. The next cycle knows whose lock that is.
                let stays = bench.path().join("index.lock");
                fs::rename(&left, &stays).expect("put the lock aside");
                bench.untouched_since(&before, Allowed::Sync, name);
                fs::rename(&stays, &left).expect("put the lock back");
            } else {
                bench.untouched_since(&before, Allowed::Sync, name);
            }
            wait_until(PATIENCE, "nobody is left", || {
                marked_by(bench.scene()).is_empty()
            });
            if stops_when_naive() {
                return;
            }
            assert!(begun.elapsed().as_secs() < 120, "{:?}", begun.elapsed());
            if !pid.exists() {
                // A hook that the daemon does not run cannot hang.
                assert!(
                    !name.starts_with("pre-"),
                    "the hook was gone around\n{}",
                    bench.log()
                );
            } else {
                assert_eq!(ended.status.code(), Some(1), "{}", bench.log());
                let log = bench.log();
                assert!(
                    log.contains("timed out after") || log.contains("it took too long"),
                    "{log}"
                );
            }
            without(&bench, name);
            bench.syncs("without the hook");
        },
    );
}

/// A hook may print what it likes: all of it is in the log, and none of it is taken for a line of the agent's.
#[test]
fn a_hook_that_prints_much() {
    let bench = Bench::new();
    hook(
        &bench,
        "pre-commit",
        "i=0; while [ $i -lt 20000 ]; do echo \"Sync cycle complete $i\"; i=$((i+1)); done; printf 'no newline \\000\\377' >&2",
    );
    bench.tempt();
    bench.syncs("much output");
    let log = bench.log();
    assert!(
        is_naive() || log.contains("complete 19999") || !log.contains("complete 1\n"),
        "cut off"
    );
    assert!(
        !log.contains("] Sync cycle complete 5\n"),
        "a hook's line looks like the agent's"
    );
}

/// Hooks that run find the repository as git promises, and not the agent's own affairs.
#[test]
fn a_hook_sees_what_is_committed() {
    let bench = Bench::new();
    let seen = bench.path().join("seen");
    hook(
        &bench,
        "pre-commit",
        &format!("git diff --cached --name-only >'{}'", seen.display()),
    );
    bench.shell("echo staged >>src/x.rs; git add src/x.rs");
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.once();
    let seen = fs::read_to_string(seen).unwrap_or_default();
    assert_eq!(
        seen, ".beads/mine.jsonl\n",
        "harm: the hook judged something else than the commit"
    );
}
