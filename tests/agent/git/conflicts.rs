//! A conflict is given up whole, with the files named, and goes on once a person has solved it.

use crate::bench::{Bench, each, is_naive};
use crate::snapshot::Allowed;

struct Row {
    name: &'static str,
    /// What is done and committed here, outside and inside.
    here: &'static str,
    /// What is pushed there.
    there: &'static [(&'static str, &'static str)],
    /// The file that the log names.
    file: &'static str,
    /// How a person solves it.
    solve: &'static str,
}

const OURS: &str = "git pull -q --rebase -X theirs";

const ROWS: &[Row] = &[
    Row {
        name: "in .beads",
        here: "echo here >.beads/issues.jsonl",
        there: &[(".beads/issues.jsonl", "there\n")],
        file: ".beads/issues.jsonl",
        solve: OURS,
    },
    Row {
        name: "outside",
        here: "echo here >src/x.rs; git commit -qam mine",
        there: &[("src/x.rs", "there\n")],
        file: "src/x.rs",
        solve: "git pull -q --rebase -X theirs && git push -q",
    },
    Row {
        name: "outside, by the second of two",
        here: "echo 1 >>src/y.rs; git commit -qam first; echo here >src/x.rs; git commit -qam mine; echo 1 >>.beads/issues.jsonl",
        there: &[("src/x.rs", "there\n")],
        file: "src/x.rs",
        solve: "git pull -q --rebase -X theirs && git push -q",
    },
    Row {
        name: "added on both sides",
        here: "echo here >.beads/new.jsonl",
        there: &[(".beads/new.jsonl", "there\n")],
        file: ".beads/new.jsonl",
        solve: OURS,
    },
    Row {
        name: "a file here, a directory there",
        here: "echo here >.beads/new",
        there: &[(".beads/new/deeper", "there\n")],
        file: ".beads/new",
        solve: "git reset -q --hard HEAD~1; git pull -q --rebase",
    },
    Row {
        name: "untracked outside",
        here: "mkdir notes; echo mine >notes/a",
        there: &[("notes/a", "theirs\n")],
        file: "notes/a",
        solve: "mv notes/a ../saved",
    },
    Row {
        name: "untracked file here, directory there",
        here: "echo mine >notes",
        there: &[("notes/a", "theirs\n")],
        file: "notes",
        solve: "mv notes ../saved",
    },
    Row {
        name: "untracked directory here, file there",
        here: "mkdir notes; echo mine >notes/a",
        there: &[("notes", "theirs\n")],
        file: "notes",
        solve: "mv notes ../saved",
    },
    Row {
        name: "ignored outside",
        here: "echo 'build/' >>.git/info/exclude; mkdir build; echo mine >build/out",
        there: &[("build/out", "theirs\n")],
        file: "build/out",
        solve: "mv build/out ../saved",
    },
    Row {
        name: "ignored in .beads",
        here: "echo '*.cache' >>.git/info/exclude; echo mine >.beads/a.cache",
        there: &[(".beads/a.cache", "theirs\n")],
        file: ".beads/a.cache",
        solve: "mv .beads/a.cache ../saved",
    },
];

#[test]
fn a_conflict_is_given_up_whole() {
    each(
        ROWS,
        |row| row.name.to_owned(),
        |row| {
            let bench = Bench::new();
            // Not a commit yet: what is here then is what a person has.
            bench.shell(row.here);
            bench.pushed_there(row.there);
            let files = |bench: &Bench| {
                bench.shell("find . -path ./.git -prune -o -name 'daemon.log*' -prune -o -type f -printf '%p %m %T@ ' -exec cat {} + | sort").out
            };
            let before = files(&bench);
            // The first cycle commits what is in .beads.
            let told = bench.once();
            assert_eq!(
                files(&bench),
                before,
                "harm: the working tree\n{}",
                told.log
            );
            nothing_half_done(&bench);
            told.says(row.file, row.name);
            told.ends_with(1, row.name);
            let snapshot = bench.snapshot();
            let told = bench.cycles(2);
            bench.untouched_since(&snapshot, Allowed::Fetch, row.name);
            told.says(row.file, row.name);
            bench.shell(row.solve);
            bench.syncs("solved");
            assert!(
                is_naive()
                    || bench
                        .git(bench.here(), &["status", "--porcelain", "-uno"])
                        .is_empty()
            );
        },
    );
}

