//! Bad input gets a clear error that names the thing and what to type next, and the exit code of the table. Nothing is
//! lost: no torn or empty lock file, no leftover, no other's lock touched.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use beadlock_tests::{Ended, Scene, lock_text, run, skip, this_host, tool, write_program};

fn chmod(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

/// Runs the claim, the check, the status and the agent on one target, and asserts exit code and words of each.
#[track_caller]
fn all_refuse(scene: &Scene, target: &str, code: i32, words: &[&str]) {
    let before = scene.names();
    let commands = [
        scene.beadlock(&["hold", target, "--", "touch", "ran"]),
        scene.beadlock(&["check", target]),
        scene.beadlock(&["status", target]),
        scene.agent(&["--db", target, "--once", "--exec", "touch ran"]),
    ];
    for command in commands {
        let what = format!("{command:?}");
        let ended = Ended::from(run(command));
        assert_eq!(ended.code, code, "{what}: {ended:?}");
        for word in words {
            assert!(
                ended.err.contains(word),
                "{what} does not say {word:?}: {ended:?}"
            );
        }
        assert_eq!(ended.out, "", "{what}: errors are talk");
    }
    assert_eq!(scene.names(), before);
    assert!(!scene.path().join("ran").exists(), "nothing ran");
}

#[test]
fn a_target_that_does_not_exist() {
    let scene = Scene::new();
    all_refuse(
        &scene,
        "nowhere/.beads",
        1,
        &["nowhere/.beads", "does not exist"],
    );
}

#[test]
fn a_target_that_is_no_directory() {
    let scene = Scene::new();
    all_refuse(
        &scene,
        ".beads/issues.jsonl",
        1,
        &[".beads/issues.jsonl", "not a directory"],
    );
}

#[test]
fn a_target_that_is_one_level_too_high() {
    let scene = Scene::new();
    all_refuse(
        &scene,
        ".",
        2,
        &[". is not a beads database; did you mean ./.beads?"],
    );
}

#[test]
fn an_unknown_scheme_and_an_empty_target() {
    let scene = Scene::new();
    for (target, word) in [("ftp:there", "./ftp:there"), ("", "empty")] {
        for args in [
            &["hold", target, "--", "touch", "ran"][..],
            &["check", target],
            &["status", target],
        ] {
            let ended = scene.run(args);
            assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
            assert!(ended.err.contains(word), "{args:?}: {ended:?}");
        }
    }
}

#[test]
fn no_database_anywhere() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.beads()).expect("no database");
    for args in [&["hold", "--", "touch", "ran"][..], &["check"], &["status"]] {
        let ended = scene.run(args);
        assert_eq!(ended.code, 1, "{args:?}: {ended:?}");
        assert!(
            ended.err.contains("no .beads here or above (looked in "),
            "{args:?}: {ended:?}"
        );
        assert!(
            ended
                .err
                .contains("name one: beadlock hold path/.beads -- "),
            "{args:?}: {ended:?}"
        );
    }
    let agent = Ended::from(run(scene.agent(&["--once"])));
    assert_eq!(agent.code, 1, "{agent:?}");
    assert!(agent.err.contains("--db path/.beads"), "{agent:?}");
}

#[test]
fn a_directory_that_may_not_be_read() {
    let scene = Scene::new();
    for (args, code) in [
        (&["hold", ".beads", "--", "touch", "ran"][..], 5),
        (&["check", ".beads"], 5),
    ] {
        let Some(command) = scene.beadlock_as_mortal(args) else {
            return;
        };
        chmod(&scene.beads(), 0o000);
        let ended = Ended::from(run(command));
        chmod(&scene.beads(), 0o755);
        assert!([1, code].contains(&ended.code), "{args:?}: {ended:?}");
        assert!(
            format!("{}{}", ended.out, ended.err)
                .to_lowercase()
                .contains("permission denied"),
            "{ended:?}"
        );
        assert_eq!(scene.names(), ["issues.jsonl"]);
    }
}

