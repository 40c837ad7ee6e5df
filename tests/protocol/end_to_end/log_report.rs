//! What the agent writes, `beadlock log` understands: a log really written, with a hold, a stop and a kill in it.

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Scene, this_host, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const AGENT: [&str; 6] = [
    "--db",
    ".beads",
    "--interval",
    "100ms",
    "--exec",
    "echo 'Skipping database (locked by forged)'",
];

#[track_caller]
fn report(scene: &Scene, extra: &[&str]) -> Value {
    let (code, envelope) = scene.json(&[&["log"][..], extra].concat());
    assert_eq!((code, &envelope["ok"]), (0, &json!(true)), "{envelope}");
    envelope["data"][0].clone()
}

fn count(log: &str, words: &str) -> usize {
    log.lines()
        .filter(|line| line.get(22..) == Some(words))
        .count()
}

#[test]
fn a_hold_is_told_while_it_goes_on_and_when_it_is_over() {
    let scene = Scene::new();
    let agent = scene.start_agent(&AGENT);
    scene.wait_for_log("a complete cycle", |log| {
        log.contains("] Sync cycle complete")
    });
    let answer = report(&scene, &[])["databases"][0]["answer"].clone();
    assert_eq!(answer["syncing"], true, "{answer}");
    let hold = scene.hold(&["--holder", "nightly", "--", "sleep", "60"]);
    scene.wait_for_log("three skips", |log| {
        count(log, "Skipping database (locked by nightly)") >= 3
    });
    let answer = report(&scene, &[])["databases"][0]["answer"].clone();
    assert_eq!(
        (&answer["syncing"], &answer["state"], &answer["holder"]),
        (&json!(false), &json!("held"), &json!("nightly"))
    );
    let lock: Value = serde_json::from_str(&scene.lock_text()).expect("the lock is JSON");
    assert_eq!(
        (&answer["pid"], &answer["host"], &answer["reason"]),
        (&lock["pid"], &json!(this_host()), &json!("pid_alive"))
    );
    assert_eq!(answer["held_since"], lock["started_at"]);
    assert_eq!(answer["next"][0]["command"], "beadlock status .beads");
    hold.signal(Signal::SIGTERM);
    hold.finish(PATIENCE);
    scene.wait_for_log("cycles again", |log| {
        log.split_once("] Resumed after ")
            .is_some_and(|(_, rest)| rest.contains("] Sync cycle complete"))
    });
    agent.signal(Signal::SIGTERM);
    agent.finish(PATIENCE);
    let (log, report) = (scene.log(), report(&scene, &[]));
    let database = &report["databases"][0];
    assert_eq!(
        database["holders"].as_array().map(Vec::len),
        Some(1),
        "what the cycles print is nobody's claim: {database}"
    );
    let row = &database["holders"][0];
    assert_eq!(
        (&row["holder"], &row["claims"], &row["ended"]["released"]),
        (&json!("nightly"), &json!(1), &json!(1))
    );
    let skips = row["skips"]
        .as_u64()
        .and_then(|skips| usize::try_from(skips).ok())
        .expect("a count");
    // A claim or a release has the gate for a moment: such a skip may come before the first one, or within.
    let (locked, busy) = (
        count(&log, "Skipping database (locked by nightly)"),
        count(
            &log,
            "Skipping database (a sync cycle or a claim is in progress)",
        ),
    );
    assert!(
        (locked..=locked + busy).contains(&skips),
        "{skips} of {locked} and {busy}: {row}"
    );
    let complete = count(&log, "Sync cycle complete");
    assert_eq!(database["cycles"]["complete"], complete, "{database}");
    assert_eq!(
        (
            &database["cycles"]["failed"],
            &database["cycles"]["unfinished"]
        ),
        (&json!(0), &json!(0))
    );
    assert_eq!(database["answer"]["state"], "stopped");
    let run = &report["agents"]["runs"][0];
    assert_eq!(
        (&run["end"], &run["signal"], &run["host"]),
        (&json!("stopped"), &json!("SIGTERM"), &json!(this_host()))
    );
    assert_eq!(
        (
            &report["agents"]["starts"],
            &report["agents"]["stops"],
            &report["agents"]["lost"]
        ),
        (&json!(1), &json!(1), &json!(0))
    );
}

/// The lines that would make a reader of the log believe another story.
const FORGED: &str = "Sync cycle complete
Skipping database (locked by alice)
Held since 2026-01-01T00:00:00Z by PID 1 on evil.example (other_host)
/srv/other/.beads: Skipping database (locked by bob)
Resumed after 1 skips in 2s
Agent stopped: beadlock-agent 0.1.0, PID 1, host evil.example
Daemon started (interval: 5s, auto-commit: true, auto-push: true)
Daemon stopped
";

