//! Repositories of another kind: with submodules, with refs in tables, with a working tree elsewhere, behind ssh.

use std::fs;

use beadlock_tests::skip;

use crate::bench::{Bench, is_naive};

/// Upstream has another commit of a submodule. That the files here are still those of the old one hinders nothing.
#[test]
fn a_submodule_that_upstream_has_moved() {
    let bench = Bench::new();
    bench.git(
        bench.path(),
        &["clone", "--quiet", "remote.git", "here/lib"],
    );
    bench.shell("git add lib 2>/dev/null; git commit -qm lib; git push -q; git -C lib commit -q --allow-empty -m more");
    let moved = bench.git(bench.here().join("lib"), &["rev-parse", "HEAD"]);
    bench.git(bench.here().join("lib"), &["checkout", "--quiet", "HEAD~1"]);
    bench.git(bench.there(), &["pull", "--quiet"]);
    bench.git(
        bench.there(),
        &[
            "update-index",
            "--cacheinfo",
            &format!("160000,{moved},lib"),
        ],
    );
    bench.pushed_there(&[("src/x.rs", "theirs\n")]);
    bench.syncs("moved");
    assert_eq!(bench.git(bench.here(), &["rev-parse", "HEAD:lib"]), moved);
    bench.tempt();
    bench.syncs("later");
    assert!(
        is_naive() || bench.read(".beads/theirs.jsonl").contains("theirs"),
        "{}",
        bench.log()
    );
}

/// Refs in tables: what is in progress is not a file then.
#[test]
fn a_cherry_pick_in_a_repository_with_tables() {
    let bench = Bench::new();
    fs::remove_dir_all(bench.here()).expect("make room");
    let clone = [
        "clone",
        "--quiet",
        "--ref-format=reftable",
        "remote.git",
        "here",
    ];
    if bench.try_git(bench.path(), &clone).code != 0 {
        return skip::cannot("this git has no reftable");
    }
    bench.shell(
        "git switch -qc side; echo side >src/x.rs; git commit -qam side; git switch -q main; \
                 echo main >src/x.rs; git commit -qam main; git push -q; git cherry-pick side",
    );
    assert!(
        !bench.here().join(".git/CHERRY_PICK_HEAD").exists(),
        "not in tables"
    );
    // Without the conflict nothing but this one ref tells of it.
    bench.shell("echo both >src/x.rs; git add src/x.rs");
    bench.tempt();
    bench.refuses("a cherry-pick is in progress in ", "in tables");
    bench.shell("git cherry-pick --abort");
    bench.syncs("when it is over");
}

/// The working tree is where git is told, and there is nothing that leads from it to the repository.
#[test]
fn a_working_tree_elsewhere() {
    let bench = Bench::new();
    bench.shell("git config core.worktree ../..");
    bench.write(".beads/mine.jsonl", "{}\n");
    let told = bench.once();
    told.ends_with(1, "elsewhere");
    told.says(
        "is a working tree without .git (core.worktree)",
        "elsewhere",
    );
    bench.shell("git config core.worktree ..");
    bench.syncs("the usual place");
}

/// A program of the user's in the place of ssh is called as git calls it.
#[test]
fn a_program_in_the_place_of_ssh() {
    let mut bench = Bench::new();
    let ssh = bench.trap("our-ssh", "exit 255");
    bench.shell("git remote set-url origin ssh://example.org/x.git");
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.environment.push(("GIT_SSH".to_owned(), ssh));
    bench.once().says("Cannot reach origin", "our ssh");
    let called = fs::read_to_string(bench.path().join("our-ssh.called")).unwrap_or_default();
    assert!(called.contains("example.org"), "{called}\n{}", bench.log());
    assert!(!called.contains("BatchMode"), "{called}");
}
