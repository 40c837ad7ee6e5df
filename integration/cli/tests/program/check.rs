//! `beadlock check`: the decision's line, its exit code, its JSON.

use std::fs;

use beadlock_core::gate::Gate;
use beadlock_testkit::{Running, Scene, as_nobody, dead_pid, shell_lock_text, this_host};
use serde_json::{Value, json};

/// The keys of an object.
fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

#[test]
fn every_decision_has_its_line_and_its_code() {
    let (me, host) = (i64::from(std::process::id()), this_host());
    let cases = [
        (None, 0, "", "free", "no_lock"),
        (
            Some(shell_lock_text("vc", me, &host)),
            4,
            "Skipping database (locked by vc)",
            "held",
            "pid_alive",
        ),
        (
            Some(shell_lock_text("vc", me, "elsewhere")),
            4,
            "Skipping database (locked by vc)",
            "held",
            "other_host",
        ),
        (
            Some(shell_lock_text("vc", 1 << 40, &host)),
            4,
            "Skipping database (locked by vc)",
            "held",
            "pid_unknown",
        ),
        (
            Some(shell_lock_text("vc", i64::from(dead_pid()), &host)),
            0,
            "Removed stale lock (vc), proceeding with sync",
            "stale",
            "pid_gone",
        ),
        (
            Some(String::new()),
            5,
            "Skipping database (lock check failed: malformed lock file: unexpected EOF)",
            "unreadable",
            "malformed",
        ),
        (
            Some(shell_lock_text("", me, &host)),
            5,
            "Skipping database (lock check failed: invalid lock file: holder must not be empty)",
            "unreadable",
            "invalid",
        ),
    ];
    for (text, code, line, verdict, reason) in cases {
        let scene = crate::a_scene();
        let write = || {
            text.as_ref()
                .map(|text| fs::write(scene.lock(), text).unwrap())
        };
        write();
        let expected = if line.is_empty() {
            String::new()
        } else {
            format!("{line}\n")
        };
        assert_eq!(scene.run(&["check"]).expect(code, &[]).out, expected);
        let is_stale = verdict == "stale";
        assert_eq!(scene.lock().exists(), text.is_some() && !is_stale);
        write();
        let json = scene
            .run(&["check", ".beads", "--json"])
            .expect(code, &[])
            .json();
        assert_eq!(
            (&json["ok"], &json["error"]),
            (&true.into(), &Value::Null),
            "whatever the answer"
        );
        let data = &json["data"][0];
        assert_eq!(
            keys(data),
            [
                "decision", "holder", "id", "message", "path", "reason", "removed", "target",
                "verdict"
            ]
        );
        assert_eq!(data["decision"], if code == 0 { "proceed" } else { "skip" });
        assert_eq!(
            (&data["verdict"], &data["reason"], &data["message"]),
            (&verdict.into(), &reason.into(), &line.into())
        );
        assert_eq!(data["removed"], is_stale);
        assert_eq!(
            data["holder"],
            if ["held", "stale"].contains(&verdict) {
                json!("vc")
            } else {
                Value::Null
            }
        );
        assert_eq!(data["id"].is_null(), verdict == "free", "{data}");
    }
}

#[test]
fn a_dry_run_removes_nothing() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let line = "Stale lock (vc) would be removed, proceeding with sync";
    assert_eq!(
        scene.run(&["check", "--dry-run"]).expect(0, &[]).out,
        format!("{line}\n")
    );
    let json = scene
        .run(&["check", "--dry-run", "--json"])
        .expect(0, &[])
        .json();
    assert_eq!(
        (&json["data"][0]["removed"], &json["data"][0]["message"]),
        (&false.into(), &line.into())
    );
    assert!(scene.lock().exists());
}

#[test]
fn a_stale_lock_behind_a_busy_gate_is_left_for_later() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let ended = scene.run(&["check"]).expect(4, &[]);
    assert_eq!(
        ended.out,
        "Skipping database (a sync cycle or a claim is in progress)\n"
    );
    drop(gate);
    assert!(scene.lock().exists());
}

