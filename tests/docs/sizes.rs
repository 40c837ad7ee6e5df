//! The tests in their sizes: what the closing line counts, and what has git run `make check`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use beadlock_tests::skip::{checkout, tool};
use beadlock_tests::{Ended, Scene, run, write_program};

/// What `scripts/test-summary.sh` makes of what the runners have printed, and of the report of cargo-nextest.
fn summary(log: &str, report: Option<&str>) -> Vec<String> {
    let scene = Scene::new();
    scene.write("log", log);
    let mut command = scene.command(checkout().join("scripts/test-summary.sh"));
    command.args(["log", "report"]);
    if let Some(report) = report {
        scene.write("report", report);
    }
    let ended = Ended::from(run(command));
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    ended.out.lines().map(str::to_owned).collect()
}

/// Four tests, each with what its binary prints: one passes, one says that it was skipped, one says so with a part of
/// what it tries, and one fails.
const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" skipped="0" failures="1" errors="0">
    <testsuite name="a::b" tests="4" skipped="0" errors="0" failures="1">
        <testcase name="passes" classname="a::b" time="0.020">
            <system-out>
running 1 test
State: 3 databases: 1 skipped: locked
test passes ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.01s

</system-out>
            <system-err></system-err>
        </testcase>
        <testcase name="says" classname="a::b" time="0.020">
            <system-out>
running 1 test
test says ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.01s

</system-out>
            <system-err>skipped: says needs &quot;strace&quot; &amp; root
</system-err>
        </testcase>
        <testcase name="in_part" classname="a::b" time="0.020">
            <system-out>
running 1 test
skipped: in_part needs jq
skipped: in_part needs etcd
test in_part ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.01s

</system-out>
            <system-err></system-err>
        </testcase>
        <testcase name="fails" classname="a::b" time="0.020">
            <failure type="test failure with exit code 101">no</failure>
            <system-out>
test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.01s
</system-out>
            <system-err>skipped: fails needs jq
</system-err>
        </testcase>
    </testsuite>
</testsuites>
"#;

#[test]
fn a_test_that_says_skipped_counts_as_skipped_and_is_named() {
    let log = "        FAIL [   0.020s] (4/4) a::b fails\n     \
               Summary [   1.000s] 4 tests run: 3 passed, 1 failed, 12 skipped\n\
               test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.24s\n\
               SKIPPED [1] integration/python/tests/test_file.py:246: needs root\n\
               2 failed, 84 passed, 1 skipped in 61.86s (0:01:01)\n";
    let said = summary(log, Some(REPORT));
    assert_eq!(
        said,
        [
            "        FAIL [   0.020s] (4/4) a::b fails",
            "SKIPPED [1] integration/python/tests/test_file.py:246: needs root",
            "skipped: fails needs jq",
            "skipped: in_part needs etcd",
            "skipped: in_part needs jq",
            "skipped: says needs \"strace\" & root",
            // Of 3, 4 and 84 two say that they were skipped; 1 and 2 fail; to these two comes pytest's one.
            "89 passed, 3 failed, 3 skipped",
        ]
    );
}

#[test]
fn without_nextest_the_lines_of_the_tests_are_counted() {
    let log = "skipped: a needs jq\n\
               skipped: a needs jq\n\
               skipped: b no shared/ beside the checkout\n\
               test c ... FAILED\n\
               test result: FAILED. 10 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.03s\n\
               skipped: the tests of integration/python need Python 3.9 or later\n";
    let said = summary(log, None);
    assert_eq!(
        said.last().map(String::as_str),
        Some("8 passed, 1 failed, 3 skipped"),
        "{said:#?}"
    );
    assert_eq!(said[0], "test c ... FAILED");
    assert_eq!(said.len(), 5, "{said:#?}");
}

