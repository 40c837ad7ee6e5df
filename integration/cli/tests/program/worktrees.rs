//! `lock:@NAME`: one lock for all working trees of a repository; and `release --holder`, by which another shell ends a
//! claim.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use beadlock_testkit::{Ended, Running, Scene, until};

/// A repository `one` with a second working tree `two`.
fn scene() -> (Scene, PathBuf) {
    let scene = crate::a_scene();
    fs::remove_dir(scene.beads()).unwrap();
    for script in [
        "git init -q one && git -C one -c user.name=a -c user.email=a@b commit -q --allow-empty -m first",
        "git -C one worktree add -q ../two",
    ] {
        Running::apart(scene.shell(script)).end().expect(0, &[]);
    }
    fs::create_dir(scene.file("two/deep")).unwrap();
    let common = fs::canonicalize(scene.file("one/.git")).unwrap();
    (scene, common)
}

fn at(scene: &Scene, dir: &str, words: &[&str]) -> Command {
    let mut command = scene.beadlock(words);
    command.current_dir(scene.file(dir));
    command
}

fn run(scene: &Scene, dir: &str, words: &[&str]) -> Ended {
    Running::apart(at(scene, dir, words)).end()
}

#[test]
fn all_working_trees_share_one_lock() {
    let (scene, common) = scene();
    run(&scene, "one", &["check", "lock:@staging"]).expect(0, &[]);
    run(&scene, "one", &["status", "lock:@staging"]).expect(0, &[]);
    run(&scene, "two", &["wait", "lock:@staging"]).expect(0, &[]);
    assert!(
        !common.join("beadlock").exists(),
        "nothing is made to say so"
    );
    let script = "touch ../begun; until test -e ../go; do sleep 0.01; done";
    let hold = Running::apart(at(
        &scene,
        "one",
        &["hold", "lock:@staging", "--", "sh", "-c", script],
    ));
    until("it is held", || scene.file("begun").exists());
    assert!(common.join("beadlock/staging.lock").exists());
    for dir in ["one", "two", "two/deep"] {
        run(
            &scene,
            dir,
            &["hold", "lock:@staging", "--no-wait", "--", "true"],
        )
        .expect(4, &["Resource lock held by PID"]);
        run(&scene, dir, &["check", "lock:@other"]).expect(0, &[]);
    }
    let path = format!("lock:{}", common.join("beadlock/staging.lock").display());
    run(&scene, ".", &["check", &path]).expect(4, &[]);
    for dir in ["one", "two"] {
        let list = run(&scene, dir, &["list"]).expect(0, &["1 lock"]).out;
        assert!(list.contains("beadlock/staging.lock  held  sh"), "{list}");
    }
    let status = run(&scene, "two", &["status"]).expect(0, &[]).out;
    assert!(
        status.starts_with("lock:@staging: held by sh (PID"),
        "{status}"
    );
    assert!(status.lines().count() <= 5, "{status}");
    scene.write("go", "");
    hold.end().expect(0, &[]);
    run(&scene, "two", &["check", "lock:@staging"]).expect(0, &[]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a repository is damaged")]
fn it_is_never_in_another_place_in_silence() {
    let (scene, common) = scene();
    fs::create_dir(scene.file("outside")).unwrap();
    let outside = |variables: &[(&str, PathBuf)]| {
        let mut command = at(&scene, "outside", &["hold", "lock:@staging", "--", "true"]);
        command.env_remove("XDG_RUNTIME_DIR");
        command.env("GIT_CEILING_DIRECTORIES", scene.path());
        variables.iter().for_each(|(name, value)| {
            command.env(name, value);
        });
        Running::apart(command).end()
    };
    outside(&[]).expect(2, &["here is no git repository", "$XDG_RUNTIME_DIR"]);
    outside(&[("XDG_RUNTIME_DIR", "relative".into())]).expect(2, &["$XDG_RUNTIME_DIR"]);
    outside(&[("XDG_RUNTIME_DIR", scene.file("none"))]).expect(2, &["cannot be reached"]);
    fs::create_dir(scene.file("runtime")).unwrap();
    outside(&[("XDG_RUNTIME_DIR", scene.file("runtime"))]).expect(0, &["claimed lock:@staging"]);
    assert!(scene.file("runtime/beadlock").is_dir());

    // A repository that git cannot read has a lock of its own, which nobody finds now.
    fs::rename(common.join("HEAD"), common.join("gone")).unwrap();
    let refused = ["hold", "lock:@staging", "--", "true"];
    run(&scene, "one", &refused).expect(2, &["git does not say", "lock:PATH"]);
    let script = "cd one && PATH=/nowhere \"$BEADLOCK\" hold lock:@staging -- true";
    Running::apart(scene.shell(script))
        .end()
        .expect(2, &["there is no git on the PATH"]);
    assert!(!common.join("beadlock").exists());
}

#[test]
fn what_names_no_lock_is_refused() {
    let (scene, _) = scene();
    for target in ["lock:@", "lock:@a/b", "lock:@.hidden", "lock:@.."] {
        run(&scene, "one", &["hold", target, "--", "true"]).expect(2, &["lock:@staging"]);
    }
    run(&scene, "one", &["hold", "lock:./@file", "--", "true"]).expect(0, &[]);
}

#[test]
fn another_shell_ends_a_claim_by_its_holders_name() {
    let (scene, _) = scene();
    let acquired = |dir: &str, options: &[&str]| {
        let words = [
            &["acquire", "lock:@staging", "--holder", "agent-7"],
            options,
        ]
        .concat();
        run(&scene, dir, &words).expect(0, &["claimed lock:@staging for agent-7"])
    };
    let release = |holder: &str| {
        run(
            &scene,
            "two",
            &["release", "lock:@staging", "--holder", holder],
        )
    };
    let released = |ended: Ended, acquired: &Ended| {
        let line = acquired
            .out
            .lines()
            .find(|line| line.contains("BEADLOCK_ID="))
            .unwrap();
        let id = line
            .split('=')
            .nth(1)
            .unwrap()
            .trim_matches('\'')
            .trim_end_matches(';');
        ended.expect(
            0,
            &[
                "released the claim",
                id.trim_matches('\''),
                "of agent-7 on lock:@staging",
            ],
        );
    };
    let by_keeper = acquired("one", &["--detach"]);
    release("agent-8").expect(9, &["held by agent-7", "left alone"]);
    released(release("agent-7"), &by_keeper);
    let pid = std::process::id().to_string();
    let by_process = acquired("two", &["--for", &pid]);
    released(release("agent-7"), &by_process);
    release("agent-7").expect(9, &["is free"]);
    run(
        &scene,
        "one",
        &[
            "release",
            "lock:@staging",
            "--holder",
            "agent-7",
            "--missing-ok",
        ],
    )
    .expect(0, &["is free"]);
    run(
        &scene,
        "one",
        &["release", "lock:@staging", "--holder", "a", "--id", "b"],
    )
    .expect(2, &[]);
    run(&scene, "one", &["release", "flock:file", "--holder", "a"]).expect(2, &["use --id ID"]);
}

#[test]
fn a_live_hold_is_never_ended_by_name() {
    let (scene, common) = scene();
    let script = "touch ../begun; until test -e ../go; do sleep 0.01; done";
    let hold = Running::apart(at(
        &scene,
        "one",
        &[
            "hold",
            "lock:@staging",
            "--holder",
            "agent-7",
            "--",
            "sh",
            "-c",
            script,
        ],
    ));
    until("it is held", || scene.file("begun").exists());
    run(
        &scene,
        "two",
        &["release", "lock:@staging", "--holder", "agent-7"],
    )
    .expect(4, &["was not made by beadlock acquire", "ps -fp"]);
    assert!(common.join("beadlock/staging.lock").exists());
    scene.write("go", "");
    hold.end().expect(0, &[]);
}

#[test]
fn what_is_released_by_name_is_no_other_claim_of_the_shell() {
    let (scene, _) = scene();
    let script = "cd one && eval \"$(\"$BEADLOCK\" acquire lock:own.lock)\" && \
                  \"$BEADLOCK\" acquire -q --detach --holder agent-7 lock:@staging > claim && \
                  eval \"$(\"$BEADLOCK\" release --holder agent-7 lock:@staging)\" && \
                  test -n \"$BEADLOCK_ID\" && \"$BEADLOCK\" release > /dev/null";
    Running::apart(scene.shell(script))
        .end()
        .expect(0, &["released the claim", "released lock:"]);
}

#[test]
fn a_file_that_is_no_lock_is_in_nobodys_way() {
    let (scene, common) = scene();
    fs::create_dir(common.join("beadlock")).unwrap();
    for name in [".lock", ".hidden.lock", "notes.txt"] {
        fs::write(common.join("beadlock").join(name), "x").unwrap();
    }
    run(&scene, "one", &["status"]).expect(1, &["no .beads here or above"]);
    run(&scene, "one", &["list"]).expect(0, &[]);
    fs::write(common.join("beadlock/torn.lock"), "{").unwrap();
    run(
        &scene,
        "one",
        &["release", "lock:@torn", "--holder", "a", "--missing-ok"],
    )
    .expect(5, &["cannot be understood"]);
    let status = run(&scene, "two", &["status"]).expect(0, &[]).out;
    assert!(status.starts_with("lock:@torn: unreadable"), "{status}");
}
