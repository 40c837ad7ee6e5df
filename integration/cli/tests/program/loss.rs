//! A held lock that goes away: noticed within a second, and what that means to the command.
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools do to a lock file"
)]

mod not_lost;
mod tree;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use beadlock_core::gate::Gate;
use beadlock_testkit::{Ended, Running, Scene, has_program, shell_lock_text, skip, until};
use nix::sys::signal::Signal;

/// Says when it is asked to end, and does.
const OBEDIENT: &str =
    "trap 'echo > asked; exit 0' TERM; echo > ready; while :; do sleep 0.01; done";
const LOST: &str = "error: lost the lock of .beads after ";

fn held(scene: &Scene, words: &[&str], script: &str) -> Running {
    let words = [&["hold"], words, &["--", "sh", "-c", script]].concat();
    let running = Running::apart(scene.beadlock(&words));
    until("the command runs", || scene.file("ready").exists());
    until("events tell how the lock goes", || {
        has_inotify(running.pid())
    });
    running
}

fn has_inotify(pid: i32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let mut files = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    files.any(|file| file.to_str() == Some("anon_inode:inotify"))
}

/// Holds, loses the lock, and answers how that ended and how long it took until the command was asked to end.
fn lost(lose: &dyn Fn(&Scene)) -> (Scene, Ended, Duration) {
    let scene = crate::a_scene();
    let running = held(&scene, &[], OBEDIENT);
    let begun = Instant::now();
    lose(&scene);
    until("it is noticed", || scene.file("asked").exists());
    let took = begun.elapsed();
    (scene, running.end(), took)
}

fn foreign() -> String {
    shell_lock_text("vc", 77, "elsewhere")
}

#[test]
fn it_is_noticed_within_a_second_and_the_cause_is_named() {
    let vanished = "vanished; `git clean -x`, `git stash -u`, rm and tools";
    let changed = "is vc's now (PID 77, on elsewhere)";
    type Way<'w> = (&'static str, &'w dyn Fn(&Scene), &'static str);
    let ways: [Way<'_>; 6] = [
        (
            "rm",
            &|scene| fs::remove_file(scene.lock()).unwrap(),
            vanished,
        ),
        (
            "mv over it",
            &|scene| {
                fs::write(scene.file("new"), foreign()).unwrap();
                fs::rename(scene.file("new"), scene.lock()).unwrap();
            },
            changed,
        ),
        (
            "overwritten",
            &|scene| fs::write(scene.lock(), foreign()).unwrap(),
            changed,
        ),
        (
            "truncated",
            &|scene| fs::write(scene.lock(), "").unwrap(),
            "was overwritten with something that is no lock",
        ),
        (
            "the directory",
            &|scene| fs::remove_dir_all(scene.beads()).unwrap(),
            vanished,
        ),
        (
            "broken",
            &|scene| {
                let kept = scene
                    .beads()
                    .join(".exclusive-lock.broken-20260102T030405Z.json");
                fs::rename(scene.lock(), kept).unwrap();
            },
            ".exclusive-lock was broken by somebody; its record is kept in ",
        ),
    ];
    for (name, lose, cause) in ways {
        let mut fastest = Duration::MAX;
        for _ in 0..3 {
            let (scene, ended, took) = lost(lose);
            let warning = "warning: the lock is lost, ending the command: ";
            let ended = ended.expect(9, &[warning, cause, LOST, "beadlock status .beads"]);
            assert!(!ended.err.contains("released"), "{name}: {ended:?}");
            if name == "broken" {
                assert!(
                    ended
                        .err
                        .contains(".exclusive-lock.broken-20260102T030405Z.json"),
                    "{ended:?}"
                );
            }
            match name {
                "mv over it" | "overwritten" => {
                    assert_eq!(fs::read_to_string(scene.lock()).unwrap(), foreign())
                }
                "truncated" => assert_eq!(fs::read(scene.lock()).unwrap(), b""),
                _ => assert!(!scene.lock().exists(), "{name}"),
            }
            fastest = fastest.min(took);
            if fastest < Duration::from_secs(1) {
                break;
            }
        }
        assert!(fastest < Duration::from_secs(1), "{name}: {fastest:?}");
    }
}

