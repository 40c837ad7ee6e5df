//! A `.beads/redirect` that git tracks leads where those who may push want it to lead: it is never followed, never
//! committed and never pulled.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use beadlock_tests::{Ended, run};

use crate::bench::{Bench, each, script, stops_when_naive, write};
use crate::snapshot::Allowed;

/// A repository that others have no access to, with something in it that is in no commit. Its own remote is there, too.
fn private(bench: &Bench) -> PathBuf {
    let dir = bench.path().join("private");
    write(&dir.join(".beads/issues.jsonl"), "{}\n");
    bench.git(bench.path(), &["init", "--quiet", "--bare", "private.git"]);
    bench.git(&dir, &["init", "--quiet"]);
    bench.git(&dir, &["add", "."]);
    bench.git(&dir, &["commit", "--quiet", "--message", "first"]);
    bench.git(&dir, &["remote", "add", "origin", "../private.git"]);
    bench.git(
        &dir,
        &["push", "--quiet", "--set-upstream", "origin", "main"],
    );
    write(&dir.join(".beads/secret"), "not to be committed\n");
    dir
}

#[track_caller]
fn is_untouched(bench: &Bench, case: &str) {
    let status = bench.git(bench.path().join("private"), &["status", "--porcelain"]);
    assert_eq!(
        status, "?? .beads/secret",
        "harm, {case}: the private directory was synced"
    );
    let pushed = bench.git(
        bench.path().join("private.git"),
        &["ls-tree", "-r", "--name-only", "main"],
    );
    assert_eq!(
        pushed, ".beads/issues.jsonl",
        "harm, {case}: the secret was pushed"
    );
}

/// An agent below `here`, once; its exit code and everything that it says, in its logs too.
fn below_root(bench: &Bench, options: &[&str]) -> Ended {
    let mut agent = bench
        .scene()
        .agent(&["--once", "--action", "git", "--root"]);
    let log = bench.path().join("log");
    let _ = fs::write(&log, "");
    agent
        .arg(bench.here())
        .arg("--log-file")
        .arg(&log)
        .args(options);
    let mut ended = Ended::from(run(agent));
    ended
        .err
        .push_str(&fs::read_to_string(log).unwrap_or_default());
    ended
}

fn line(bench: &Bench, above: &str) -> String {
    let above = fs::canonicalize(bench.here().join(above)).expect("the directory above");
    format!(
        "{0}/.beads/redirect is tracked by git, so everybody who may push decides where it leads; type: git -C {0} rm \
         --cached -- .beads/redirect",
        above.display()
    )
}

/// The attack as it was found: somebody pushes one, and it comes in by a pull of the agent's.
#[test]
fn a_redirect_is_not_pulled() {
    let bench = Bench::new();
    private(&bench);
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.pushed_there(&[
        (".beads/redirect", "../private/.beads\n"),
        ("x/.beads/redirect", "../../private/.beads\n"),
    ]);
    for _ in 0..2 {
        let ended = below_root(&bench, &[]);
        is_untouched(&bench, "pulled");
        assert!(
            !bench.here().join(".beads/redirect").exists(),
            "harm: it was pulled"
        );
        assert!(
            !bench.here().join("x").exists(),
            "harm: the one of another database was pulled"
        );
        assert_eq!(ended.code, 1, "{ended:?}");
        let words = "origin/main has .beads/redirect, x/.beads/redirect";
        assert!(ended.err.contains(words), "{}", ended.err);
        let command = "type: git rm --cached -- .beads/redirect x/.beads/redirect";
        assert!(ended.err.contains(command), "{}", ended.err);
    }
    bench.pushed_there(&[(".beads/redirect", ""), ("x/.beads/redirect", "")]);
    bench.syncs("when it is gone again");
}

/// One that came in another way, by a pull of the user's own: not served, and what to type is said.
#[test]
fn a_tracked_redirect_is_not_followed_by_an_agent() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    private(&bench);
    write(&bench.here().join("pkg/.beads/issues.jsonl"), "{}\n");
    write(
        &bench.here().join("pkg/.beads/redirect"),
        bench
            .path()
            .join("private/.beads")
            .to_string_lossy()
            .as_bytes(),
    );
    bench.shell("git add -f pkg; git commit -qm redirect; git push -q");
    let line = line(&bench, "pkg");
    let ended = below_root(&bench, &[]);
    is_untouched(&bench, "--root");
    assert!(
        ended.err.contains(&format!("/pkg/.beads: {line}")),
        "{}",
        ended.err
    );
    // Named it is an error at the start.
    let named = || {
        let mut agent = bench.scene().agent(&["--once", "--action", "git", "--db"]);
        agent.arg(bench.here().join("pkg/.beads"));
        Ended::from(run(agent))
    };
    let ended = named();
    is_untouched(&bench, "--db");
    assert_eq!(
        (ended.code, ended.err.trim_end().ends_with(&line)),
        (1, true),
        "{ended:?}"
    );
    // What it says to type makes it the user's own, and that is followed.
    let command = line.split_once("type: ").expect("what to type").1;
    assert_eq!(bench.shell(command).code, 0);
    bench.git(bench.here(), &["commit", "--quiet", "--message", "mended"]);
    fs::remove_file(bench.path().join("private/.beads/secret")).expect("no secret any more");
    assert_eq!(named().code, 0);
    let ended = below_root(&bench, &[]);
    assert!(!ended.err.contains("is tracked by git"), "{}", ended.err);
}

