//! What the protocol does not promise, as the document says, and the ways out that it names.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, dead_pid, run, tool, wait_until};
use nix::sys::signal::Signal;

use super::one_cycle;

const TORN: &str = "{\"holder\":\"my-tool\",\"pid\":1";
const MALFORMED: &str =
    "Skipping database (lock check failed: malformed lock file: unexpected EOF)";

#[test]
fn a_claim_stops_nobody_but_those_who_ask() {
    let scene = Scene::new();
    let hold = scene.hold(&["--holder", "my-tool", "--", "sleep", "1000"]);
    let stranger = run(scene.shell("echo stranger >>.beads/issues.jsonl"));
    assert!(stranger.status.success(), "{stranger:?}");
    assert!(scene.read(".beads/issues.jsonl").ends_with("stranger\n"));
    assert!(
        scene.lock_text().contains("my-tool"),
        "nor does it end the claim"
    );
    drop(hold);
}

/// Beside one claim: daemons, which are stopped, and tools that write to the database, which are not.
#[test]
fn a_claim_stops_daemons_and_no_other_tool() {
    let scene = Scene::new();
    let hold = scene.hold(&[
        "--holder",
        "my-tool",
        "--",
        "sh",
        "-c",
        "until [ -e go ]; do sleep 0.02; done",
    ]);
    assert_eq!(one_cycle(&scene, "touch ran"), 4, "the agent");
    assert_eq!(
        scene.run(&["cycle", "--", "touch", "ran"]).code,
        4,
        "a daemon of another kind"
    );
    assert!(!scene.file("ran").exists());
    for tool in [
        "echo appended >>.beads/issues.jsonl",
        "{ cat .beads/issues.jsonl; echo replaced; } >new && mv new .beads/issues.jsonl",
        "mkdir .beads/more && echo 1 >.beads/more/made",
    ] {
        let ended = Ended::from(run(scene.shell(tool)));
        assert_eq!(ended.code, 0, "{tool}: {ended:?}");
    }
    assert_eq!(
        scene.read(".beads/issues.jsonl"),
        "{\"id\":\"bd-1\"}\nappended\nreplaced\n"
    );
    assert!(scene.file(".beads/more/made").exists());
    assert_eq!(
        one_cycle(&scene, "touch ran"),
        4,
        "the claim stands all the while"
    );
    scene.write("go", "");
    let ended = Ended::from(hold.finish(PATIENCE));
    assert_eq!(ended.code, 0, "it was not lost: {ended:?}");
    assert_eq!(
        one_cycle(&scene, "touch ran"),
        0,
        "the claim alone was in the daemon's way"
    );
    assert!(scene.file("ran").exists());
}

/// Two daemons beside one claim, with an equal rhythm: the one that asks does nothing until the claim has ended.
#[test]
fn a_daemon_that_does_not_ask_works_on_beside_a_claim() {
    let scene = Scene::new();
    let hold = scene.hold(&["--holder", "my-tool", "--", "sleep", "1000"]);
    let cycles = |of: &str| scene.read(of).lines().count();
    let _asks = scene.start_agent(&[
        "--db",
        ".beads",
        "--interval",
        "50ms",
        "--exec",
        "echo cycle >>asks",
    ]);
    let never_asks =
        "while :; do cp .beads/issues.jsonl synced && echo cycle >>never-asks; sleep 0.05; done";
    let _never_asks = Running::start(scene.shell(never_asks));
    scene.wait_for_log("four skips", |log| {
        log.matches("Skipping database (locked by my-tool)").count() >= 4
    });
    let before = cycles("never-asks");
    wait_until(PATIENCE, "four cycles beside the claim", || {
        cycles("never-asks") >= before + 4
    });
    assert!(
        scene.lock_text().contains("my-tool"),
        "the claim stands all the while"
    );
    assert_eq!(cycles("asks"), 0, "{}", scene.log());
    hold.signal(Signal::SIGTERM);
    wait_until(PATIENCE, "a cycle of the one that asks", || {
        cycles("asks") > 0
    });
}