#[test]
fn a_directory_that_may_not_be_written() {
    let scene = Scene::new();
    let Some(command) = scene.beadlock_as_mortal(&["hold", ".beads", "--", "touch", "/dev/null"])
    else {
        return;
    };
    chmod(&scene.beads(), 0o555);
    let ended = Ended::from(run(command));
    chmod(&scene.beads(), 0o755);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.err.contains(".beads") && ended.err.to_lowercase().contains("permission denied"),
        "{ended:?}"
    );
    assert_eq!(scene.names(), ["issues.jsonl"]);
}

/// A script in a mount namespace of its own, with `.beads` on a small file system that goes with it. None where
/// that cannot be had.
fn on_a_file_system(scene: &Scene, options: &str, script: &str) -> Option<Ended> {
    tool("mount")?;
    let mounted = |then: &str| {
        let script = format!("mount -t tmpfs -o {options} tmpfs .beads && {then}");
        Some(Ended::from(
            run(scene.in_namespaces(&["--mount"], &script)?),
        ))
    };
    let probe = mounted("true")?;
    if probe.code != 0 {
        skip::cannot(&format!("cannot mount: {}", probe.err.trim()));
        return None;
    }
    mounted(script)
}

/// What stands on stdout under a heading that the script echoed.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let rest = text
        .split(&format!("== {heading}\n"))
        .nth(1)
        .unwrap_or_default();
    rest.split("== ").next().unwrap_or_default()
}

const CLAIM_AND_LIST: &str = "
    $BEADLOCK hold .beads -- sh -c 'cat .beads/.exclusive-lock' >seen 2>said
    echo \"== code\n$?\n== seen\n$(cat seen)\n== said\n$(cat said)\n== left\n$(ls -A .beads)\n== end\n\"";

/// Every budget of inodes and pages from none to plenty, so that the disk is full at one step of the claim after
/// the other.
#[test]
fn a_full_disk_at_any_step() {
    let mut refused = 0;
    let mut claimed = 0;
    let budgets = (2..=6)
        .map(|inodes| (inodes, 4))
        .chain((0..=2).map(|pages| (16, pages)));
    for (inodes, pages) in budgets {
        let scene = Scene::new();
        // The first page is eaten by a file; a size of 0 would be no limit.
        let script = format!("head -c 4096 /dev/zero >.beads/filler 2>/dev/null; {CLAIM_AND_LIST}");
        let options = format!("size={}k,nr_inodes={inodes}", 4 * (pages + 1));
        let Some(ended) = on_a_file_system(&scene, &options, &script) else {
            return;
        };
        let budget = format!("{inodes} inodes, {pages} pages: {ended:?}");
        assert_eq!(
            section(&ended.out, "left").trim(),
            "filler",
            "something is left; {budget}"
        );
        match section(&ended.out, "code").trim() {
            "0" => {
                claimed += 1;
                let seen: serde_json::Value = serde_json::from_str(section(&ended.out, "seen"))
                    .unwrap_or_else(|error| {
                        panic!("the command saw a torn lock ({error}); {budget}")
                    });
                assert_eq!(seen["holder"], "sh");
            }
            "1" => {
                refused += 1;
                let said = section(&ended.out, "said").to_lowercase();
                assert!(
                    said.contains("no space left on device") && said.contains(".beads"),
                    "{budget}"
                );
                assert_eq!(
                    section(&ended.out, "seen").trim(),
                    "",
                    "the command ran; {budget}"
                );
            }
            other => panic!("exit {other}; {budget}"),
        }
    }
    assert!(
        refused > 0 && claimed > 0,
        "refused {refused}, claimed {claimed}: the budgets miss the point"
    );
}

/// A stale lock and a full disk: the stale one may go, and nothing half-written comes in its place. Its second name
/// keeps its page, so that its removal frees none.
#[test]
fn a_full_disk_behind_a_stale_lock() {
    let scene = Scene::new();
    let stale = lock_text("long gone", beadlock_tests::dead_pid().into(), &this_host());
    fs::write(scene.path().join("stale"), &stale).expect("write");
    let fill = "cp stale .beads/copy; ln .beads/copy .beads/.exclusive-lock; head -c 65536 /dev/zero >.beads/filler 2>/dev/null";
    let script = format!("{fill}; {CLAIM_AND_LIST}");
    let Some(ended) = on_a_file_system(&scene, "size=16k,nr_inodes=16", &script) else {
        return;
    };
    assert_eq!(section(&ended.out, "code").trim(), "1", "{ended:?}");
    assert!(
        section(&ended.out, "said")
            .to_lowercase()
            .contains("no space left on device"),
        "{ended:?}"
    );
    let left = section(&ended.out, "left").trim();
    assert!(
        ["copy\nfiller", ".exclusive-lock\ncopy\nfiller"].contains(&left),
        "{ended:?}"
    );
}