#[test]
fn what_a_cycle_prints_changes_nothing_in_the_report() {
    let scene = Scene::new();
    std::fs::write(scene.path().join("forged"), FORGED).expect("write what is printed");
    std::fs::create_dir_all(scene.path().join("other/.beads")).expect("create the other database");
    let exec = [
        "--interval",
        "100ms",
        "--exec",
        "cat \"$BEADS_DIR/../forged\"; exit 3",
    ];
    let agent =
        beadlock_tests::Running::start(scene.agent(&[&["--db", ".beads"][..], &exec].concat()));
    scene.wait_for_log("three cycles", |log| {
        log.matches("] Sync cycle failed: ").count() >= 3
    });
    agent.signal(Signal::SIGKILL);
    let mut agent = agent;
    agent.wait(PATIENCE);
    let end = |report: &Value, name: Value| {
        let databases = report["databases"].as_array().expect("a list");
        let named = databases.iter().find(|one| one["database"] == name);
        let database = named.unwrap_or_else(|| panic!("{name} in {report}"));
        assert!(
            database["cycles"]["failed"].as_u64() >= Some(3),
            "{database}"
        );
        assert_eq!(
            (
                &database["cycles"]["complete"],
                &database["skips"],
                &database["holders"]
            ),
            (&json!(0), &json!(0), &json!([]))
        );
        assert_eq!(
            (
                &report["agents"]["starts"],
                &report["agents"]["stops"],
                &report["writer"]
            ),
            (&json!(1), &json!(0), &json!("agent"))
        );
        databases.len()
    };
    assert_eq!(end(&report(&scene, &[]), Value::Null), 1);
    let log = scene.log();
    assert!(
        FORGED
            .lines()
            .any(|line| log.contains(&format!("] {line}\n"))),
        "only what looks like ours is marked"
    );
    let both = [
        "--db",
        ".beads",
        "--db",
        "other/.beads",
        "--log-file",
        "all.log",
    ];
    std::fs::write(scene.path().join("other/forged"), FORGED).expect("write what is printed");
    let mut agent = beadlock_tests::Running::start(scene.agent(&[&both[..], &exec].concat()));
    let all = || std::fs::read_to_string(scene.path().join("all.log")).unwrap_or_default();
    let dir = scene.beads().canonicalize().expect("it is there");
    let failed = |dir: &std::path::Path| format!("{}: Sync cycle failed: ", dir.display());
    wait_until(PATIENCE, "three cycles", || {
        all().matches(&failed(&dir)).count() >= 3
    });
    agent.signal(Signal::SIGKILL);
    agent.wait(PATIENCE);
    assert_eq!(end(&report(&scene, &["all.log"]), json!(dir)), 2);
}

#[test]
fn an_agent_that_was_killed_is_missed() {
    let scene = Scene::new();
    let mut agent = scene.start_agent(&AGENT);
    let killed = agent.pid();
    agent.signal(Signal::SIGKILL);
    agent.wait(PATIENCE);
    let begun = scene.log().len();
    let agent = scene.start_agent(&AGENT);
    wait_until(PATIENCE, "the second agent's cycle", || {
        scene
            .log()
            .get(begun..)
            .is_some_and(|log| log.contains("] Sync cycle complete"))
    });
    let report = report(&scene, &[]);
    assert_eq!(
        (&report["agents"]["starts"], &report["agents"]["lost"]),
        (&json!(2), &json!(1)),
        "{report}"
    );
    let runs = &report["agents"]["runs"];
    assert_eq!(
        (&runs[0]["pid"], &runs[0]["end"]),
        (&json!(killed), &json!("lost"))
    );
    assert_eq!(
        (&runs[1]["pid"], &runs[1]["end"]),
        (&json!(agent.pid()), &json!("running"))
    );
}

#[test]
fn one_log_of_two_databases_is_told_apart() {
    let scene = Scene::new();
    let other = scene.path().join("other/.beads");
    std::fs::create_dir_all(&other).expect("create the other database");
    scene.write_lock("[1");
    let args = [
        "--db",
        ".beads",
        "--db",
        "other/.beads",
        "--interval",
        "100ms",
        "--action",
        "none",
        "--log-file",
        "all.log",
    ];
    let agent = beadlock_tests::Running::start(scene.agent(&args));
    let all = || std::fs::read_to_string(scene.path().join("all.log")).unwrap_or_default();
    wait_until(PATIENCE, "a cycle and two skips", || {
        all().contains("cycle complete") && all().matches("lock check failed").count() >= 2
    });
    let report = report(&scene, &["all.log"]);
    let databases = report["databases"].as_array().expect("a list");
    assert_eq!(databases.len(), 2, "{report}");
    let of = |dir: &std::path::Path| {
        let dir = dir.canonicalize().expect("it is there");
        let found = databases
            .iter()
            .find(|one| one["database"].as_str() == dir.to_str());
        found
            .unwrap_or_else(|| panic!("no {dir:?} in {report}"))
            .clone()
    };
    let (bad, good) = (of(&scene.beads()), of(&other));
    assert_eq!(
        (&bad["answer"]["state"], &bad["cycles"]["complete"]),
        (&json!("unreadable"), &json!(0))
    );
    assert!(
        bad["answer"]["detail"]
            .as_str()
            .is_some_and(|detail| detail.starts_with("malformed lock file: ")),
        "{bad}"
    );
    assert_eq!(
        (&good["answer"]["syncing"], &good["skips"]),
        (&json!(true), &json!(0))
    );
    agent.signal(Signal::SIGTERM);
    agent.finish(PATIENCE);
}

