//! `tower:NAME` for commands that look: check, status, list, wait, break. Nothing here claims.
#![expect(
    clippy::disallowed_methods,
    reason = "what other tools do to a lock file"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use beadlock_testkit::{Ended, Running, Scene, this_host, until};
use serde_json::Value;

const TARGET: &str = "tower:app-prod";

/// A lock directory of its own, named by the variable.
struct Tower {
    scene: Scene,
}

impl Tower {
    fn new() -> Self {
        let tower = Self {
            scene: crate::a_scene(),
        };
        fs::create_dir(tower.dir()).unwrap();
        fs::set_permissions(tower.dir(), fs::Permissions::from_mode(0o700)).unwrap();
        tower
    }

    fn dir(&self) -> PathBuf {
        fs::canonicalize(self.scene.path()).unwrap().join("locks")
    }

    fn lock(&self, name: &str) -> PathBuf {
        self.dir().join(format!("{name}.lock"))
    }

    /// The files in the lock directory, sorted by name, each with its bytes.
    fn content(&self) -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(self.dir()).unwrap().map(Result::unwrap);
        let mut content: Vec<_> = entries
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    fs::read(entry.path()).unwrap(),
                )
            })
            .collect();
        content.sort();
        content
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.scene.beadlock(args);
        command.env("BEADLOCK_LOCK_DIR", self.dir());
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        Running::apart(self.command(args)).end()
    }

    fn write(&self, name: &str, silent: i64) {
        fs::write(self.lock(name), record(name, silent)).unwrap();
    }
}

fn seconds_ago(seconds: i64) -> String {
    let now = beadlock_core::facts::now().0.as_secs();
    beadlock_core::record::StartedAt::from_unix(now - seconds, 0).to_string()
}

/// A lock as another tool writes it, whose last heartbeat is so many seconds ago. Its PID is one that lives: nobody
/// asks.
fn record(name: &str, silent: i64) -> String {
    let (created, beat, pid) = (
        seconds_ago(silent + 60),
        seconds_ago(silent),
        std::process::id(),
    );
    format!(
        r#"{{"lock_version":"v1","lock_name":"{name}","request_id":"req_abc","actor":"claude-code","intent":"deploy-app",
        "intent_version":"1.2.0","host_id":"{}","pid":{pid},"created_at":"{created}","last_heartbeat_at":"{beat}",
        "ttl_seconds":900,"metadata":{{"ticket":7}},"note":"kept"}}"#,
        this_host()
    )
}

#[test]
fn a_name_that_is_none_is_refused_with_its_character() {
    let tower = Tower::new();
    let long = format!("tower:{}", "x".repeat(129));
    let rows = [
        ("tower:App", "not 'A'"),
        ("tower:../x", "not '.'"),
        ("tower:a/b", "not '/'"),
        ("tower:a b", "not ' '"),
        ("tower:-a", "must not start with '-'"),
        ("tower:a_", "must not end with '_'"),
        (&long, "at most 128 characters, this one has 129"),
        ("tower:", "names no lock"),
    ];
    for (target, words) in rows {
        for command in ["check", "status", "wait"] {
            tower.run(&[command, target]).expect(2, &[words]);
        }
        tower
            .run(&["break", target, "--id", "x"])
            .expect(2, &[words]);
    }
    tower
        .run(&["list", "tower:app-prod"])
        .expect(2, &["beadlock status tower:app-prod"]);
    let longest = format!("tower:{}", "x".repeat(128));
    tower.run(&["check", &longest]).expect(0, &[]);
}

#[test]
fn without_a_lock_it_is_free_and_no_directory_is_made() {
    let tower = Tower::new();
    fs::remove_dir(tower.dir()).unwrap();
    for args in [
        &["check", TARGET][..],
        &["wait", TARGET],
        &["status", TARGET, "--raw"],
    ] {
        assert_eq!(tower.run(args).expect(0, &[]).out, "", "{args:?}");
    }
    let status = tower.run(&["status", TARGET]).expect(0, &[]).out;
    assert!(
        status.starts_with("tower:app-prod: free (no_lock)\n"),
        "{status}"
    );
    assert!(
        status.contains("next: beadlock hold tower:app-prod --intent-name NAME"),
        "{status}"
    );
    tower
        .run(&["break", TARGET, "--id", "x"])
        .expect(0, &["nothing to break"]);
    assert_eq!(
        tower
            .run(&["list", "tower:"])
            .expect(0, &["0 locks in 0 directories"])
            .out,
        ""
    );
    assert!(!tower.dir().exists());
}

