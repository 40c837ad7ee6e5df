//! Between two steps of a sync a person is at work: nothing of theirs is reverted, moved, committed or pushed.

use crate::bench::{Bench, each, is_naive, script, stops_when_naive};
use crate::snapshot::Allowed;
use crate::wrapper::{AFTER_THE_FILES, KILL_ALL};

/// A file is changed within the second in which it was staged, so that only what is in it tells git so. What writes the
/// index after that must not make it look clean.
#[test]
fn a_change_that_the_times_do_not_show_is_seen() {
    let bench = Bench::new();
    bench.shell(
        "git config core.trustCtime false; touch -d @1700000000 src/x.rs; git add src/x.rs; \
         printf 'x 111\\nx two\\nx three\\n' >src/x.rs; touch -d @1700000000 src/x.rs .git/index",
    );
    bench.tempt();
    bench.pushed_there(&[("src/x.rs", "theirs\n")]);
    let told = bench.once();
    told.says("Committed 1 file", "the index is written");
    for case in ["once", "again"] {
        bench.write(".beads/mine.jsonl", case);
        bench.once().says(
            "Not pulling: uncommitted changes outside .beads (src/x.rs)",
            case,
        );
        assert_eq!(
            bench.read("src/x.rs"),
            "x 111\nx two\nx three\n",
            "harm, {case}:\n{}",
            bench.log()
        );
    }
}

/// A tool writes a file again with what was in it: there is no change, and so it is pulled over.
#[test]
fn what_only_looks_changed_is_pulled_over() {
    let bench = Bench::new();
    bench.shell("touch -d 2001-01-01 src/x.rs .beads/issues.jsonl");
    bench.pushed_there(&[
        ("src/x.rs", "theirs\n"),
        (".beads/issues.jsonl", "theirs\n"),
    ]);
    bench.syncs("touched");
    assert_eq!(
        bench.read("src/x.rs") + &bench.read(".beads/issues.jsonl"),
        "theirs\ntheirs\n"
    );
}

/// What upstream has was there when the sync wanted to bring it.
#[test]
fn a_person_pulls_first() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let moments = [
        ("diff-tree", 1),
        ("diff-tree", 2),
        ("diff-files", 1),
        ("read-tree -i -m", 1),
        ("checkout-index", 1),
        ("update-ref --stdin", 1),
        AFTER_THE_FILES,
        ("update-ref -m pull (beadlock-agent)", 1),
    ];
    let mut count = 0;
    for (words, nth) in moments {
        count += 1;
        let text = format!("theirs {count}\n");
        bench.pushed_there(&[
            ("src/x.rs", &text),
            (".beads/theirs.jsonl", &text),
            ("new/file", &text),
        ]);
        let theirs = bench.git(bench.remote(), &["rev-parse", "main"]);
        bench.once_before_nth(words, nth, "git pull -q --ff-only");
        bench.syncs(words);
        assert_eq!(
            bench.git(bench.remote(), &["rev-parse", "main"]),
            theirs,
            "harm, {words}: pushed"
        );
        bench.is_whole(words);
        assert_eq!(bench.read("src/x.rs"), text, "harm, {words}");
    }
}

#[test]
fn an_empty_commit_of_a_person_survives_a_pull() {
    let bench = Bench::new();
    bench.shell("git commit -q --allow-empty -m 'nothing in it'");
    bench.tempt();
    bench.syncs("an empty commit ahead");
    assert!(
        bench.subjects().contains(&"nothing in it".to_owned()),
        "harm: {:?}",
        bench.subjects()
    );
    assert!(is_naive() || bench.here().join(".beads/theirs.jsonl").exists());
}

/// Gits of a sync that has something to commit, to pull and to push, in their order.
const MOMENTS: &[(&str, usize)] = &[
    ("update-index", 1),
    ("write-tree", 1),
    ("write-tree", 2),
    ("diff-tree", 1),
    ("commit-tree", 1),
    ("diff-index", 1),
    ("update-ref -m commit (beadlock-agent)", 1),
    ("fetch", 1),
    ("merge-tree", 1),
    ("diff-tree", 2),
    ("diff-tree", 3),
    ("diff-tree", 4),
    ("diff-tree", 5),
    ("diff-files", 1),
    ("read-tree -i -m", 1),
    ("checkout-index", 1),
    ("update-ref --stdin", 1),
    AFTER_THE_FILES,
    ("update-ref -m pull (beadlock-agent)", 1),
    ("push", 1),
];