#[test]
fn a_removal_that_fails_is_exit_5() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    fs::set_permissions(
        scene.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let mut command = scene.beadlock(&["check", ".beads", "--json"]);
    if !as_nobody(&mut command) {
        return;
    }
    let json = Running::apart(command).end().expect(5, &[]).json();
    assert_eq!(
        (&json["data"][0]["reason"], &json["data"][0]["verdict"]),
        (&"removal_failed".into(), &"stale".into())
    );
    let message = json["data"][0]["message"].as_str().unwrap();
    assert!(
        message.starts_with("Skipping database (lock check failed: failed to remove stale lock: "),
        "{message}"
    );
    assert!(scene.lock().exists());
}

/// What was aside before the check is in its place after it, and is called as status calls it.
#[test]
fn a_lock_that_was_put_back_has_its_id() {
    let side = |scene: &Scene| scene.beads().join(".exclusive-lock.aside");
    for text in [
        shell_lock_text("vc", i64::from(std::process::id()), &this_host()),
        "{".to_owned(),
    ] {
        let scene = crate::a_scene();
        fs::write(side(&scene), text).unwrap();
        let check = scene.run(&["check", "--json"]).json();
        let status = scene.run(&["status", "--json"]).expect(0, &[]).json();
        assert!(
            check["data"][0]["id"].is_string() && !side(&scene).exists(),
            "{check}"
        );
        assert_eq!(check["data"][0]["id"], status["data"][0]["id"]);
    }
}

#[test]
fn several_targets_are_all_answered_and_the_highest_code_wins() {
    let scene = crate::a_scene();
    let (free, held, bad) = ("free/.beads", "held/.beads", "bad/.beads");
    for dir in [free, held, bad] {
        fs::create_dir_all(scene.file(dir)).unwrap();
    }
    fs::write(
        scene.file("held/.beads/.exclusive-lock"),
        shell_lock_text("vc", 1, "elsewhere"),
    )
    .unwrap();
    fs::write(scene.file("bad/.beads/.exclusive-lock"), "[").unwrap();
    let ended = scene.run(&["check", free, held]).expect(4, &[]);
    assert_eq!(ended.out, "held/.beads: Skipping database (locked by vc)\n");
    let ended = scene
        .run(&["check", bad, held, "nowhere", free])
        .expect(5, &["nowhere does not exist"]);
    assert_eq!(ended.out.lines().count(), 2, "{ended:?}");
    assert!(
        ended
            .out
            .starts_with("bad/.beads: Skipping database (lock check failed: malformed"),
        "{ended:?}"
    );
    scene
        .run(&["check", free, "nowhere"])
        .expect(1, &["nowhere does not exist"]);
    let json = scene
        .run(&["check", "--json", free, held])
        .expect(4, &[])
        .json();
    assert_eq!(
        (json["data"].as_array().unwrap().len(), &json["ok"]),
        (2, &true.into())
    );
}

#[test]
fn a_hostile_holder_forges_no_line() {
    let scene = crate::a_scene();
    let name = "x)\n[2026-01-01 00:00:00] Sync cycle complete\u{1b}[2J\u{202e}";
    scene.write_shell_lock(name, 1, "elsewhere");
    for args in [
        &["check"][..],
        &["check", "--explain"],
        &["status"],
        &["hold", "--no-wait", "--", "true"],
    ] {
        let ended = scene.run(args);
        let said = format!("{}{}", ended.out, ended.err);
        assert!(
            said.contains(r"x)\n[2026-01-01 00:00:00] Sync cycle complete\u{1b}[2J\u{202e}"),
            "{said}"
        );
        assert!(
            !said.contains(['\u{1b}', '\u{202e}']) && !said.contains("\n[2026"),
            "{said}"
        );
    }
    let json = scene.run(&["check", "--json"]).json();
    assert_eq!(
        json["data"][0]["holder"], name,
        "in JSON the holder is the raw string"
    );
}