/// The same lines as the text format has them, where the log is of this one database or of several.
fn as_text(log: &str, are_several: bool) -> String {
    let line = |line: &str| {
        let line: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let text = |key: &str| {
            line[key]
                .as_str()
                .unwrap_or_else(|| panic!("{key} of {line}"))
        };
        let time = text("time").replace('T', " ").replace('Z', "");
        let name = line["db"].as_str().filter(|_| are_several);
        format!(
            "[{time}] {}{}\n",
            name.map(|name| format!("{name}: ")).unwrap_or_default(),
            text("message")
        )
    };
    log.lines().map(line).collect()
}

#[test]
fn json_and_text_tell_the_same() {
    let scene = Scene::new();
    let other = scene.path().join("other/.beads");
    std::fs::create_dir_all(&other).expect("create the other database");
    let json = ["--log-format", "json"];
    let mut killed = scene.start_agent(&[&AGENT[..], &json].concat());
    scene.wait_for_log("a cycle", |log| log.contains("Sync cycle complete"));
    killed.signal(Signal::SIGKILL);
    killed.wait(PATIENCE);
    for (log, args) in [
        (".beads/daemon.log", &AGENT[..]),
        (
            "all.log",
            &[
                &AGENT[..],
                &["--db", "other/.beads", "--log-file", "all.log"],
            ]
            .concat(),
        ),
    ] {
        let path = scene.path().join(log);
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        let agent = beadlock_tests::Running::start(scene.agent(&[args, &json].concat()));
        let hold = scene.hold(&["--holder", "nightly", "--", "sleep", "60"]);
        wait_until(PATIENCE, "skips", || {
            read().matches("(locked by nightly)").count() >= 3
        });
        hold.signal(Signal::SIGTERM);
        hold.finish(PATIENCE);
        wait_until(PATIENCE, "cycles again", || {
            read()
                .split_once("Resumed after ")
                .is_some_and(|(_, rest)| rest.contains("Sync cycle complete"))
        });
        agent.signal(Signal::SIGTERM);
        agent.finish(PATIENCE);
        let structured = read();
        let last = structured
            .lines()
            .last()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let until = last.expect("a last line")["time"]
            .as_str()
            .expect("a time")
            .to_owned();
        let ask = || report(&scene, &[log, "--until", &until]);
        let of_json = ask();
        std::fs::write(&path, as_text(&structured, log == "all.log")).expect("write it as text");
        assert_eq!(of_json, ask(), "{structured}");
        let named = |database: &&Value| database["skips"].as_u64() > Some(0);
        let databases = of_json["databases"].as_array().expect("a list");
        let held = databases
            .iter()
            .find(named)
            .unwrap_or_else(|| panic!("no skips in {of_json}"));
        assert_eq!(
            held["holders"][0]["holder"], "nightly",
            "what the cycles print is nobody's claim"
        );
        assert_eq!(of_json["agents"]["stops"], 1, "{of_json}");
    }
}

#[test]
fn a_hold_that_goes_on_is_told_from_json() {
    let scene = Scene::new();
    let agent = scene.start_agent(&[&AGENT[..], &["--log-format", "json"]].concat());
    let hold = scene.hold(&["--holder", "nightly", "--", "sleep", "60"]);
    scene.wait_for_log("a skip", |log| log.contains("(locked by nightly)"));
    let answer = report(&scene, &[])["databases"][0]["answer"].clone();
    let lock: Value = serde_json::from_str(&scene.lock_text()).expect("the lock is JSON");
    assert_eq!(
        (&answer["state"], &answer["holder"]),
        (&json!("held"), &json!("nightly")),
        "{answer}"
    );
    assert_eq!(
        (&answer["pid"], &answer["held_since"]),
        (&lock["pid"], &lock["started_at"])
    );
    assert_eq!(answer["next"][0]["command"], "beadlock status .beads");
    hold.signal(Signal::SIGTERM);
    hold.finish(PATIENCE);
    agent.signal(Signal::SIGTERM);
    agent.finish(PATIENCE);
}
