//! Whatever is named as a log, and whatever is in it: read with bounded memory, or it is said why not.

use std::fmt::Write as _;
use std::fs;

use beadlock_testkit::{Running, as_nobody, has_program};
use serde_json::{Value, json};

use super::database;

#[test]
fn a_log_that_cannot_be_read_is_named_and_stops_no_other() {
    let scene = crate::a_scene();
    scene.run(&["log"]).expect(
        1,
        &[
            "there is no ",
            ".beads/daemon.log: no daemon has logged there",
            "beadlock log FILE",
        ],
    );
    fs::write(
        scene.file("good.log"),
        "[2026-02-01 10:00:00] Skipping database (locked by make)\n",
    )
    .unwrap();
    let ended = scene.run(&[
        "log",
        "gone.log",
        "good.log",
        ".beads",
        "/dev/null",
        "--json",
    ]);
    let ended = ended.expect(
        1,
        &[
            "there is no gone.log",
            ".beads is a directory; name the log in it: beadlock log .beads/daemon.log",
            "/dev/null is a device",
        ],
    );
    let json = ended.json();
    assert_eq!(
        (&json["ok"], &json["error"]["code"]),
        (&json!(false), &json!("NO_TARGET"))
    );
    assert_eq!(json["data"][0]["databases"][0]["answer"]["holder"], "make");
    fs::write(scene.file("mine.log"), "x").unwrap();
    let mut command = scene.beadlock(&["log", "mine.log", "--json"]);
    if as_nobody(&mut command) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(scene.file("mine.log"), fs::Permissions::from_mode(0o600)).unwrap();
        let ended = Running::apart(command)
            .end()
            .expect(1, &["failed to open mine.log: permission denied"]);
        assert_eq!(ended.json()["error"]["code"], "NOT_PERMITTED");
    }
}

#[test]
fn what_is_compressed_is_said_and_read_through_a_pipe() {
    if !has_program("gzip") {
        return;
    }
    let scene = crate::a_scene();
    let log = "[2026-02-01 10:00:00] Skipping database (locked by make)\n";
    fs::write(scene.file("daemon.log"), log).unwrap();
    let packed =
        scene.shell("gzip -c daemon.log > daemon.log.1.gz; \"$BEADLOCK\" log daemon.log.1.gz");
    let said = "daemon.log.1.gz: it is compressed; type: zcat daemon.log.1.gz | beadlock log -";
    Running::apart(packed).end().expect(1, &[said]);
    let text = scene.run(&["log", "daemon.log"]).expect(0, &[]).out;
    assert!(
        text.contains("not read, because compressed: 1 older file, such as daemon.log.1.gz"),
        "{text}"
    );
    let piped =
        Running::apart(scene.shell("gzip -dc daemon.log.1.gz | \"$BEADLOCK\" log - --json")).end();
    let json = piped.expect(0, &[]).json();
    assert_eq!(
        (
            &json["data"][0]["log"],
            &json["data"][0]["databases"][0]["skips"]
        ),
        (&Value::Null, &json!(1))
    );
}

#[test]
fn a_pipe_is_read_and_one_that_nobody_writes_is_empty() {
    let scene = crate::a_scene();
    fs::write(
        scene.file("x.log"),
        "[2026-02-01 10:00:00] Skipping database (locked by make)\n",
    )
    .unwrap();
    let script =
        "mkfifo pipe; cat x.log > pipe & exec 9< pipe; \"$BEADLOCK\" log /dev/fd/9 --json; wait";
    let json = Running::apart(scene.shell(script))
        .end()
        .expect(0, &[])
        .json();
    assert_eq!(json["data"][0]["databases"][0]["answer"]["holder"], "make");
    let text = scene.run(&["log", "pipe"]).expect(0, &[]).out;
    assert!(
        text.starts_with("pipe: No line of a daemon in this log"),
        "{text}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scene = crate::a_scene();
    let mut log = String::new();
    for number in 0..3000 {
        writeln!(
            log,
            "[2026-02-01 10:00:00] Skipping database (locked by name-{number})"
        )
        .unwrap();
    }
    fs::write(scene.file("x.log"), log).unwrap();
    let script = "{ \"$BEADLOCK\" log --json x.log; echo $? > code; } | head -c 10 > start";
    let ended = Running::apart(scene.shell(script)).end().expect(0, &[]);
    assert_eq!(
        (
            ended.err.as_str(),
            scene.read("start").as_str(),
            scene.read("code").trim()
        ),
        ("", "{\"ok\":true", "0")
    );
}

#[test]
fn no_line_is_too_long_too_wild_or_too_torn() {
    let scene = crate::a_scene();
    let log = [
        &b"\0\0\0\0[2026-02-01 10:00:00] Skipping database (locked by a\x1b[2J\xe2\x80\xaeb)\n"[..],
        b"[2026-02-01 10:00:05] \xff\xfe\0 Starting\r\n\n\n",
        b"[2026-02-01 10:00:05] Skipping database (locked by a\x1b[2J\xe2\x80\xaeb)\r\n",
        b"[2026-02-01 10:00:07] /x: Sync cyc",
    ];
    fs::write(scene.file("x.log"), log.concat()).unwrap();
    let ended = scene
        .run(&["log", "x.log", "--until", "2026-02-01 10:00:10"])
        .expect(0, &[]);
    assert!(
        ended
            .out
            .chars()
            .all(|c| c == '\n' || beadlock_base::escape::is_harmless(c)),
        "{ended:?}"
    );
    let first = ended.out.lines().next().unwrap();
    assert!(
        first.ends_with(r"held by a\u{1b}[2J\u{202e}b, 2 cycles skipped"),
        "{first}"
    );
    let raw = scene.run(&["log", "x.log", "--json"]).expect(0, &[]);
    assert_eq!(
        database(&raw)["holders"][0]["holder"],
        "a\u{1b}[2J\u{202e}b",
        "the raw name in JSON"
    );
}

#[test]
fn a_line_without_an_end_needs_no_memory() {
    let scene = crate::a_scene();
    let script = "ulimit -v 200000; { printf '[2026-02-01 10:00:00] '; head -c 300000000 /dev/zero | tr '\\0' x; echo; \
                  echo '[2026-02-01 10:00:01] Skipping database (locked by make)'; } | \"$BEADLOCK\" log - --json";
    let json = Running::apart(scene.shell(script))
        .end()
        .expect(0, &[])
        .json();
    let log = &json["data"][0];
    assert_eq!(
        log["lines"],
        json!({"all": 2, "other": 1, "cut": 1, "outside": 0})
    );
    assert_eq!(log["databases"][0]["answer"]["holder"], "make");
}
