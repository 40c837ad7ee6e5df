//! `beadlock update`: the file through a filter and back, under one lock.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use beadlock_tests::process::marked_by;
use beadlock_tests::{Ended, Running, Scene, become_subreaper, fastest, tool, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::Files;

const PATIENCE: Duration = Duration::from_secs(60);
const UPDATE: [&str; 4] = ["update", "-q", "file:todo.json", "--"];

fn scene() -> Scene {
    let scene = Scene::new();
    scene.put("todo.json", "{\"n\":0}\n");
    scene
}

fn update(scene: &Scene, script: &str) -> Ended {
    scene.run(&[&UPDATE[..], &["sh", "-c", script]].concat())
}

/// Waits until the filter has written its PID into this file.
fn pid(scene: &Scene, name: &str) -> Pid {
    let mut pid = None;
    wait_until(PATIENCE, "the filter runs", || {
        pid = scene.text(name).trim().parse().ok().map(Pid::from_raw);
        pid.is_some()
    });
    pid.expect("just seen")
}

#[test]
fn reads_changes_writes() {
    let scene = scene();
    let ended = scene.run(&["update", "file:todo.json", "--", "sed", "s/0/1/"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended.err.starts_with("beadlock: wrote ") && ended.out.is_empty(),
        "{ended:?}"
    );
    assert_eq!(
        (scene.text("todo.json"), scene.text("todo.json.1")),
        ("{\"n\":1}\n".into(), "{\"n\":0}\n".into())
    );
    let (code, envelope) = scene.json(&[
        "update",
        "file:todo.json",
        "--backups",
        "0",
        "--",
        "sed",
        "s/1/22/",
    ]);
    assert_eq!(
        (
            code,
            &envelope["data"]["bytes"],
            &envelope["data"]["backup"]
        ),
        (0, &9.into(), &Value::Null)
    );
    assert_eq!(scene.text("todo.json"), "{\"n\":22}\n");
}

#[test]
fn a_filter_that_fails_changes_nothing_and_its_code_is_ours() {
    let scene = scene();
    for (script, code, words) in [
        ("cat; exit 7", 7, "the filter sh ended with code 7"),
        (
            "cat; kill -9 $$",
            137,
            "the filter sh was killed by signal 9",
        ),
        (
            "cat; cat todo.json",
            1,
            "what the filter has written is not valid JSON: trailing characters",
        ),
        (
            ":",
            1,
            "what the filter has written is empty, which is no JSON",
        ),
        ("printf '{'; exit 3", 3, "ended with code 3"),
    ] {
        let ended = update(&scene, script);
        assert_eq!(ended.code, code, "{script}: {ended:?}");
        assert!(
            ended.err.contains(words) && ended.err.contains("stays as it was"),
            "{script}: {ended:?}"
        );
        assert_eq!(scene.files(), ["todo.json", "todo.json.lock"], "{script}");
    }
    assert_eq!(scene.text("todo.json"), "{\"n\":0}\n");
    scene.put("script", "#!/nowhere\n");
    scene.put("no-program", "");
    for (command, code) in [
        ("nowhere-at-all", 127),
        ("./script", 126),
        ("./no-program", 126),
    ] {
        let ended = scene.run(&[&UPDATE[..], &[command]].concat());
        assert_eq!(ended.code, code, "{command}: {ended:?}");
    }
    let ended = scene.run(&[
        "update",
        "--own-exit-code",
        "99",
        "file:none.json",
        "--",
        "cat",
    ]);
    assert_eq!(ended.code, 99, "{ended:?}");
    let ended = scene.run(&[
        "update",
        "--own-exit-code",
        "99",
        "file:todo.json",
        "--",
        "false",
    ]);
    assert_eq!(ended.code, 1, "the filter's own: {ended:?}");
}

#[test]
fn a_file_that_is_not_there() {
    let scene = Scene::new();
    let ended = scene.run(&UPDATE.iter().copied().chain(["cat"]).collect::<Vec<_>>());
    assert_eq!(ended.code, 1);
    assert!(
        ended.err.contains("todo.json does not exist") && ended.err.contains("--initial"),
        "{ended:?}"
    );
    let ended = scene.run(&[
        "update",
        "file:todo.json",
        "--initial",
        "{\"n\":5}",
        "--",
        "sed",
        "s/5/6/",
    ]);
    assert_eq!(
        (ended.code, scene.text("todo.json").as_str()),
        (0, "{\"n\":6}"),
        "{ended:?}"
    );
    assert!(ended.err.starts_with("beadlock: created "), "{ended:?}");
}

#[test]
fn a_filter_that_takes_too_long_is_ended_with_all_it_has_started() {
    become_subreaper();
    let scene = scene();
    let (runs, is_open) = (
        "has not ended within",
        "what it has started has not closed its output within",
    );
    for (script, words) in [
        ("cat; exec sleep 300", runs),
        ("cat; sleep 300 & exit 0", is_open),
        (
            "trap '' TERM; sleep 300 & while :; do sleep 0.1; done",
            runs,
        ),
    ] {
        let begun = std::time::Instant::now();
        let options = [
            "update",
            "file:todo.json",
            "--filter-timeout",
            "200ms",
            "--kill-after",
            "300ms",
        ];
        let ended = scene.run(&[&options[..], &["--", "sh", "-c", script]].concat());
        assert_eq!(ended.code, 124, "{script}: {ended:?}");
        assert!(
            ended.err.contains(&format!("{words} 200ms")) && ended.err.contains("--filter-timeout"),
            "{ended:?}"
        );
        // Half a second on a machine that has nothing else to do; the default of --kill-after alone is 10 s.
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{script}: {:?}",
            begun.elapsed()
        );
        wait_until(PATIENCE, "nothing is left", || marked_by(&scene).is_empty());
        assert_eq!(scene.files(), ["todo.json", "todo.json.lock"]);
    }
    assert_eq!(scene.text("todo.json"), "{\"n\":0}\n");
}

#[test]
fn a_filter_whose_lock_is_lost_is_ended_within_a_second() {
    become_subreaper();
    let limit = Duration::from_secs(2);
    let took = fastest(limit, a_filter_whose_lock_is_lost);
    assert!(took < limit, "noticed in 1 s, ended at once: {took:?}");
}

/// How long an update takes whose filter deletes the lock file and goes on.
fn a_filter_whose_lock_is_lost() -> Duration {
    let scene = scene();
    let begun = std::time::Instant::now();
    let ended = update(&scene, "rm todo.json.lock; cat; sleep 300 & exec sleep 300");
    let took = begun.elapsed();
    assert_eq!(ended.code, 9, "{ended:?}");
    assert!(
        ended
            .err
            .contains("todo.json.lock vanished; `git clean -x`"),
        "{ended:?}"
    );
    wait_until(PATIENCE, "nothing is left", || marked_by(&scene).is_empty());
    assert_eq!(
        (scene.text("todo.json").as_str(), scene.files()),
        ("{\"n\":0}\n", vec!["todo.json".to_owned()])
    );
    took
}

#[test]
fn whoever_has_the_filters_output_is_waited_for() {
    let scene = scene();
    let ended = update(&scene, "(sleep 0.3; echo '\"late\"') &");
    assert_eq!(
        (ended.code, scene.text("todo.json").as_str()),
        (0, "\"late\"\n"),
        "{ended:?}"
    );
    // A process that has closed it is not, and lives on.
    let ended = update(&scene, "echo 1; sleep 300 >/dev/null 2>&1 & echo $! > pid");
    assert_eq!(
        (ended.code, scene.text("todo.json").as_str()),
        (0, "1\n"),
        "{ended:?}"
    );
    kill(pid(&scene, "pid"), Signal::SIGKILL).expect("it lives");
}

#[test]
fn a_signal_is_passed_on_and_nothing_is_changed() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT] {
        let scene = scene();
        let words = [
            "sh",
            "-c",
            "trap 'echo told > told; exit 0' TERM HUP INT; echo $$ > pid; cat; while :; do sleep 0.05; done",
        ];
        let running = scene.start(&[&UPDATE[..], &words].concat());
        pid(&scene, "pid");
        running.signal(signal);
        let ended = Ended::from(running.finish(PATIENCE));
        assert_eq!(ended.code, 128 + signal as i32, "{ended:?}");
        assert!(
            ended.err.contains("before the file was changed"),
            "{ended:?}"
        );
        assert_eq!(
            (
                scene.text("told").as_str(),
                scene.text("todo.json").as_str()
            ),
            ("told\n", "{\"n\":0}\n")
        );
    }
}

