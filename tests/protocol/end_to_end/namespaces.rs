//! Locks of other PID namespaces, boots and names of this machine: what is known of them is said, and no check removes
//! one that may live.

use std::fs;

use beadlock_tests::{
    Ended, Running, Scene, lock_text, run, this_host, wait::PATIENCE, wait_until,
};
use serde_json::Value;

const CONTAINER: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// Every way to a removal that needs no word of a human, from outside and from another container: none takes it.
#[test]
fn a_live_lock_of_another_pid_namespace_is_never_removed() {
    let scene = Scene::new();
    let script = "\"$BEADLOCK\" hold .beads --holder inside -- sh -c 'touch up; exec sleep 300'";
    let Some(command) = scene.in_namespaces(&CONTAINER, script) else {
        return;
    };
    let running = Running::start(command);
    wait_until(PATIENCE, "a claim in the container", || {
        scene.path().join("up").exists()
    });
    let text = scene.lock_text();
    let record: Value = serde_json::from_str(&text).expect("a record");
    assert_eq!(record["hostname"], this_host(), "the same host name");
    let (code, envelope) = scene.json(&["check", ".beads"]);
    assert_eq!(
        (&envelope["data"][0]["reason"], code),
        (&"other_pid_namespace".into(), 4),
        "{envelope}"
    );
    for args in [
        &["check", ".beads", "--reap-proven-dead"][..],
        &["hold", ".beads", "--no-wait", "--", "touch", "ran"],
        &["break", ".beads", "--holder", "inside"],
    ] {
        let ended = scene.run(args);
        assert_eq!(ended.code, 4, "{args:?}: {ended:?}");
        assert_eq!(scene.lock_text(), text, "{args:?}");
    }
    let agent = [
        "--db",
        ".beads",
        "--once",
        "--reap-proven-dead",
        "--exec",
        "touch ran",
    ];
    let agent = Ended::from(run(scene.agent(&agent)));
    assert_eq!(agent.code, 4, "{agent:?}");
    let inside = "\"$BEADLOCK\" check .beads --reap-proven-dead";
    let other = scene
        .in_namespaces(&CONTAINER, inside)
        .expect("it could be had before");
    let other = Ended::from(run(other));
    assert_eq!(other.code, 4, "from a second container: {other:?}");
    assert_eq!(scene.lock_text(), text);
    assert!(!scene.path().join("ran").exists());
    drop(running);
}

/// Five fields say nothing of namespaces: where no process has the PID, the protocol calls the lock stale.
#[test]
fn a_live_lock_of_five_fields_goes_by_the_protocol() {
    let scene = Scene::new();
    scene.write_lock(lock_text("vc", std::process::id().into(), &this_host()));
    let check = "\"$BEADLOCK\" check .beads --json";
    let Some(command) = scene.in_namespaces(&CONTAINER, check) else {
        return;
    };
    let ended = Ended::from(run(command));
    let envelope: Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    assert_eq!(
        (&envelope["data"][0]["reason"], ended.code),
        (&"pid_gone".into(), 0),
        "{envelope}"
    );
    assert!(!scene.lock().exists());
}

/// A record that beadlock wrote, with this test's PID, and `change`d.
fn written(scene: &Scene, change: impl FnOnce(&mut Value)) {
    let hold = scene.hold(&["--holder", "vc", "--", "sleep", "30"]);
    let mut record: Value = serde_json::from_str(&scene.lock_text()).expect("a record");
    drop(hold);
    let _ = fs::remove_file(scene.lock());
    record["pid"] = std::process::id().into();
    let mark = record["beadlock"].as_object_mut().expect("its key");
    mark.remove("start_ticks");
    change(&mut record);
    scene.write_lock(record.to_string());
}

fn witnesses(scene: &Scene) -> Value {
    scene.json(&["status", ".beads"]).1["data"][0]["witnesses"].clone()
}

#[test]
fn another_boot_counts_only_when_it_is_asked_for() {
    let scene = Scene::new();
    written(&scene, |record| {
        record["beadlock"]["boot_id"] = "another".into()
    });
    let seen = witnesses(&scene);
    assert_eq!(seen["boot"], "other", "{seen}");
    assert_eq!(scene.run(&["check", ".beads"]).code, 4, "its PID answers");
    let agent = Ended::from(run(
        scene.agent(&["--db", ".beads", "--once", "--action", "none"])
    ));
    assert_eq!(agent.code, 4, "{agent:?}");
    assert!(scene.lock().exists());
    // What another machine can write too may be of a boot of that one.
    let proved = seen["local_file_system"] == true && seen["machine"] == "same";
    let (code, reap) = scene.json(&["check", ".beads", "--reap-proven-dead"]);
    let (expected, reason) = if proved {
        (0, "other_boot")
    } else {
        (4, "pid_alive")
    };
    assert_eq!(
        (code, reap["data"][0]["reason"].as_str()),
        (expected, Some(reason)),
        "{seen} {reap}"
    );
    assert_eq!(scene.lock().exists(), !proved);
}

#[test]
fn a_recycled_pid_counts_only_when_it_is_asked_for() {
    let scene = Scene::new();
    written(&scene, |record| {
        record["beadlock"]["start_ticks"] = 1.into()
    });
    assert_eq!(scene.run(&["check", ".beads"]).code, 4, "its PID answers");
    let agent = Ended::from(run(
        scene.agent(&["--db", ".beads", "--once", "--action", "none"])
    ));
    assert_eq!(agent.code, 4, "{agent:?}");
    let reap = Ended::from(run(scene.agent(&[
        "--db",
        ".beads",
        "--once",
        "--action",
        "none",
        "--reap-proven-dead",
    ])));
    assert_eq!(reap.code, 0, "{reap:?}");
    assert!(!scene.lock().exists());
}

/// What a renamed machine wrote before is another host's: said, and for a human to break.
#[test]
fn a_lock_of_before_the_machine_was_renamed_stays() {
    let scene = Scene::new();
    written(&scene, |record| {
        record["hostname"] = "before".into();
        record["pid"] = beadlock_tests::dead_pid().into();
    });
    let status = scene.run(&["status", ".beads"]);
    if witnesses(&scene)["machine"] == "same" {
        assert!(
            status
                .out
                .contains("this machine was renamed: it was before"),
            "{status:?}"
        );
    }
    for args in [
        &["check", ".beads"][..],
        &["check", ".beads", "--reap-proven-dead"],
    ] {
        assert_eq!(scene.run(args).code, 4, "{args:?}");
    }
    assert!(scene.lock().exists());
}