#[test]
fn git_that_clears_up_is_noticed() {
    if !has_program("git") {
        return;
    }
    for tidy in ["clean -qfdx", "stash -qu"] {
        let scene = crate::a_scene();
        let git = "git -c user.name=t -c user.email=t@example.invalid -c init.defaultBranch=main";
        let script = format!(
            "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; {git} init -q .; echo x > .beads/issues.jsonl; \
                              echo .beads/.exclusive-lock > .git/info/exclude; {git} add .beads; {git} commit -qm x"
        );
        Running::apart(scene.shell(&script)).end().expect(0, &[]);
        if tidy.starts_with("stash") {
            fs::write(scene.file(".git/info/exclude"), "").unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        let (asked, ready) = (outside.path().join("asked"), outside.path().join("ready"));
        let script = "trap 'echo > \"$0/asked\"; exit 0' TERM; echo > \"$0/ready\"; while :; do sleep 0.01; done";
        let outside = outside.path().to_str().unwrap();
        let running = Running::apart(scene.beadlock(&["hold", "--", "sh", "-c", script, outside]));
        until("the command runs", || ready.exists());
        let clear = format!("export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; {git} {tidy}");
        let tidied = Running::apart(scene.shell(&clear)).end();
        assert_eq!(tidied.code, 0, "{tidied:?}");
        running
            .end()
            .expect(9, &["`git clean -x`, `git stash -u`", LOST]);
        assert!(asked.exists() && scene.file(".beads/issues.jsonl").exists());
    }
}

#[test]
fn with_warn_the_command_runs_to_its_end() {
    let script = "echo > ready; until test -e go; do sleep 0.01; done; echo done > done; exit 3";
    for (words, variable) in [
        (&["--on-loss", "warn"][..], "kill"),
        (&[], "warn"),
        (&["--own-exit-code", "77"], "WARN"),
    ] {
        let scene = crate::a_scene();
        let words = [
            &["hold", "--report", "report"],
            words,
            &["--", "sh", "-c", script],
        ]
        .concat();
        let mut command = scene.beadlock(&words);
        command.env("BEADLOCK_ON_LOSS", variable);
        let running = Running::apart(command);
        until("the command runs", || scene.file("ready").exists());
        fs::write(scene.lock(), foreign()).unwrap();
        until("it is said", || {
            running
                .err()
                .contains("warning: the lock is lost, the command runs on without it: ")
        });
        fs::write(scene.file("go"), "").unwrap();
        let code = if words.contains(&"77") { 77 } else { 9 };
        running.end().expect(code, &[LOST, "is vc's now"]);
        assert_eq!(
            (
                scene.read("done").as_str(),
                fs::read_to_string(scene.lock()).unwrap()
            ),
            ("done\n", foreign())
        );
        let report: serde_json::Value = serde_json::from_str(&scene.read("report")).unwrap();
        let (error, data) = (&report["error"], &report["data"]);
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&"LOCK_LOST".into(), &false.into())
        );
        assert!(
            error["detail"].as_str().unwrap().starts_with("lock_file=/"),
            "{report}"
        );
        assert_eq!(
            (&data["exit_code"], &data["released"]),
            (&3.into(), &false.into())
        );
        assert!(
            report["warnings"][0]
                .as_str()
                .unwrap()
                .contains("runs on without it"),
            "{report}"
        );
    }
    let scene = crate::a_scene();
    let mut command = scene.beadlock(&["hold", "--", "true"]);
    command.env("BEADLOCK_ON_LOSS", "perhaps");
    Running::apart(command).end().expect(
        2,
        &["$BEADLOCK_ON_LOSS: \"perhaps\" is neither of kill, warn"],
    );
    scene
        .run(&["hold", "--on-loss", "ignore", "--", "true"])
        .expect(2, &["ignore"]);
}

/// The command decides: it saves its work, say, and goes on or ends.
#[test]
fn with_a_signal_the_command_and_its_group_hear_of_the_loss_and_run_on() {
    let below = "trap 'echo > below' USR1; echo > ready; until test -e go; do sleep 0.01; done";
    let script = format!(
        "trap 'echo >> heard' USR1; sh -c \"{below}\" & while kill -0 $!; do wait $!; done; echo > done; exit 3"
    );
    for (words, variable) in [
        (&["--on-loss", "signal:USR1"][..], "warn"),
        (&[], "Signal:SIGUSR1"),
    ] {
        let scene = crate::a_scene();
        let words = [&["hold"], words, &["--", "sh", "-c", &script]].concat();
        let mut command = scene.beadlock(&words);
        command.env("BEADLOCK_ON_LOSS", variable);
        let running = Running::apart(command);
        until("the command runs", || scene.file("ready").exists());
        assert!(!scene.file("heard").exists());
        fs::write(scene.lock(), foreign()).unwrap();
        until("both have heard", || {
            scene.file("heard").exists() && scene.file("below").exists()
        });
        fs::write(scene.file("go"), "").unwrap();
        let said = "warning: the lock is lost, the command gets SIGUSR1 and runs on without it: ";
        running.end().expect(9, &[said, "is vc's now", LOST]);
        assert_eq!(
            (scene.read("heard").as_str(), scene.read("done").as_str()),
            ("\n", "\n"),
            "once, and it went on"
        );
        assert_eq!(fs::read_to_string(scene.lock()).unwrap(), foreign());
    }
}

