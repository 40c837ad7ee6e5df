//! The commands of `beadlock fleet`: their words, their answers for programs, and their exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_fleet::{Mark, mark};
use beadlock_tests::{Ended, Etcd, Running, Scene, run, until};
use serde_json::{Value, json};

/// An etcd, and the directory of a machine's configuration.
struct Bench {
    etcd: Etcd,
    file: PathBuf,
}

impl Bench {
    #[track_caller]
    fn new() -> Option<Self> {
        let etcd = Etcd::one()?;
        let file = etcd.dir().join("fleet.toml");
        Some(Self { etcd, file })
    }

    /// With a fleet that is old enough.
    #[track_caller]
    fn with_fleet() -> Option<Self> {
        let bench = Self::new()?;
        let url = bench.etcd.url("beads");
        let scene = Scene::new();
        let mut create = scene.beadlock(&["fleet", "create", &url]);
        let create = Running::start({
            create.env("BEADLOCK_FLEET_CONFIG", &bench.file);
            create
        });
        until("the fleet is there", || {
            let fleet = bench.etcd.try_ctl(&["get", "/beads/v1/fleet"]);
            fleet.is_some_and(|fleet| fleet.contains("nonce"))
        });
        until("its 15 s run", || {
            let new = ["get", "/beads/v1/new", "--write-out=json"];
            let new = bench.etcd.try_ctl(&new);
            new.is_some_and(|new| new.contains("\"lease\""))
        });
        bench.etcd.ctl(&["del", "/beads/v1/new"]);
        let created = create.end();
        assert_eq!(created.code, 0, "{}", created.err);
        Some(bench)
    }

    #[track_caller]
    fn type_in(&self, scene: &Scene, words: &[&str]) -> Ended {
        let mut command = scene.beadlock(words);
        command.env("BEADLOCK_FLEET_CONFIG", &self.file);
        Ended::of(&run(command))
    }

    #[track_caller]
    fn json(&self, scene: &Scene, words: &[&str]) -> (i32, Value) {
        let ended = self.type_in(scene, &[words, &["--json"]].concat());
        (
            ended.code,
            serde_json::from_str(&ended.out)
                .unwrap_or_else(|error| panic!("{error}: {} {}", ended.out, ended.err)),
        )
    }
}

fn mark_of(scene: &Scene) -> Option<Mark> {
    mark::read_in(&scene.beads()).expect("a mark that can be read")
}

#[track_caller]
fn says(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, code, "{}\n{}", ended.err, ended.out);
    let said = format!("{}{}", ended.err, ended.out);
    for words in words {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
}

#[test]
fn create_makes_the_fleet_writes_where_it_is_and_waits_15_seconds() {
    let Some(bench) = Bench::new() else { return };
    let (scene, url) = (Scene::new(), bench.etcd.url("beads"));
    let begun = std::time::Instant::now();
    let created = bench.type_in(&scene, &["fleet", "create", &url]);
    assert!(
        begun.elapsed() >= Duration::from_secs(14),
        "{:?}",
        begun.elapsed()
    );
    let made = format!("made the fleet at {url}");
    says(
        &created,
        0,
        &[
            &made,
            "work under an earlier fleet",
            "beadlock fleet join NAME",
        ],
    );
    assert!(
        fs::read_to_string(&bench.file)
            .unwrap()
            .ends_with(&format!("url = \"{url}\"\n"))
    );
    let (code, again) = bench.json(&scene, &["fleet", "create"]);
    assert_eq!(
        (code, &again["data"]["created"], &again["ok"]),
        (0, &json!(false), &json!(true)),
        "{again}"
    );
    let other = bench.type_in(&scene, &["fleet", "create", "etcd://localhost:1/beads"]);
    says(&other, 2, &["has url = ", "leave the URL out"]);
}

#[test]
fn a_clone_joins_and_is_told_who_else_is_in_and_leaves() {
    let Some(bench) = Bench::with_fleet() else {
        return;
    };
    let (one, two) = (Scene::new(), Scene::new());
    let joined = bench.type_in(&one, &["fleet", "join", "acme/tracker"]);
    says(
        &joined,
        0,
        &[
            "joined acme/tracker in the fleet at etcd://",
            "no other clone has joined under this name yet",
        ],
    );
    let first = mark_of(&one).expect("a mark");
    assert_eq!(first.name.as_str(), "acme/tracker");
    let (code, second) = bench.json(&two, &["fleet", "join", "acme/tracker"]);
    let others = &second["data"]["others"];
    assert_eq!(
        (code, others.as_array().map(Vec::len)),
        (0, Some(1)),
        "{second}"
    );
    assert_eq!(others[0]["clone"], json!(first.clone));
    assert_eq!(others[0]["path"], json!(one.beads().to_string_lossy()));
    let again = bench.type_in(&one, &["fleet", "join", "acme/tracker"]);
    says(&again, 0, &["has joined as acme/tracker already"]);
    assert_eq!(mark_of(&one), Some(first));
    let renamed = bench.type_in(&one, &["fleet", "join", "acme/other"]);
    says(
        &renamed,
        1,
        &[
            "has joined as acme/tracker",
            "beadlock fleet leave, then beadlock fleet join acme/other",
        ],
    );
    says(
        &bench.type_in(&one, &["fleet", "leave"]),
        0,
        &["has left acme/tracker"],
    );
    assert_eq!(mark_of(&one), None);
    says(
        &bench.type_in(&one, &["fleet", "leave"]),
        1,
        &["has not joined a fleet"],
    );
    says(&bench.type_in(&two, &["fleet", "leave"]), 0, &[]);
    assert_eq!(
        bench
            .etcd
            .ctl(&["get", "--prefix", "--keys-only", "/beads/v1/"])
            .trim(),
        "/beads/v1/fleet"
    );
}