/// While the agent runs, somebody makes git track what it follows, and takes that back.
#[test]
fn an_agent_below_a_root_serves_it_again_when_it_is_mended() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let elsewhere = bench.path().join("elsewhere/.beads");
    write(&elsewhere.join("issues.jsonl"), "{}\n");
    bench.write(
        "pkg/.beads/redirect",
        elsewhere.to_string_lossy().as_bytes(),
    );
    bench.git(bench.here(), &["add", "--force", "pkg"]);
    let mut agent = bench
        .scene()
        .agent(&["--action", "none", "--interval", "50ms", "--root"]);
    let log = bench.path().join("log");
    agent.arg(bench.here()).arg("--log-file").arg(&log);
    let agent = beadlock_tests::Running::start(agent);
    let read = || fs::read_to_string(&log).unwrap_or_default();
    beadlock_tests::wait_until(beadlock_tests::wait::PATIENCE, "the line", || {
        read().contains("is tracked by git")
    });
    assert!(
        !read().contains("elsewhere/.beads: Sync cycle"),
        "harm: served\n{}",
        read()
    );
    bench.git(
        bench.here(),
        &["rm", "--quiet", "--cached", "pkg/.beads/redirect"],
    );
    // The agent looks below its roots again when something changes there.
    bench.write("pkg/.beads/x", "x");
    beadlock_tests::wait_until(beadlock_tests::wait::PATIENCE, "a cycle of it", || {
        read().contains("elsewhere/.beads: Sync cycle complete")
    });
    agent.signal(nix::sys::signal::Signal::SIGTERM);
    agent.finish(beadlock_tests::wait::PATIENCE);
}

/// Every command that would take the other directory for this one refuses, with the same line; `status` warns.
#[test]
fn a_tracked_redirect_is_refused_by_the_commands() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let elsewhere = bench.path().join("elsewhere/.beads");
    write(&elsewhere.join("issues.jsonl"), "{}\n");
    bench.write(".beads/redirect", "../elsewhere/.beads\n");
    let run_here = |args: &[&str]| {
        let mut command = bench.scene().beadlock(args);
        command.current_dir(bench.here());
        Ended::from(run(command))
    };
    let commands: &[&[&str]] = &[
        &["hold", "--", "true"],
        &["hold", ".beads", "--", "true"],
        &["acquire", "--no-wait"],
        &["cycle", "--", "true"],
        &["check"],
        &["check", ".beads"],
        &["wait"],
    ];
    let held = || elsewhere.join(".exclusive-lock").exists();
    for args in commands {
        let ended = run_here(args);
        assert_eq!(
            ended.code, 0,
            "untracked, it is the user's own: {args:?}: {ended:?}"
        );
        let _ = fs::remove_file(elsewhere.join(".exclusive-lock"));
    }
    bench.git(bench.here(), &["add", "--force", ".beads/redirect"]);
    let line = line(&bench, ".");
    each(
        commands,
        |args| args.join(" "),
        |args| {
            let ended = run_here(args);
            assert_eq!(ended.code, 1, "{ended:?}");
            assert!(ended.err.trim_end().ends_with(&line), "{line}\n{ended:?}");
            assert!(!held(), "harm: claimed elsewhere");
        },
    );
    let status = run_here(&["status"]);
    assert!(status.err.contains(&line) && status.code == 0, "{status:?}");
    let (_, json) = bench
        .scene()
        .json(&["check", &bench.here().join(".beads").to_string_lossy()]);
    assert!(json.to_string().contains("is tracked by git"), "{json}");
    // In another git directory, or in none, as the environment has it: it does not matter.
    let mut misled = bench.scene().beadlock(&["check"]);
    misled
        .current_dir(bench.here())
        .env("GIT_DIR", bench.remote())
        .env("GIT_INDEX_FILE", "/nowhere");
    misled.env("GIT_CEILING_DIRECTORIES", bench.here());
    let ended = Ended::from(run(misled));
    assert!(ended.code == 1 && ended.err.contains(&line), "{ended:?}");
}