#[test]
fn a_signal_tells_of_the_loss_of_a_lock_of_any_kind() {
    let named = [
        "--lock-dir",
        "locks",
        "--intent-name",
        "deploy",
        "--intent-version",
        "1",
    ];
    let kinds: [(&str, &[&str], &str); 4] = [
        ("lock:a.lock", &[], "a.lock"),
        ("file:todo.json", &[], "todo.json.lock"),
        ("memory:mem", &[], "mem/.lock"),
        ("tower:app", &named, "locks/app.lock"),
    ];
    for (target, options, lock) in kinds {
        let scene = crate::a_scene();
        fs::create_dir(scene.file("mem")).unwrap();
        let script = "trap 'echo > heard' USR1; echo > ready; until test -e heard; do sleep 0.01; done; echo > done";
        let words = [&[target], options, &["--on-loss", "signal:USR1"]].concat();
        let running = held(&scene, &words, script);
        fs::remove_file(scene.file(lock)).unwrap();
        running.end().expect(
            9,
            &[
                "the command gets SIGUSR1 and runs on without it",
                "lost the lock of ",
                target,
            ],
        );
        assert!(scene.file("done").exists(), "{target}");
    }
}

/// A command that does not know the signal is ended by it; the loss comes first.
#[test]
fn a_signal_that_ends_the_command_is_still_a_loss() {
    for name in ["HUP", "INT", "TERM", "USR1", "SIGUSR2"] {
        let scene = crate::a_scene();
        let words = ["--on-loss", &format!("signal:{name}"), "--report", "report"];
        let running = held(&scene, &words, "echo > ready; exec sleep 600");
        fs::remove_file(scene.lock()).unwrap();
        let ended = running.end().expect(9, &[LOST, "vanished"]);
        assert_eq!(ended.signal, None, "{ended:?}");
        let report: serde_json::Value = serde_json::from_str(&scene.read("report")).unwrap();
        let signal: Signal = format!("SIG{}", name.trim_start_matches("SIG"))
            .parse()
            .unwrap();
        assert_eq!(report["data"]["signal"], signal as i32, "{report}");
    }
    let scene = crate::a_scene();
    for wrong in ["signal:KILL", "signal:", "signal:10", "USR1"] {
        let said = "is neither of kill, warn, signal:NAME (HUP, INT, TERM, USR1, USR2)";
        scene
            .run(&["hold", "--on-loss", wrong, "--", "touch", "ran"])
            .expect(2, &[wrong, said]);
        let mut command = scene.beadlock(&["hold", "--", "touch", "ran"]);
        command.env("BEADLOCK_ON_LOSS", wrong);
        Running::apart(command)
            .end()
            .expect(2, &["$BEADLOCK_ON_LOSS: ", wrong, said]);
    }
    assert!(!scene.file("ran").exists() && scene.names().is_empty());
}

/// The process that has stopped the command decides when it goes on.
#[test]
fn a_stopped_command_hears_of_the_loss_when_it_goes_on() {
    let scene = crate::a_scene();
    let script = "trap 'echo > heard; exit 0' USR1; echo $$ > pid; echo > ready; while :; do sleep 0.01; done";
    let running = held(&scene, &["--on-loss", "signal:USR1"], script);
    let pid = nix::unistd::Pid::from_raw(scene.pid_in("pid"));
    nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
    until("it is stopped", || {
        crate::terminal::state(pid.as_raw()) == 'T'
    });
    fs::remove_file(scene.lock()).unwrap();
    until("it is said", || {
        running
            .err()
            .contains("the command gets SIGUSR1 and runs on without it")
    });
    assert_eq!(crate::terminal::state(pid.as_raw()), 'T');
    nix::sys::signal::kill(pid, Signal::SIGCONT).unwrap();
    running.end().expect(9, &[LOST]);
    assert!(scene.file("heard").exists());
}

/// Lost in the command's last moment: seen by the release.
#[test]
fn a_loss_at_the_very_end_is_a_loss() {
    let scene = crate::a_scene();
    scene
        .run(&["hold", "--", "sh", "-c", "rm .beads/.exclusive-lock"])
        .expect(9, &[LOST, "vanished"]);
    let script = "echo x > .beads/.exclusive-lock";
    scene
        .run(&["hold", "--", "sh", "-c", script])
        .expect(9, &[LOST, "is no lock"]);
    assert_eq!(fs::read_to_string(scene.lock()).unwrap(), "x\n");
}

