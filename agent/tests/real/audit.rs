//! `--audit`: what a cycle writes into the trail, and what an unfit file does to the agent.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use beadlock_testkit::{dead_pid, is_request_id, read, sleeper, until};
use serde_json::Value;

use crate::agent::{OfAgent, fresh_scene};

/// The lines of the trail, each of them one JSON object.
fn trail(path: &Path) -> Vec<Value> {
    let text = read(path);
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        assert!(value.is_object(), "{line}");
        value
    };
    text.lines().map(line).collect()
}

#[test]
fn a_streak_is_one_line_and_the_next_streak_another() {
    let scene = fresh_scene();
    let holder = sleeper();
    let file = scene.file("audit.jsonl");
    scene.claim("vc\nexecutor", holder.pid());
    let agent = scene.start(&[
        "--interval",
        "50ms",
        "--exec",
        "true",
        "--audit",
        "audit.jsonl",
    ]);
    let skipped = || scene.count(r"Skipping database (locked by vc\nexecutor)");
    until("four skips", || skipped() >= 4);
    scene.unlock();
    until("a cycle", || scene.count("Sync cycle complete") > 0);
    let before = skipped();
    scene.claim("vc\nexecutor", holder.pid());
    until("three more", || skipped() >= before + 3);
    assert_eq!(agent.stop(), Some(0));

    let lines = trail(&file);
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert_eq!(
            (&line["event"], &line["reason"]),
            (&"lock_blocked".into(), &"pid_alive".into())
        );
        assert_eq!(line["lock_name"], "beads:.beads");
        assert_eq!(line["lock_path"], scene.lock().to_str().unwrap());
        assert_eq!(line["lock"]["holder"], "vc\nexecutor");
        assert_eq!(line["lock"]["pid"], holder.pid());
        assert_eq!(line["lock"]["started_at"], "2025-10-25T12:00:00Z");
        let by = &line["by"];
        assert_eq!(
            (&by["program"], &by["holder"]),
            (&"beadlock-agent".into(), &Value::Null)
        );
        assert_eq!(by["uid"], nix::unistd::getuid().as_raw());
        for field in [
            "detail",
            "watched",
            "held_duration_seconds",
            "result",
            "error",
            "previous_lock",
        ] {
            assert_eq!(line[field], Value::Null, "{field}");
        }
        assert_eq!(line["truncated"], false);
    }
    assert!(
        is_request_id(&lines[0]["request_id"]) && is_request_id(&lines[1]["request_id"]),
        "{lines:?}"
    );
    assert_ne!(lines[0]["request_id"], lines[1]["request_id"]);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o7777,
        0o600
    );
}

#[test]
fn a_stale_lock_that_was_removed_is_one_line_with_what_it_said() {
    let scene = fresh_scene();
    let pid = dead_pid();
    scene.claim("dead", pid);
    assert_eq!(
        scene.once(&["--action", "none", "--audit", "audit.jsonl"]),
        (0, String::new())
    );
    assert_eq!(
        scene.once(&["--action", "none", "--audit", "audit.jsonl"]),
        (0, String::new()),
        "nothing to remove"
    );
    let lines = trail(&scene.file("audit.jsonl"));
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(
        (&line["event"], &line["reason"]),
        (&"lock_stale_removed".into(), &"pid_gone".into())
    );
    assert_eq!(
        (
            &line["previous_lock"]["holder"],
            &line["previous_lock"]["pid"]
        ),
        (&"dead".into(), &pid.into())
    );
    assert!(
        ["lease", "comparison"]
            .map(Value::from)
            .contains(&line["watched"]),
        "{line}"
    );
    assert_eq!(line["lock"], Value::Null);
}

#[test]
fn a_lock_that_cannot_be_read_has_the_words_instead_of_a_record() {
    let scene = fresh_scene();
    fs::write(scene.lock(), "{").unwrap();
    assert_eq!(
        scene
            .once(&["--action", "none", "--audit", "audit.jsonl"])
            .0,
        5
    );
    let lines = trail(&scene.file("audit.jsonl"));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (&lines[0]["event"], &lines[0]["reason"]),
        (&"lock_blocked".into(), &"malformed".into())
    );
    assert_eq!(
        (&lines[0]["detail"], &lines[0]["lock"]),
        (&"malformed lock file: unexpected EOF".into(), &Value::Null)
    );
}

