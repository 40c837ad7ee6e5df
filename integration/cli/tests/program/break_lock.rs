//! `beadlock break`: the lock that is meant, and no other, goes out of the way and is kept.

mod asking;
mod data;
mod hindered;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use beadlock_testkit::{
    Running, Scene, children, dead_pid, runs, shell_lock_text, this_host, until,
};
use serde_json::{Value, json};

/// The files in which the broken locks of this database are kept.
fn kept(scene: &Scene) -> Vec<PathBuf> {
    let names = scene
        .names()
        .into_iter()
        .filter(|name| name.starts_with(".exclusive-lock.broken-"));
    names.map(|name| scene.beads().join(name)).collect()
}

/// Writes a lock file with the modification time of 1970.
fn write_long_ago(scene: &Scene, text: impl AsRef<[u8]>) {
    fs::write(scene.lock(), text).unwrap();
    File::options()
        .append(true)
        .open(scene.lock())
        .unwrap()
        .set_modified(UNIX_EPOCH)
        .unwrap();
}

/// The id that `status` shows.
fn id(scene: &Scene) -> String {
    let json = scene.run(&["status", "--json"]).json();
    json["data"][0]["id"].as_str().unwrap().to_owned()
}

fn me() -> i64 {
    i64::from(std::process::id())
}

#[test]
fn a_stale_lock_is_broken_by_id_and_by_holder_and_kept() {
    for by_id in [true, false] {
        let scene = crate::a_scene();
        let text = shell_lock_text("old-tool", i64::from(dead_pid()), &this_host());
        fs::write(scene.lock(), &text).unwrap();
        let args = if by_id {
            ["break", "--id", &id(&scene)]
        } else {
            ["break", "--holder", "old-tool"]
        };
        let ended = scene.run(&args).expect(
            0,
            &["beadlock: broke the lock of old-tool (PID ", ", held for "],
        );
        let kept = kept(&scene);
        let [file] = kept.as_slice() else {
            panic!("{kept:?}")
        };
        let tail = format!(
            ") on .beads; its record is kept in {}\n",
            fs::canonicalize(file).unwrap().display()
        );
        assert!(
            ended.err.ends_with(&tail) && ended.out.is_empty(),
            "{ended:?}"
        );
        assert_eq!(fs::read_to_string(file).unwrap(), text);
        assert_eq!(scene.names().len(), 1, "{:?}", scene.names());
    }
}

#[test]
fn json_has_the_record_and_where_it_is_kept() {
    let scene = crate::a_scene();
    scene.write_shell_lock("old\ntool", i64::from(dead_pid()), &this_host());
    let id = id(&scene);
    let json = scene
        .run(&["break", "--id", &id, "--reason", "wedged", "--json", "-q"])
        .expect(0, &[])
        .json();
    assert_eq!((&json["ok"], &json["error"]), (&json!(true), &Value::Null));
    let data = json["data"].as_object().unwrap();
    let keys: Vec<&str> = data.keys().map(String::as_str).collect();
    let mut expected = [
        "target",
        "path",
        "holder",
        "id",
        "record",
        "kept",
        "reason_given",
        "was",
    ]
    .map(String::from);
    expected.sort();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!(
        (&data["target"], &data["holder"]),
        (&json!("beads:.beads"), &json!("old\ntool"))
    );
    assert_eq!(
        (&data["id"], &data["reason_given"]),
        (&json!(id), &json!("wedged"))
    );
    assert_eq!(
        data["was"],
        json!({ "verdict": "stale", "reason": "pid_gone", "kind": "file" })
    );
    assert_eq!(data["record"]["holder"], "old\ntool");
    assert_eq!(
        fs::canonicalize(&kept(&scene)[0]).unwrap().to_str(),
        data["kept"].as_str()
    );
}