/// A test that gives two reasons is one test, also where libtest has begun its line.
/// Another binary's test of that name is another test.
#[test]
fn without_nextest_a_test_counts_once_whatever_it_gives_as_reasons() {
    let ends = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.03s\n";
    let log = format!(
        "skipped: a::b needs jq\n\
         skipped: a::b needs root\n\
         {ends}\
         test a::b ... skipped: a::b needs jq\n\
         skipped: a::b needs etcd\n\
         ok\n\
         test c ... ok\n\
         {ends}\
         skipped: the scripts need shfmt (Debian: shfmt)\n\
         skipped: the scripts need ruff (which takes Python 3.9 or later)\n"
    );
    let said = summary(&log, None);
    assert_eq!(
        said,
        [
            "skipped: a::b needs etcd",
            "skipped: a::b needs jq",
            "skipped: a::b needs root",
            "skipped: the scripts need ruff (which takes Python 3.9 or later)",
            "skipped: the scripts need shfmt (Debian: shfmt)",
            "2 passed, 0 failed, 4 skipped",
        ]
    );
}

/// What was begun and not ended has failed, as what was interrupted.
#[test]
fn an_interrupted_run_and_a_build_that_failed_are_no_success() {
    let said = summary(
        "     Summary [  60.661s] 61/2397 tests run: 51 passed, 10 failed, 12 skipped\n",
        None,
    );
    assert_eq!(said, ["51 passed, 10 failed, 0 skipped"]);
    assert_eq!(
        summary("error: could not compile `beadlock`\n", None),
        ["0 passed, 0 failed, 0 skipped"]
    );
    let said = summary("2 failed, 1 error in 3.10s\n", None);
    assert_eq!(said, ["0 passed, 3 failed, 0 skipped"]);
}

/// CI runs every goal, whatever the ones before came to, and at the end repeats what each runner has counted.
#[test]
fn ci_runs_each_goal_and_repeats_the_closing_lines() {
    if tool("bash").is_none() {
        return;
    }
    for (failing, code) in [("none", 0), ("lint", 1), ("test", 1), ("test-more", 1)] {
        let scene = Scene::new();
        fs::create_dir(scene.file("bin")).expect("make bin");
        let make = format!(
            "#!/bin/sh\necho \"$1 $CI\" >>'{}'\necho \"skipped: $1 needs a\"\necho '5 passed, 0 failed, 1 skipped'\n\
             [ \"$1\" != {failing} ] || exit 7\n",
            scene.file("made").display()
        );
        write_program(&scene.file("bin/make"), make.as_bytes());
        let mut command = scene.command(checkout().join(".ci/run"));
        command.env(
            "PATH",
            format!("{}:/usr/bin:/bin", scene.file("bin").display()),
        );
        let ended = Ended::from(run(command));
        assert_eq!(ended.code, code, "{failing}: {ended:?}");
        assert_eq!(
            scene.read("made"),
            "lint true\ntest true\ntest-more true\n",
            "{failing}: {ended:?}"
        );
        let (_, closing) = ended
            .out
            .split_once("== closing lines of make test\n")
            .expect("closing lines");
        let lines =
            |goal: &str| format!("skipped: {goal} needs a\n5 passed, 0 failed, 1 skipped\n");
        let both = format!(
            "{}== closing lines of make test-more\n{}== what ran\n",
            lines("test"),
            lines("test-more")
        );
        assert!(closing.starts_with(&both), "{failing}: {closing}");
        assert_eq!(
            closing.contains(&format!("\nmake {failing} : failed with 7 in ")),
            code == 1,
            "{closing}"
        );
    }
}

/// A clone with the scripts of the hook, and a `make check` that says in `checked` where it was, and with what of git's
/// in its environment. It fails where there is `broken`.
fn clone(scene: &Scene) {
    fs::create_dir(scene.file("clone")).expect("make the clone");
    fs::create_dir(scene.file("clone/scripts")).expect("make scripts");
    for name in ["hooks.sh", "pre-commit.sh"] {
        let script = fs::read(checkout().join("scripts").join(name)).expect("read a script");
        write_program(&scene.file("clone/scripts").join(name), script.as_slice());
    }
    let goal = "check:\n\t@pwd -P >>$(TOP)/checked; env | grep -E '^GIT_(DIR|INDEX_FILE|PREFIX)=' >>$(TOP)/checked; [ ! -e broken ]\n";
    scene.write(
        "clone/Makefile",
        format!(
            "TOP = {}\n{goal}hooks:\n\t@scripts/hooks.sh\n",
            scene.path().display()
        ),
    );
    git(
        scene,
        "clone",
        "init -q -b main && git config user.name test && git config user.email test@example.org",
    );
    git(scene, "clone", "add . && git commit -q -m one");
}

