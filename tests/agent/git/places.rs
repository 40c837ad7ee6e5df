//! Where a database may be: on which HEAD, in which kind of repository, or in none.

use std::fs;

use beadlock_tests::Ended;
use beadlock_tests::run;

use crate::bench::{Bench, each, is_naive, stops_when_naive, write};
use crate::snapshot::Allowed;

#[test]
fn a_detached_head_is_left_alone() {
    let bench = Bench::new();
    bench.git(bench.here(), &["checkout", "--quiet", "--detach"]);
    bench.tempt();
    bench.refuses("HEAD is detached", "detached");
    bench.git(bench.here(), &["checkout", "--quiet", "main"]);
    bench.syncs("on a branch again");
}

#[test]
fn a_branch_without_a_commit_is_left_alone() {
    let bench = Bench::new();
    bench.git(bench.here(), &["checkout", "--quiet", "--orphan", "fresh"]);
    bench.tempt();
    bench.refuses("the branch fresh in ", "unborn");
    let bench = Bench::without_repository("here");
    bench.git(bench.here(), &["init", "--quiet"]);
    bench.write(".beads/issues.jsonl", "{}\n");
    bench.refuses("has no commit yet", "a new repository");
}

/// Neither a remote nor an upstream: commits, and says so once.
#[test]
fn without_an_upstream_it_only_commits() {
    const ROWS: &[(&str, &str, &str)] = &[
        (
            "no upstream",
            "git branch --unset-upstream",
            "Only committing: the branch main has no upstream",
        ),
        (
            "another branch",
            "git checkout -qb mine",
            "Only committing: the branch mine has no upstream",
        ),
        (
            "no remote",
            "git remote remove origin",
            "Only committing: there is no remote",
        ),
    ];
    each(
        ROWS,
        |row| row.0.to_owned(),
        |(name, script, line)| {
            let bench = Bench::new();
            bench.shell(script);
            bench.tempt();
            let remote = bench.git(bench.remote(), &["for-each-ref"]);
            bench.notes(line, 0, Allowed::Sync, name);
            assert_eq!(
                bench.git(bench.remote(), &["for-each-ref"]),
                remote,
                "harm: pushed"
            );
            assert!(
                !bench.here().join(".beads/theirs.jsonl").exists(),
                "harm: pulled"
            );
            assert_eq!(
                bench.git(bench.here(), &["show", "--format=", "--name-only", "HEAD"]),
                ".beads/mine.jsonl"
            );
        },
    );
}

/// The upstream's branch was deleted, or is named and is not there.
#[test]
fn an_upstream_that_is_gone() {
    let bench = Bench::new();
    bench.shell("git checkout -qb mine; git push -qu origin mine; git push -q origin :mine");
    bench.write(".beads/mine.jsonl", "{}\n");
    let before = bench.snapshot();
    bench.cycles(3);
    bench.untouched_since(&before, Allowed::Sync, "upstream gone");
    assert!(
        !bench.remote_has(".beads/mine.jsonl"),
        "harm: pushed to another branch"
    );
    assert!(
        bench
            .git(bench.here(), &["show", "--format=", "--name-only", "HEAD"])
            .contains(".beads/mine.jsonl")
    );
}

/// The branch comes from one of another name: `git push` refuses that, unless it is told to push there. Or it comes from
/// a branch of this repository.
#[test]
fn an_upstream_of_another_name() {
    for (script, is_pushed) in [(":", false), ("git config push.default upstream", true)] {
        let bench = Bench::new();
        bench.shell("git checkout -qb mine; git branch -q --set-upstream-to origin/main");
        bench.shell(script);
        bench.tempt();
        let told = bench.once();
        if is_naive() {
            continue;
        }
        told.ends_with(i32::from(!is_pushed), "another name");
        assert_eq!(
            bench.git(bench.remote(), &["for-each-ref", "--format=%(refname)"]),
            "refs/heads/main",
            "harm"
        );
        assert_eq!(
            bench.remote_has(".beads/mine.jsonl"),
            is_pushed,
            "{}",
            told.log
        );
        if !is_pushed {
            told.says(
                "Not pushing: git push refuses: its upstream is main at origin",
                "why",
            );
        }
    }
    let bench = Bench::new();
    bench.shell("git checkout -qb mine; git branch -q --set-upstream-to main");
    bench.write(".beads/mine.jsonl", "{}\n");
    let main = bench.git(bench.here(), &["rev-parse", "main"]);
    bench.cycles(2);
    assert_eq!(
        bench.git(bench.here(), &["rev-parse", "main"]),
        main,
        "harm: pushed into a local branch"
    );
}

