//! Locks of other names, hosts, machines and containers, some of which are this one.

use std::fs;

use beadlock_testkit::{Running, Scene, dead_pid, lives, skip, this_host, until};
use nix::unistd::Pid;
use serde_json::Value;

use super::{Seen, by_hand, mine, put, record};

#[test]
fn a_machine_that_was_renamed() {
    let scene = crate::a_scene();
    let renamed = |record: &mut Value| record["hostname"] = "before".into();
    let record = mine(&scene, renamed);
    if record["beadlock"]["machine_id"].is_null() {
        return skip::cannot("needs a machine id");
    }
    let me = &record["pid"];
    let words = format!(
        "why: this machine was renamed: it was before when this was claimed, and is {} now",
        this_host()
    );
    Seen::of(&scene, "renamed")
        .says(&[
            &words,
            &format!("so PID {me} can be looked up here: it lives"),
            "that PID here: kill(",
        ])
        .next("beadlock wait --wait 10m .beads", &format!("ps -fp {me}"))
        .witness("kill", "not_asked")
        .witness("kill_here", "ok");
    let record = mine(&scene, |record| {
        renamed(record);
        record["beadlock"]["start_ticks"] = 1.into();
    });
    Seen::of(&scene, "renamed")
        .says(&["it is another process now ("])
        .next(&format!("ps -fp {me}"), &by_hand(&record));
    let record = mine(&scene, |record| {
        renamed(record);
        record["pid"] = dead_pid().into();
    });
    Seen::of(&scene, "renamed")
        .says(&["can be looked up here: it is gone"])
        .next(&format!("ps -fp {}", record["pid"]), &by_hand(&record))
        .witness("kill_here", "ESRCH");
    scene.run(&["check", "--reap-proven-dead"]).expect(4, &[]);
    let words = [record["beadlock"]["id"].as_str().unwrap(), "--even-if-live"];
    scene
        .run(&["break", ".beads", "--id", words[0], words[1]])
        .expect(0, &[]);
    assert!(!scene.lock().exists(), "what it says can be typed");
}

#[test]
fn another_host_and_another_machine_of_this_name() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", 4242, "elsewhere");
    let seen = Seen::of(&scene, "remote").says(&["why: it was claimed on another host, elsewhere"]);
    let id = seen.data["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("sha256:"), "{id}");
    let once_gone = format!("once it is gone: beadlock break .beads --id {id} --even-if-live");
    seen.next("ssh -- elsewhere ps -p 4242", &once_gone)
        .witness("kill", "not_asked");
    let mut record = record(&scene);
    if record["beadlock"]["machine_id"].is_null() {
        return skip::cannot("needs a machine id");
    }
    record["hostname"] = "elsewhere".into();
    record["beadlock"]["boot_id"] = "another".into();
    put(&scene, &record);
    Seen::of(&scene, "remote").says(&[
        "with the machine id of this one",
        "or elsewhere is a copy of its disk",
    ]);
    record["hostname"] = this_host().into();
    record["beadlock"]["machine_id"] = "another".into();
    put(&scene, &record);
    Seen::of(&scene, "namesake")
        .says(&["on another machine that is called", "machine: other"])
        .next(
            &format!("ssh -- {} ps -p {}", this_host(), record["pid"]),
            "leads to the other machine",
        );
}

const CONTAINER: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// Claims in a container, which is looked at and then killed.
fn container(scene: &Scene, more: &[&str], before: &str, look: impl FnOnce(&Value)) -> bool {
    let script = format!("{before} $BEADLOCK hold -- sh -c 'touch up; exec sleep 300'");
    let Some(command) = scene.in_namespaces(&[&CONTAINER, more].concat(), &script) else {
        return false;
    };
    let running = Running::apart(command);
    until("it is claimed", || scene.file("up").exists());
    let record: Value = serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    look(&record);
    let members = scene.run(&["status", "--json"]).json()["data"][0]["witnesses"]["pid_namespace"]
        ["processes"]
        .clone();
    drop(running);
    for member in members.as_array().unwrap() {
        let pid = i32::try_from(member["pid"].as_i64().unwrap()).unwrap();
        until("the container's processes end", || !lives(pid));
        let _ = nix::sys::wait::waitpid(
            Pid::from_raw(pid),
            Some(nix::sys::wait::WaitPidFlag::WNOHANG),
        );
    }
    true
}