/// No line of a check, its explanation or its JSON speaks of a database.
#[test]
fn a_check_speaks_of_the_lock_alone() {
    let tower = Tower::new();
    let rows = [
        (None, 0, ""),
        (
            Some(record("app-prod", 30)),
            4,
            "Skipping (locked by claude-code)",
        ),
        (
            Some(record("app-prod", 1000)),
            4,
            "Skipping (stale lock of claude-code, no heartbeat for 1",
        ),
        (
            Some("{".to_owned()),
            5,
            "Skipping (lock check failed: malformed lock file: ",
        ),
    ];
    for (text, code, line) in rows {
        text.iter()
            .for_each(|text| fs::write(tower.lock("app-prod"), text).unwrap());
        for words in [
            &["check", TARGET][..],
            &["check", TARGET, "--explain"],
            &["check", TARGET, "--json"],
        ] {
            let ended = tower.run(words).expect(code, &[]);
            let said = format!("{}{}", ended.out, ended.err);
            assert!(
                said.contains(line) && !said.to_lowercase().contains("database"),
                "{words:?}: {said}"
            );
        }
        let status = tower
            .run(&["status", TARGET, "--json"])
            .expect(0, &[])
            .json();
        let message = status["data"][0]["message"].as_str().unwrap();
        assert!(
            message.starts_with(line) && !message.contains("database"),
            "{message}"
        );
    }
}

#[test]
fn a_fresh_one_is_active_whoever_lives() {
    let tower = Tower::new();
    tower.write("app-prod", 30);
    let before = tower.content();
    let checked = tower.run(&["check", TARGET]).expect(4, &[]);
    assert_eq!(checked.out, "Skipping (locked by claude-code)\n");
    let status = tower.run(&["status", "-v", TARGET]).expect(0, &[]).out;
    assert!(
        status.starts_with("active tower:app-prod: held by claude-code (PID "),
        "{status}"
    );
    for words in [
        "(heartbeat_fresh)\n",
        "heartbeat: ",
        "stale after 900s",
        "id: req_abc",
        "beadlock wait --wait 10m",
    ] {
        assert!(status.contains(words), "{words}: {status}");
    }
    // The PID is this test's own, which lives here: it is told, and nothing of its process is.
    assert!(
        status.contains("neither is asked") && !status.contains("kill("),
        "{status}"
    );
    let ended = tower.run(&["status", TARGET, "--json"]).expect(0, &[]);
    let data = &ended.json()["data"][0];
    assert_eq!(
        (&data["verdict"], &data["holder"]),
        (&"held".into(), &"claude-code".into())
    );
    assert_eq!(
        (&data["id"], &data["reason"]),
        (&"req_abc".into(), &"heartbeat_fresh".into())
    );
    assert_eq!(
        (
            &data["record"]["note"],
            &data["record"]["metadata"]["ticket"]
        ),
        (&"kept".into(), &7.into())
    );
    assert_eq!(data["record"]["lock_version"], "v1");
    assert_eq!(data["witnesses"]["heartbeat"]["ttl_seconds"], 900);
    assert!(
        data["witnesses"]["heartbeat"]["age_ms"].as_i64().unwrap() >= 30_000,
        "{data}"
    );
    assert_eq!(data["witnesses"].get("kill"), None, "{data}");
    tower
        .run(&["wait", TARGET])
        .expect(4, &["is held by claude-code"]);
    tower
        .run(&["break", TARGET, "--id", "req_abc"])
        .expect(4, &["heartbeat_fresh", "--even-if-live"]);
    assert_eq!(tower.content(), before);
}