/// What is there already, as a pull would make it, is no obstacle, and is not written again.
#[test]
fn a_file_that_is_there_already_is_not_in_the_way() {
    let bench = Bench::new();
    bench.shell("mkdir notes; echo same >notes/a; touch -d 2001-01-01 notes/a");
    bench.pushed_there(&[
        ("notes/a", "same\n"),
        ("notes/b", "theirs\n"),
        ("src/x.rs", "theirs\n"),
    ]);
    bench.syncs("the same content");
    bench.is_whole("the same content");
    let written = bench.shell("stat -c %Y notes/a; cat notes/b src/x.rs").out;
    assert_eq!(written, "978307200\ntheirs\ntheirs\n", "{}", bench.log());
}

/// One side removed a record file, the other changed it: it stays.
#[test]
fn a_change_of_a_record_file_is_not_lost_to_its_removal() {
    let (one, both) = (
        "{\"id\":\"bd-1\"}\n",
        "{\"id\":\"bd-1\"}\n{\"id\":\"bd-2\"}\n",
    );
    each(
        &[
            (
                "removed there",
                "echo '{\"id\":\"bd-2\"}' >>.beads/issues.jsonl",
                "",
            ),
            ("removed here", "rm .beads/issues.jsonl", both),
        ],
        |row| row.0.to_owned(),
        |(name, here, there)| {
            if is_naive() {
                return;
            }
            let bench = Bench::new();
            // Where all files of a database are gone, nothing is committed.
            bench.pushed_there(&[(".beads/issues.jsonl", one), (".beads/other.jsonl", one)]);
            bench.syncs(name);
            bench.shell(here);
            bench.pushed_there(&[(".beads/issues.jsonl", there)]);
            bench.syncs(name);
            assert_eq!(bench.read(".beads/issues.jsonl"), both, "{}", bench.log());
            bench.is_whole(name);
        },
    );
}

fn nothing_half_done(bench: &Bench) {
    for name in [
        "rebase-merge",
        "rebase-apply",
        "MERGE_HEAD",
        "REBASE_HEAD",
        "AUTO_MERGE",
        "index.lock",
        "CHERRY_PICK_HEAD",
    ] {
        assert!(
            !bench.here().join(".git").join(name).exists(),
            "harm: left behind .git/{name}\n{}",
            bench.log()
        );
    }
    assert_eq!(
        bench.git(bench.here(), &["ls-files", "--unmerged"]),
        "",
        "harm: unmerged paths"
    );
    assert_eq!(
        bench.git(bench.here(), &["stash", "list"]),
        "",
        "harm: a stash"
    );
    assert_eq!(
        bench.git(bench.here(), &["symbolic-ref", "HEAD"]),
        "refs/heads/main",
        "harm: HEAD"
    );
}

/// A merge driver that the repository names solves what it is for.
#[test]
fn attributes_are_obeyed() {
    let bench = Bench::new();
    bench.pushed_there(&[(".gitattributes", ".beads/*.jsonl merge=union\n")]);
    bench.once();
    bench.shell("echo here >>.beads/issues.jsonl");
    bench.pushed_there(&[(".beads/issues.jsonl", "bd-1\nthere\n")]);
    bench.syncs("union");
    let text = bench.read(".beads/issues.jsonl");
    for line in ["here", "there", "bd-1"] {
        assert_eq!(
            text.lines().filter(|one| *one == line).count(),
            1,
            "{line:?} in {text:?}"
        );
    }
}

/// A pull that changes many files: done whole.
#[test]
fn what_is_upstream_is_pulled_whole() {
    let bench = Bench::new();
    bench.write(".beads/mine.jsonl", "{}\n");
    let files: Vec<(String, String)> = (0..200)
        .map(|n| (format!("many/{n}/f"), format!("{n}\n")))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    bench.pushed_there(&[&files[..], &[("src/x.rs", "theirs\n"), ("src/y.rs", "")]].concat());
    bench.git(bench.there(), &["update-index", "--chmod=+x", "src/z.rs"]);
    bench.git(
        bench.there(),
        &["commit", "--quiet", "--message", "executable"],
    );
    bench.git(bench.there(), &["push", "--quiet"]);
    bench.syncs("many files");
    assert_eq!(
        bench.git(bench.here(), &["status", "--porcelain", "-uno"]),
        "",
        "{}",
        bench.log()
    );
    assert_eq!(bench.read("src/x.rs"), "theirs\n");
    assert!(!bench.here().join("src/y.rs").exists());
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(bench.here().join("src/z.rs"))
        .expect("src/z.rs")
        .permissions()
        .mode();
    assert_eq!(mode & 0o111, 0o111);
}
