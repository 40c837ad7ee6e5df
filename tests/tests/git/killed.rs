//! A sync that is killed in the middle of a pull: the next cycle brings it to its end, whatever a person has done
//! meanwhile.

use crate::bench::{Bench, each, is_naive, script};

/// Kills the whole sync when its branch is about to move, which is after the working tree has.
const KILL: &str = "[ \"$1\" = prepared ] && [ \"$BEADLOCK_CYCLE\" ] && [ -e ../kill ] || exit 0
cmp -s src/x.rs ../there/src/x.rs || exit 0
rm ../kill
kill -9 0";

/// What a person does before the next cycle.
const ROWS: &[(&str, &str)] = &[
    ("nothing", "true"),
    ("a change", "echo mine >>src/y.rs"),
    ("a commit", "rm -f .git/index.lock; echo mine >>src/y.rs; git commit -qm mine -- src/y.rs"),
];

#[test]
fn a_pull_that_was_killed_is_finished() {
    each(
        ROWS,
        |row| row.0.to_owned(),
        |(name, script_between)| {
            let bench = Bench::new();
            bench.pushed_there(&[
                ("src/x.rs", "theirs\n"),
                (".beads/theirs.jsonl", "{}\n"),
                ("new/file", "new\n"),
            ]);
            script(&bench.here().join(".git/hooks/reference-transaction"), KILL);
            std::fs::write(bench.path().join("kill"), "").expect("write");
            let told = bench.once();
            if is_naive() {
                return;
            }
            assert!(!bench.path().join("kill").exists(), "not killed: the test shows nothing\n{}", told.log);
            assert_eq!(bench.read("src/x.rs"), "theirs\n", "killed too early: the test shows nothing");
            // Of git, not of ours; it says itself that they are to be removed.
            bench.shell("rm -f .git/HEAD.lock .git/refs/heads/main.lock");
            bench.shell(script_between);
            let subjects = bench.subjects();
            bench.once();
            let told = bench.once();
            assert!(
                subjects.iter().all(|subject| bench.subjects().contains(subject)),
                "harm: a commit is lost"
            );
            let status = bench.git(bench.here(), &["status", "--porcelain", "-uno"]);
            let expected = if *name == "a change" { " M src/y.rs" } else { "" };
            assert_eq!(status, expected, "{name}: half-done\n{}", told.log);
            assert_eq!(bench.read("new/file"), "new\n");
            assert!(bench.subjects().contains(&"theirs".to_owned()), "{name}: not pulled\n{}", bench.log());
        },
    );
}