#[test]
fn a_clone_joins_when_its_running_cycle_has_ended() {
    let Some(bench) = Bench::with_fleet() else {
        return;
    };
    let scene = Scene::new();
    let gate = scene.take_gate();
    let mut join = scene.beadlock(&["fleet", "join", "acme/tracker"]);
    join.env("BEADLOCK_FLEET_CONFIG", &bench.file);
    let mut join = Running::start(join);
    until("it is in the list", || {
        bench
            .etcd
            .ctl(&["get", "--prefix", "/beads/v1/members/"])
            .contains("acme")
    });
    assert!(
        join.is_running() && mark_of(&scene).is_none(),
        "no mark while a cycle runs"
    );
    drop(gate);
    assert_eq!(join.end().code, 0);
    assert!(mark_of(&scene).is_some());
}

#[test]
fn a_clone_that_is_claimed_or_whose_mark_git_tracks_does_not_join() {
    let Some(bench) = Bench::with_fleet() else {
        return;
    };
    let scene = Scene::new();
    let hold =
        Running::start(scene.beadlock(&["hold", "--holder", "release-job", "--", "sleep", "60"]));
    until("the lock", || scene.lock().exists());
    says(
        &bench.type_in(&scene, &["fleet", "join", "a"]),
        4,
        &["is claimed by release-job", "beadlock wait"],
    );
    drop(hold);
    let tracked = Scene::new();
    fs::write(tracked.beads().join(".exclusive-fleet"), "{}").unwrap();
    for words in [
        &["init", "-q"][..],
        &["add", "-f", ".beads/.exclusive-fleet"],
    ] {
        let mut git = std::process::Command::new("git");
        git.arg("-C").arg(tracked.path()).args(words);
        assert!(git.status().unwrap().success());
    }
    says(
        &bench.type_in(&tracked, &["fleet", "join", "a"]),
        1,
        &["is tracked by git", "rm --cached"],
    );
}

#[test]
fn a_hostile_mark_is_never_replaced_by_a_join_and_leave_removes_it() {
    let Some(bench) = Bench::with_fleet() else {
        return;
    };
    let scene = Scene::new();
    fs::write(scene.beads().join(".exclusive-fleet"), "{\"fleet\":\"x\"").unwrap();
    says(
        &bench.type_in(&scene, &["fleet", "join", "a"]),
        1,
        &["cannot be understood"],
    );
    says(
        &bench.type_in(&scene, &["fleet", "leave"]),
        0,
        &["cannot be understood", "has left"],
    );
    says(
        &bench.type_in(&scene, &["fleet", "join", "a"]),
        0,
        &["joined a"],
    );
}

#[test]
fn after_a_fleet_was_made_anew_a_clone_joins_again_by_its_name() {
    let Some(bench) = Bench::with_fleet() else {
        return;
    };
    let scene = Scene::new();
    says(&bench.type_in(&scene, &["fleet", "join", "a"]), 0, &[]);
    let before = mark_of(&scene);
    bench.etcd.ctl(&[
        "put",
        "/beads/v1/fleet",
        r#"{"nonce":"another","base":1,"min_version":"0.1.0"}"#,
    ]);
    says(
        &bench.type_in(&scene, &["fleet", "join", "a"]),
        0,
        &["which was made since this clone joined"],
    );
    let after = mark_of(&scene).expect("a mark");
    assert_eq!(after.fleet, "another");
    assert_ne!(Some(after), before);
}

#[test]
fn leave_works_without_etcd() {
    let Some(mut bench) = Bench::with_fleet() else {
        return;
    };
    let scene = Scene::new();
    says(&bench.type_in(&scene, &["fleet", "join", "a"]), 0, &[]);
    bench.etcd.kill_all();
    let (code, left) = bench.json(&scene, &["fleet", "leave"]);
    assert_eq!(
        (code, &left["data"]["fleet_told"]),
        (0, &json!(false)),
        "{left}"
    );
    assert!(
        left["warnings"][0]
            .as_str()
            .is_some_and(|words| words.contains("no node of etcd://")),
        "{left}"
    );
    assert_eq!(mark_of(&scene), None);
}