/// Runs `git WORDS` there, words that a shell reads.
fn git(scene: &Scene, dir: &str, words: &str) -> Ended {
    let mut command = scene.shell(&format!("cd {dir} && git {words}"));
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true");
    run(command).into()
}

fn make_hooks(scene: &Scene, dir: &str) -> Ended {
    let mut command = scene.command("make");
    command
        .args(["--no-print-directory", "-C", dir, "hooks"])
        .env("GIT_CONFIG_NOSYSTEM", "1");
    run(command).into()
}

/// How often the check has run since the last look, and where: each time without a variable of git's.
#[track_caller]
fn checked(scene: &Scene) -> Vec<String> {
    let said = scene.read("checked").lines().map(str::to_owned).collect();
    scene.write("checked", "");
    said
}

fn has_tools() -> bool {
    ["git", "make"]
        .into_iter()
        .all(|program| tool(program).is_some())
}

#[test]
fn the_hook_checks_each_commit_in_every_worktree() {
    if !has_tools() {
        return;
    }
    let scene = Scene::new();
    clone(&scene);
    let top = |dir: &str| {
        scene
            .file(dir)
            .canonicalize()
            .expect("it is there")
            .display()
            .to_string()
    };
    let made = make_hooks(&scene, "clone");
    assert!(
        made.code == 0 && made.out.contains("pre-commit runs make check"),
        "{made:?}"
    );
    let again = make_hooks(&scene, "clone");
    assert!(
        again.code == 0 && again.out.contains("is there already"),
        "{again:?}"
    );
    let hooks: Vec<_> = fs::read_dir(scene.file("clone/.git/hooks"))
        .expect("hooks")
        .flatten()
        .collect();
    let ours = hooks.iter().filter(|hook| {
        hook.file_name().to_string_lossy().starts_with("pre-commit")
            && hook.path().extension().is_none()
    });
    assert_eq!(ours.count(), 1, "{hooks:?}");

    assert_eq!(
        git(&scene, "clone", "commit -q --allow-empty -m two").code,
        0
    );
    assert_eq!(checked(&scene), [top("clone")]);
    // In a worktree, where git says to a hook which repository and which index it is for; and below the top.
    assert_eq!(
        git(&scene, "clone", "worktree add -q ../tree -b side").code,
        0
    );
    scene.write("tree/file", "one\n");
    assert_eq!(
        git(
            &scene,
            "tree/scripts",
            "add ../file && git commit -q -m file"
        )
        .code,
        0
    );
    assert_eq!(checked(&scene), [top("tree")]);
    let again = make_hooks(&scene, "tree");
    assert!(
        again.code == 0 && again.out.contains("is there already"),
        "{again:?}"
    );

    scene.write("clone/broken", "");
    let refused = git(&scene, "clone", "commit -q --allow-empty -m three");
    assert_ne!(refused.code, 0, "the check has failed");
    assert_eq!(checked(&scene), [top("clone")]);
    assert_eq!(
        git(
            &scene,
            "clone",
            "commit -q --allow-empty --no-verify -m three"
        )
        .code,
        0
    );

    // A branch without the script is not held up.
    assert_eq!(
        git(
            &scene,
            "clone",
            "rm -q scripts/pre-commit.sh && git commit -q -m without"
        )
        .code,
        0
    );
    assert_eq!(checked(&scene), [""; 0]);
}

