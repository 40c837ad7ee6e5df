//! What upstream has does not fit to what is here: nothing that git does not track is lost for it.

use crate::bench::{Bench, each};
use crate::snapshot::Allowed;

struct Row {
    name: &'static str,
    /// What both have before.
    first: &'static str,
    /// What is here, and in no commit.
    here: &'static str,
    /// What somebody does there.
    there: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        name: "the database becomes a file",
        first: ":",
        here: ":",
        there: "git rm -qr .beads; echo x >.beads",
    },
    Row {
        name: "another database becomes a file",
        first: "mkdir -p sub/.beads; echo 1 >sub/.beads/issues.jsonl; echo '*.db' >sub/.beads/.gitignore",
        here: "echo database >sub/.beads/beads.db",
        there: "git rm -qr sub/.beads; mkdir -p sub; echo x >sub/.beads",
    },
    Row {
        name: "what is above another database becomes a link",
        first: "mkdir -p sub/.beads; echo 1 >sub/.beads/issues.jsonl",
        here: "echo database >sub/.beads/beads.db",
        there: "git rm -qr sub; ln -s src sub",
    },
    Row {
        name: "a directory with an ignored file becomes a file",
        first: "mkdir d; echo 1 >d/one; echo .env >.gitignore",
        here: "echo secret >d/.env",
        there: "git rm -qr d; echo x >d",
    },
    Row {
        name: "a directory with an ignored directory becomes a link",
        first: "mkdir d; echo 1 >d/one; echo cache/ >.gitignore",
        here: "mkdir -p d/cache/deep; echo secret >d/cache/deep/file",
        there: "git rm -qr d; ln -s src d",
    },
    Row {
        name: "an ignored file is added",
        first: "echo .env >.gitignore",
        here: "echo secret >.env",
        there: "echo x >.env; git add -f .env",
    },
    Row {
        name: "an ignored file is where a directory comes",
        first: "echo build >.gitignore",
        here: "echo secret >build",
        there: "mkdir build; echo x >build/out; git add -f build",
    },
    Row {
        name: "an ignored link is where a directory comes",
        first: "echo build >.gitignore",
        here: "ln -s src build",
        there: "mkdir build; echo x >build/x.rs; git add -f build",
    },
    Row {
        name: "an untracked file is added",
        first: ":",
        here: "echo mine >new",
        there: "echo x >new",
    },
];

#[test]
fn what_git_does_not_track_is_never_in_the_way_of_a_pull() {
    each(
        ROWS,
        |row| row.name.to_owned(),
        |row| {
            let bench = Bench::new();
            bench.shell(&format!(
                "{}; git add .; git commit -qm first; git push -q; {}",
                row.first, row.here
            ));
            let script = format!(
                "git pull -q; {}; git add -A; git commit -qm theirs; git push -q",
                row.there
            );
            let mut there = bench.scene().shell(&script);
            there.current_dir(bench.there());
            assert!(beadlock_tests::run(there).status.success());
            let before = bench.snapshot();
            let told = bench.once();
            bench.untouched_since(&before, Allowed::Fetch, row.name);
            told.says(
                "would be overwritten, and git does not track it here",
                row.name,
            );
        },
    );
}