#[test]
fn a_read_only_file_system() {
    let scene = Scene::new();
    let script = format!("touch .beads/filler; mount -o remount,ro,bind .beads; {CLAIM_AND_LIST}");
    let Some(ended) = on_a_file_system(&scene, "size=64k", &script) else {
        return;
    };
    assert_eq!(section(&ended.out, "code").trim(), "1", "{ended:?}");
    let said = section(&ended.out, "said").to_lowercase();
    assert!(
        said.contains("read-only file system") && said.contains(".beads"),
        "{ended:?}"
    );
    assert_eq!(section(&ended.out, "left").trim(), "filler");
}

#[test]
fn a_stale_lock_on_a_read_only_file_system() {
    let scene = Scene::new();
    let stale = lock_text("long gone", beadlock_tests::dead_pid().into(), &this_host());
    fs::write(scene.path().join("stale"), &stale).expect("write");
    let script = "cp stale .beads/.exclusive-lock; mount -o remount,ro,bind .beads;
        $BEADLOCK check .beads; echo \"== code\n$?\n== left\n$(ls -A .beads)\n== lock\n$(cat .beads/.exclusive-lock)\n== end\n\"";
    let Some(ended) = on_a_file_system(&scene, "size=64k", script) else {
        return;
    };
    assert_eq!(section(&ended.out, "code").trim(), "5", "{ended:?}");
    let line = ended.out.lines().next().unwrap_or_default();
    assert!(
        line.starts_with("Skipping database (lock check failed: failed to remove stale lock: "),
        "{ended:?}"
    );
    assert_eq!(section(&ended.out, "left").trim(), ".exclusive-lock");
    assert_eq!(section(&ended.out, "lock").trim(), stale.trim());
}

#[test]
fn a_holder_name_of_ours_that_is_not_printable_or_too_long() {
    let scene = Scene::new();
    let long = "x".repeat(10 * 1024);
    for name in [
        "a\nb",
        "\u{1b}[2J",
        "a\u{202e}b",
        "a\u{2028}b",
        "tab\there",
        "",
        &long,
    ] {
        let ended = scene.run(&["hold", "--holder", name, "--", "touch", "ran"]);
        assert_eq!(ended.code, 2, "{name:?}: {ended:?}");
        assert!(
            ended.err.contains("holder"),
            "it names the option: {ended:?}"
        );
        assert!(
            !ended.err.contains('\u{1b}') && !ended.err.contains('\u{202e}'),
            "{:?}",
            ended.err
        );
        assert!(
            ended.err.len() < 2000,
            "10 KiB are not shown whole: {} bytes",
            ended.err.len()
        );
    }
    let mut by_environment = scene.beadlock(&["hold", "--", "touch", "ran"]);
    by_environment.env("BEADLOCK_HOLDER", "a\nb");
    assert_eq!(run(by_environment).status.code(), Some(2));
    assert_eq!(scene.names(), ["issues.jsonl"]);
    assert!(!scene.path().join("ran").exists());
    assert_eq!(
        scene
            .run(&["hold", "--holder", &"x".repeat(128), "--", "true"])
            .code,
        0,
        "128 are allowed"
    );
}