#[test]
fn nothing_is_rolled_back_and_the_next_cycle_syncs_what_it_finds() {
    let scene = Scene::new();
    let ended = scene.run(&[
        "hold",
        "--",
        "sh",
        "-c",
        "echo half >>.beads/issues.jsonl; exit 3",
    ]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert_eq!(one_cycle(&scene, "cp .beads/issues.jsonl synced"), 0);
    assert_eq!(scene.read("synced"), "{\"id\":\"bd-1\"}\nhalf\n");
}

/// Dead here, and of another host: nobody here can tell.
#[test]
fn a_lock_of_another_host_stays_until_a_person_removes_it() {
    let scene = Scene::new();
    let place = || scene.write_shell_lock("my-tool", dead_pid().into(), "elsewhere.example");
    let stays = || {
        let before = scene.lock_text();
        for _ in 0..3 {
            assert_eq!(one_cycle(&scene, "touch ran"), 4);
        }
        assert_eq!(
            scene.run(&["check", "--reap-proven-dead"]).code,
            4,
            "nor by any proof"
        );
        assert_eq!(scene.lock_text(), before);
        assert!(!scene.file("ran").exists());
    };
    place();
    stays();
    scene.unlock();
    assert_eq!(one_cycle(&scene, "touch ran"), 0, "rm was enough");

    fs::remove_file(scene.file("ran")).expect("the cycle ran");
    place();
    stays();
    let refused = scene.run(&["break", ".beads", "--holder", "my-tool"]);
    assert_eq!(refused.code, 4, "it may be alive: {refused:?}");
    let broken = scene.run(&["break", ".beads", "--holder", "my-tool", "--even-if-live"]);
    assert_eq!(broken.code, 0, "{broken:?}");
    assert_eq!(one_cycle(&scene, "touch ran"), 0);
}

#[test]
fn a_corrupted_lock_stays_until_a_person_mends_or_removes_it() {
    let scene = Scene::new();
    let stays = || {
        scene.write_lock(TORN);
        assert_eq!(one_cycle(&scene, "touch ran"), 5);
        assert!(
            scene.log().contains(&format!("] {MALFORMED}\n")),
            "{}",
            scene.log()
        );
        assert_eq!(scene.lock_text(), TORN);
        assert!(!scene.file("ran").exists());
    };
    let runs = |how: &str| {
        assert_eq!(one_cycle(&scene, "touch ran"), 0, "{how}");
        fs::remove_file(scene.file("ran")).expect(how);
    };
    stays();
    scene.write_stale_lock("my-tool");
    runs("mended, it is a stale lock like any other");
    stays();
    scene.unlock();
    runs("removed by hand");
    stays();
    let broken = scene.run(&["break", ".beads", "--malformed"]);
    assert_eq!(broken.code, 0, "{broken:?}");
    runs("removed by beadlock break");
}

/// Each linked worktree has a `.beads` of its own, and a lock in one says nothing in the next.
#[test]
fn a_lock_in_one_worktree_says_nothing_in_another() {
    let Some(git) = tool("git") else { return };
    let scene = Scene::new();
    let git = |args: &[&str]| {
        let mut command = scene.command(&git);
        command
            .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"])
            .args(args);
        let ended = Ended::from(run(command));
        assert_eq!(ended.code, 0, "git {args:?}: {ended:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", ".beads/issues.jsonl"]);
    git(&["commit", "--quiet", "--message", "first"]);
    git(&["worktree", "add", "--quiet", "tree"]);
    scene.claim("my-tool", std::process::id());
    assert_eq!(scene.run(&["check", ".beads"]).code, 4);
    assert_eq!(scene.run(&["check", "tree/.beads"]).code, 0);
    // So the daemon keeps out of them.
    let agent = Ended::from(run(scene.agent(&["--db", "tree/.beads", "--once"])));
    assert_eq!(agent.code, 1, "{agent:?}");
    let log = scene.read("tree/.beads/daemon.log");
    assert!(
        log.contains("is a linked worktree") && log.contains("--allow-worktree"),
        "{log}"
    );
}

/// A user that may write to the directory may take any lock away: no security, and noticed.
#[test]
fn a_lock_that_any_process_deletes_is_gone_and_its_holder_is_told() {
    let scene = Scene::new();
    let hold = scene.hold(&["--", "sleep", "1000"]);
    scene.unlock();
    let ended = hold.finish(PATIENCE);
    assert_eq!(
        (ended.status.code(), ended.status.signal()),
        (Some(9), None),
        "{ended:?}"
    );
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        said.contains("the lock is lost") && said.contains("vanished"),
        "{said}"
    );
    assert_eq!(one_cycle(&scene, "true"), 0);
}