#[test]
fn a_filter_does_not_outlive_a_beadlock_that_is_killed() {
    become_subreaper();
    let scene = scene();
    let words = ["sh", "-c", "echo $$ > pid; sleep 300 & sleep 300"];
    let running = scene.start(&[&UPDATE[..], &words].concat());
    pid(&scene, "pid");
    running.signal(Signal::SIGKILL);
    drop(running);
    wait_until(PATIENCE, "the filter and all below it have ended", || {
        marked_by(&scene).is_empty()
    });
    assert_eq!(scene.text("todo.json"), "{\"n\":0}\n");
    assert_eq!(
        update(&scene, "sed s/0/1/").code,
        0,
        "and the lock is gone with it"
    );
    assert_eq!(scene.text("todo.json"), "{\"n\":1}\n");
    assert!(!scene.files().contains(&"todo.json.tmp".to_owned()));
}

#[test]
fn fifty_at_once_lose_nothing() {
    let Some(jq) = tool("jq") else { return };
    let scene = scene();
    let words = ["update", "-q", "file:todo.json", "--wait", "60s", "--"];
    let words = [&words[..], &[jq.to_str().expect("UTF-8"), ".n += 1"]].concat();
    let started: Vec<Running> = (0..50).map(|_| scene.start(&words)).collect();
    for running in started {
        let ended = Ended::from(running.finish(PATIENCE));
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    let value: Value = serde_json::from_str(&scene.text("todo.json")).expect("JSON");
    assert_eq!(value["n"], 50);
}

#[test]
fn a_hundred_adds_at_once_make_a_hundred_ids() {
    let Some(jq) = tool("jq") else { return };
    let scene = Scene::new();
    scene.put("todo.json", "{\"next\":1,\"tasks\":[]}");
    let add = ".tasks += [{id: .next}] | .next += 1";
    let words = [
        "update",
        "-q",
        "file:todo.json",
        "--wait",
        "100s",
        "--",
        jq.to_str().expect("UTF-8"),
        add,
    ];
    let mut started = Vec::new();
    for _ in 0..100 {
        started.push(scene.start(&words));
    }
    for running in started {
        let ended = Ended::from(running.finish(Duration::from_secs(120)));
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    let value: Value = serde_json::from_str(&scene.text("todo.json")).expect("JSON");
    let ids: BTreeSet<u64> = value["tasks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|task| task["id"].as_u64().expect("an id"))
        .collect();
    assert_eq!(ids, (1..=100).collect());
}

#[test]
fn an_input_larger_than_a_pipe_goes_through() {
    let scene = Scene::new();
    let long = format!("[\"{}\"]\n", "x".repeat(3_000_000));
    scene.put("todo.json", &long);
    assert_eq!(update(&scene, "cat").code, 0);
    assert_eq!(scene.text("todo.json"), long);
    // A filter that does not read it all has had what it wanted.
    assert_eq!(update(&scene, "head -c 1 >/dev/null; echo 1").code, 0);
    assert_eq!(scene.text("todo.json"), "1\n");
    assert_eq!(
        fs::metadata(scene.path().join("todo.json.1"))
            .expect("a backup")
            .len(),
        long.len() as u64
    );
}