/// Somebody switches away: the branch that is checked out then is not the sync's, and neither is a detached HEAD.
#[test]
fn a_person_switches_away() {
    if stops_when_naive() {
        return;
    }
    each(
        &[
            ("git switch -q feature", 1),
            ("git checkout -q --detach", 3),
        ],
        |row| row.0.to_owned(),
        |(switch, step)| {
            let bench = Bench::new();
            let here = bench.here();
            // With a hook the tree is written twice.
            script(&here.join(".git/hooks/pre-commit"), "");
            bench.shell("git switch -qc feature; echo f >src/y.rs; git commit -qam feature; git switch -q main");
            let feature = bench.git(here, &["rev-parse", "feature"]);
            let switch = format!("{switch} && git rev-parse HEAD >../switched");
            for (n, (words, nth)) in MOMENTS.iter().enumerate().step_by(*step) {
                let case = format!("before {words} {nth}");
                bench.write(".beads/mine.jsonl", format!("mine {n}\n"));
                bench.pushed_there(&[(".beads/theirs.jsonl", &case), ("src/x.rs", &case)]);
                let told = bench.once_before_nth(words, *nth, &switch);
                let branch = bench
                    .try_git(here, &["symbolic-ref", "--short", "HEAD"])
                    .out;
                let log = &told.log;
                if branch != "main\n" {
                    let switched =
                        std::fs::read_to_string(bench.path().join("switched")).unwrap_or_default();
                    let head = bench.git(here, &["rev-parse", "HEAD"]);
                    assert_eq!(
                        head,
                        switched.trim(),
                        "harm, {case}: {branch} has moved\n{log}"
                    );
                    let status = ["status", "--porcelain", "-uno", "--", ":!.beads"];
                    assert_eq!(
                        bench.git(here, &status),
                        "",
                        "harm, {case}: changed on {branch}\n{log}"
                    );
                }
                assert_eq!(
                    bench.git(here, &["rev-parse", "feature"]),
                    feature,
                    "harm, {case}: moved\n{log}"
                );
                bench.shell("git switch -q main");
            }
            bench.syncs("back on main");
            bench.is_whole("back on main");
            let pushed = bench.git(bench.remote(), &["log", "--format=%s", "--all"]);
            assert!(!pushed.contains("feature"), "harm: pushed {pushed}");
            // What was begun on one branch is not finished on another.
            bench.pushed_there(&[("src/x.rs", "last\n")]);
            let (words, nth) = AFTER_THE_FILES;
            bench.once_before_nth(words, nth, KILL_ALL);
            assert_eq!(bench.read("src/x.rs"), "last\n", "{}", bench.log());
            // What the kill has left of the index's lock is in their way.
            bench.shell("rm .git/index.lock; git switch -q feature");
            bench.once();
            assert_eq!(
                bench.git(here, &["rev-parse", "feature"]),
                feature,
                "harm: finished on feature"
            );
            let status = ["status", "--porcelain", "-uno", "--", ":!.beads"];
            assert_eq!(
                bench.git(here, &status),
                "",
                "harm: changed on feature\n{}",
                bench.log()
            );
            bench.shell("git switch -q main");
            bench.syncs("back on main after a kill");
        },
    );
}

/// The commit stops anywhere: what a person commits by hand after that has nothing in it that they have not done.
#[test]
fn a_filter_that_fails_in_the_middle_of_a_commit() {
    let bench = Bench::new();
    let clean = "[ $(wc -l <../clean.called) -ne $(cat ../fails) ] && exec cat";
    let clean = bench.trap("clean", clean);
    bench.write(".git/info/attributes", ".beads/mine.jsonl filter=up\n");
    bench.shell(&format!(
        "git config filter.up.clean '{clean}'; git config filter.up.smudge cat; git config filter.up.required true"
    ));
    let mut failed = 0;
    for fails in 1..=9 {
        bench.shell(&format!("rm -f ../clean.called; echo {fails} >../fails"));
        bench.write(".beads/mine.jsonl", format!("{fails}\n"));
        let told = bench.once();
        failed += usize::from(told.code != 0);
        bench.shell("echo 0 >../fails; git commit -q --allow-empty -m 'by hand'");
        let committed = bench.git(
            bench.here(),
            &["diff-tree", "-r", "--name-only", "HEAD~1", "HEAD"],
        );
        assert_eq!(
            committed, "",
            "harm, {fails}: committed by hand\n{}",
            told.log
        );
    }
    // The last numbers are beyond the calls of a cycle, with those of the proof at its end.
    assert!(
        is_naive() || (1..9).contains(&failed),
        "{failed} of 9 have failed"
    );
    bench.syncs("the filter works");
}