#[test]
fn explain_names_every_witness_and_what_to_type() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", 4242, "elsewhere");
    let text = scene.run(&["check", "--explain"]).expect(4, &[]).out;
    for word in [
        "Skipping database (locked by vc)\n",
        "held (other_host), holder vc",
        "kill(4242, 0) was not asked",
        "host: elsewhere, not this one",
        "gate: open",
        "next: ssh -- elsewhere ps -p 4242",
        "once it is gone: beadlock break .beads --id sha256:",
    ] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    let json = scene
        .run(&["check", "--explain", "--json"])
        .expect(4, &[])
        .json();
    assert_eq!(json["data"][0]["witnesses"]["kill"], "not_asked");
    assert!(
        json["data"][0]["next"]
            .as_str()
            .unwrap()
            .contains("ssh -- elsewhere")
    );
}

#[test]
fn a_zombie_is_held_until_one_asks_for_its_proof() {
    let scene = crate::a_scene();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    beadlock_testkit::until("it has ended", || {
        !beadlock_testkit::lives(pid.cast_signed())
    });
    scene.write_shell_lock("vc", i64::from(pid), &this_host());
    let text = scene.run(&["check", "--explain"]).expect(4, &[]).out;
    assert!(
        text.contains("next: beadlock check --reap-proven-dead .beads   # a zombie: it has ended, its parent (PID "),
        "{text}"
    );
    let json = scene
        .run(&["check", "--reap-proven-dead", "--json"])
        .expect(0, &[])
        .json();
    assert_eq!(
        (&json["data"][0]["reason"], &json["data"][0]["removed"]),
        (&"zombie".into(), &true.into())
    );
    child.wait().unwrap();
}

#[test]
fn what_next_offers_can_be_pasted_and_is_nothing_else() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", 4242, "-oProxyCommand=touch x; rm");
    let text = scene.run(&["check", "--explain"]).expect(4, &[]).out;
    assert!(
        text.contains("next: ssh -- '-oProxyCommand=touch x; rm' ps -p 4242"),
        "{text}"
    );
    for name in ["-dashed", "a b'c", "line\nbreak", "back\\slash", "\u{202e}"] {
        let scene = crate::a_scene();
        fs::create_dir(scene.file(name)).unwrap();
        let target = format!("beads:{name}");
        let text = scene
            .run(&["status", "--json", &target])
            .expect(0, &[])
            .json();
        let next = text["data"][0]["next"].as_str().unwrap();
        let word = next
            .strip_prefix("beadlock hold ")
            .and_then(|rest| rest.strip_suffix(" -- CMD"))
            .unwrap();
        assert!(
            !word.starts_with('-') && !word.contains(['\n', '\u{202e}']),
            "{word:?}"
        );
        let ended = std::process::Command::new("bash")
            .args(["-c", &format!("cd {word}; pwd -P")])
            .current_dir(scene.path())
            .output()
            .unwrap();
        let dir = fs::canonicalize(scene.file(name)).unwrap();
        assert_eq!(
            String::from_utf8_lossy(&ended.stdout),
            format!("{}\n", dir.display()),
            "{word}"
        );
    }
}

/// Another user's file gives no lease; what was done without one is said.
#[test]
fn a_removal_without_a_lease_is_explained() {
    use std::os::unix::fs::PermissionsExt;
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = scene.beadlock(&["check", "--explain"]);
    if !as_nobody(&mut command) {
        return;
    }
    let ended = Running::apart(command).end().expect(0, &[]);
    assert!(
        ended
            .out
            .starts_with("Removed stale lock (vc), proceeding with sync\n"),
        "{ended:?}"
    );
    assert!(ended.out.contains("  lease_unavailable: "), "{ended:?}");
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let ours = scene.run(&["check", "--explain"]);
    assert!(!ours.out.contains("lease_unavailable"), "{ours:?}");
}