#[test]
fn a_busy_gate_that_ends_the_only_cycle_is_a_line() {
    let scene = fresh_scene();
    let _gate = beadlock_core::gate::Gate::try_take(&scene.beads())
        .unwrap()
        .unwrap();
    assert_eq!(
        scene
            .once(&["--action", "none", "--audit", "audit.jsonl"])
            .0,
        4
    );
    let lines = trail(&scene.file("audit.jsonl"));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(
        (&lines[0]["reason"], &lines[0]["lock"]),
        (&"gate_busy".into(), &Value::Null)
    );
}

#[test]
fn several_databases_share_one_file_and_the_environment_names_it() {
    let scene = fresh_scene();
    let other = scene.database("other");
    scene.claim("dead", dead_pid());
    fs::write(other.join(".exclusive-lock"), "").unwrap();
    let run = |variable: &str| {
        let args = [
            "--once",
            "--action",
            "none",
            "--db",
            ".beads",
            "--db",
            "other/.beads",
        ];
        scene
            .agent(&args)
            .env("BEADLOCK_AGENT_AUDIT", variable)
            .output()
            .unwrap()
    };
    assert_eq!(run("audit.jsonl").status.code(), Some(5));
    let lines = trail(&scene.file("audit.jsonl"));
    let mut seen: Vec<_> = lines
        .iter()
        .map(|line| ["event", "lock_name", "lock_path"].map(|field| line[field].as_str().unwrap()))
        .collect();
    seen.sort_unstable();
    let [here, there] = [scene.lock(), other.join(".exclusive-lock")];
    assert_eq!(
        seen,
        [
            [
                "lock_blocked",
                "beads:other/.beads",
                there.to_str().unwrap()
            ],
            ["lock_stale_removed", "beads:.beads", here.to_str().unwrap()],
        ]
    );
    assert_eq!(run("").status.code(), Some(5), "empty is unset");
    assert_eq!(trail(&scene.file("audit.jsonl")).len(), 2);
}

#[test]
fn an_unfit_file_at_the_start_is_an_error_before_any_cycle() {
    let scene = fresh_scene();
    let victim = scene.file("victim");
    fs::write(&victim, "").unwrap();
    symlink(&victim, scene.file("link")).unwrap();
    nix::unistd::mkfifo(&scene.file("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (path, words) in [
        ("link", "it is a symbolic link"),
        ("fifo", "it is a FIFO"),
        (".beads", "is a directory"),
        ("nowhere/audit.jsonl", "no such file or directory"),
        ("/dev/stderr", "it is a symbolic link"),
    ] {
        let (code, stderr) = scene.once(&["--audit", path, "--exec", "touch ran"]);
        assert_eq!(code, 1, "{path}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        let said = format!(
            "cannot start: the audit file {path} cannot be opened: {words}; name a regular file"
        );
        assert!(stderr.contains(&said), "{stderr}");
    }
    assert!(!scene.file("ran").exists());
    assert_eq!(read(&victim), "");
}

#[test]
fn a_lock_file_is_neither_a_trail_nor_a_log() {
    let scene = fresh_scene();
    scene.claim("ann", std::process::id());
    let lock = scene.lock_text();
    fs::hard_link(scene.lock(), scene.file("hard")).unwrap();
    symlink(".beads/.exclusive-lock", scene.file("soft")).unwrap();
    let refused = |args: &[&str], variables: &[(&str, &str)], words: &str| {
        let args = [args, &["--once", "--exec", "touch ran"]].concat();
        let output = scene
            .agent(&args)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(
            said.contains(words) && said.contains("name another file"),
            "{args:?}: {said}"
        );
        assert_eq!(
            (scene.lock_text(), scene.lines()),
            (lock.clone(), vec![]),
            "{args:?}"
        );
    };
    for file in [
        ".beads/.exclusive-lock",
        ".beads/.exclusive-lock.aside",
        ".exclusive-lock",
        "hard",
        "soft",
    ] {
        refused(&["--audit", file], &[], &format!("audit: {file} "));
        refused(&["--log-file", file], &[], &format!("log-file: {file} "));
        refused(&[], &[("BEADLOCK_AUDIT", file)], &format!("audit: {file} "));
        refused(
            &[],
            &[("BEADLOCK_AGENT_AUDIT", file)],
            &format!("audit: {file} "),
        );
        let text = format!("audit = '{file}'\n[[database]]\ndir = '.beads'\n");
        scene.write("conf.toml", &text);
        refused(&["--config", "conf.toml"], &[], &format!("/{file} "));
    }
    assert!(!scene.file("ran").exists() && !scene.beads().join(".exclusive-lock.aside").exists());
}

#[test]
fn a_file_that_becomes_unfit_is_said_in_the_log_once_and_stops_nothing() {
    let scene = fresh_scene();
    let (file, victim) = (scene.file("audit.jsonl"), scene.file("victim"));
    fs::write(&victim, "").unwrap();
    let agent = scene.start(&[
        "--interval",
        "20ms",
        "--exec",
        "true",
        "--audit",
        "audit.jsonl",
    ]);
    let complete = || scene.count("Sync cycle complete");
    until("a first cycle", || complete() > 0);
    replace(&file, |file| symlink(&victim, file).unwrap());
    let said = || {
        scene
            .lines()
            .iter()
            .filter(|line| line.contains(" is not in the audit file "))
            .count()
    };
    let removed = || scene.count("Removed stale lock (dead), proceeding with sync");
    for round in 1..=3 {
        scene.claim("dead", dead_pid());
        until("a removal", || removed() == round);
    }
    until("the complaint", || said() > 0);
    let before = complete();
    until("more cycles", || complete() > before + 2);
    replace(&file, |_| {});
    scene.claim("dead", dead_pid());
    until("a line", || file.exists());
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(said(), 1, "{:?}", scene.lines());
    let log = scene.lines();
    let line = log
        .iter()
        .find(|line| line.contains(" is not in the audit file "))
        .unwrap();
    let words = "it is a symbolic link; name a regular file in a directory that is there; the work goes on without it";
    assert!(
        line.starts_with("lock_stale_removed of ") && line.ends_with(words),
        "{line}"
    );
    assert_eq!(read(&victim), "");
    assert_eq!(trail(&file).len(), 1, "it goes on when it can");
}

/// Takes the file away and puts something in its place.
#[expect(
    clippy::disallowed_methods,
    reason = "the test does to the trail what somebody might"
)]
fn replace(file: &Path, make: impl FnOnce(&Path)) {
    fs::remove_file(file).unwrap();
    make(file);
}