#[test]
fn a_linked_worktree_needs_to_be_allowed() {
    let mut bench = Bench::named("tree");
    // The bench's clone steps aside for a worktree of it, at the same place.
    fs::rename(bench.here(), bench.path().join("main")).expect("move the clone");
    let main = bench.path().join("main");
    let tree = bench.here().to_string_lossy().into_owned();
    bench.git(&main, &["worktree", "add", "--quiet", "-b", "side", &tree]);
    bench.git(
        bench.here(),
        &["push", "--quiet", "--set-upstream", "origin", "side"],
    );
    bench.write(".beads/mine.jsonl", "{}\n");
    let git = main.join(".git");
    let snapshot = |bench: &Bench| {
        crate::snapshot::Snapshot::take(&git, String::new(), bench.snapshot().remote)
    };
    let before = snapshot(&bench);
    bench.refuses("is a linked worktree", "not allowed");
    let differences = before.differences(&snapshot(&bench), Allowed::Nothing);
    assert!(
        differences.iter().all(|path| path.contains("objects/")),
        "harm: {differences:?}"
    );
    bench.once().says("--allow-worktree", "what to do");
    bench.options.push("--allow-worktree".to_owned());
    let before = bench.git(&main, &["status", "--porcelain"]);
    let told = bench.once();
    if stops_when_naive() {
        return;
    }
    told.ends_with(0, "allowed");
    assert!(
        bench
            .try_git(
                bench.remote(),
                &["cat-file", "-e", "side:.beads/mine.jsonl"]
            )
            .code
            == 0,
        "{}",
        told.log
    );
    assert_eq!(
        bench.git(&main, &["status", "--porcelain"]),
        before,
        "harm: the other working tree"
    );
}

/// No repository: nothing to do, said once.
#[test]
fn outside_of_any_repository() {
    let bench = Bench::without_repository("here");
    bench.write(".beads/issues.jsonl", "{}\n");
    bench.notes("Nothing to sync", 1, Allowed::Nothing, "no repository");
    bench
        .once()
        .says("is in no git repository", "no repository");
}

#[test]
fn inside_a_bare_repository() {
    let bench = Bench::without_repository("here");
    bench.git(bench.here(), &["init", "--quiet", "--bare", "."]);
    bench.write(".beads/issues.jsonl", "{}\n");
    let before = bench.snapshot();
    let told = bench.once();
    bench.untouched_since(&before, Allowed::Nothing, "bare");
    assert!(
        is_naive() || told.log.contains("Nothing to sync") || told.log.contains("bare"),
        "{}",
        told.log
    );
    // Inside the .git of one that is not bare.
    let bench = Bench::new();
    write(&bench.here().join(".git/.beads/issues.jsonl"), "{}\n");
    let before = bench.snapshot();
    let mut agent = bench
        .scene()
        .agent(&["--once", "--action", "git", "--log-file"]);
    agent
        .arg(bench.path().join("log"))
        .arg("--db")
        .arg(bench.here().join(".git/.beads"));
    run(agent);
    bench.untouched_since(&before, Allowed::Nothing, "inside .git");
}

/// The database is where the redirect points, and so is the repository; the one it points from does not matter.
#[test]
fn a_redirect_into_another_repository() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let elsewhere = bench.path().join("elsewhere");
    write(&elsewhere.join(".beads/redirect"), "../here/.beads\n");
    write(&elsewhere.join("file"), "theirs\n");
    bench.git(&elsewhere, &["init", "--quiet"]);
    bench.git(&elsewhere, &["add", "file"]);
    bench.git(&elsewhere, &["commit", "--quiet", "--message", "first"]);
    write(&elsewhere.join(".beads/other"), "uncommitted\n");
    let snapshot = || crate::snapshot::Snapshot::take(&elsewhere, String::new(), String::new());
    let before = snapshot();
    bench.tempt();
    let mut agent = bench.scene().agent(&["--once", "--action", "git", "--db"]);
    agent.arg(elsewhere.join(".beads"));
    let ended = Ended::from(run(agent));
    assert_eq!(ended.code, 0, "{ended:?}\n{}", bench.log());
    let differences = before.differences(&snapshot(), Allowed::Nothing);
    assert!(differences.is_empty(), "harm: {differences:?}");
    bench.is_synced("redirected");
    assert!(bench.remote_has(".beads/mine.jsonl"));
}