/// A holder name out of a file is shown on one line, escaped and cut, and is raw in JSON.
#[test]
fn a_holder_name_in_a_file_forges_no_line() {
    let scene = Scene::new();
    let forged = "a\n[2026-01-01 00:00:00] Sync cycle complete\u{1b}[2J\u{202e}";
    let long = "y".repeat(10 * 1024);
    for name in [forged, &long] {
        scene.write_lock(lock_text(name, std::process::id().into(), &this_host()));
        let before = scene.lock_text();
        let _ = fs::remove_file(scene.beads().join("daemon.log"));
        let check = scene.run(&["check"]);
        assert_eq!((check.code, check.out.lines().count()), (4, 1), "{check:?}");
        let hold = scene.run(&["hold", "--no-wait", "--", "touch", "ran"]);
        assert_eq!(hold.code, 4, "{hold:?}");
        let status = scene.run(&["status"]);
        assert_eq!(status.code, 0, "{status:?}");
        let agent = Ended::from(run(
            scene.agent(&["--db", ".beads", "--once", "--action", "none"])
        ));
        assert_eq!(agent.code, 4, "{agent:?}");
        for text in [
            &check.out,
            &check.err,
            &hold.err,
            &status.out,
            &status.err,
            &agent.err,
            &scene.log(),
        ] {
            assert!(
                !text.contains('\u{1b}') && !text.contains('\u{202e}'),
                "{text:?}"
            );
            assert!(
                !text
                    .lines()
                    .any(|line| line.starts_with("[2026-01-01 00:00:00]")),
                "a forged line: {text:?}"
            );
            assert!(
                !text.contains(&"y".repeat(201)),
                "not cut: {} bytes",
                text.len()
            );
        }
        let (_, envelope) = scene.json(&["check"]);
        assert_eq!(
            envelope["data"][0]["holder"], name,
            "in JSON it is the raw string"
        );
        assert_eq!(scene.lock_text(), before);
    }
}

/// The default name is the command's; one that cannot be shown must not get into the file as it is.
#[test]
fn a_command_with_a_strange_name() {
    let scene = Scene::new();
    let name = std::ffi::OsStr::from_bytes(b"od\xffd\nname");
    let program = scene.path().join(name);
    write_program(&program, &b"#!/bin/sh\ncat .beads/.exclusive-lock\n"[..]);
    let mut command = scene.beadlock(&["hold", "--"]);
    command.arg(&program);
    let ended = Ended::from(run(command));
    assert_eq!(scene.names(), ["issues.jsonl"]);
    match ended.code {
        0 => {
            let seen: serde_json::Value =
                serde_json::from_str(&ended.out).expect("the command saw a whole lock");
            let holder = seen["holder"].as_str().expect("a holder");
            assert!(
                !holder.is_empty() && !holder.chars().any(char::is_control),
                "{holder:?}"
            );
        }
        2 => assert!(ended.err.contains("--holder"), "{ended:?}"),
        code => panic!("exit {code}: {ended:?}"),
    }
}

#[test]
fn an_interval_of_nothing() {
    let scene = Scene::new();
    for interval in [
        "0",
        "0s",
        "0ms",
        "-1s",
        "soon",
        "",
        "999999999999999999999h",
    ] {
        let ended = Ended::from(run(scene.agent(&[
            "--db",
            ".beads",
            &format!("--interval={interval}"),
        ])));
        assert_eq!(ended.code, 2, "{interval:?}: {ended:?}");
        assert!(ended.err.contains("--interval"), "{ended:?}");
    }
    assert_eq!(scene.names(), ["issues.jsonl"], "not even a log");
}

#[test]
fn a_command_without_its_dashes() {
    let scene = Scene::new();
    for args in [&["hold", "make"][..], &["hold", "make", "release"]] {
        let ended = scene.run(args);
        assert_eq!(ended.code, 2, "{ended:?}");
        let meant = format!("did you mean: beadlock hold -- {}", args[1..].join(" "));
        assert!(ended.err.contains(&meant), "{meant:?}: {ended:?}");
    }
    assert_eq!(scene.names(), ["issues.jsonl"]);
}

#[test]
fn a_hold_without_a_command() {
    let scene = Scene::new();
    for args in [
        &["hold"][..],
        &["hold", ".beads"],
        &["hold", "--"],
        &["hold", ".beads", "--"],
    ] {
        let ended = scene.run(args);
        assert_eq!(ended.code, 2, "{args:?}: {ended:?}");
        assert!(
            ended.err.contains("beadlock hold"),
            "what to type: {ended:?}"
        );
    }
    assert_eq!(
        scene.run(&["hold", "--", ""]).code,
        127,
        "an empty name is no command"
    );
}