#[test]
fn a_stale_one_says_what_takes_it_and_stays() {
    let tower = Tower::new();
    tower.write("app-prod", 1800);
    let before = tower.content();
    for args in [
        &["check", TARGET][..],
        &["check", "--dry-run", TARGET],
        &["check", "--reap-proven-dead", TARGET],
    ] {
        let line = tower.run(args).expect(4, &[]).out;
        let age = line
            .strip_prefix("Skipping (stale lock of claude-code, no heartbeat for ")
            .and_then(|rest| rest.strip_suffix("s; --force-lock takes it)\n"));
        let age: u64 = age.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        assert!((1800..1900).contains(&age), "{line}");
    }
    let said = "beadlock: --reap-proven-dead means nothing to tower:app-prod; its PID is never asked, only its heartbeat\n";
    tower
        .run(&["check", "--reap-proven-dead", TARGET])
        .expect(4, &[said]);
    let ended = tower
        .run(&["check", TARGET, "--json", "--explain"])
        .expect(4, &[]);
    let data = &ended.json()["data"][0];
    assert_eq!(
        (&data["decision"], &data["verdict"]),
        (&"skip".into(), &"stale".into())
    );
    assert_eq!(
        (&data["reason"], &data["removed"]),
        (&"heartbeat_expired".into(), &false.into())
    );
    assert_eq!(
        (&data["id"], &ended.json()["ok"]),
        (&"req_abc".into(), &true.into())
    );
    assert_eq!(
        data["message"]
            .as_str()
            .map(|line| line.starts_with("Skipping (stale lock of ")),
        Some(true)
    );
    let status = tower.run(&["status", TARGET]).expect(0, &[]).out;
    assert!(
        status.starts_with("stale tower:app-prod: left by claude-code (PID "),
        "{status}"
    );
    let next = "next: beadlock hold tower:app-prod --force-lock --intent-name=deploy-app --intent-version=1.2.0 -- CMD";
    assert!(
        status.contains(next) && status.contains("(heartbeat_expired)"),
        "{status}"
    );
    let status = tower.run(&["status", TARGET, "--json"]).expect(0, &[]);
    let message = status.json()["data"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.ends_with("--force-lock takes it)"), "{message}");
    let explained = tower
        .run(&["check", "--explain", TARGET])
        .expect(4, &[])
        .out;
    assert!(
        explained.contains("(heartbeat_expired), holder claude-code\n"),
        "{explained}"
    );
    let waited = tower
        .run(&["wait", "--wait", "20s", TARGET, "--json"])
        .expect(4, &[]);
    assert_eq!(waited.json()["error"]["code"], "LOCK_STALE");
    assert_eq!(tower.content(), before);
}

#[test]
fn one_beat_in_the_future_is_active_and_reported() {
    let tower = Tower::new();
    tower.write("app-prod", -3600);
    tower.run(&["check", TARGET]).expect(4, &[]);
    let status = tower.run(&["status", TARGET]).expect(0, &[]).out;
    assert!(
        status.starts_with("active tower:app-prod: ") && status.contains("(heartbeat_in_future)"),
        "{status}"
    );
    assert!(status.contains("a clock is wrong"), "{status}");
}