/// A hook may add to the commit what is the database's: it is in the index too then, and nothing is left staged.
#[test]
fn a_hook_that_adds_to_the_commit() {
    let bench = Bench::new();
    let hook = |text: &str| script(&bench.here().join(".git/hooks/pre-commit"), text);
    hook("echo more >>.beads/extra.jsonl; git add .beads/extra.jsonl");
    bench.tempt();
    bench.syncs("adds in .beads");
    assert!(bench.remote_has(".beads/extra.jsonl"), "{}", bench.log());
    assert_eq!(
        bench.git(bench.here(), &["diff", "--cached", "--name-only"]),
        "",
        "{}",
        bench.log()
    );
    bench.write("src/generated.rs", "generated\n");
    hook("git add src/generated.rs");
    bench.write(".beads/mine.jsonl", "mine again\n");
    let refused =
        "the hook pre-commit has added src/generated.rs, which is not the agent's to commit";
    bench.refuses(refused, "adds outside");
    hook("");
    bench.syncs("without the hook");
}

/// A person's git has the index for a moment: the sync waits for it.
#[test]
fn an_index_lock_that_goes_away_is_waited_for() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let moment = ": >.git/index.lock; (sleep 0.3; rm .git/index.lock) >/dev/null 2>&1 &";
    for words in [
        "rev-parse",
        "ls-files",
        "commit-tree",
        "merge-tree",
        "checkout-index",
    ] {
        // git would refuse to make it while the sync has it.
        let moment = format!("[ -e .git/index.lock ] || {{ {moment} }}");
        bench.write(".beads/mine.jsonl", words);
        bench.pushed_there(&[(".beads/theirs.jsonl", words)]);
        let told = bench.once_before(words, &moment);
        told.ends_with(0, words);
        bench.is_synced(words);
    }
}

/// The branch cannot move: that is known before the working tree has.
#[test]
fn a_branch_that_cannot_move() {
    let refuse = "[ \"$1\" = prepared ] || exit 0; while read -r old new ref; do \
                  [ \"$ref\" != refs/heads/main ] || { echo not on my watch >&2; exit 1; }; done";
    const ROWS: &[(&str, &str, &str)] = &[
        (".git/HEAD.lock", "HEAD.lock", ""),
        (".git/refs/heads/main.lock", "main.lock", ""),
        (
            ".git/hooks/reference-transaction",
            "reference-transaction",
            "not on my watch",
        ),
    ];
    each(
        ROWS,
        |row| row.1.to_owned(),
        |(path, words, hook)| {
            let bench = Bench::new();
            if hook.is_empty() {
                bench.write(path, "");
            } else {
                script(&bench.here().join(path), refuse);
            }
            bench.pushed_there(&[
                (".beads/theirs.jsonl", "theirs\n"),
                ("src/x.rs", "theirs\n"),
            ]);
            let before = bench.snapshot();
            let told = bench.once();
            bench.untouched_since(&before, Allowed::Fetch, "a pull");
            told.ends_with(1, "a pull");
            let line = if hook.is_empty() {
                "has been there since"
            } else {
                "the branch main cannot move: "
            };
            told.says(line, "a pull");
            told.says(if hook.is_empty() { words } else { hook }, "which");
            bench.write(".beads/mine.jsonl", "mine\n");
            bench.refuses(line, "a commit");
            let staged = bench.git(bench.here(), &["diff", "--cached", "--name-only"]);
            assert!(
                is_naive() || staged.is_empty(),
                "harm: left staged: {staged}"
            );
            std::fs::remove_file(bench.here().join(path)).expect("remove it");
            bench.syncs("it can again");
        },
    );
}