/// As where a hook of another repository types it: git then names that repository.
#[test]
fn the_hook_goes_to_the_repository_of_the_script() {
    if !has_tools() {
        return;
    }
    let scene = Scene::new();
    clone(&scene);
    assert_eq!(git(&scene, ".", "init -q other").code, 0);
    let mut command = scene.command(scene.file("clone/scripts/hooks.sh"));
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_DIR", scene.file("other/.git"));
    let made = Ended::from(run(command));
    let hook = |of: &str| scene.file(of).join(".git/hooks/pre-commit").exists();
    assert_eq!(
        (made.code, hook("clone"), hook("other")),
        (0, true, false),
        "{made:?}"
    );
}

#[test]
fn a_merge_and_a_rebase_are_not_held_up() {
    if !has_tools() {
        return;
    }
    let scene = Scene::new();
    clone(&scene);
    let commit = |text: &str| {
        scene.write("clone/file", text);
        assert_eq!(
            git(&scene, "clone", "add file && git commit -q -m file").code,
            0
        );
    };
    commit("zero\n");
    assert_eq!(git(&scene, "clone", "checkout -q -b side").code, 0);
    commit("side\n");
    assert_eq!(git(&scene, "clone", "checkout -q main").code, 0);
    commit("main\n");
    assert_eq!(make_hooks(&scene, "clone").code, 0);
    scene.write("clone/broken", "");
    assert_ne!(
        git(&scene, "clone", "commit -q --allow-empty -m no").code,
        0,
        "the hook is there"
    );
    checked(&scene);

    for begin in ["merge -q side", "cherry-pick side", "rebase -q side"] {
        assert_ne!(
            git(&scene, "clone", begin).code,
            0,
            "{begin}: there is a conflict"
        );
        scene.write("clone/file", format!("{begin}\n"));
        let ended = git(&scene, "clone", "add file && git commit -q -m mended");
        assert!(
            ended.code == 0 && ended.err.contains("make check is left to you"),
            "{begin}: {ended:?}"
        );
        assert_eq!(checked(&scene), [""; 0], "{begin}");
        let end = if begin.starts_with("rebase") {
            "rebase --continue"
        } else {
            "reset -q --hard HEAD^"
        };
        assert_eq!(git(&scene, "clone", end).code, 0, "{begin}");
    }
}

#[test]
fn what_somebody_else_has_hooked_stays_as_it_is() {
    if !has_tools() {
        return;
    }
    let scene = Scene::new();
    clone(&scene);
    let hook = scene.file("clone/.git/hooks/pre-commit");
    let refused = |words: &str| {
        let ended = make_hooks(&scene, "clone");
        assert!(
            ended.code != 0
                && ended.err.contains(words)
                && ended.err.contains("scripts/pre-commit.sh"),
            "{ended:?}"
        );
    };
    fs::create_dir_all(hook.parent().expect("hooks")).expect("make hooks");
    fs::write(&hook, "#!/bin/sh\n# mine\n").expect("write a hook");
    refused("is not of make hooks");
    assert_eq!(
        fs::read_to_string(&hook).expect("it is there"),
        "#!/bin/sh\n# mine\n"
    );
    fs::remove_file(&hook).expect("remove it");
    std::os::unix::fs::symlink("/nowhere/pre-commit", &hook).expect("make a link");
    refused("is not of make hooks");
    assert_eq!(
        fs::read_link(&hook).expect("it is there"),
        Path::new("/nowhere/pre-commit")
    );
    fs::remove_file(&hook).expect("remove it");

    fs::create_dir(scene.file("of-all")).expect("make a directory");
    assert_eq!(
        git(&scene, "clone", "config core.hooksPath ../of-all").code,
        0
    );
    refused("core.hooksPath is ../of-all");
    assert_eq!(
        fs::read_dir(scene.file("of-all"))
            .expect("it is there")
            .count(),
        0
    );
    assert!(!hook.exists());
    assert_eq!(
        git(&scene, "clone", "config --unset core.hooksPath").code,
        0
    );
    assert_eq!(make_hooks(&scene, "clone").code, 0, "the control");
    assert_eq!(
        fs::metadata(&hook)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777,
        0o755
    );
}