#[test]
fn what_cannot_be_understood_blocks_and_says_why() {
    let tower = Tower::new();
    let stale = record("app-prod", 1800);
    let rows = [
        (String::new(), "malformed lock file: unexpected EOF"),
        (
            stale[..40].to_owned(),
            "malformed lock file: unexpected EOF",
        ),
        (
            record("other", 1800),
            "invalid lock file: lock_name must be app-prod (got other)",
        ),
        (
            stale.replace("req_abc", "req abc"),
            "invalid lock file: request_id must be",
        ),
        (
            stale.replace("\"ttl_seconds\":900", "\"ttl_seconds\":0"),
            "invalid lock file: ttl_seconds must be positive",
        ),
        (
            stale.replace("last_heartbeat_at\":\"2", "last_heartbeat_at\":\"x"),
            "last_heartbeat_at must be an ISO 8601 time",
        ),
    ];
    for (bytes, words) in rows {
        fs::write(tower.lock("app-prod"), &bytes).unwrap();
        let line = tower.run(&["check", TARGET]).expect(5, &[]).out;
        assert!(
            line.starts_with("Skipping (lock check failed: ") && line.contains(words),
            "{line}"
        );
        assert_eq!(
            tower.run(&["status", "--raw", TARGET]).expect(0, &[]).out,
            bytes
        );
        let status = tower.run(&["status", TARGET]).expect(0, &[]).out;
        assert!(
            status.starts_with("tower:app-prod: unreadable: ")
                && status.contains("it is never taken"),
            "{status}"
        );
        let why = if words.starts_with("malformed") {
            "why: it is no lock record"
        } else {
            "missing or wrong"
        };
        assert!(bytes.is_empty() || status.contains(why), "{status}");
        assert_eq!(fs::read_to_string(tower.lock("app-prod")).unwrap(), bytes);
    }
    fs::remove_file(tower.lock("app-prod")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", tower.lock("app-prod")).unwrap();
    tower.run(&["check", TARGET]).expect(5, &[]);
    assert!(tower.lock("app-prod").is_symlink());
}

#[test]
fn list_shows_every_lock_of_the_directory() {
    let tower = Tower::new();
    tower.write("b-fresh", 10);
    tower.write("a-stale", 1800);
    fs::write(tower.lock("c-broken"), "{").unwrap();
    fs::write(tower.lock("Not"), "{}").unwrap();
    fs::write(tower.dir().join("audit.jsonl"), "").unwrap();
    let ended = tower.run(&["list", "tower:"]).expect(
        0,
        &[
            "Not.lock",
            "not 'N'",
            "3 locks in 1 directory: 1 held, 1 stale, 1 unreadable",
        ],
    );
    let lines: Vec<Vec<&str>> = ended
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let row = |at: usize| {
        (
            lines[at][0],
            lines[at][1],
            lines[at][2],
            *lines[at].last().unwrap(),
        )
    };
    assert_eq!(
        row(0),
        ("tower:a-stale", "stale", "claude-code", "heartbeat_expired")
    );
    assert_eq!(
        row(1),
        ("tower:b-fresh", "held", "claude-code", "heartbeat_fresh")
    );
    assert_eq!(row(2), ("tower:c-broken", "unreadable", "-", "malformed"));
    let json = tower
        .run(&["list", "tower:", "--json"])
        .expect(0, &[])
        .json();
    let targets: Vec<&Value> = json["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lock| &lock["target"])
        .collect();
    assert_eq!(
        targets,
        ["tower:a-stale", "tower:b-fresh", "tower:c-broken"]
    );
    // A ROOT is what it was: named locks are not looked for there, and both can be asked for at once.
    tower.scene.write_shell_lock("vc", 1, "elsewhere");
    assert_eq!(
        tower.run(&["list", "."]).expect(0, &[]).out.lines().count(),
        1
    );
    assert_eq!(
        tower
            .run(&["list", ".", "tower:", "tower:"])
            .expect(0, &["4 locks"])
            .out
            .lines()
            .count(),
        4
    );
}

/// Those of the document, in its order, and what others have put there.
#[test]
fn every_field_is_shown_by_status_and_by_list() {
    let tower = Tower::new();
    tower.write("app-prod", 30);
    let there: Value =
        serde_json::from_str(&fs::read_to_string(tower.lock("app-prod")).unwrap()).unwrap();
    for args in [["status", TARGET, "--json"], ["list", "tower:", "--json"]] {
        let shown = tower.run(&args).expect(0, &[]).json()["data"][0]["record"].clone();
        assert_eq!(shown, there, "{args:?}");
        let keys: Vec<&str> = shown
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            (keys.len(), keys.last().copied()),
            (13, Some("note")),
            "{args:?}"
        );
    }
    let raw = tower.run(&["status", TARGET, "--raw"]).expect(0, &[]).out;
    assert_eq!(raw, fs::read_to_string(tower.lock("app-prod")).unwrap());
}

#[test]
fn wait_returns_when_it_is_released() {
    let tower = Tower::new();
    tower.write("app-prod", 0);
    let waiting = Running::apart(tower.command(&["wait", "--wait", "30s", TARGET]));
    until("it says whom it waits for", || {
        waiting.err().contains("claude-code")
    });
    fs::remove_file(tower.lock("app-prod")).unwrap();
    waiting.end().expect(0, &[]);
}

#[test]
fn break_by_its_id_keeps_the_record() {
    let tower = Tower::new();
    tower.write("app-prod", 1800);
    tower
        .run(&["break", TARGET, "--id", "req_other"])
        .expect(1, &["--id req_abc"]);
    let before = fs::read(tower.lock("app-prod")).unwrap();
    let ended = tower
        .run(&["break", TARGET, "--id", "req_abc", "--json"])
        .expect(0, &["broke the lock of claude-code"]);
    let kept = PathBuf::from(ended.json()["data"]["kept"].as_str().unwrap());
    assert_eq!(fs::read(&kept).unwrap(), before);
    assert!(kept.starts_with(tower.dir()) && !tower.lock("app-prod").exists());
    tower.write("app-prod", 10);
    tower
        .run(&["break", TARGET, "--holder", "claude-code", "--even-if-live"])
        .expect(0, &[]);
    fs::write(tower.lock("app-prod"), "{").unwrap();
    tower
        .run(&["break", TARGET, "--malformed"])
        .expect(0, &["it is kept in"]);
    tower.run(&["check", TARGET]).expect(0, &[]);
}

#[test]
fn the_option_beats_the_variable_and_is_typed_again() {
    let tower = Tower::new();
    tower.write("app-prod", 1800);
    fs::create_dir(tower.scene.file("empty dir")).unwrap();
    fs::set_permissions(
        tower.scene.file("empty dir"),
        fs::Permissions::from_mode(0o700),
    )
    .unwrap();
    let status = tower
        .run(&["status", "--lock-dir", "empty dir", TARGET])
        .expect(0, &[])
        .out;
    assert!(status.starts_with("tower:app-prod: free"), "{status}");
    assert!(
        status.contains("next: beadlock hold --lock-dir 'empty dir' tower:app-prod "),
        "{status}"
    );
    tower.run(&["check", TARGET]).expect(4, &[]);
    tower
        .run(&["check", TARGET, "--lock-dir", ""])
        .expect(2, &["name is empty"]);
    let mut command = tower.scene.beadlock(&["check"]);
    command
        .env("BEADLOCK_TARGET", TARGET)
        .env("BEADLOCK_LOCK_DIR", "locks");
    Running::apart(command).end().expect(4, &[]);
}

#[test]
fn a_directory_that_others_may_write_is_warned_about_once() {
    let tower = Tower::new();
    fs::set_permissions(tower.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    for args in [
        &["check", TARGET, "tower:other"][..],
        &["status", TARGET],
        &["status", "--raw", TARGET],
        &["list", "tower:"],
        &["wait", TARGET],
        &["break", TARGET, "--id", "x"],
    ] {
        let ended = tower.run(args).expect(
            0,
            &[
                "others may write the lock directory",
                "mode 777",
                "chmod 700 ",
            ],
        );
        assert_eq!(
            ended.err.matches("others may write").count(),
            1,
            "{args:?}: {}",
            ended.err
        );
    }
    let json = tower
        .run(&["check", TARGET, "--json"])
        .expect(0, &[])
        .json();
    assert!(
        json["warnings"][0]
            .as_str()
            .unwrap()
            .contains("others may write the lock directory"),
        "{json}"
    );
    fs::set_permissions(tower.dir(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(tower.run(&["check", TARGET]).expect(0, &[]).err, "");
}

#[test]
fn a_directory_of_another_user_is_warned_about() {
    if !beadlock_testkit::root() {
        return;
    }
    let tower = Tower::new();
    std::os::unix::fs::chown(tower.dir(), Some(65534), None).unwrap();
    tower
        .run(&["status", TARGET])
        .expect(0, &["belongs to user 65534, and this is user 0"]);
}
