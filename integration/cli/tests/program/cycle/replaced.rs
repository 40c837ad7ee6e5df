//! The database's directory is replaced while the command of a cycle works: the gate is on the old one, and a claim
//! takes the new one's. That is a loss, as of a lock.

use std::fs;
use std::process::Command;

use beadlock_core::gate::Gate;
use beadlock_testkit::{Running, lives, until};

/// Works until it is told to end.
const WORK: &str = "trap 'touch asked; exit 0' TERM; echo $$ > pid; while :; do sleep 0.01; done";

const CAUSE: &str = "`git switch` to a branch without it, a rename or rm does that; claims no longer wait for this cycle";

#[test]
#[expect(clippy::disallowed_methods, reason = "the test renames the directory")]
fn a_directory_renamed_and_made_anew_is_a_loss() {
    let scene = crate::a_scene();
    let mut command = scene.beadlock(&["cycle", "--", "sh", "-c", WORK]);
    command.env("BEADLOCK_AUDIT", "audit");
    let running = Running::apart(command);
    let command = scene.pid_in("pid");
    fs::rename(scene.beads(), scene.file("old")).unwrap();
    fs::create_dir(scene.beads()).unwrap();
    // Within half a second on a machine that has nothing else to do. Unnoticed, its command would never end.
    until("it is asked to end", || scene.file("asked").exists());
    let dir = fs::canonicalize(scene.path()).unwrap().join(".beads");
    let ended = running.end();
    let words = [
        &*format!(
            "the gate is lost, ending the command: {} is another directory now; {CAUSE}",
            dir.display()
        ),
        "lost the gate of .beads after ",
        "what was done since is not protected: look at it, then beadlock status .beads",
        "to switch branches between cycles: beadlock hold .beads -- git switch BRANCH",
    ];
    ended.expect(9, &words);
    assert!(!lives(command) && Gate::try_take(&scene.file("old")).unwrap().is_some());
    let audit: serde_json::Value = serde_json::from_str(scene.read("audit").trim()).unwrap();
    assert_eq!(
        (&audit["event"], &audit["reason"]),
        (&"lock_lost".into(), &"replaced".into()),
        "{audit}"
    );
}

#[test]
fn a_directory_that_is_gone_is_a_loss_and_the_own_exit_code_is_heard() {
    let scene = crate::a_scene();
    let running = Running::apart(scene.beadlock(&[
        "cycle",
        "--own-exit-code",
        "42",
        "--json",
        "--",
        "sh",
        "-c",
        WORK,
    ]));
    scene.pid_in("pid");
    fs::remove_dir_all(scene.beads()).unwrap();
    let ended = running.end().expect(42, &["/.beads is gone; ", CAUSE]);
    assert_eq!(ended.out, "", "stdout is the command's");
}

/// What ignores the end is killed, with all that it has started.
#[test]
fn the_whole_tree_is_ended() {
    let scene = crate::a_scene();
    let script = "trap '' TERM; setsid sh -c 'echo $$ > below; while :; do sleep 0.01; done' & echo $$ > pid; \
                  while :; do sleep 0.01; done";
    let mut command = scene.beadlock(&["cycle", "--", "sh", "-c", script]);
    command.env("BEADLOCK_KILL_AFTER", "200ms");
    let running = Running::apart(command);
    let (command, below) = (scene.pid_in("pid"), scene.pid_in("below"));
    fs::remove_dir_all(scene.beads()).unwrap();
    running.end().expect(
        9,
        &["still running 200ms after it was asked to end, killing: "],
    );
    assert!(!lives(command) && !lives(below));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test renames the directory")]
fn a_loss_at_the_very_end_is_a_loss() {
    let scene = crate::a_scene();
    let ended = scene.run(&["cycle", "--", "sh", "-c", "mv .beads old; mkdir .beads"]);
    ended.expect(9, &["lost the gate of .beads after "]);
    // On a busy machine it may be away for longer than a moment. Once in its place again in time is enough.
    let is_no_loss = |_| {
        let ended = scene.run(&[
            "cycle",
            "--",
            "sh",
            "-c",
            "mv .beads old2 && mv old2 .beads; exit 7",
        ]);
        let _ = fs::rename(scene.file("old2"), scene.beads());
        ended.code == 7 && ended.err.is_empty()
    };
    assert!((0..5).any(is_no_loss), "it is in its place again");
}

/// The way it happens: a branch without the database, and back. The claim that comes meanwhile runs beside the command
/// for a moment, and not for longer.
#[test]
fn git_switch_away_and_back_is_a_loss() {
    let scene = crate::a_scene();
    let git = |args: &str| {
        let script =
            format!("git -c user.name=t -c user.email=t@t -c init.defaultBranch=main {args}");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .current_dir(scene.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        assert!(
            command
                .env("HOME", scene.path())
                .output()
                .unwrap()
                .status
                .success(),
            "{args}"
        );
    };
    fs::write(scene.beads().join("issues.jsonl"), "{}\n").unwrap();
    fs::write(scene.file("README"), "x").unwrap();
    git(
        "init -q && git add README && git -c user.name=t -c user.email=t@t commit -qm one && git branch without",
    );
    git("add .beads && git -c user.name=t -c user.email=t@t commit -qm two");
    let running = Running::apart(scene.beadlock(&["cycle", "--", "sh", "-c", WORK]));
    let command = scene.pid_in("pid");
    git("switch -q without");
    assert!(
        !scene.beads().exists(),
        "git removes a directory that it has emptied"
    );
    git("switch -q main");
    let claim = Running::apart(scene.beadlock(&[
        "hold",
        "-q",
        "--",
        "sh",
        "-c",
        "touch claimed; until test -e go; do sleep 0.01; done",
    ]));
    until("the claim has the new gate", || {
        scene.file("claimed").exists()
    });
    let ended = running.end().expect(9, &["; `git switch` "]);
    let is_named = [" is another directory now; ", " is gone; "]
        .iter()
        .any(|words| ended.err.contains(words));
    assert!(is_named, "as it was at that moment: {ended:?}");
    assert!(
        !lives(command),
        "the cycle has ended, and the claim goes on alone"
    );
    fs::write(scene.file("go"), "").unwrap();
    claim.end().expect(0, &[]);
}
