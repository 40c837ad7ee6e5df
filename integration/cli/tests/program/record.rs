//! What a lock file says beside its holder's name: the holder's version, the exact time, and the address of the work.

use std::fs::{self, File};
use std::time::{Duration, Instant, SystemTime};

use beadlock_core::facts;
use beadlock_testkit::{Running, Scene, lock_text, this_host, until};
use serde_json::{Value, json};

use crate::terminal::Terminal;

const RUN: &str = "https://ci.example/shop/runs/991";

fn me() -> i64 {
    i64::from(std::process::id())
}

/// The lock file as it was while the command of `hold ARGS` ran.
fn held(scene: &Scene, target: &str, lock: &str, args: &[&str]) -> Value {
    let copy = format!("cp '{lock}' seen");
    scene
        .run(&[&["hold", "-q", target], args, &["--", "sh", "-c", &copy]].concat())
        .expect(0, &[]);
    serde_json::from_str(&scene.read("seen")).unwrap()
}

fn of_database(scene: &Scene, args: &[&str]) -> Value {
    held(scene, ".beads", ".beads/.exclusive-lock", args)
}

#[test]
fn the_version_is_the_holders_and_beadlock_has_its_own_in_its_key() {
    let scene = crate::a_scene();
    let record = of_database(&scene, &[]);
    assert_eq!(
        (&record["version"], &record["beadlock"]["version"]),
        (&Value::Null, &env!("CARGO_PKG_VERSION").into())
    );
    assert!(
        record.get("version").is_none() && record["beadlock"]["id"].is_string(),
        "{record}"
    );
    let record = of_database(&scene, &["--holder-version", "7.2 beta"]);
    assert_eq!(
        (&record["version"], &record["beadlock"]["version"]),
        (&"7.2 beta".into(), &env!("CARGO_PKG_VERSION").into())
    );

    let mut command = scene.beadlock(&["acquire", "--for", &me().to_string()]);
    command.env("BEADLOCK_HOLDER_VERSION", "7.3");
    let claimed = Running::apart(command).end().expect(0, &[]);
    let id = claimed
        .out
        .lines()
        .find_map(|line| line.strip_prefix("BEADLOCK_ID="))
        .unwrap();
    assert!(
        scene.lock_text().contains("\"version\": \"7.3\""),
        "{}",
        scene.lock_text()
    );
    scene.run(&["release", "--id", id]).expect(0, &[]);
}

#[test]
fn a_version_that_no_record_may_have_is_refused() {
    let scene = crate::a_scene();
    let long = "1".repeat(129);
    for version in ["", "1\n2", "\u{1b}[2J", &long] {
        let ended = scene.run(&["hold", "--holder-version", version, "--", "touch", "ran"]);
        ended.expect(
            2,
            &["--holder-version: a holder's version is 1 to 128 printable characters"],
        );
    }
    let mut command = scene.beadlock(&["hold", "--", "touch", "ran"]);
    command.env("BEADLOCK_HOLDER_VERSION", "1\u{202e}2");
    Running::apart(command).end().expect(
        2,
        &["$BEADLOCK_HOLDER_VERSION: a holder's version is 1 to 128"],
    );
    fs::create_dir(scene.file("dir")).unwrap();
    for (target, why) in [
        ("memory:dir", "its record has no version"),
        ("tower:app", "it has the version of its intent"),
        ("file:x.json", "an flock has no record"),
    ] {
        let ended = scene.run(&[
            "hold",
            target,
            "--holder-version",
            "1",
            "--",
            "touch",
            "ran",
        ]);
        ended.expect(2, &["--holder-version means nothing to ", why]);
    }
    assert!(!scene.file("ran").exists() && scene.names().is_empty());
}

/// The age that `status` has, and that a refusal has, in milliseconds.
fn ages(scene: &Scene) -> [u128; 2] {
    let status = scene.run(&["status", "--json"]).expect(0, &[]).json();
    let refused = scene
        .run(&["hold", "--no-wait", "--json", "--", "true"])
        .expect(4, &[])
        .json();
    let detail = refused["error"]["detail"].as_str().unwrap();
    let (_, refused) = detail.rsplit_once("holder_age_ms=").unwrap();
    [
        u128::from(status["data"][0]["age_ms"].as_u64().unwrap()),
        refused.parse().unwrap(),
    ]
}

/// Milliseconds since the second began.
fn into_the_second() -> u128 {
    facts::now()
        .to_system_time()
        .unwrap()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis()
        % 1000
}