#[test]
fn a_held_lock_is_refused_and_the_words_are_the_command_to_type() {
    let scene = crate::a_scene();
    let sleep = ["hold", "--holder", "nightly's", "--", "sleep", "300"];
    let mut holding = Running::apart(scene.beadlock(&sleep));
    until("it works", || {
        children(holding.pid())
            .into_iter()
            .any(|pid| runs(pid, &["sleep", "300"]))
    });
    let before = fs::read(scene.lock()).unwrap();
    let ended = scene
        .run(&["break", "--holder", "nightly's", "--json"])
        .expect(
            4,
            &[
                "is held by nightly's (PID ",
                ": sleep 300, on ",
                "its process lives (pid_alive)",
                "was not touched",
            ],
        );
    let json = ended.json();
    assert_eq!(
        (&json["error"]["code"], &json["data"]),
        (&json!("LOCK_HELD"), &Value::Null)
    );
    assert_eq!(fs::read(scene.lock()).unwrap(), before);
    let (_, command) = ended.err.split_once("to break it all the same: ").unwrap();
    assert!(command.contains(" --even-if-live"), "{command}");
    let script = command.trim().replacen("beadlock", "\"$BEADLOCK\"", 1);
    let ended = Running::apart(scene.shell(&script)).end();
    let ended = ended.expect(
        0,
        &[
            "broke the lock of nightly's (PID ",
            "warning: PID ",
            "(sleep 300) still runs",
        ],
    );
    assert_eq!(kept(&scene).len(), 1, "{ended:?}");
    assert_eq!(fs::read(&kept(&scene)[0]).unwrap(), before);
    // Its holder learns of it.
    until("the hold notices", || holding.has_ended());
    let file = kept(&scene)[0]
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    holding.end().expect(9, &["was broken by somebody", &file]);
}

#[test]
fn nothing_but_what_is_meant_is_touched() {
    let (held, remote) = (
        shell_lock_text("vc", me(), &this_host()),
        shell_lock_text("vc", 7, "elsewhere"),
    );
    let stale = shell_lock_text("vc", i64::from(dead_pid()), &this_host());
    let torn = "{\"holder\": \"vc".to_owned();
    let cases: [(&String, &[&str], i32, &str, &str); 12] = [
        (
            &held,
            &["--id", "nope"],
            4,
            "LOCK_HELD",
            "is not the lock nope: it is held by vc (PID ",
        ),
        (
            &held,
            &["--holder", "VC"],
            4,
            "LOCK_HELD",
            "is not a lock of VC: it is held by vc (PID ",
        ),
        (
            &held,
            &["--malformed"],
            4,
            "LOCK_HELD",
            "is not unreadable: it is held by vc (PID ",
        ),
        (
            &held,
            &["--malformed", "--even-if-live"],
            4,
            "LOCK_HELD",
            "beadlock status .beads",
        ),
        (&held, &["--holder", "vc"], 4, "LOCK_HELD", "--even-if-live"),
        (
            &remote,
            &["--holder", "vc"],
            4,
            "LOCK_HELD",
            "is another host's, and cannot be asked for from here (other_host)",
        ),
        (
            &stale,
            &["--id", "nope"],
            1,
            "LOCK_STALE",
            "left by vc (PID ",
        ),
        (
            &stale,
            &["--holder", "vc2"],
            1,
            "LOCK_STALE",
            "to break that one: beadlock break .beads --id sha256:",
        ),
        (
            &stale,
            &["--malformed"],
            1,
            "LOCK_STALE",
            "is not unreadable: it is stale",
        ),
        (
            &torn,
            &["--id", "nope"],
            5,
            "LOCK_UNREADABLE",
            "malformed lock file: unexpected EOF (malformed), id sha256:",
        ),
        (
            &torn,
            &["--holder", "vc"],
            5,
            "LOCK_UNREADABLE",
            "to break it: beadlock break .beads --malformed",
        ),
        (
            &torn,
            &["--holder", "vc", "--even-if-live"],
            5,
            "LOCK_UNREADABLE",
            "was not touched",
        ),
    ];
    for (text, args, code, word, said) in cases {
        let scene = crate::a_scene();
        write_long_ago(&scene, text);
        let json = scene
            .run(&[&["break", "--json"], args].concat())
            .expect(code, &[said])
            .json();
        assert_eq!(
            (&json["error"]["code"], &json["ok"]),
            (&json!(word), &json!(false)),
            "{args:?}"
        );
        assert_eq!(
            (scene.names(), &fs::read_to_string(scene.lock()).unwrap()),
            (vec![".exclusive-lock".to_owned()], text)
        );
    }
}

#[test]
fn what_cannot_be_understood_is_broken_by_its_word_or_its_id() {
    let mut took = Vec::new();
    for text in ["", "{", "[1]", "{\"holder\":\"\",\"pid\":1}"] {
        for by_id in [false, true] {
            let scene = crate::a_scene();
            write_long_ago(&scene, text);
            let args = if by_id {
                vec!["--id".to_owned(), id(&scene)]
            } else {
                vec!["--malformed".to_owned()]
            };
            let args: Vec<&str> = ["break"]
                .into_iter()
                .chain(args.iter().map(String::as_str))
                .collect();
            let begun = Instant::now();
            scene.run(&args).expect(
                0,
                &[
                    "broke the unreadable lock on .beads (",
                    " lock file: ",
                    "it is kept in ",
                ],
            );
            took.push(begun.elapsed());
            assert_eq!(fs::read_to_string(&kept(&scene)[0]).unwrap(), text);
            assert!(!scene.lock().exists());
        }
    }
    // A machine may be busy with other things now and then.
    assert!(
        took.iter().min() < Some(&Duration::from_secs(2)),
        "they are old: {took:?}"
    );
}

