//! Whatever a person has changed or staged outside `.beads` stays as it is.

use crate::bench::{Bench, each};
use crate::snapshot::Allowed;

type Row = (&'static str, &'static str);

/// Changes outside `.beads`, by what a person types.
const UNCOMMITTED: &[Row] = &[
    ("modified", "echo more >>src/x.rs"),
    ("staged", "echo more >>src/x.rs; git add src/x.rs"),
    (
        "staged and changed again",
        "echo more >>src/x.rs; git add src/x.rs; echo again >>src/x.rs",
    ),
    ("deleted", "rm src/x.rs"),
    ("deleted and staged", "git rm -q src/x.rs"),
    (
        "staged as deleted, still there",
        "git rm -q --cached src/x.rs",
    ),
    ("new and staged", "echo new >src/new.rs; git add src/new.rs"),
    ("renamed", "git mv src/x.rs src/moved.rs"),
    ("executable", "chmod +x src/x.rs"),
    ("a link in its place", "rm src/x.rs; ln -s y.rs src/x.rs"),
    (
        "intent to add",
        "echo new >src/new.rs; git add -N src/new.rs",
    ),
    ("many", "for f in x y z; do echo more >>src/$f.rs; done"),
    (
        "status hides it",
        "git config status.showUntrackedFiles no; git config diff.ignoreSubmodules all; echo more >>src/x.rs",
    ),
];

#[test]
fn uncommitted_changes_outside_stop_the_pull_and_not_the_commit() {
    each(
        UNCOMMITTED,
        |row| row.0.to_owned(),
        |(name, script)| {
            let bench = Bench::new();
            bench.shell(script);
            bench.tempt();
            let cached = bench.git(
                bench.here(),
                &["diff", "--cached", "--binary", "--", ":!.beads"],
            );
            let before = bench.snapshot();
            let told = bench.once();
            bench.untouched_since(&before, Allowed::Sync, name);
            let pulled = bench.here().join(".beads/theirs.jsonl").exists();
            assert!(!pulled, "harm: pulled over a change\n{}", told.log);
            told.says(
                "Not pulling: uncommitted changes outside .beads (src/",
                name,
            );
            told.ends_with(1, name);
            bench.cycles(2).says_once(
                "Not pulling: uncommitted changes outside .beads (src/",
                name,
            );
            bench.untouched_since(&before, Allowed::Sync, name);
            assert_eq!(
                bench.git(
                    bench.here(),
                    &["diff", "--cached", "--binary", "--", ":!.beads"]
                ),
                cached,
                "harm"
            );
            let committed = bench.git(
                bench.here(),
                &["log", "--format=", "--name-only", "origin/main~1..HEAD"],
            );
            assert_eq!(
                committed, ".beads/mine.jsonl",
                "harm: committed more than .beads, or not that"
            );
            // The person commits: syncing goes on.
            bench.shell("git reset -q --hard; git clean -fdq src");
            bench.syncs("after the change is gone");
            assert!(bench.remote_has(".beads/mine.jsonl") || crate::bench::is_naive());
        },
    );
}

/// What the index holds that a commit could lose; nothing is upstream, so the commit and the push go through.
const STAGED: &[Row] = &[
    (
        "a part of a change",
        "printf 'x zero\\nx one\\nx two\\nx three\\n' >src/x.rs; git add src/x.rs; printf 'x zero\\nx one\\nx 2\\nx three\\n' >src/x.rs",
    ),
    (
        "intent to add",
        "echo new >src/new.rs; git add -N src/new.rs",
    ),
    (
        "executable in the index alone",
        "git update-index --chmod=+x src/x.rs",
    ),
    (
        "executable in the tree alone",
        "git config core.fileMode false; chmod +x src/x.rs",
    ),
    (
        "skip-worktree",
        "git update-index --skip-worktree src/x.rs; echo mine >>src/x.rs",
    ),
    (
        "assume-unchanged",
        "git update-index --assume-unchanged src/x.rs; echo mine >>src/x.rs",
    ),
    ("sparse", "git sparse-checkout set --no-cone /.beads/"),
    ("sparse cone", "git sparse-checkout set .beads"),
    (
        "split index",
        "git update-index --split-index; echo more >>src/x.rs; git add src/x.rs",
    ),
    (
        "untracked cache",
        "git update-index --untracked-cache; echo new >src/new.rs",
    ),
    (
        "version 4",
        "git update-index --index-version 4; git rm -q --cached src/x.rs",
    ),
    (
        "stat data out of date",
        "touch -d '2001-01-01' src/x.rs src/y.rs",
    ),
    ("untracked", "mkdir notes; echo mine >notes/a; echo mine >b"),
    (
        "staged in .beads too",
        "echo more >>.beads/issues.jsonl; git add .beads; echo more >>src/x.rs; git add src/x.rs; echo again >>.beads/issues.jsonl",
    ),
];

#[test]
fn a_commit_leaves_the_index_outside_as_it_is() {
    each(
        STAGED,
        |row| row.0.to_owned(),
        |(name, script)| {
            let bench = Bench::new();
            bench.shell(script);
            bench.write(".beads/mine.jsonl", "{\"id\":\"mine\"}\n");
            let cached = bench.git(
                bench.here(),
                &["diff", "--cached", "--binary", "--", ":!.beads"],
            );
            let before = bench.snapshot();
            let told = bench.once();
            bench.untouched_since(&before, Allowed::Sync, name);
            told.ends_with(0, name);
            bench.write(
                ".beads/mine.jsonl",
                "{\"id\":\"mine\"}\n{\"id\":\"more\"}\n",
            );
            bench.cycles(2);
            bench.untouched_since(&before, Allowed::Sync, name);
            assert_eq!(
                bench.git(
                    bench.here(),
                    &["diff", "--cached", "--binary", "--", ":!.beads"]
                ),
                cached,
                "harm"
            );
            let committed = bench.git(bench.here(), &["log", "--format=", "--name-only", "HEAD"]);
            assert!(
                !committed
                    .lines()
                    .take_while(|path| *path != "README")
                    .any(|path| path.starts_with("src")),
                "harm"
            );
            bench.is_synced(name);
        },
    );
}

/// Nothing to do is nothing done: not even the index is refreshed.
#[test]
fn a_cycle_with_nothing_to_do_writes_nothing() {
    let bench = Bench::new();
    bench.shell("touch -d '2001-01-01' src/x.rs .beads/issues.jsonl");
    let before = bench.snapshot();
    bench.cycles(3);
    bench.untouched_since(&before, Allowed::Nothing, "nothing to do");
}

/// A tool writes on while the commit is made. What is in the index then is what was committed, or the next commit that
/// a person makes would have more in it than they have staged.
#[test]
fn what_is_written_meanwhile_is_not_staged() {
    let bench = Bench::new();
    let write = "[ \"$1\" = committed ] && echo meanwhile >>.beads/issues.jsonl; exit 0";
    crate::bench::script(
        &bench.here().join(".git/hooks/reference-transaction"),
        write,
    );
    bench.shell("echo before >>.beads/issues.jsonl; echo staged >>src/x.rs; git add src/x.rs");
    bench.once();
    assert!(
        bench.read(".beads/issues.jsonl").contains("meanwhile"),
        "nothing was written: the test shows nothing"
    );
    let staged = bench.git(bench.here(), &["diff", "--cached", "--name-only"]);
    assert_eq!(
        staged, "src/x.rs",
        "harm: more is staged than the person has"
    );
}
