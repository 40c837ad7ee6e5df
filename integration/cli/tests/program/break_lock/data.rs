//! `lock:PATH` of a file that is not a lock: somebody's data is called what it is, and moved only after a question.
#![expect(clippy::disallowed_methods, reason = "ages for files")]

use std::fs::{self, File};
use std::time::{Duration, Instant, SystemTime};

use beadlock_testkit::{Ended, Scene};

use crate::terminal::{BEADLOCK, Terminal};

/// Content that nobody who locks has written.
const DATA: [&str; 7] = [
    "{\"tasks\": [\"tea\"]}\n",
    "{\"tasks\": [\"te",
    "[1, 2]\n",
    "{}",
    "4711\n",
    "# generated\nversion = 4\n",
    "{\"version\": \"1.0.0\", \"packages\": {\"holder\": {}}}",
];
/// Content of a lock that went wrong.
const LOCKS: [&str; 5] = [
    "",
    "{\"holder\": \"x\", \"pi",
    "{",
    "{\"holder\": \"\", \"pid\": 1}",
    "{\"PID\": \"x\"}",
];

const MEANT: &str =
    "todo.json is not a lock file; did you mean file:todo.json or lock:todo.json.lock?";

/// A file that has not changed for a while.
fn put(scene: &Scene, name: &str, text: &str) {
    fs::write(scene.file(name), text).unwrap();
    let file = File::options().append(true).open(scene.file(name)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60))
        .unwrap();
}