/// Does `claim` right before a second ends, in the same second; returns the moments before and after.
fn before_the_boundary(claim: impl Fn(), undo: impl Fn()) -> [Instant; 2] {
    for _ in 0..100 {
        until("the second is nearly over", || {
            (800..850).contains(&into_the_second())
        });
        let before = Instant::now();
        claim();
        let after = Instant::now();
        if into_the_second() >= 800 && after - before < Duration::from_millis(200) {
            return [before, after];
        }
        undo();
    }
    panic!("a claim takes longer than what is left of the second, 100 times");
}

/// Both ages are those of a lock that was made between these moments: by whole seconds it would be 800 ms older.
fn assert_exact(scene: &Scene, [before, after]: [Instant; 2]) {
    let least = after.elapsed().as_millis();
    let ages = ages(scene);
    let most = before.elapsed().as_millis();
    for age in ages {
        // The file system's clock ticks at least 100 times a second, the wall clock may be slewed.
        assert!(
            (least.saturating_sub(20)..=most + 20).contains(&age),
            "{age} is not in {least}..={most}"
        );
    }
}

#[test]
fn an_age_is_right_to_the_millisecond_right_before_a_second_boundary() {
    let scene = crate::a_scene();
    let claim = || {
        drop(
            scene
                .run(&["acquire", "--for", &me().to_string()])
                .expect(0, &[]),
        )
    };
    let moments = before_the_boundary(claim, || scene.unlock());
    assert_exact(&scene, moments);
    // Whatever becomes of the file's own times.
    File::options()
        .write(true)
        .open(scene.lock())
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    assert_exact(&scene, moments);
}

#[test]
fn an_age_of_another_writers_lock_goes_by_the_file_or_has_whole_seconds() {
    let scene = crate::a_scene();
    let claim = || scene.write_lock(lock_text("vc-executor", me(), &this_host()));
    let moments = before_the_boundary(claim, || scene.unlock());
    assert_exact(&scene, moments);

    // A file that was copied tells nothing about the second.
    File::options()
        .write(true)
        .open(scene.lock())
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    until("it is some seconds old", || {
        moments[0].elapsed() > Duration::from_secs(2)
    });
    assert_eq!(ages(&scene).map(|age| age % 1000), [0, 0]);
    let status = scene.run(&["status"]).expect(0, &[]).out;
    let words = ["for 2s (", "for 3s (", "for 4s (", "for 5s ("];
    assert!(words.iter().any(|word| status.contains(word)), "{status}");
    let listed = scene.run(&["list", "."]).expect(0, &[]).out;
    assert!(
        ["  2s  ", "  3s  ", "  4s  ", "  5s  "]
            .iter()
            .any(|word| listed.contains(word)),
        "{listed}"
    );
    let waiting = scene.run(&["wait", "--wait", "3s"]).expect(4, &[]).err;
    assert!(
        !waiting
            .lines()
            .next()
            .unwrap()
            .rsplit_once(" for ")
            .unwrap()
            .1
            .split(';')
            .next()
            .unwrap()
            .contains('.'),
        "{waiting}"
    );
}

#[test]
fn what_a_lock_is_held_for_is_shown_wherever_the_holder_is() {
    let scene = crate::a_scene();
    scene
        .run(&["acquire", "--for", &me().to_string(), "--about", RUN])
        .expect(0, &[]);
    let record: Value = serde_json::from_str(&scene.lock_text()).unwrap();
    assert_eq!(record["beadlock"]["about"], RUN);
    let line = format!("\n  about: {RUN}\n");
    assert!(scene.run(&["status"]).expect(0, &[]).out.contains(&line));
    assert!(
        scene
            .run(&["list", ".", "-v"])
            .expect(0, &[])
            .out
            .contains(&format!("about: {RUN}\n"))
    );
    let status = scene.run(&["status", "--json"]).expect(0, &[]).json();
    let data = &status["data"][0];
    assert_eq!(
        (
            &data["witnesses"]["about"],
            &data["record"]["beadlock"]["about"]
        ),
        (&RUN.into(), &RUN.into())
    );
    for args in [
        &["hold", "--wait", "3s", "--json", "--", "true"][..],
        &["wait", "--wait", "3s", "--json"],
    ] {
        let ended = scene.run(args).expect(4, &[]);
        assert!(
            ended
                .err
                .contains(&format!("beadlock: the holder is at work on {RUN}\n")),
            "{ended:?}"
        );
        assert_eq!(ended.err.matches(RUN).count(), 1, "{ended:?}");
        let detail = ended.json()["error"]["detail"].as_str().unwrap().to_owned();
        assert!(detail.ends_with(&format!(" about={RUN}")), "{detail}");
    }
}