/// What tells where the repository is must not hide that it tracks the redirect; and what does not answer is not a no.
#[test]
fn a_git_that_does_not_say_no_opens_nothing() {
    if stops_when_naive() {
        return;
    }
    const ROWS: &[(&str, &str, &str)] = &[
        (
            "a repository inside .beads",
            "cd .beads; echo ref: refs/heads/main >HEAD; mkdir objects refs; \
            printf '[core]\\nrepositoryformatversion=0\\nbare=true\\n' >config; git -C .. add -f .beads/redirect",
            "is tracked by git",
        ),
        (
            ".beads is a clone of its own",
            "cd .beads; git init -q; git add -f redirect",
            "is tracked by git",
        ),
        (
            "no repository works there",
            "mkdir .beads/.git; echo x >.beads/.git/HEAD; echo '[x' >.git/config",
            "does not say whether it tracks it",
        ),
        (
            "its .git leads nowhere",
            "rm -r .git; echo 'gitdir: /nowhere' >.git",
            "does not say whether it tracks it",
        ),
        (
            "another user's",
            "git add -f .beads/redirect; chown 54321 .git; chown 54321 .",
            "does not say whether it tracks it",
        ),
    ];
    each(
        ROWS,
        |row| row.0.to_owned(),
        |(name, how, line)| {
            if *name == "another user's" && !beadlock_tests::skip::root() {
                return;
            }
            let bench = Bench::new();
            let elsewhere = bench.path().join("elsewhere/.beads");
            write(&elsewhere.join("issues.jsonl"), "{}\n");
            bench.write(".beads/redirect", "../elsewhere/.beads\n");
            bench.shell(how);
            let mut command = bench.scene().beadlock(&["hold", "--", "touch", "ran"]);
            command.current_dir(bench.here());
            let ended = Ended::from(run(command));
            assert!(
                !bench.here().join("ran").exists(),
                "harm, {name}: claimed elsewhere"
            );
            assert!(
                ended.code == 1 && ended.err.contains(line),
                "{name}: {ended:?}"
            );
        },
    );
}

/// No git, or no repository: it is the user's own.
#[test]
fn where_there_is_no_git_a_redirect_is_followed() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::without_repository("here");
    let elsewhere = bench.path().join("elsewhere/.beads");
    write(&elsewhere.join("issues.jsonl"), "{}\n");
    bench.write(".beads/redirect", "../elsewhere/.beads\n");
    let check = |path: Option<&str>| {
        let mut command = bench.scene().beadlock(&["check", "--explain"]);
        command.current_dir(bench.here());
        if let Some(path) = path {
            command.env("PATH", path);
        }
        Ended::from(run(command))
    };
    for path in [None, Some("/nowhere")] {
        let ended = check(path);
        assert_eq!(ended.code, 0, "{path:?}: {ended:?}");
    }
    // One that hangs is ended, and answers nothing.
    let tools = bench.path().join("tools");
    script(&tools.join("git"), "sleep 60");
    let begun = Instant::now();
    let ended = check(Some(&format!("{}:/usr/bin:/bin", tools.display())));
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        ended.code == 1 && ended.err.contains("it took longer than 5s"),
        "{ended:?}"
    );
}

/// The user's own, untracked: left out of every commit, and left alone.
#[test]
fn a_redirect_of_the_users_own_is_not_committed() {
    let bench = Bench::new();
    bench.write("pkg/.beads/issues.jsonl", "{}\n");
    bench.shell("git add pkg; git commit -qm pkg; git push -q");
    bench.write("pkg/.beads/redirect", "../.beads\n");
    bench.write(".beads/redirect", "# nowhere else\n");
    bench.write(".beads/mine.jsonl", "{}\n");
    let before = bench.snapshot();
    bench.syncs("beside a redirect");
    bench.untouched_since(&before, Allowed::Sync, "beside a redirect");
    assert!(bench.remote_has(".beads/mine.jsonl"));
    assert!(
        !bench.git(bench.here(), &["ls-files"]).contains("redirect"),
        "harm: committed"
    );
}

/// A `.beads` that is a link which git tracks leads away in the same manner.
#[test]
fn a_tracked_link_is_not_followed() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let private = private(&bench);
    fs::create_dir(bench.here().join("pkg")).expect("pkg");
    symlink(private.join(".beads"), bench.here().join("pkg/.beads")).expect("a link");
    let ended = below_root(&bench, &[]);
    assert!(
        !ended.err.contains("is tracked by git"),
        "the user's own: {}",
        ended.err
    );
    bench.git(&private, &["reset", "--quiet", "--hard", "HEAD~1"]);
    bench.git(&private, &["push", "--quiet", "--force"]);
    write(&private.join(".beads/secret"), "not to be committed\n");
    bench.git(bench.here(), &["add", "pkg"]);
    let ended = below_root(&bench, &[]);
    is_untouched(&bench, "a link");
    assert!(
        ended
            .err
            .contains("/pkg/.beads is a link that git tracks, so everybody who may push"),
        "{}",
        ended.err
    );
}
