//! Several targets in one claim: `hold A --and B`.
#![expect(
    clippy::disallowed_methods,
    reason = "somebody holds a lock, and what careless tools do to one"
)]

mod killed;
mod lost;
mod order;

use std::fs;

use beadlock_testkit::{Ended, Running, Scene, lives, shell_lock_text, this_host, until};
use serde_json::Value;

/// Two locks in one directory: the first one is taken first.
const BOTH: [&str; 3] = ["lock:a.lock", "--and", "lock:b.lock"];
const CONTRARY: [&str; 3] = ["lock:b.lock", "--and", "lock:a.lock"];
/// Runs until `go` is there.
const UNTIL_GO: &str = "echo $$ > pid; until test -e go; do sleep 0.01; done; echo ran > ran";

/// Writes a lock file of a live process: this one.
fn occupy(scene: &Scene, name: &str) {
    let text = shell_lock_text("ann", i64::from(std::process::id()), &this_host());
    fs::write(scene.file(name), text).unwrap();
}

fn hold(scene: &Scene, words: &[&str], script: &str) -> Running {
    Running::apart(scene.beadlock(&[&["hold"], words, &["--", "sh", "-c", script]].concat()))
}

fn run(scene: &Scene, words: &[&str], script: &str) -> Ended {
    hold(scene, words, script).end()
}

fn holding(scene: &Scene, words: &[&str], script: &str) -> Running {
    let mut running = hold(scene, words, script);
    until("the command runs", || {
        assert!(!running.has_ended(), "{}", running.err());
        scene.read("pid").ends_with('\n')
    });
    running
}

#[track_caller]
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Every kind of target. What each is called: as typed, in the report, and in the claimed line.
const ALL: [&str; 5] = [
    ".beads",
    "tower:app",
    "memory:mem",
    "file:todo.json",
    "lock:run/x.lock",
];

fn all_kinds<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let (first, others) = ALL.split_first().unwrap();
    let mut words = vec![*first];
    others
        .iter()
        .for_each(|target| words.extend(["--and", target]));
    words.extend([
        "--lock-dir",
        "locks",
        "--intent-name",
        "deploy",
        "--intent-version",
        "1",
    ]);
    words.extend(more);
    words
}

fn scene_of_all_kinds() -> Scene {
    let scene = crate::a_scene();
    ["run", "mem"]
        .iter()
        .for_each(|dir| fs::create_dir(scene.file(dir)).unwrap());
    scene
}