#[test]
fn a_trail_in_the_database_starts_no_cycle() {
    let scene = fresh_scene();
    let holder = sleeper();
    scene.claim("t", holder.pid());
    let args = [
        "--interval",
        "10m",
        "--debounce",
        "10ms",
        "--audit",
        ".beads/audit.jsonl",
    ];
    let _agent = scene.start(&args);
    let skips = || scene.count("Skipping database (locked by t)");
    until("its line", || {
        trail(&scene.beads().join("audit.jsonl")).len() == 1
    });
    // Nothing is to be seen, for much longer than the debounce.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(skips(), 1, "{:?}", scene.lines());
    fs::write(scene.beads().join("issues.jsonl"), "{}").unwrap();
    until("a check for the change", || skips() == 2);
}

/// A small file system of its own, full to the last byte: the end of a line does not fit. When there is room again, the
/// next line begins anew.
#[test]
fn a_full_disk_tears_one_line_and_no_other() {
    let scene = fresh_scene();
    fs::create_dir(scene.file("small")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=8k tmpfs small || exit 77
        lock() { printf '{"holder":"dead","pid":%s,"hostname":"%s","started_at":"2026-01-02T03:04:05Z"}' "$1" "$(hostname)" >.beads/.exclusive-lock; }
        run() { lock "$1"; "$AGENT" --once --action none --audit small/audit.jsonl; echo "$?" >>codes; }
        run "$DEAD"
        size=$(wc -c <small/audit.jsonl)
        head -c $((4096 - size - 100)) /dev/zero | tr '\0' '\n' >>small/audit.jsonl
        head -c 4096 /dev/zero >small/full
        run "$DEAD"
        rm small/full
        run "$DEAD"
        cp small/audit.jsonl seen
    "#;
    let Some(output) = scene.with_mounts(script, &[("DEAD", &dead_pid().to_string())]) else {
        return;
    };
    let stderr = output.err;
    assert_eq!(scene.read("codes"), "0\n0\n0\n", "{stderr}");
    let text = scene.read("seen");
    let lines: Vec<_> = text.lines().filter(|line| !line.is_empty()).collect();
    let whole: Vec<_> = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).is_ok())
        .collect();
    assert_eq!(whole, [true, false, true], "{text}");
    assert_eq!(lines[1].len(), 100, "{text}");
    let log = scene.lines();
    let said: Vec<_> = log
        .iter()
        .filter(|line| line.contains(" is not in the audit file "))
        .collect();
    assert_eq!(said.len(), 1, "{log:?}");
    assert!(
        said[0].contains("only 100 of ") && said[0].contains("; make room there; "),
        "{said:?}"
    );
}