#[test]
fn status_shows_claims_agents_and_clones_and_evict_ends_what_it_has_shown() {
    let Some(bench) = Bench::with_fleet() else {
        return;
    };
    let scene = Scene::new();
    says(
        &bench.type_in(&scene, &["fleet", "status"]),
        0,
        &["no clone has joined"],
    );
    says(
        &bench.type_in(&scene, &["fleet", "join", "acme/tracker"]),
        0,
        &[],
    );
    let words = [
        "acme/tracker: free",
        "clone  ",
        "nothing of the fleet runs on that host now",
    ];
    says(&bench.type_in(&scene, &["fleet", "status"]), 0, &words);
    let mut hold = scene.beadlock(&["hold", "--holder", "release-job", "--", "sleep", "60"]);
    hold.env("BEADLOCK_FLEET_CONFIG", &bench.file);
    let hold = Running::start(hold);
    let mut session = String::new();
    until("the claim is shown", || {
        let (_, status) = bench.json(&scene, &["fleet", "status"]);
        let claim = &status["data"]["databases"][0]["claim"];
        session = claim["session"].as_str().unwrap_or_default().to_owned();
        claim["phase"] == "held"
            && claim["holder"] == "release-job"
            && claim["token"].as_u64().is_some()
    });
    says(
        &bench.type_in(&scene, &["fleet", "status"]),
        0,
        &["acme/tracker: claimed by release-job (PID ", &session],
    );
    let evicted = bench.type_in(
        &scene,
        &["fleet", "evict", &session, "--reason", "it hangs"],
    );
    says(&evicted, 0, &["told session", "gone within 15s"]);
    let ended = hold.end();
    says(&ended, 9, &["it hangs"]);
    let gone = bench.type_in(&scene, &["fleet", "evict", &session]);
    says(&gone, 1, &["there is no session", "beadlock fleet status"]);
    says(
        &bench.type_in(&scene, &["fleet", "evict", "x"]),
        2,
        &["16 of 0-9 a-f"],
    );
}

#[test]
fn destroy_wants_a_yes_and_says_what_would_end() {
    let Some(bench) = Bench::with_fleet() else {
        return;
    };
    let scene = Scene::new();
    says(&bench.type_in(&scene, &["fleet", "join", "a"]), 0, &[]);
    says(
        &bench.type_in(&scene, &["fleet", "destroy"]),
        2,
        &["0 claims, 0 sessions, 1 clone", "--yes"],
    );
    says(
        &bench.type_in(&scene, &["fleet", "destroy", "--yes"]),
        0,
        &["destroyed the fleet"],
    );
    assert_eq!(
        bench
            .etcd
            .ctl(&["get", "--prefix", "--keys-only", "/beads/v1/"])
            .trim(),
        ""
    );
    says(
        &bench.type_in(&scene, &["fleet", "status"]),
        1,
        &["there is no fleet at", "beadlock fleet create"],
    );
    let (code, status) = bench.json(&scene, &["fleet", "status"]);
    assert_eq!(
        (code, &status["error"]["code"]),
        (1, &json!("NO_TARGET")),
        "{status}"
    );
}

#[test]
fn without_a_server_the_exit_is_5_and_without_a_configuration_1() {
    let scene = Scene::new();
    let file = scene.file("fleet.toml");
    let type_in = |words: &[&str], file: &Path| {
        let mut command = scene.beadlock(words);
        command.env("BEADLOCK_FLEET_CONFIG", file);
        Ended::of(&run(command))
    };
    says(
        &type_in(&["fleet", "status"], &file),
        1,
        &["no fleet is configured here", "url = "],
    );
    // A port that nobody listens at: it was free a moment ago, on an address of our own.
    fs::write(&file, "url = \"etcd://127.213.7.9:9/beads\"\n").unwrap();
    let unreachable = type_in(&["fleet", "status", "--json"], &file);
    let answer: Value = serde_json::from_str(&unreachable.out).unwrap();
    assert_eq!(
        (unreachable.code, &answer["error"]["code"]),
        (5, &json!("FLEET_UNREACHABLE")),
        "{answer}"
    );
    assert_eq!(answer["error"]["retryable"], json!(true));
    says(
        &type_in(&["doctor", "--fleet"], &file),
        5,
        &["no       node 127.213.7.9:9"],
    );
    fs::write(&file, "url = \"http://x/\"\n").unwrap();
    says(
        &type_in(&["fleet", "status"], &file),
        2,
        &["fleet.toml: url", "etcd://"],
    );
    says(
        &type_in(&["fleet", "join", "Not A Name"], &file),
        2,
        &["acme/tracker"],
    );
    says(
        &type_in(&["fleet", "join", "a", "lock:x"], &file),
        2,
        &["only a beads database"],
    );
}

#[test]
fn the_doctor_examines_the_fleet() {
    let Some(bench) = Bench::with_fleet() else {
        return;
    };
    let examined = bench.type_in(&Scene::new(), &["doctor", "--fleet"]);
    let node = format!("ok       node {}", bench.etcd.node(0));
    // One node is a limit, whatever its version is.
    says(
        &examined,
        1,
        &[
            &node,
            "etcd 3.",
            "limited  nodes",
            "ok       fleet",
            "--auto-compaction-retention",
        ],
    );
}
