//! What is pushed is only what the daemon has made, and a remote that refuses is not hammered.

use std::fs;

use beadlock_tests::write_program;

use crate::bench::{Bench, each, is_naive, script, stops_when_naive};

/// Commits of a person, and how many of them change something outside `.beads`.
const COMMITS: &[(&str, usize, &str)] = &[
    ("one", 1, "echo 1 >>src/x.rs; git commit -qam mine"),
    (
        "two",
        2,
        "echo 1 >>src/x.rs; git commit -qam mine; echo 1 >>src/y.rs; git commit -qam more",
    ),
    (
        "one inside and one outside",
        1,
        "echo 1 >>.beads/i.jsonl; git add .; git commit -qm mine; echo 1 >>src/y.rs; git commit -qam more",
    ),
    (
        "both in one",
        1,
        "echo 1 >>.beads/i.jsonl; echo 1 >>src/x.rs; git add .; git commit -qm mine",
    ),
    (
        "taken back",
        2,
        "echo 1 >>src/x.rs; git commit -qam mine; git revert --no-edit HEAD",
    ),
    (
        "moved in",
        1,
        "git mv src/z.rs .beads/z.rs; git commit -qm mine",
    ),
    (
        "moved out",
        1,
        "git mv .beads/issues.jsonl issues.jsonl; git commit -qm mine",
    ),
    ("executable", 1, "chmod +x src/x.rs; git commit -qam mine"),
    (
        "a name like it",
        1,
        "mkdir .beads2; echo 1 >.beads2/i; git add .; git commit -qm mine",
    ),
    (
        "a branch merged",
        2,
        "git checkout -qb side; echo 1 >>src/x.rs; git commit -qam mine; git checkout -q main; git merge -q --no-ff -m merged side",
    ),
];

#[test]
fn commits_of_a_person_are_not_pushed() {
    each(
        COMMITS,
        |row| row.0.to_owned(),
        |(name, count, commits)| {
            let bench = Bench::new();
            bench.shell(commits);
            bench.write(".beads/mine.jsonl", "{\"id\":\"mine\"}\n");
            let remote = bench.git(bench.remote(), &["for-each-ref"]);
            let subjects = bench.subjects();
            let told = bench.once();
            assert_eq!(
                bench.git(bench.remote(), &["for-each-ref"]),
                remote,
                "harm: pushed\n{}",
                told.log
            );
            let are = match count {
                1 => "1 commit that is".to_owned(),
                count => format!("{count} commits that are"),
            };
            let line = format!("Not pushing: {are} not ours");
            told.says(&line, name);
            told.ends_with(1, name);
            bench.cycles(2).says_once(&line, name);
            assert_eq!(
                bench.git(bench.remote(), &["for-each-ref"]),
                remote,
                "harm: pushed later"
            );
            assert!(
                bench.subjects().ends_with(&subjects),
                "harm: {:?}",
                bench.subjects()
            );
            bench.git(bench.here(), &["push", "--quiet"]);
            bench.syncs("after the person has pushed");
        },
    );
}

/// A person's commits are rebased when others have pushed, and none is lost.
#[test]
fn commits_of_a_person_survive_a_pull() {
    each(
        COMMITS,
        |row| row.0.to_owned(),
        |(name, _, commits)| {
            let bench = Bench::new();
            bench.shell(commits);
            bench.tempt();
            let files = |bench: &Bench| {
                bench.git(
                    bench.here(),
                    &[
                        "ls-files",
                        "-s",
                        "--",
                        "src",
                        "README",
                        ".beads2",
                        "issues.jsonl",
                    ],
                )
            };
            let before = files(&bench);
            let subjects = bench.subjects();
            bench.cycles(2);
            assert_eq!(files(&bench), before, "harm: {name}");
            let after = bench.subjects();
            let lost: Vec<_> = subjects
                .iter()
                .filter(|subject| !after.contains(subject))
                .collect();
            assert!(
                lost.is_empty() || lost == ["merged"],
                "harm: lost {lost:?}\n{}",
                bench.log()
            );
            let is_pulled = after.contains(&"theirs".to_owned());
            assert!(
                is_naive() || is_pulled || bench.log().contains("is a merge"),
                "{}",
                bench.log()
            );
            assert!(!bench.remote_has("src/new.rs"));
        },
    );
}

/// By the rule: it changes nothing outside, so it goes along.
#[test]
fn an_empty_commit_changes_nothing_outside() {
    let bench = Bench::new();
    bench.shell("git commit -q --allow-empty -m 'start the build'; echo 1 >>.beads/issues.jsonl");
    bench.syncs("an empty commit");
    assert!(
        bench.subjects().contains(&"start the build".to_owned()),
        "harm: {:?}",
        bench.subjects()
    );
}