/// `git commit` by hand reads the branch, then the index, and locks it only then. An index that is behind the branch
/// for a moment would be committed so, and take back what the agent has committed or pulled.
#[test]
fn the_index_is_never_behind_the_branch() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let hook = bench.here().join(".git/hooks/reference-transaction");
    let moved = "[ \"$1\" = committed ] && grep -q refs/heads/main$ || exit 0";
    let look =
        format!("{moved}; echo moved >>../moved; git diff --cached --name-only HEAD >>../behind");
    let theirs = [
        ("src/x.rs", "theirs\n"),
        (".beads/theirs.jsonl", "theirs\n"),
    ];
    each(
        &[
            ("a commit", 1),
            ("a pull", 1),
            ("a pull that was killed", 1),
        ],
        |row| row.0.to_owned(),
        |(case, moves)| {
            match *case {
                "a commit" => bench.write(".beads/mine.jsonl", "mine\n"),
                "a pull" => bench.pushed_there(&theirs),
                _ => {
                    bench.pushed_there(&theirs.map(|(path, _)| (path, "theirs again\n")));
                    let (words, nth) = AFTER_THE_FILES;
                    bench
                        .once_before_nth(words, nth, KILL_ALL)
                        .ends_with(1, case);
                }
            }
            script(&hook, &look);
            let told = bench.once();
            std::fs::remove_file(&hook).expect("remove the hook");
            let take = |name: &str| {
                let path = bench.path().join(name);
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let _ = std::fs::remove_file(&path);
                text
            };
            assert_eq!(
                take("moved").lines().count(),
                *moves,
                "{case}: {}",
                told.log
            );
            assert_eq!(
                take("behind"),
                "",
                "harm, {case}: the index is not where the branch is"
            );
            bench.is_synced(case);
        },
    );
}

/// A person commits, and pushes from this very clone while the sync is between two looks at the upstream. Nothing was
/// rewritten, so nothing of the kind is said.
#[test]
fn a_person_pushes_from_the_same_clone() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    for (n, words) in ["merge-base", "merge-base --fork-point", "fetch"]
        .into_iter()
        .enumerate()
    {
        bench.shell(&format!("echo {n} >>src/x.rs; git commit -qam mine"));
        bench.write(".beads/mine.jsonl", words);
        let told = bench.once_before(words, "git push -q");
        told.never_says("rewritten", words);
        told.never_says("Cannot reach", words);
        told.never_says("failed", words);
        bench.git(bench.here(), &["push", "--quiet"]);
        bench.syncs(words);
    }
}

/// A file that the pull brings is changed between the look at it and the move. The line is ours, and names the file
/// where it was seen in time.
#[test]
fn a_change_in_the_moment_of_a_pull_is_named() {
    let bench = Bench::new();
    for (words, line) in [
        (
            "diff-files",
            "Not pulling: src/x.rs changed while the pull looked",
        ),
        (
            "update-ref --stdin",
            "Not pulling: files were changed while the pull looked at them",
        ),
    ] {
        bench.pushed_there(&[("src/x.rs", words), (".beads/theirs.jsonl", words)]);
        let told = bench.once_before(words, "echo mine >>src/x.rs");
        told.says(line, words);
        told.never_says("uptodate", words);
        assert!(
            bench.read("src/x.rs").ends_with("mine\n"),
            "harm: overwritten\n{}",
            told.log
        );
        bench.shell("git checkout -q src/x.rs");
        bench.syncs("put back");
        bench.is_whole("put back");
    }
}

/// A person fetches the same while the sync's fetch is under way, so the tracking branch is not where that has seen it.
#[test]
fn a_person_fetches_in_the_middle_of_a_fetch() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let fetch = format!(
        "[ -e ../fetched ] || {{ : >../fetched; unset $(git rev-parse --local-env-vars); \
         git -C '{}' fetch -q; }}; exec \"$@\"",
        bench.here().display()
    );
    let hook = bench.trap(
        "pack",
        &fetch.replace("../", &format!("{}/", bench.path().display())),
    );
    bench.git(
        bench.path(),
        &["config", "--global", "uploadpack.packObjectsHook", &hook],
    );
    bench.pushed_there(&[(".beads/theirs.jsonl", "theirs\n")]);
    let _ = std::fs::remove_file(bench.path().join("fetched"));
    bench.syncs("fetched by both");
    assert!(
        bench.path().join("fetched").exists(),
        "nobody has fetched meanwhile: the test shows nothing"
    );
    assert_eq!(bench.read(".beads/theirs.jsonl"), "theirs\n");
}