/// On a terminal the line is there when the terminal need not break it.
#[test]
fn a_terminal_shows_the_address_of_the_work_when_it_fits() {
    for (columns, is_shown) in [(120, true), (50, false)] {
        let scene = crate::a_scene();
        scene
            .run(&["acquire", "--for", &me().to_string(), "--about", RUN])
            .expect(0, &[]);
        let script = format!("stty rows 24 cols {columns}; exec \"$BEADLOCK\" wait --wait 1h");
        let terminal = Terminal::start(&scene, &["sh", "-c", &script]);
        terminal.until("it is rewritten", || {
            terminal.seen().matches("\x1b[?7h").count() >= 2
        });
        scene.unlock();
        let ended = terminal.end();
        assert_eq!(
            ended
                .out
                .matches(&format!("the holder is at work on {RUN}\r\n"))
                .count(),
            usize::from(is_shown),
            "{ended:?}"
        );
    }
}

#[test]
fn locks_of_other_kinds_say_what_they_are_held_for() {
    let scene = crate::a_scene();
    fs::create_dir(scene.file("dir")).unwrap();
    let record = held(&scene, "memory:dir", "dir/.lock", &["--about", RUN]);
    assert_eq!(
        (&record["beadlock"]["about"], &record["session_id"]),
        (&RUN.into(), &"unknown".into())
    );
    let record = held(&scene, "lock:x.lock", "x.lock", &["--about", RUN]);
    assert_eq!(record["beadlock"]["about"], RUN);
    let of_intent = [
        "--intent-name",
        "deploy",
        "--intent-version",
        "1",
        "--lock-dir",
        "locks",
        "--about",
        RUN,
    ];
    let record = held(&scene, "tower:app", "locks/app.lock", &of_intent);
    assert_eq!(
        (&record["beadlock"], &record["metadata"]),
        (&json!({ "about": RUN }), &json!({}))
    );
    let ended = scene.run(&["hold", "file:x.json", "--about", RUN, "--", "true"]);
    ended.expect(2, &["--about means nothing to ", "an flock has no record"]);
}

#[test]
fn only_an_address_of_the_web_is_taken() {
    let scene = crate::a_scene();
    let long = format!("https://ci/{}", "x".repeat(1000));
    for address in [
        "ci.example/1",
        "ftp://ci/1",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https:///x",
        "https://",
        "https://ci/a b",
        "https://ci/\u{1b}[2J",
        "https://ci/\u{202e}x",
        "https://ann:secret@ci/1",
        "https://good.example@evil.example/",
        &long,
        "",
    ] {
        let ended = scene.run(&["hold", "--about", address, "--", "touch", "ran"]);
        assert!(!ended.err.contains('\u{1b}'), "{ended:?}");
        ended.expect(
            2,
            &["--about: wanted is an address of at most 1000 characters that begins with http:// or https://"],
        );
    }
    let mut command = scene.beadlock(&["hold", "--", "touch", "ran"]);
    command.env("BEADLOCK_ABOUT", "ftp://ci/1");
    Running::apart(command)
        .end()
        .expect(2, &["$BEADLOCK_ABOUT: wanted is an address"]);
    assert!(!scene.file("ran").exists());
    let mut command = scene.beadlock(&["hold", "-q", "--", "cp", ".beads/.exclusive-lock", "seen"]);
    command.env("BEADLOCK_ABOUT", "HTTP://ci:8080/1?x=a@b");
    Running::apart(command).end().expect(0, &[]);
    assert!(
        scene
            .read("seen")
            .contains("\"about\": \"HTTP://ci:8080/1?x=a@b\"")
    );
}

/// A user that may write the lock file decides what is in it.
#[test]
fn what_is_not_an_address_in_a_lock_file_is_escaped_and_never_shown_as_one() {
    for hostile in [
        "javascript:alert(1)",
        "https://ci/\u{1b}[2J\nbeadlock: claimed",
        "https://bank.example@evil.example/",
        "",
    ] {
        let scene = crate::a_scene();
        let text = json!({
            "holder": "vc", "pid": me(), "hostname": this_host(), "started_at": "2026-02-01T10:11:12Z",
            "beadlock": { "id": "x", "about": hostile },
        });
        scene.write_lock(text.to_string());
        let status = scene.run(&["status"]).expect(0, &[]).out;
        let shown = format!(
            "\n  about: \"{}\", which is not an address of the web\n",
            hostile.escape_default()
        );
        assert!(
            status.contains(&shown) && !status.contains('\u{1b}'),
            "{status}"
        );
        let json = scene.run(&["status", "--json"]).expect(0, &[]).json();
        assert_eq!(json["data"][0]["witnesses"]["about"], hostile);
        let waited = scene
            .run(&["wait", "--wait", "600ms", "--json"])
            .expect(4, &[]);
        assert!(
            !waited.err.contains("at work on") && !waited.out.contains("about="),
            "{waited:?}"
        );
    }
}