#[test]
fn a_container_that_lives_and_one_that_is_gone() {
    let scene = crate::a_scene();
    // Open, so that no container of another test gets the number of this one.
    let mut namespace = None;
    let had = container(&scene, &[], "", |record| {
        let pid = record["pid"].as_i64().unwrap();
        let seen = Seen::of(&scene, "container")
            .says(&[
                "(other_pid_namespace)",
                "why: it was claimed in a container of this machine, and its process lives",
            ])
            .says(&[&format!("its PID {pid} is PID ")])
            .witness("namespace_gone", false);
        let those = seen.data["witnesses"]["pid_namespace"]["processes"]
            .as_array()
            .unwrap()
            .clone();
        let here = those
            .iter()
            .find(|member| member["pid_there"] == pid)
            .unwrap()["pid"]
            .as_i64()
            .unwrap();
        namespace = fs::File::open(format!("/proc/{here}/ns/pid")).ok();
        seen.says(&[&format!("PID {here} (sleep 300) here")]).next(
            &format!("ps -o pid,stat,etime,args -p {here}"),
            &by_hand(record),
        );
        let mut other = record.clone();
        other["pid"] = 30_000.into();
        let text = fs::read(scene.lock()).unwrap();
        // Written for a moment only, and back before it counts as lost.
        let fake = crate::a_scene();
        put(&fake, &other);
        Seen::of(&fake, "container")
            .says(&["none of them is its PID 30000"])
            .next(
                &format!("nsenter -t {} -p -m ps -p 30000", those[0]["pid"]),
                "once it is gone",
            );
        assert_eq!(fs::read(scene.lock()).unwrap(), text);
    });
    if !had || !skip::root() {
        return;
    }
    let witnesses = scene.run(&["status", "--json"]).json()["data"][0]["witnesses"].clone();
    if witnesses["namespace_gone"] != true {
        return skip::cannot("cannot know that a namespace is gone");
    }
    Seen::of(&scene, "container_gone")
        .says(&[
            "nobody lives in that any more",
            "in that namespace: nobody, seen twice",
        ])
        .next(
            "beadlock check --reap-proven-dead .beads",
            "removes it: namespace_gone",
        );
    let json = scene
        .run(&["check", "--reap-proven-dead", "--json"])
        .expect(0, &[])
        .json();
    assert_eq!(
        (&json["data"][0]["reason"], &json["data"][0]["removed"]),
        (&"namespace_gone".into(), &true.into())
    );
    assert!(!scene.lock().exists());
    drop(namespace);
}

/// A container with its own host name, as most container engines give it.
#[test]
fn a_container_with_a_name_of_its_own() {
    let scene = crate::a_scene();
    let had = container(&scene, &["--uts"], "hostname box;", |record| {
        assert_eq!(record["hostname"], "box");
        Seen::of(&scene, "container").says(&["(other_host)", "and its process lives: PID "]);
    });
    let witnesses = || scene.run(&["status", "--json"]).json()["data"][0]["witnesses"].clone();
    if !had || witnesses()["namespace_gone"] != true {
        return skip::cannot("cannot know that a namespace is gone");
    }
    let record: Value = serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    Seen::of(&scene, "container_gone")
        .says(&[
            "called box",
            "by its name it is another host's, so no check removes it",
        ])
        .next(&by_hand(&record), "nobody lives in its container");
}

/// Seen from inside, a claim of outside is another namespace's, and nobody there can be seen.
#[test]
fn from_inside_of_a_container() {
    let scene = crate::a_scene();
    mine(&scene, |_| {});
    let Some(command) = scene.in_namespaces(&CONTAINER, "exec $BEADLOCK status -v") else {
        return;
    };
    let text = Running::apart(command).end().expect(0, &[]).out;
    for words in [
        "only root outside of every container sees",
        "nobody that we can see",
        "next: sudo beadlock status .beads",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}