#[test]
fn what_is_no_file_is_broken_too() {
    for kind in ["symlink", "FIFO", "directory", "large"] {
        let scene = crate::a_scene();
        let words = match kind {
            "symlink" => {
                std::os::unix::fs::symlink("/nowhere", scene.lock()).unwrap();
                "it is a symbolic link"
            }
            "FIFO" => {
                nix::unistd::mkfifo(&scene.lock(), nix::sys::stat::Mode::S_IRWXU).unwrap();
                "it is a FIFO"
            }
            "directory" => {
                fs::create_dir(scene.lock()).unwrap();
                "it is a directory"
            }
            _ => {
                fs::write(scene.lock(), "x".repeat(70_000)).unwrap();
                "it is larger than 64 KiB"
            }
        };
        let args = ["break", "--malformed", "--json"];
        let (said, word) = match kind {
            "large" => ("broke the unreadable lock on .beads".to_owned(), "file"),
            "symlink" => (
                "broke a symbolic link in place of the lock on .beads".to_owned(),
                kind,
            ),
            kind => (
                format!("broke a {kind} in place of the lock on .beads"),
                kind,
            ),
        };
        let json = scene.run(&args).expect(0, &[&said, words]).json();
        let was =
            json!({ "verdict": "unreadable", "reason": "unreadable", "kind": word.to_lowercase() });
        assert_eq!(
            (&json["data"]["was"], &json["data"]["record"]),
            (&was, &Value::Null),
            "{kind}"
        );
        assert_eq!((kept(&scene).len(), scene.names().len()), (1, 1), "{kind}");
    }
}

#[test]
fn nothing_to_break_is_a_warning() {
    let scene = crate::a_scene();
    let words = "beadlock: warning: nothing to break: there is no lock on .beads\n";
    for args in [
        &["--id", "x"][..],
        &["--holder", "x", "-q"],
        &["--malformed"],
    ] {
        let ended = scene.run(&[&["break"], args].concat()).expect(0, &[words]);
        assert!(ended.out.is_empty(), "{ended:?}");
    }
    let json = scene
        .run(&["break", "--malformed", "--json"])
        .expect(0, &[])
        .json();
    let was = json!({ "verdict": "free", "reason": "no_lock", "kind": null });
    assert_eq!(
        (&json["data"]["kept"], &json["data"]["was"]),
        (&Value::Null, &was)
    );
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1);
    assert!(scene.names().is_empty());
}

#[test]
fn every_wrong_word_is_exit_2() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let long = "x".repeat(501);
    for (args, word) in [
        (&[][..], "which lock? say it with one of --id ID"),
        (&["--even-if-live"], "--malformed"),
        (&["--id", "x", "--holder", "vc"], "cannot be used with"),
        (&["--malformed", "--holder", "vc"], "cannot be used with"),
        (
            &["--holder", "vc", "--reason", "a\nb"],
            "1 to 500 printable characters",
        ),
        (
            &["--holder", "vc", "--reason", ""],
            "1 to 500 printable characters",
        ),
        (&["--holder", "vc", "--reason", &long], "this one has 501"),
        (&["ftp:x", "--holder", "vc"], "unknown scheme ftp:"),
    ] {
        scene.run(&[&["break"], args].concat()).expect(2, &[word]);
    }
    let json = scene.run(&["break", "--json"]).expect(2, &[]).json();
    assert_eq!(json["error"]["code"], "USAGE");
    scene
        .run(&["break", "nowhere/.beads", "--holder", "vc"])
        .expect(1, &["nowhere/.beads does not exist"]);
    assert_eq!(scene.names(), [".exclusive-lock"]);
    // What waives a safeguard has no variable.
    scene.write_shell_lock("vc", me(), &this_host());
    for (name, code) in [("BEADLOCK_EVEN_IF_LIVE", 4), ("BEADLOCK_MALFORMED", 4)] {
        let mut command = scene.beadlock(&["break", "--holder", "vc"]);
        command.env(name, "1");
        Running::apart(command).end().expect(code, &[]);
    }
    assert_eq!(scene.names(), [".exclusive-lock"]);
}