/// Somebody pushes in the moment between our fetch and our push, every time: fetched and tried again.
#[test]
fn somebody_was_faster() {
    let bench = Bench::new();
    let there = bench.there();
    bench.write(".beads/mine.jsonl", "{\"id\":\"mine\"}\n");
    fs::write(there.join(".beads/faster.jsonl"), "{}\n").expect("write");
    bench.git(&there, &["add", "."]);
    bench.git(&there, &["commit", "--quiet", "--message", "faster"]);
    let once = bench.path().join("pushed");
    let push = format!(
        "[ -e '{0}' ] && exit 0\n: >'{0}'\nunset $(git rev-parse --local-env-vars)\nexec git -C '{1}' push --quiet",
        once.display(),
        there.display()
    );
    script(&bench.here().join(".git/hooks/pre-push"), &push);
    let told = bench.once();
    if stops_when_naive() {
        return;
    }
    assert!(
        once.exists(),
        "nobody was faster: the test shows nothing\n{}",
        told.log
    );
    told.ends_with(0, "tried again");
    bench.is_synced("tried again");
    assert!(
        bench.remote_has(".beads/faster.jsonl") && bench.remote_has(".beads/mine.jsonl"),
        "{}",
        told.log
    );
}

/// Another push of the branch is under way at the remote, which has it locked meanwhile: waited for, and no refusal.
#[test]
fn another_push_has_the_branch_locked() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    bench.write(".beads/mine.jsonl", "{\"id\":\"mine\"}\n");
    let lock = bench.remote().join("refs/heads/main.lock");
    fs::write(&lock, "").expect("lock");
    // The first push finds it locked, and so does the second.
    let told = bench.once_before_nth("push", 3, "rm ../remote.git/refs/heads/main.lock");
    told.ends_with(0, "waited");
    assert!(!told.log.contains("refused"), "{}", told.log);
    bench.is_synced("waited");

    // It stays locked, as after a kill of git there: that is a refusal.
    bench.write(
        ".beads/mine.jsonl",
        "{\"id\":\"mine\"}\n{\"id\":\"more\"}\n",
    );
    fs::write(&lock, "").expect("lock");
    let told = bench.once();
    told.says("[remote rejected] (failed to update ref)", "locked");
    fs::remove_file(&lock).expect("unlock");
    bench.syncs("unlocked");
}

/// A remote that always refuses: said, with its words; our side is whole; not asked in every cycle.
#[test]
fn a_remote_that_refuses() {
    let bench = Bench::new();
    let refuse = bench.trap("refuse", "echo 'no pushes on a Friday' >&2; exit 1");
    let refuse = fs::File::open(refuse).expect("open the script");
    write_program(&bench.remote().join("hooks/pre-receive"), refuse);
    bench.tempt_refused();
    let remote = bench.git(bench.remote(), &["for-each-ref"]);
    let told = bench.once();
    told.says("no pushes on a Friday", "the remote's words");
    told.says("refused", "what it was");
    told.ends_with(1, "refused");
    let once = bench.called("refuse");
    assert!((1..=3).contains(&once), "asked {once} times in a cycle");
    let head = bench.git(bench.here(), &["rev-parse", "HEAD"]);
    bench.cycles(12);
    let asked = bench.called("refuse") - once;
    assert!(
        is_naive() || asked <= 6,
        "asked {asked} times in 12 cycles of 20 ms: that is hammering\n{}",
        bench.log()
    );
    assert_eq!(bench.git(bench.remote(), &["for-each-ref"]), remote);
    assert_eq!(
        bench.git(bench.here(), &["rev-parse", "HEAD"]),
        head,
        "nothing new to commit"
    );
    assert_eq!(
        bench.git(
            bench.here(),
            &["status", "--porcelain", "--", "src", ".beads/mine.jsonl"]
        ),
        ""
    );
    fs::remove_file(bench.remote().join("hooks/pre-receive")).expect("remove the hook");
    bench.syncs("the remote takes it again");
}

impl Bench {
    /// Something to commit and to push.
    fn tempt_refused(&self) {
        self.write(".beads/mine.jsonl", "{\"id\":\"mine\"}\n");
    }
}

/// Only the branch, only to where it comes from: no tags, no other branches, nothing forced.
#[test]
fn nothing_else_is_pushed() {
    let bench = Bench::new();
    bench.shell("git branch other; git tag -a -m t v1");
    bench.git(bench.here(), &["push", "--quiet", "origin", "other"]);
    bench.shell("git config push.followTags true; git config push.default matching; git checkout -q other; echo 1 >>src/x.rs; git commit -qam on-other; git checkout -q main");
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.syncs("beside other refs");
    let refs = bench.git(
        bench.remote(),
        &["for-each-ref", "--format=%(refname) %(contents:subject)"],
    );
    assert_eq!(
        refs.lines()
            .filter(|line| line.contains("on-other") || line.contains("tags"))
            .count(),
        0,
        "harm: {refs}"
    );
}

/// The remote's history was rewritten. What we have is not pushed over it, and nothing here is lost.
#[test]
fn a_remote_that_was_rewritten() {
    let bench = Bench::new();
    bench.git(
        bench.there(),
        &["commit", "--quiet", "--amend", "--message", "rewritten"],
    );
    bench.git(bench.there(), &["push", "--quiet", "--force"]);
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.cycles(2);
    assert!(
        bench
            .git(bench.remote(), &["log", "--format=%s", "main"])
            .contains("rewritten"),
        "harm: overwritten"
    );
    assert_eq!(bench.read(".beads/mine.jsonl"), "{}\n");
}
