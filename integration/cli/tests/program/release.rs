//! Releasing what `acquire` has claimed: by its id only, and never anybody else's.
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools and crashes do to a lock file"
)]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use beadlock_core::gate::Gate;
use beadlock_testkit::{Ended, PATIENCE, Running, Scene, dead_pid, shell_lock_text, this_host};

use crate::acquire::{Printed, Sleeper};

/// The file with its content and all that `stat` says of a change.
fn state(path: &Path) -> (Vec<u8>, [i64; 5]) {
    let meta = fs::symlink_metadata(path).unwrap();
    let content = if meta.is_file() {
        fs::read(path).unwrap()
    } else {
        Vec::new()
    };
    (
        content,
        [
            meta.ino().cast_signed(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        ],
    )
}

#[track_caller]
fn acquired(scene: &Scene, words: &[&str]) -> Printed {
    Printed::of(
        &scene
            .run(&[&["acquire", "-q"], words].concat())
            .expect(0, &[]),
    )
}

fn released(scene: &Scene, words: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = scene.beadlock(&[&["release"], words].concat());
    command.envs(variables.iter().copied());
    Running::apart(command).end()
}

#[test]
fn without_an_id_nothing_is_released() {
    let scene = crate::a_scene();
    acquired(&scene, &[]);
    let before = state(&scene.lock());
    for (words, variables) in [
        (&[][..], &[][..]),
        (&[".beads"], &[("BEADLOCK_ID", "")]),
        (&["--id", ""], &[]),
        (&["--id="], &[("BEADLOCK_ID", "")]),
        (
            &[],
            &[("BEADLOCK_TARGET", "beads:.beads"), ("BEADLOCK_PID", "1")],
        ),
    ] {
        let ended = released(&scene, words, variables);
        ended.expect(
            2,
            &[
                "no id: nothing was acquired here",
                "--id ID, or BEADLOCK_ID",
                "set -a; eval",
            ],
        );
    }
    let json = released(&scene, &["--json"], &[]).expect(2, &[]).json();
    assert_eq!(
        (&json["ok"], &json["error"]["code"]),
        (&false.into(), &"USAGE".into())
    );
    assert_eq!(state(&scene.lock()), before);
}

#[test]
fn it_is_found_by_every_name_and_from_everywhere() {
    let scene = crate::a_scene();
    fs::create_dir_all(scene.file("sub/dir")).unwrap();
    std::os::unix::fs::symlink(".beads", scene.file("link")).unwrap();
    let absolute = scene.beads().display().to_string();
    let prefixed = format!("beads:{absolute}");
    for (dir, words, variables) in [
        ("", &[".beads"][..], &[][..]),
        ("", &["link"], &[]),
        ("", &[&absolute], &[]),
        ("sub/dir", &["../../.beads"], &[]),
        ("sub/dir", &[], &[]),
        ("sub", &[], &[("BEADLOCK_TARGET", prefixed.as_str())]),
        ("/", &[], &[("BEADLOCK_TARGET", prefixed.as_str())]),
        ("/", &[], &[("BEADLOCK_TARGET", &format!("'{prefixed}'"))]),
        ("/", &[], &[("BEADS_DIR", &absolute)]),
        ("/", &[&prefixed], &[("BEADLOCK_TARGET", "beads:/nowhere")]),
    ] {
        let id = acquired(&scene, &[]).id;
        for by_variable in [false, true] {
            let mut command = scene.beadlock(&[&["release"], words].concat());
            command
                .current_dir(scene.file(dir))
                .envs(variables.iter().copied());
            match by_variable {
                true => command.env("BEADLOCK_ID", &id),
                // The one that was typed counts.
                false => command.args(["--id", "other"]).env("BEADLOCK_ID", &id),
            };
            let ended = Running::apart(command).end();
            ended.expect(if by_variable { 0 } else { 9 }, &[]);
        }
        assert!(scene.names().is_empty(), "{dir} {words:?} {variables:?}");
    }
}

#[test]
fn the_answer_in_json_and_in_words() {
    let scene = crate::a_scene();
    let id = acquired(&scene, &["--holder", "deploy"]).id;
    let ended = released(&scene, &["--id", &id, "--json"], &[])
        .expect(0, &["beadlock: released .beads after "]);
    let data = &ended.json()["data"];
    assert_eq!(
        (&data["target"], &data["id"]),
        (&"beads:.beads".into(), &id.as_str().into())
    );
    assert!(
        data["released"] == true && data["held_ms"].is_u64(),
        "{data}"
    );
    let ended = released(&scene, &["--id", &id, "--json"], &[])
        .expect(9, &["error: ", ".exclusive-lock is not there any more"]);
    assert_eq!(ended.json()["error"]["code"], "LOCK_LOST");
    let ended = released(&scene, &["--id", &id, "--json", "--missing-ok"], &[]);
    let ended = ended.expect(0, &["warning: ", ".exclusive-lock is not there any more"]);
    let json = ended.json();
    assert_eq!(
        (
            &json["ok"],
            &json["data"]["released"],
            &json["data"]["held_ms"]
        ),
        (&true.into(), &false.into(), &().into())
    );
    assert!(
        json["warnings"][0]
            .as_str()
            .unwrap()
            .contains("is not there any more"),
        "{json}"
    );
    let ended = released(&scene, &["--id", &id, "-q"], &[]).expect(9, &["is not there any more"]);
    assert_eq!(ended.out, "", "said with -q too, on stderr");
    released(&scene, &["nowhere", "--id", &id], &[]).expect(1, &["nowhere"]);
}

#[test]
fn another_ones_lock_stays_as_it_is() {
    let scene = crate::a_scene();
    let id = acquired(&scene, &[]).id;
    fs::remove_file(scene.lock()).unwrap();
    let me = i64::from(std::process::id());
    let theirs = [
        shell_lock_text("vc\u{1b}[2J", me, &this_host()),
        shell_lock_text("dead", i64::from(dead_pid()), &this_host()),
        shell_lock_text("remote", 1, "elsewhere"),
    ];
    for theirs in theirs {
        fs::write(scene.lock(), theirs).unwrap();
        let before = state(&scene.lock());
        let ended = released(&scene, &["--id", &id, "--json"], &[]);
        let ended = ended.expect(9, &["now and was not touched", &id, "beadlock status "]);
        assert!(!ended.err.contains('\u{1b}'), "{ended:?}");
        assert_eq!(
            (&ended.json()["error"]["code"], &ended.json()["data"]),
            (&"LOCK_LOST".into(), &().into())
        );
        assert_eq!(state(&scene.lock()), before);
    }
    fs::remove_file(scene.lock()).unwrap();
    let other = acquired(&scene, &["--holder", "other"]);
    let before = state(&scene.lock());
    released(&scene, &["--id", &id], &[]).expect(9, &["is other's (PID "]);
    // Neither a part of the id, nor something like it.
    for id in [
        &other.id[..31],
        &other.id.to_uppercase(),
        &format!("{} ", other.id),
        "sha256:000000000000",
    ] {
        let code = if *id == *other.id { 0 } else { 9 };
        released(&scene, &["--id", id], &[]).expect(code, &[]);
    }
    assert_eq!(state(&scene.lock()), before);
    released(&scene, &["--id", &other.id], &[]).expect(0, &[]);
}

#[test]
fn what_cannot_be_read_stays_as_it_is() {
    let scene = crate::a_scene();
    let id = acquired(&scene, &[]).id;
    fs::remove_file(scene.lock()).unwrap();
    for content in [
        "",
        "{\"holder\":",
        &format!("{{\"beadlock\":{{\"id\":\"{id}\"}}}}"),
        &"x".repeat(70_000),
    ] {
        fs::write(scene.lock(), content).unwrap();
        let before = state(&scene.lock());
        let ended =
            released(&scene, &["--id", &id, "--json"], &[]).expect(5, &["was not touched: "]);
        assert_eq!(ended.json()["error"]["code"], "LOCK_UNREADABLE");
        assert_eq!(state(&scene.lock()), before);
        fs::remove_file(scene.lock()).unwrap();
    }
    std::os::unix::fs::symlink("elsewhere", scene.lock()).unwrap();
    let before = state(&scene.lock());
    released(&scene, &["--id", &id], &[]).expect(5, &["was not touched: "]);
    assert_eq!(state(&scene.lock()), before);
    fs::remove_file(scene.lock()).unwrap();
    fs::create_dir(scene.lock()).unwrap();
    released(&scene, &["--id", &id], &[]).expect(5, &["was not touched: "]);
    assert!(scene.lock().is_dir());
}

/// The claim is still ours when its process is gone, and when a crash has left it aside.
#[test]
fn ones_own_lock_goes_in_whatever_state() {
    let scene = crate::a_scene();
    let aside = scene.beads().join(".exclusive-lock.aside");
    let sleeper = Sleeper::start();
    let id = acquired(&scene, &["--for", &sleeper.pid()]).id;
    drop(sleeper);
    released(&scene, &["--id", &id], &[]).expect(0, &["released .beads"]);
    assert!(scene.names().is_empty());
    let id = acquired(&scene, &[]).id;
    fs::rename(scene.lock(), &aside).unwrap();
    released(&scene, &["--id", &id], &[]).expect(0, &["released .beads"]);
    assert!(scene.names().is_empty(), "{:?}", scene.names());
    // Ours at its place, and somebody's claim aside: theirs comes back.
    let id = acquired(&scene, &[]).id;
    scene.write_shell_lock("live", i64::from(std::process::id()), &this_host());
    let theirs = state(&scene.lock()).0;
    fs::rename(scene.lock(), &aside).unwrap();
    released(&scene, &["--id", &id], &[]).expect(9, &["is live's"]);
    assert_eq!(state(&scene.lock()).0, theirs);
}

#[test]
fn it_waits_for_a_cycle_that_is_running() {
    let scene = crate::a_scene();
    let id = acquired(&scene, &[]).id;
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let mut running = Running::apart(scene.beadlock(&["release", "--id", &id]));
    std::thread::sleep(Duration::from_millis(300));
    assert!(scene.lock().exists() && !running.has_ended());
    drop(gate);
    running.end().expect(0, &["released .beads"]);
    assert!(scene.names().is_empty());
}

/// Only one's own lock has to be changed, and only for that a cycle is waited for.
#[test]
fn what_is_not_ones_own_waits_for_no_cycle() {
    let scene = crate::a_scene();
    let _gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let begun = Instant::now();
    released(&scene, &["--id", "abc", "--json"], &[]).expect(9, &["is not there any more"]);
    scene.write_shell_lock("other", i64::from(std::process::id()), &this_host());
    let before = state(&scene.lock());
    released(&scene, &["--id", "abc"], &[]).expect(9, &["is other's (PID "]);
    // Also within that cycle.
    let cycle = scene.beads().display().to_string();
    released(&scene, &["--id", "abc"], &[("BEADLOCK_CYCLE", &cycle)])
        .expect(9, &["is other's (PID "]);
    assert_eq!(state(&scene.lock()), before);
    fs::write(scene.lock(), "").unwrap();
    released(&scene, &["--id", "abc"], &[]).expect(5, &["was not touched: "]);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

/// A release of the claim's own lock inside a cycle is refused, because it would wait for that cycle.
#[test]
fn ones_own_lock_is_not_released_within_a_cycle() {
    let scene = crate::a_scene();
    let id = acquired(&scene, &[]).id;
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let cycle = scene.beads().display().to_string();
    let ended = released(
        &scene,
        &["--id", &id, "--json"],
        &[("BEADLOCK_CYCLE", &cycle)],
    );
    let ended = ended.expect(
        4,
        &[
            "inside a sync cycle of",
            "which a release would wait for",
            "leave the release out",
        ],
    );
    assert_eq!(ended.json()["error"]["code"], "DRAIN_TIMEOUT");
    assert!(scene.lock().exists());
    drop(gate);
    released(&scene, &["--id", &id], &[("BEADLOCK_CYCLE", "/nowhere")])
        .expect(0, &["released .beads"]);
}

/// What the release of a nested claim says: whether the outer one still stands, and what ends that.
#[test]
fn the_release_of_a_nested_claim_says_what_stands() {
    let scene = crate::a_scene();
    let outer = acquired(&scene, &[]).id;
    let mut command = scene.beadlock(&["acquire", "-q"]);
    command.env("BEADLOCK_ID", &outer);
    let nested = Printed::of(&Running::apart(command).end().expect(0, &[])).id;
    assert_eq!(nested, format!("nested:{outer}"));
    let words = format!(
        "is still held by the outer claim; to end that: beadlock release .beads --id {outer}"
    );
    let before = state(&scene.lock());
    let ended = released(&scene, &["--id", &nested, "--json"], &[]).expect(0, &[&words]);
    assert_eq!(
        (&ended.json()["data"]["released"], &ended.json()["ok"]),
        (&false.into(), &true.into())
    );
    assert_eq!(
        released(&scene, &["-q"], &[("BEADLOCK_ID", &nested)])
            .expect(0, &[])
            .err,
        ""
    );
    assert_eq!(state(&scene.lock()), before);
    released(&scene, &["--id", "nested:other"], &[])
        .expect(9, &["the claim other of ", "was lost"]);
    assert_eq!(state(&scene.lock()), before);
    released(&scene, &["--id", &outer], &[]).expect(0, &["released .beads"]);
    let ended = released(&scene, &["--id", &nested, "--json", "--missing-ok"], &[])
        .expect(0, &["is not there any more"]);
    assert_eq!(ended.json()["data"]["released"], false);
    assert!(
        ended.json()["warnings"][0]
            .as_str()
            .unwrap()
            .contains("is not there any more")
    );
    // Of a hold: it ends by itself.
    let script = "\"$BEADLOCK\" release --id \"nested:$BEADLOCK_HELD_ID\" 2> said && rm .beads/.exclusive-lock; \
                  \"$BEADLOCK\" release --id \"$BEADLOCK_HELD_ID\" 2>> said";
    scene
        .run(&["hold", "--on-loss", "warn", "--", "sh", "-c", script])
        .expect(9, &[]);
    let said = scene.read("said");
    let [first, second] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert!(
        first.ends_with("is still held by the outer claim, a hold, which ends it with its command"),
        "{said}"
    );
    assert!(second.contains("is not there any more"), "{said}");
}

/// A trail that cannot be written must not keep the lock.
#[test]
fn an_audit_that_cannot_be_written_is_said_and_no_more() {
    let scene = crate::a_scene();
    std::os::unix::fs::symlink("elsewhere", scene.file("link")).unwrap();
    let id = acquired(&scene, &[]).id;
    let words = ["--id", id.as_str(), "--audit", "link"];
    released(&scene, &words, &[]).expect(0, &["warning: the audit file", "released .beads"]);
    assert!(scene.names().is_empty() && !scene.file("elsewhere").exists());
}

#[test]
fn a_claim_under_another_releases_nothing() {
    let scene = crate::a_scene();
    let script = r#"
        out=$("$BEADLOCK" acquire --no-wait -q) || exit 3
        eval "$out"
        case $BEADLOCK_ID in nested:"$BEADLOCK_HELD_ID") ;; *) exit 4 ;; esac
        test "$BEADLOCK_PID" = $$ || exit 5
        "$BEADLOCK" release -q --id "$BEADLOCK_ID" || exit 6
        "$BEADLOCK" release -q --id "$BEADLOCK_HELD_ID" || exit 7
        BEADLOCK_ID=$BEADLOCK_HELD_ID "$BEADLOCK" release -q || exit 8
        "$BEADLOCK" acquire --detach --no-wait -q > /dev/null || exit 10
        grep -q "\"$BEADLOCK_HELD_ID\"" .beads/.exclusive-lock || exit 11
        cp .beads/.exclusive-lock seen"#;
    scene
        .run(&["hold", "--", "sh", "-c", script])
        .expect(0, &["claimed", "released"]);
    assert!(scene.file("seen").exists() && scene.names().is_empty());
    let script = r#"
        eval "$("$BEADLOCK" acquire -q)"; outer=$BEADLOCK_ID; export BEADLOCK_ID BEADLOCK_TARGET
        cp .beads/.exclusive-lock seen
        "$BEADLOCK" hold --no-wait -q -- sh -c 'test "$BEADLOCK_HELD_ID" = "$BEADLOCK_ID"' || exit 3
        sh -c 'eval "$("$BEADLOCK" acquire --no-wait -q)"; test "$BEADLOCK_ID" = "nested:$0" || exit 1
               "$BEADLOCK" acquire --no-wait -q | grep -q "_ID=.nested:$0.$" || exit 2
               "$BEADLOCK" release -q' "$outer" || exit 4
        cmp .beads/.exclusive-lock seen || exit 5
        env -u BEADLOCK_ID "$BEADLOCK" hold --no-wait -q -- true; test $? = 4 || exit 6
        "$BEADLOCK" release -q || exit 7"#;
    let ended = Running::apart(scene.shell(script)).end();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(scene.names().is_empty());
}