#[test]
fn a_hostile_lock_forges_no_line() {
    let scene = crate::a_scene();
    let name = "x)\n[2026-01-01 00:00:00] Sync cycle complete\u{1b}[2J\u{202e}";
    let text = format!(
        r#"{{"holder":{0},"pid":{1},"hostname":{0},"started_at":"2025-10-25T12:00:00Z","beadlock":{{"id":{0}}}}}"#,
        serde_json::to_string(name).unwrap(),
        me()
    );
    for args in [
        &["--holder", "y"][..],
        &["--holder", name],
        &["--holder", name, "--even-if-live"],
    ] {
        fs::write(scene.lock(), &text).unwrap();
        let ended = scene.run(&[&["break"], args].concat());
        assert!(
            ended
                .err
                .contains(r"x)\n[2026-01-01 00:00:00] Sync cycle complete\u{1b}[2J\u{202e}"),
            "{ended:?}"
        );
        assert!(
            !ended.err.contains(['\u{1b}', '\u{202e}']) && !ended.err.contains("\n[2026"),
            "{ended:?}"
        );
    }
    assert_eq!(kept(&scene).len(), 1);
    // The words are bytes that a shell reads back.
    fs::write(scene.lock(), &text).unwrap();
    let ended = scene.run(&["break", "--holder", name]).expect(4, &[]);
    let (_, command) = ended.err.split_once("to break it all the same: ").unwrap();
    let script = command.trim().replacen("beadlock", "\"$BEADLOCK\"", 1);
    let mut bash = scene.beadlock(&[]);
    bash = {
        let mut again = Command::new("bash");
        again
            .args(["-c", &script])
            .current_dir(scene.path())
            .stdin(Stdio::null())
            .env_clear();
        again.envs(
            bash.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        again
    };
    Running::apart(bash)
        .end()
        .expect(0, &["broke the lock of "]);
}

#[test]
fn the_audit_trail_says_who_and_why() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let mut command =
        scene.beadlock(&["break", "--holder", "vc", "--reason", "ticket 7", "--json"]);
    command.env("BEADLOCK_AUDIT", scene.file("audit"));
    let json = Running::apart(command).end().expect(0, &[]).json();
    let line: Value = serde_json::from_str(&scene.read("audit")).unwrap();
    assert_eq!(
        (&line["event"], &line["lock_name"]),
        (&json!("lock_broken"), &json!("beads:.beads"))
    );
    assert_eq!(
        (&line["reason"], &line["detail"]),
        (&json!("broken_by_holder"), &json!("ticket 7"))
    );
    assert_eq!(
        (&line["previous_lock"]["holder"], &line["lock"]),
        (&json!("vc"), &Value::Null)
    );
    assert_eq!(line["request_id"], json["meta"]["request_id"]);
    // One that cannot be written is said before anything is done.
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let before = scene.names();
    scene
        .run(&["break", "--holder", "vc", "--audit", "nowhere/audit"])
        .expect(1, &["nowhere/audit"]);
    assert_eq!(scene.names(), before);
    write_long_ago(&scene, "{");
    scene
        .run(&["break", "--malformed", "--audit", "audit"])
        .expect(0, &[]);
    let text = scene.read("audit");
    let line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(line["detail"], "malformed lock file: unexpected EOF");
}

#[test]
fn a_lock_at_any_path_is_kept_beside_it() {
    let scene = crate::a_scene();
    fs::write(
        scene.file("x.lock"),
        shell_lock_text("deploy", 7, "elsewhere"),
    )
    .unwrap();
    scene
        .run(&["break", "lock:x.lock", "--holder", "deploy"])
        .expect(4, &["beadlock break lock:x.lock --id sha256:"]);
    let json = scene
        .run(&[
            "break",
            "lock:x.lock",
            "--holder",
            "deploy",
            "--even-if-live",
            "--json",
        ])
        .expect(
            0,
            &[
                "broke the lock of deploy (PID 7, held for ",
                ") on lock:x.lock; ",
            ],
        )
        .json();
    let kept = json["data"]["kept"].as_str().unwrap();
    assert!(
        kept.contains("/x.lock.broken-") && kept.ends_with("Z.json"),
        "{kept}"
    );
    assert!(fs::read_to_string(kept).unwrap().contains("deploy") && !scene.file("x.lock").exists());
}