/// The contents of the files that `break` has kept of the file `name`.
fn kept(scene: &Scene, name: &str) -> Vec<String> {
    let entries = fs::read_dir(scene.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let is_kept = |path: &std::path::PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(&format!("{name}.broken-"))
    };
    entries
        .filter(is_kept)
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

#[test]
fn data_is_called_what_it_is() {
    for text in DATA {
        let scene = crate::a_scene();
        put(&scene, "todo.json", text);
        for args in [
            &["hold", "lock:todo.json", "--", "touch", "ran"][..],
            &["acquire", "lock:todo.json"],
            &["wait", "lock:todo.json"],
        ] {
            let ended = scene.run(args).expect(5, &[]);
            assert_eq!(
                ended.err,
                format!("beadlock: error: {MEANT}\n"),
                "{args:?} of {text:?}"
            );
        }
        let json = scene
            .run(&["hold", "lock:todo.json", "--json", "--", "true"])
            .expect(5, &[])
            .json();
        assert_eq!(
            (&json["error"]["code"], &json["error"]["message"]),
            (&"LOCK_UNREADABLE".into(), &MEANT.into())
        );
        let text_of = scene.run(&["status", "lock:todo.json"]).expect(0, &[]).out;
        assert!(text_of.contains(&format!("why: {MEANT}\n")), "{text_of}");
        assert!(
            text_of.contains("next: beadlock hold file:todo.json -- CMD   # "),
            "{text_of}"
        );
        assert!(!text_of.contains("--malformed"), "{text_of}");
        assert_eq!(
            (scene.read("todo.json").as_str(), scene.file("ran").exists()),
            (text, false)
        );
    }
}

#[test]
fn what_is_meant_is_said_as_it_can_be_pasted() {
    let scene = crate::a_scene();
    fs::create_dir(scene.file("a b")).unwrap();
    put(&scene, "a b/x.json", "[]");
    let ended = scene
        .run(&["hold", "lock:a b/x.json", "--", "true"])
        .expect(5, &[]);
    let said =
        "a b/x.json is not a lock file; did you mean 'file:a b/x.json' or 'lock:a b/x.json.lock'?";
    assert_eq!(ended.err, format!("beadlock: error: {said}\n"));
    put(&scene, "large.json", &"x".repeat(70_000));
    scene
        .run(&["hold", "lock:large.json", "--", "true"])
        .expect(5, &["large.json is not a lock file; did you mean"]);
    scene
        .run(&["break", "lock:large.json", "--malformed"])
        .expect(5, &["--malformed --yes"]);
}

#[test]
fn a_lock_that_went_wrong_is_no_data() {
    for text in LOCKS {
        let scene = crate::a_scene();
        put(&scene, "build.lock", text);
        let ended = scene
            .run(&["hold", "lock:build.lock", "--", "true"])
            .expect(5, &[]);
        assert!(!ended.err.contains("did you mean"), "{text:?}: {ended:?}");
        assert!(
            ended
                .err
                .contains("beadlock break lock:build.lock --malformed"),
            "{text:?}: {ended:?}"
        );
        scene
            .run(&["break", "lock:build.lock", "--malformed"])
            .expect(0, &["broke the unreadable lock on "]);
        assert_eq!(
            (
                kept(&scene, "build.lock"),
                scene.file("build.lock").exists()
            ),
            (vec![text.to_owned()], false)
        );
    }
}

#[test]
fn an_empty_file_is_said_to_be_perhaps_another_tools_lock() {
    let scene = crate::a_scene();
    put(&scene, "build.lock", "");
    let ended = scene
        .run(&["hold", "lock:build.lock", "--", "true"])
        .expect(5, &[]);
    let said = "build.lock is empty: flock(1) leaves such files, and so do tools that lock by creating a file. If nobody uses \
                it: beadlock break lock:build.lock --malformed";
    assert_eq!(ended.err, format!("beadlock: error: {said}\n"));
    let text = scene.run(&["status", "lock:build.lock"]).out;
    assert!(
        text.contains("next: beadlock break lock:build.lock --malformed   # if nobody uses it\n"),
        "{text}"
    );
}

#[test]
fn without_a_terminal_data_stays_unless_yes_was_typed() {
    for text in DATA {
        let scene = crate::a_scene();
        put(&scene, "todo.json", text);
        let json = scene
            .run(&["break", "lock:todo.json", "--malformed", "--json"])
            .expect(
                5,
                &[
                    MEANT,
                    "not touched",
                    "beadlock break lock:todo.json --malformed --yes",
                ],
            )
            .json();
        assert_eq!(json["error"]["code"], "LOCK_UNREADABLE");
        assert_eq!(
            (
                scene.read("todo.json").as_str(),
                kept(&scene, "todo.json").len()
            ),
            (text, 0)
        );
        scene
            .run(&["break", "lock:todo.json", "--malformed", "--yes"])
            .expect(0, &["it is kept in "]);
        assert_eq!(
            (kept(&scene, "todo.json"), scene.file("todo.json").exists()),
            (vec![text.to_owned()], false)
        );
    }
}

/// A file with the name of a database's lock is a lock, whatever its content is.
#[test]
fn the_lock_of_a_database_is_a_lock_by_its_name() {
    let scene = crate::a_scene();
    fs::write(scene.lock(), "{\"tasks\": []}").unwrap();
    let ended = scene
        .run(&["hold", "--no-wait", "--", "true"])
        .expect(5, &["--malformed"]);
    assert!(!ended.err.contains("did you mean"), "{ended:?}");
    scene
        .run(&["break", "--malformed"])
        .expect(0, &["broke the unreadable lock on .beads"]);
}

#[test]
fn yes_is_for_what_cannot_be_understood() {
    let scene = crate::a_scene();
    scene.run(&["break", "--yes"]).expect(2, &["--malformed"]);
    scene
        .run(&["break", "--yes", "--id", "x"])
        .expect(2, &["cannot be used with"]);
    scene
        .run(&["break", "file:todo.json", "--malformed", "--yes"])
        .expect(2, &["--malformed means nothing"]);
    put(&scene, "todo.json", "[]");
    let mut command = scene.beadlock(&["break", "lock:todo.json", "--malformed"]);
    command.env("BEADLOCK_YES", "1");
    beadlock_testkit::Running::apart(command)
        .end()
        .expect(5, &["did you mean"]);
}

#[test]
fn the_answer_comes_at_once_with_no_wait_and_where_nothing_has_changed_for_two_seconds() {
    let scene = crate::a_scene();
    for target in [".beads", "lock:x.lock"] {
        let path = if target == ".beads" {
            scene.lock()
        } else {
            scene.file("x.lock")
        };
        let mut took = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..3 {
            for (at, (age, args)) in [(60, &[][..]), (0, &["--no-wait"]), (-3600, &[])]
                .into_iter()
                .enumerate()
            {
                fs::write(&path, "{\"holder\": \"x\", \"pi").unwrap();
                let time = SystemTime::now();
                let time = if age < 0 {
                    time + Duration::from_secs(3600)
                } else {
                    time - Duration::from_secs(age as u64)
                };
                File::options()
                    .append(true)
                    .open(&path)
                    .unwrap()
                    .set_modified(time)
                    .unwrap();
                let begun = Instant::now();
                scene
                    .run(&[&["hold", target], args, &["--", "true"]].concat())
                    .expect(5, &["malformed"]);
                took[at].push(begun.elapsed());
            }
        }
        let shortest = took.map(|took| took.into_iter().min().unwrap());
        // A machine may be busy with other things now and then.
        assert!(
            shortest[0] < Duration::from_secs(1),
            "it is old: {shortest:?}"
        );
        assert!(
            shortest[1] < Duration::from_secs(1),
            "nobody is waited for: {shortest:?}"
        );
        assert!(
            shortest[2] >= Duration::from_secs(2),
            "a time in the future says nothing: {shortest:?}"
        );
    }
}

/// Runs `break TARGET --malformed` on a terminal, and types `keys` at its question.
fn asked(scene: &Scene, target: &str, keys: &str) -> Ended {
    let words = [BEADLOCK, "break", "--color", "never", target, "--malformed"];
    let mut terminal = Terminal::start_as(scene, "dumb", &words);
    terminal.until("it asks", || {
        terminal
            .seen()
            .contains("Type yes to move it out of the way: ")
    });
    terminal.type_in(keys);
    terminal.end()
}

#[test]
fn on_a_terminal_its_first_200_bytes_are_shown_and_yes_moves_it() {
    let scene = crate::a_scene();
    let text = format!(
        "{{\"tasks\": [\"te\u{1b}[2Ja\n{}END{}",
        "x".repeat(175),
        "y".repeat(100)
    );
    put(&scene, "todo.json", &text);
    let ended = asked(&scene, "lock:todo.json", "yes\n");
    assert_eq!(ended.code, 0, "{ended:?}");
    let first = format!("its first 200 of {} bytes: ", text.len());
    for word in [
        MEANT,
        &first,
        r#"{"tasks": ["te\u{1b}[2Ja\nxxx"#,
        "broke the unreadable lock on lock:todo.json",
    ] {
        assert!(ended.out.contains(word), "{word:?} in {ended:?}");
    }
    assert!(ended.out.contains("xEND"), "{ended:?}");
    assert!(
        !ended.out.contains("yyyyyyyyyyyyyyyyyyyy") && !ended.out.contains('\u{1b}'),
        "{ended:?}"
    );
    assert_eq!(kept(&scene, "todo.json"), [text]);
}

#[test]
fn on_a_terminal_anything_but_yes_touches_nothing() {
    for (keys, code, signal) in [
        ("no\n", 1, None),
        ("\n", 1, None),
        ("\u{4}", 1, None),
        ("ye\n", 1, None),
        ("y\u{3}", 130, Some(2)),
    ] {
        let scene = crate::a_scene();
        put(&scene, "todo.json", "[]");
        let ended = asked(&scene, "lock:todo.json", keys);
        assert_eq!(
            (ended.code, ended.signal),
            (code, signal),
            "{keys:?}: {ended:?}"
        );
        assert_eq!(
            (
                scene.read("todo.json").as_str(),
                kept(&scene, "todo.json").len()
            ),
            ("[]", 0),
            "{keys:?}"
        );
    }
}

#[test]
fn on_a_terminal_a_torn_lock_is_asked_for_and_with_yes_nothing_is() {
    let scene = crate::a_scene();
    fs::write(scene.lock(), "{\"holder\": \"vc").unwrap();
    File::options()
        .append(true)
        .open(scene.lock())
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    let ended = asked(&scene, ".beads", "yes\n");
    assert!(
        ended
            .out
            .contains("its first 14 of 14 bytes: {\"holder\": \"vc"),
        "{ended:?}"
    );
    assert_eq!((ended.code, scene.lock().exists()), (0, false), "{ended:?}");
    put(&scene, "todo.json", "[]");
    let words = [BEADLOCK, "break", "lock:todo.json", "--malformed", "--yes"];
    let ended = Terminal::start_as(&scene, "dumb", &words).end();
    assert!(!ended.out.contains("Type yes"), "{ended:?}");
    assert_eq!(
        (ended.code, kept(&scene, "todo.json").len()),
        (0, 1),
        "{ended:?}"
    );
}

/// A yes counts only for the content that was shown.
#[test]
fn what_changes_while_it_is_asked_for_is_asked_for_again() {
    let scene = crate::a_scene();
    put(&scene, "todo.json", "[1]");
    let words = [
        BEADLOCK,
        "break",
        "--color",
        "never",
        "lock:todo.json",
        "--malformed",
    ];
    let mut terminal = Terminal::start_as(&scene, "dumb", &words);
    let questions = || terminal.seen().matches("Type yes to move it").count();
    terminal.until("it asks", || questions() == 1);
    put(&scene, "todo.json", "[1, 2]");
    terminal.type_in("yes\n");
    terminal.until("it asks again", || {
        terminal.seen().matches("Type yes to move it").count() == 2
    });
    terminal.type_in("no\n");
    let ended = terminal.end();
    assert!(
        ended.out.contains("its first 6 of 6 bytes: [1, 2]"),
        "{ended:?}"
    );
    assert_eq!(
        (ended.code, scene.read("todo.json").as_str()),
        (1, "[1, 2]"),
        "{ended:?}"
    );
}