/// `.beads` is a repository of its own: neither that one nor the one around it is synced, and what to do is said.
#[test]
fn a_repository_of_its_own() {
    let bench = Bench::new();
    let beads = bench.here().join(".beads");
    bench.git(bench.here(), &["rm", "--quiet", "--cached", "-r", ".beads"]);
    bench.shell("echo .beads >.gitignore; git add .gitignore; git commit -qm own; git push -q");
    bench.git(&beads, &["init", "--quiet"]);
    bench.git(&beads, &["add", "issues.jsonl"]);
    bench.git(&beads, &["commit", "--quiet", "--message", "first"]);
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.write("src/x.rs", "uncommitted\n");
    let before = bench.snapshot();
    let told = bench.once();
    bench.untouched_since(&before, Allowed::Nothing, "a repository of its own");
    told.ends_with(1, "a repository of its own");
    told.says(
        "/.beads has a git repository of its own (.git), which is never used",
        "of its own",
    );
    if stops_when_naive() {
        return;
    }
    assert_eq!(bench.shell(told.command("mv ")).code, 0, "{}", told.log);
    bench.once().ends_with(0, "moved away");
    assert!(
        !bench.git(bench.here(), &["ls-files"]).contains(".beads"),
        "what is ignored is not committed"
    );
}

/// A user that ignores `.beads` does not want it committed.
#[test]
fn an_ignored_database_is_not_forced_in() {
    let bench = Bench::new();
    bench.git(bench.here(), &["rm", "--quiet", "-r", "--cached", ".beads"]);
    bench.shell("echo .beads >.gitignore; git add .gitignore; git commit -qm ignored; git push -q");
    bench.write(".beads/mine.jsonl", "{}\n");
    let before = bench.snapshot();
    let told = bench.once();
    bench.cycles(2);
    bench.untouched_since(&before, Allowed::Fetch, "ignored");
    told.ends_with(0, "ignored");
}

/// A submodule beside `.beads`, with changes of a person in it.
#[test]
fn a_submodule_is_left_alone() {
    let bench = Bench::new();
    submodule(&bench, "libs");
    write(&bench.here().join("libs/README"), "changed\n");
    bench.tempt();
    let inside = || {
        crate::snapshot::Snapshot::take(&bench.here().join("libs"), String::new(), String::new())
    };
    let before = inside();
    bench.cycles(2);
    let differences = before.differences(&inside(), Allowed::Nothing);
    assert!(differences.is_empty(), "harm: {differences:?}");
    assert!(
        bench
            .git(
                bench.here(),
                &["log", "--format=", "--name-only", "origin/main..HEAD"]
            )
            .lines()
            .all(|path| path.starts_with(".beads")),
        "harm"
    );
    assert!(
        is_naive()
            || bench
                .git(
                    bench.here(),
                    &["status", "--porcelain", "--", ".beads/mine.jsonl"]
                )
                .is_empty(),
        "{}",
        bench.log()
    );
    // A commit in it that the outer repository does not have yet.
    bench.git(
        bench.here().join("libs"),
        &["checkout", "--quiet", "-b", "mine"],
    );
    bench.git(
        bench.here().join("libs"),
        &["commit", "--quiet", "--all", "--message", "mine"],
    );
    let head = bench.git(bench.here().join("libs"), &["rev-parse", "HEAD"]);
    bench.cycles(2);
    assert_eq!(
        bench.git(bench.here().join("libs"), &["rev-parse", "HEAD"]),
        head,
        "harm: the submodule moved"
    );
}