#[track_caller]
fn verdicts(scene: &Scene) -> Vec<String> {
    let answered = scene.run(&[&["status", "--json", "--lock-dir", "locks"], &ALL[..]].concat());
    let rows = answered.json()["data"].as_array().unwrap().clone();
    rows.iter()
        .map(|row| row["verdict"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn targets_of_every_kind_are_claimed_and_released_together() {
    let scene = scene_of_all_kinds();
    let script = format!("env | grep ^BEADLOCK_HELD > held; {UNTIL_GO}");
    let running = holding(
        &scene,
        &all_kinds(&["--report", "report", "--audit", "trail"]),
        &script,
    );
    assert_eq!(verdicts(&scene), ["held"; 5]);
    fs::write(scene.file("go"), "").unwrap();
    let ended = running.end().expect(0, &[]);
    assert_eq!(verdicts(&scene), ["free"; 5]);

    let report = json(&scene.read("report"));
    let claims = report["data"]["claims"].as_array().unwrap();
    let targets: Vec<&str> = claims
        .iter()
        .map(|claim| claim["target"].as_str().unwrap())
        .collect();
    assert_eq!(
        targets,
        [
            "beads:.beads",
            "tower:app",
            "memory:mem",
            "file:todo.json",
            "lock:run/x.lock"
        ]
    );
    assert_eq!(
        (&report["data"]["target"], &report["data"]["id"]),
        (&claims[0]["target"], &claims[0]["id"])
    );
    for claim in claims {
        assert_eq!(
            (&claim["released"], &claim["nested"]),
            (&true.into(), &false.into()),
            "{claim}"
        );
        assert!(
            claim["held_ms"].is_u64() && claim["id"].is_string(),
            "{claim}"
        );
        let name = claim["target"]
            .as_str()
            .unwrap()
            .trim_start_matches("beads:");
        assert_eq!(
            ended.err.matches(&format!("claimed {name} for ")).count(),
            1,
            "{ended:?}"
        );
        assert_eq!(
            ended
                .err
                .matches(&format!("released {name} after "))
                .count(),
            1,
            "{ended:?}"
        );
    }

    // The environment: the first one's name, and the ids of all.
    let held = scene.read("held");
    let variable = |name: &str| {
        held.lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")))
            .unwrap()
    };
    let beads = fs::canonicalize(scene.beads()).unwrap();
    assert_eq!(
        variable("BEADLOCK_HELD_TARGET"),
        format!("beads:{}", beads.display())
    );
    assert_eq!(variable("BEADLOCK_HELD_ID"), claims[0]["id"]);
    let ids: Vec<&str> = variable("BEADLOCK_HELD_IDS").split(' ').collect();
    let of_claim = |claim: &Value| match claim["target"].as_str().unwrap() {
        "tower:app" => format!("{}@app", claim["id"].as_str().unwrap()),
        _ => claim["id"].as_str().unwrap().to_owned(),
    };
    assert_eq!(ids, claims.iter().map(of_claim).collect::<Vec<_>>());

    // The trail: for each target that it was acquired, and that it was released. A named lock has its document's
    // events.
    let trail: Vec<Value> = scene.read("trail").lines().map(json).collect();
    for target in [
        "beads:.beads",
        "memory:mem",
        "file:todo.json",
        "lock:run/x.lock",
        "app",
    ] {
        let of_target = |entry: &&Value| entry["lock_name"] == target;
        let events: Vec<&str> = trail
            .iter()
            .filter(of_target)
            .map(|entry| entry["event"].as_str().unwrap())
            .collect();
        assert_eq!(
            events,
            ["lock_acquired", "lock_released"],
            "{target}: {trail:?}"
        );
    }
}

#[test]
fn where_one_is_held_none_is_claimed() {
    for words in [BOTH, CONTRARY] {
        for (occupied, code) in [("a.lock", 4), ("b.lock", 4)] {
            let scene = crate::a_scene();
            occupy(&scene, occupied);
            let before = scene.read(occupied);
            let report = ["--no-wait", "--report", "report"];
            let ended = run(&scene, &[&words, &report[..]].concat(), "touch ran");
            let said = format!("error: lock:{occupied}: Resource lock held by PID ");
            ended.expect(code, &[&said, "; none of the 2 targets is claimed\n"]);
            let free = if occupied == "a.lock" {
                "b.lock"
            } else {
                "a.lock"
            };
            assert!(!scene.file("ran").exists() && !scene.file(free).exists());
            assert_eq!(scene.read(occupied), before);
            assert_eq!(json(&scene.read("report"))["data"], Value::Null);
        }
    }
}

#[test]
fn what_was_claimed_before_one_fails_is_released_in_reverse_order() {
    let scene = crate::a_scene();
    occupy(&scene, "c.lock");
    let words = [
        "lock:b.lock",
        "--and",
        "lock:c.lock",
        "--and",
        "lock:a.lock",
        "--no-wait",
        "--audit",
        "trail",
    ];
    run(&scene, &words, "touch ran").expect(
        4,
        &["error: lock:c.lock: ", "none of the 3 targets is claimed"],
    );
    let trail: Vec<Value> = scene.read("trail").lines().map(json).collect();
    let events: Vec<String> = trail
        .iter()
        .map(|entry| format!("{} {}", entry["event"], entry["lock_name"]).replace('"', ""))
        .collect();
    let wanted = [
        "lock_acquired lock:a.lock",
        "lock_acquired lock:b.lock",
        "lock_blocked lock:c.lock",
        "lock_released lock:b.lock",
        "lock_released lock:a.lock",
    ];
    assert_eq!(events, wanted);
    assert_eq!(trail[3]["reason"], "command_not_started");
    assert!(
        !scene.file("ran").exists()
            && !scene.file("a.lock").exists()
            && !scene.file("b.lock").exists()
    );
}

#[test]
fn a_signal_during_the_wait_for_one_releases_the_others() {
    let scene = crate::a_scene();
    occupy(&scene, "b.lock");
    let running = hold(
        &scene,
        &[&BOTH, &["--wait", "1h"][..]].concat(),
        "touch ran",
    );
    until("it waits", || running.err().contains("waiting"));
    assert!(scene.file("a.lock").exists());
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.end().expect(
        143,
        &["released lock:a.lock", "before the command was started"],
    );
    assert!(!scene.file("a.lock").exists() && !scene.file("ran").exists());
}

/// What the first one has waited, the second one does not have any more.
#[test]
fn one_wait_is_for_all_of_them() {
    let scene = crate::a_scene();
    occupy(&scene, "a.lock");
    occupy(&scene, "b.lock");
    let running = hold(
        &scene,
        &[&BOTH, &["--wait", "3s"][..]].concat(),
        "touch ran",
    );
    until("it waits for the first", || {
        running.err().contains("waiting")
    });
    fs::remove_file(scene.file("a.lock")).unwrap();
    let ended = running.end().expect(
        4,
        &[
            "lock:b.lock: ",
            "; the wait is for all of them together, and ",
        ],
    );
    let after = |words: &str| {
        let (_, rest) = ended.err.split_once(words).unwrap();
        let (number, unit) = rest.split_at(
            rest.find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap(),
        );
        number.parse::<f64>().unwrap() * if unit.starts_with("ms") { 1.0 } else { 1000.0 }
    };
    let (left, spent) = (
        after("acquisition timed out after "),
        after("them together, and "),
    );
    assert!(spent >= 400.0 && left < 3000.0, "{ended:?}");
    assert!(
        (left + spent - 3000.0).abs() < 150.0,
        "both are rounded: {ended:?}"
    );
    assert!(!scene.file("a.lock").exists() && !scene.file("ran").exists());
}

#[test]
fn the_loss_of_any_of_them_is_a_loss() {
    for (words, lost, other) in [
        (BOTH, "a.lock", "b.lock"),
        (BOTH, "b.lock", "a.lock"),
        (CONTRARY, "a.lock", "b.lock"),
    ] {
        let scene = crate::a_scene();
        let words = [&words, &["--report", "report"][..]].concat();
        let running = holding(
            &scene,
            &words,
            "echo $$ > pid; while :; do sleep 0.01; done",
        );
        let pid = scene.pid_in("pid");
        fs::remove_file(scene.file(lost)).unwrap();
        let said = [
            &format!("lost the lock of lock:{lost} after "),
            &*format!("released lock:{other} after "),
        ];
        running.end().expect(9, &said);
        assert!(!lives(pid) && !scene.file(lost).exists() && !scene.file(other).exists());
        let report = json(&scene.read("report"));
        assert_eq!(report["error"]["code"], "LOCK_LOST");
        for claim in report["data"]["claims"].as_array().unwrap() {
            let is_lost = claim["path"].as_str().unwrap().ends_with(lost);
            assert_eq!(claim["released"], !is_lost, "{report}");
        }
    }
}

/// A lock that is judged by time is kept up while the next one is waited for.
#[test]
fn a_named_lock_has_heartbeats_during_the_wait_for_another() {
    let scene = crate::a_scene();
    fs::create_dir(scene.file("locks")).unwrap();
    // In one directory, so that the named one comes first.
    occupy(&scene, "locks/z.lock");
    let named = [
        "--lock-dir",
        "locks",
        "--intent-name",
        "deploy",
        "--intent-version",
        "1",
        "--ttl",
        "1",
    ];
    let words = [
        &["lock:locks/z.lock", "--and", "tower:app", "--wait", "1h"],
        &named[..],
    ]
    .concat();
    let running = hold(&scene, &words, "touch ran");
    let heartbeat = || {
        let record: Value = serde_json::from_str(&scene.read("locks/app.lock")).ok()?;
        record["last_heartbeat_at"].as_str().map(str::to_owned)
    };
    until("the first one is claimed", || heartbeat().is_some());
    let (first, mut seen) = (heartbeat(), 0);
    let mut last = first.clone();
    until("it goes on for longer than it is valid without", || {
        let now = heartbeat();
        if now.is_some() && now != last {
            (last, seen) = (now, seen + 1);
        }
        seen > 2
    });
    fs::remove_file(scene.file("locks/z.lock")).unwrap();
    running
        .end()
        .expect(0, &["released tower:app", "released lock:locks/z.lock"]);
    assert!(scene.file("ran").exists());
}

#[test]
fn a_target_that_is_held_already_is_nested_and_the_others_are_taken() {
    let scene = crate::a_scene();
    let inner = "cp a.lock seen_a; cp b.lock seen_b; echo \"$BEADLOCK_HELD_TARGET $BEADLOCK_HELD_IDS\" > held";
    let outer = format!(
        "echo $BEADLOCK_HELD_ID > outer; \"$BEADLOCK\" hold lock:b.lock --and lock:a.lock --no-wait --report report \
         -- sh -c '{inner}'; echo $? > code; test -e a.lock && ! test -e b.lock && echo > kept"
    );
    run(&scene, &["lock:a.lock"], &outer)
        .expect(0, &["released lock:b.lock", "released lock:a.lock"]);
    assert_eq!(scene.read("code"), "0\n");
    assert!(
        scene.file("kept").exists(),
        "only what it has taken is released"
    );
    let (report, outer) = (
        json(&scene.read("report")),
        scene.read("outer").trim().to_owned(),
    );
    let claims = &report["data"]["claims"];
    assert_eq!(
        (&claims[0]["nested"], &claims[1]["nested"]),
        (&false.into(), &true.into()),
        "{report}"
    );
    assert_eq!(
        (&claims[0]["released"], &claims[1]["released"]),
        (&true.into(), &false.into()),
        "{report}"
    );
    assert_eq!(claims[1]["id"], outer.as_str());
    let held = scene.read("held");
    assert!(held.contains("/b.lock ") && held.contains(&outer), "{held}");
    assert!(held.contains(claims[0]["id"].as_str().unwrap()), "{held}");
    assert!(scene.read("seen_a").contains(&outer) && !scene.read("seen_b").is_empty());
    // All of them at once: nothing is taken.
    let script = format!(
        "\"$BEADLOCK\" hold {} --no-wait -- true",
        CONTRARY.join(" ")
    );
    let ended = run(&scene, &BOTH, &script).expect(0, &[]);
    assert_eq!(ended.err.matches("released ").count(), 2, "{ended:?}");
}

#[test]
fn the_same_target_twice_is_claimed_once() {
    let scene = crate::a_scene();
    std::os::unix::fs::symlink(".", scene.file("link")).unwrap();
    for twice in [
        &["lock:a.lock", "--and", "lock:a.lock"][..],
        &["lock:a.lock", "--and", "lock:link/a.lock"],
        &[".beads", "--and", "link/.beads"],
        &[
            "file:todo.json",
            "--and",
            "file:./todo.json",
            "--and",
            "file:link/todo.json",
        ],
    ] {
        let ended = run(
            &scene,
            &[twice, &["--no-wait", "--report", "report", "-v"]].concat(),
            "true",
        );
        let ended = ended.expect(0, &["it is claimed once"]);
        assert_eq!(ended.err.matches("released ").count(), 1, "{ended:?}");
        assert_eq!(
            json(&scene.read("report"))["data"].get("claims"),
            None,
            "as of one target"
        );
    }
    let words = [
        "file:todo.json",
        "--and",
        "lock:todo.json.lock",
        "--no-wait",
    ];
    let said = "file:todo.json and lock:todo.json.lock have the same lock file, which cannot be locked in two ways";
    run(&scene, &words, "touch ran").expect(2, &[said]);
    assert!(!scene.file("ran").exists());
}

#[test]
fn an_option_must_mean_something_to_one_of_them() {
    let scene = crate::a_scene();
    let script = "\"$BEADLOCK\" status file:todo.json > seen";
    run(
        &scene,
        &[
            ".beads",
            "--and",
            "file:todo.json",
            "--shared",
            "--holder",
            "ann",
        ],
        script,
    )
    .expect(0, &[]);
    assert!(
        scene.read("seen").contains("shared"),
        "{}",
        scene.read("seen")
    );
    for (words, said) in [
        (
            &["--ttl", "9"][..],
            "--ttl is for named locks (tower:NAME), and the target is lock:a.lock",
        ),
        (
            &["--any-directory"],
            "--any-directory is for the directory of a database, and the target is lock:a.lock",
        ),
    ] {
        run(&scene, &[&BOTH, words].concat(), "touch ran").expect(2, &[said]);
    }
    let files = ["file:x.json", "--and", "file:todo.json", "--holder", "ann"];
    run(&scene, &files, "touch ran").expect(2, &["--holder means nothing to files (file:PATH)"]);
    fs::create_dir(scene.file("plain")).unwrap();
    run(
        &scene,
        &["lock:a.lock", "--and", "plain", "--any-directory"],
        "touch both",
    )
    .expect(0, &["released plain"]);
    assert!(scene.file("both").exists());
    run(&scene, &["lock:a.lock", "--and", "plain"], "touch ran").expect(2, &["plain"]);
    run(&scene, &["lock:a.lock", "--and", "tower:"], "touch ran").expect(2, &[]);
    assert!(!scene.file("ran").exists() && !scene.file("a.lock").exists());
}

#[test]
fn a_report_or_a_trail_is_none_of_their_lock_files() {
    let scene = crate::a_scene();
    for option in ["--report", "--audit"] {
        for file in ["a.lock", "b.lock", "b.lock.aside", "todo.json.lock"] {
            let words = [&BOTH, &["--and", "file:todo.json", option, file][..]].concat();
            run(&scene, &words, "touch ran")
                .expect(2, &[&format!("{option}: {file} "), "name another file"]);
            assert!(!scene.file(file).exists(), "{option} {file}");
        }
    }
    assert!(!scene.file("ran").exists());
}