/// Whatever stood still meanwhile: a laptop's lid, a debugger, a frozen container.
#[test]
fn who_was_stopped_notices_when_it_goes_on() {
    let scene = crate::a_scene();
    let running = held(&scene, &[], OBEDIENT);
    running.signal(Signal::SIGSTOP);
    fs::remove_file(scene.lock()).unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!scene.file("asked").exists());
    running.signal(Signal::SIGCONT);
    until("it is noticed", || scene.file("asked").exists());
    running.end().expect(9, &[LOST]);
}

/// The lock of the claim that it runs under is not its own to watch, and its loss ends the outer command's whole tree.
#[test]
fn under_an_outer_hold_the_loss_is_the_outer_ones() {
    let scene = crate::a_scene();
    let running = held(
        &scene,
        &["--kill-after", "300ms"],
        &format!(
            "exec \"$BEADLOCK\" hold -- sh -c '{}'",
            OBEDIENT.replace('\'', "\"")
        ),
    );
    fs::remove_file(scene.lock()).unwrap();
    until("it is asked", || scene.file("asked").exists());
    let ended = running.end().expect(9, &[LOST]);
    assert_eq!(ended.err.matches("lost the lock").count(), 1, "{ended:?}");
}

/// Without inotify the clock finds it.
#[test]
fn where_nothing_wakes_it_the_clock_does() {
    let scene = crate::a_scene();
    // As many watches as a user may have: none. In a user namespace of its own, where that can be said.
    let script = "echo 0 > /proc/sys/user/max_inotify_instances && exec \"$BEADLOCK\" hold -- sh -c \"$OBEDIENT\"";
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "sh", "-c", script])
        .env_clear()
        .current_dir(scene.path());
    command
        .env("PATH", "/usr/bin:/bin")
        .env(beadlock_testkit::scene::MARK, scene.path())
        .env("OBEDIENT", OBEDIENT);
    command
        .env("BEADLOCK", env!("CARGO_BIN_EXE_beadlock"))
        .stdin(Stdio::null());
    let mut running = Running::apart(command);
    until("the command runs", || {
        scene.file("ready").exists() || running.has_ended()
    });
    if !scene.file("ready").exists() {
        return skip::cannot(&format!(
            "needs a user namespace without inotify: {}",
            running.err()
        ));
    }
    assert!(!has_inotify(running.pid()));
    fs::remove_file(scene.lock()).unwrap();
    until("it is noticed", || scene.file("asked").exists());
    running.end().expect(9, &[LOST]);
}

#[test]
fn under_an_outer_claim_that_one_is_watched_and_never_released() {
    let scene = crate::a_scene();
    let script = format!(
        "set -a; eval \"$($BEADLOCK acquire -q)\"; $BEADLOCK hold -- sh -c \"{OBEDIENT}\"; echo $? > code; \
         $BEADLOCK hold -- true; echo $? > again; $BEADLOCK hold --new-claim -- true; echo $? >> again"
    );
    let running = Running::apart(scene.shell(&script));
    until("the command runs", || scene.file("ready").exists());
    fs::remove_file(scene.lock()).unwrap();
    let ended = running.end();
    assert_eq!(
        (scene.read("code").trim(), scene.read("again").trim()),
        ("9", "9\n0"),
        "{ended:?}"
    );
    assert!(
        scene.file("asked").exists() && ended.err.contains("lost the lock of "),
        "{ended:?}"
    );
    assert!(
        !ended
            .err
            .contains("released .beads after 0ms\nbeadlock: error"),
        "{ended:?}"
    );
}

#[test]
fn a_directory_that_was_replaced_is_a_loss_and_the_lock_is_released_where_it_is() {
    let (scene, ended, _) = lost(&|scene| {
        fs::rename(scene.beads(), scene.file("old")).unwrap();
        fs::create_dir(scene.beads()).unwrap();
    });
    ended.expect(
        9,
        &[
            LOST,
            ".exclusive-lock was replaced by another, where nobody sees the lock",
        ],
    );
    assert!(
        !scene.file("old/.exclusive-lock").exists(),
        "nothing is left in the old one"
    );
}

#[test]
fn a_shut_gate_does_not_keep_a_loss_waiting() {
    let scene = crate::a_scene();
    let running = held(&scene, &[], OBEDIENT);
    fs::remove_file(scene.lock()).unwrap();
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let begun = Instant::now();
    running.end().expect(9, &[LOST]);
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "it waited for the gate: {:?}",
        begun.elapsed()
    );
    drop(gate);
}

#[test]
fn a_release_by_the_id_is_told_from_a_removal_by_hand() {
    let (_, ended, _) = lost(&|scene| {
        let id = scene.run(&["status", "--json"]).json()["data"][0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        scene
            .run(&["release", "--id", &id])
            .expect(0, &["released"]);
    });
    ended.expect(9, &[LOST, "was released by somebody who gave its id"]);
}