/// The database in a submodule: the submodule's repository is synced, the outer one is not.
#[test]
fn inside_a_submodule() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    submodule(&bench, "sub");
    let outer = bench.git(bench.here(), &["rev-parse", "HEAD"]);
    let sub = bench.here().join("sub");
    bench.git(&sub, &["checkout", "--quiet", "main"]);
    write(&sub.join(".beads/issues.jsonl"), "{}\n");
    let mut agent = bench.scene().agent(&["--once", "--action", "git", "--db"]);
    agent.arg(sub.join(".beads"));
    let ended = Ended::from(run(agent));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(
        bench.git(bench.here(), &["rev-parse", "HEAD"]),
        outer,
        "harm: the outer repository"
    );
    assert_eq!(
        bench.git(bench.here(), &["diff", "--cached", "--name-only"]),
        "",
        "harm: the outer index"
    );
    let library = bench.path().join("library.git");
    assert_eq!(
        bench.git(library, &["ls-tree", "-r", "--name-only", "main", ".beads"]),
        ".beads/issues.jsonl"
    );
}

fn submodule(bench: &Bench, name: &str) {
    let library = bench
        .path()
        .join("library.git")
        .to_string_lossy()
        .into_owned();
    bench.git(
        bench.path(),
        &["clone", "--quiet", "--bare", "remote.git", "library.git"],
    );
    let drop = "git rm -qr .beads; git commit -qm library; git push -q";
    bench.git(bench.path(), &["clone", "--quiet", &library, "library"]);
    let mut shell = bench.scene().shell(drop);
    shell.current_dir(bench.path().join("library"));
    assert!(run(shell).status.success());
    bench.git(
        bench.here(),
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            &library,
            name,
        ],
    );
    bench.git(
        bench.here(),
        &["commit", "--quiet", "--message", "submodule"],
    );
    bench.git(bench.here(), &["push", "--quiet"]);
}

/// Two databases in one repository: both are synced, and a claim on one is not pulled over.
#[test]
fn two_databases_in_one_repository() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    bench.write("b/.beads/issues.jsonl", "ours\n");
    bench.shell("git add b; git commit -qm second; git push -q");
    bench.write(".beads/one.jsonl", "{}\n");
    bench.write("b/.beads/two.jsonl", "two\n");
    bench.pushed_there(&[("src/x.rs", "theirs\n")]);
    let agent = |args: &[&str]| {
        let mut agent = bench.scene().agent(args);
        agent
            .args(["--action", "git", "--db"])
            .arg(bench.here().join(".beads"));
        agent.arg("--db").arg(bench.here().join("b/.beads"));
        agent
    };
    for _ in 0..3 {
        run(agent(&["--once"]));
    }
    let logs = || {
        bench.log()
            + &fs::read_to_string(bench.here().join("b/.beads/daemon.log")).unwrap_or_default()
    };
    assert!(
        bench.remote_has(".beads/one.jsonl"),
        "the first is not pushed\n{}",
        logs()
    );
    assert!(
        bench.remote_has("b/.beads/two.jsonl"),
        "the second is not pushed\n{}",
        logs()
    );
    assert_eq!(bench.read("src/x.rs"), "theirs\n", "not pulled\n{}", logs());

    // Claimed: what upstream has for it does not come in by the other one's pull.
    let record = beadlock_tests::lock_text(
        "alive",
        std::process::id().into(),
        &beadlock_tests::this_host(),
    );
    bench.write("b/.beads/.exclusive-lock", &record);
    bench.write(".beads/one.jsonl", "{}\n{}\n");
    bench.write("b/.beads/two.jsonl", "half-way\n");
    bench.pushed_there(&[("b/.beads/issues.jsonl", "theirs\n")]);
    for _ in 0..2 {
        run(agent(&["--once"]));
    }
    assert_eq!(
        bench.read("b/.beads/issues.jsonl"),
        "ours\n",
        "harm: pulled over a claim\n{}",
        logs()
    );
    assert_eq!(bench.read("b/.beads/two.jsonl"), "half-way\n", "harm");
    assert!(
        !bench
            .git(bench.here(), &["log", "-p", "--format="])
            .contains("half-way"),
        "harm: committed under a claim"
    );
    fs::remove_file(bench.here().join("b/.beads/.exclusive-lock")).expect("release");
    for _ in 0..3 {
        run(agent(&["--once"]));
    }
    assert_eq!(
        bench.read("b/.beads/issues.jsonl"),
        "theirs\n",
        "not pulled after the claim\n{}",
        logs()
    );
    assert!(
        bench
            .git(bench.remote(), &["show", "main:b/.beads/two.jsonl"])
            .contains("half-way"),
        "{}",
        logs()
    );
}
