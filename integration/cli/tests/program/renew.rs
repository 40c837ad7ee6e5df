//! `renew`: a claim that a keeper keeps gets a new end, and the lock stands all the time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use beadlock_testkit::{Ended, Running, Scene, lives, process_is_gone, root, tool, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::acquire::Printed;

/// One target of each kind that has a keeper; tests/tower has the named lock.
const TARGETS: [&str; 6] = [
    ".beads",
    "dir:place",
    "lock:x.lock",
    "memory:.",
    "file:todo.json",
    "flock:f",
];

fn a_scene() -> Scene {
    let scene = crate::a_scene();
    fs::create_dir(scene.file("place")).unwrap();
    scene
}

fn detached(scene: &Scene, target: &str, max_hold: &str) -> Printed {
    let words = ["acquire", "-q", "--detach", "--max-hold", max_hold, target];
    Printed::of(&scene.run(&words).expect(0, &[]))
}

fn renew(scene: &Scene, target: &str, id: &str, max_hold: &str) -> Ended {
    scene.run(&["renew", target, "--id", id, "--max-hold", max_hold])
}

/// The end that `renew` has printed.
fn printed_end(renewed: &Ended) -> &str {
    let line = renewed.out.strip_prefix("BEADLOCK_UNTIL=");
    line.and_then(|line| line.strip_suffix('\n')).unwrap()
}

fn title(pid: i32) -> String {
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    line.split('\0').next().unwrap().to_owned()
}

fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

fn is_stopped(pid: i32) -> bool {
    status(pid, "State:").starts_with('T')
}

fn status(pid: i32, field: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap().trim().to_owned()
}

/// Whether a renewal waits to be received there.
fn has_pending(pid: i32) -> bool {
    let bits = u64::from_str_radix(&status(pid, "ShdPnd:"), 16).unwrap();
    bits >> (Signal::SIGUSR1 as u32 - 1) & 1 == 1
}

fn release(scene: &Scene, target: &str, printed: &Printed) {
    scene
        .run(&["release", "-q", target, "--id", &printed.id])
        .expect(0, &[]);
    until("the keeper has ended", || !lives(printed.pid));
}

#[test]
fn the_claim_outlives_its_first_end_and_ends_at_the_new_one() {
    let scene = a_scene();
    let begun = Instant::now();
    let claims = TARGETS.map(|target| (target, detached(&scene, target, "3s")));
    for (target, printed) in &claims {
        let renewed = renew(&scene, target, &printed.id, "7s")
            .expect(0, &["renewed ", ", kept for at most 7s from now, until "]);
        let end = printed_end(&renewed);
        assert!(
            title(printed.pid).ends_with(&format!(" until {end}")),
            "{target}"
        );
        if !target.starts_with('f') {
            let seen = scene.run(&["status", target]).expect(0, &[]).out;
            assert!(seen.contains(&format!(" until {end}")), "{seen}");
        }
    }
    until("the first end", || begun.elapsed() > Duration::from_secs(5));
    for (target, printed) in &claims {
        assert!(lives(printed.pid), "{target}");
        scene.run(&["check", target]).expect(4, &[]);
    }
    for (target, printed) in &claims {
        until("the keeper has ended", || !lives(printed.pid));
        assert!(begun.elapsed() >= Duration::from_secs(7), "{target}");
        scene.run(&["check", target]).expect(0, &[]);
    }
}

#[test]
fn an_end_may_come_sooner() {
    let scene = a_scene();
    for target in TARGETS {
        let printed = detached(&scene, target, "1h");
        renew(&scene, target, &printed.id, "1s").expect(0, &["at most 1s from now"]);
        until("the keeper has ended", || !lives(printed.pid));
        scene.run(&["check", target]).expect(0, &[]);
        renew(&scene, target, &printed.id, "1h").expect(9, &["was lost"]);
    }
}

/// As `release` does: by the environment, and by the name of the holder; and what is printed is fit for `eval`.
#[test]
fn it_is_named_as_a_release_is() {
    let scene = a_scene();
    let script = "set -e; eval \"$(\"$BEADLOCK\" acquire -q --detach --max-hold 30m)\"; was=$BEADLOCK_UNTIL; \
                  eval \"$(\"$BEADLOCK\" renew --max-hold 2h)\"; test \"$was\" != \"$BEADLOCK_UNTIL\"; \
                  \"$BEADLOCK\" status | grep -q \"until $BEADLOCK_UNTIL\"; \
                  eval \"$(\"$BEADLOCK\" renew)\"; \"$BEADLOCK\" release";
    Running::apart(scene.shell(script)).end().expect(
        0,
        &["at most 2h from now", "at most 30m from now", "released "],
    );
    let words = ["acquire", "-q", "--detach", "--holder", "agent-7"];
    let printed = Printed::of(&scene.run(&words).expect(0, &[]));
    let mut command = scene.beadlock(&["renew", "--holder", "agent-7"]);
    command.env("BEADLOCK_ID", "another");
    let renewed = Running::apart(command)
        .end()
        .expect(0, &["renewed .beads for agent-7", "at most 6h"]);
    assert_eq!(
        renewed.out, "",
        "it is not the end of the shell's own claim"
    );
    scene
        .run(&["renew", "--holder", "agent-8"])
        .expect(9, &["no claim of agent-8 to renew"]);
    scene
        .run(&["renew", "--holder", "agent-7", "flock:f"])
        .expect(2, &["use --id ID"]);
    scene
        .run(&["renew"])
        .expect(2, &["nothing to renew", "beadlock renew --id ID"]);
    release(&scene, ".beads", &printed);
}

#[test]
fn the_answer_and_the_audit_line_have_the_new_end() {
    let scene = a_scene();
    for target in [".beads", "flock:f"] {
        let printed = detached(&scene, target, "1h");
        let words = ["renew", target, "--id", &printed.id, "--audit", "audit"];
        let (code, answer) = scene.json(&[&words[..], &["--json"]].concat());
        let data = &answer["data"];
        assert_eq!((code, &data["pid"]), (0, &json!(printed.pid)), "{answer}");
        let end = data["until"].as_str().unwrap();
        assert!(title(printed.pid).ends_with(&format!(" until {end}")));
        let audit = scene.read("audit");
        let event: Value = serde_json::from_str(audit.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&event["event"], &event["detail"]),
            (&json!("lock_renewed"), &json!(format!("kept until {end}")))
        );
        let lock = &event["lock"];
        let id = lock["id"].as_str().or(lock["beadlock"]["id"].as_str());
        assert_eq!(id, Some(printed.id.as_str()));
        release(&scene, target, &printed);
    }
}

#[test]
fn a_claim_without_a_time_has_no_end_to_move() {
    let scene = a_scene();
    let mut process = Command::new("sleep").arg("300").spawn().unwrap();
    let pid = process.id().to_string();
    for target in TARGETS {
        let words = ["acquire", "-q", "--for", &pid, target];
        let printed = Printed::of(&scene.run(&words).expect(0, &[]));
        renew(&scene, target, &printed.id, "1h").expect(4, &["with"]);
        let words = ["release", "-q", target, "--id", &printed.id];
        scene.run(&words).expect(0, &[]);
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let script = "\"$BEADLOCK\" renew --id \"$BEADLOCK_HELD_ID\"; echo $?; \
                  eval \"$(\"$BEADLOCK\" acquire -q)\"; \"$BEADLOCK\" renew --max-hold 1h; echo $?";
    let ended = Running::apart(scene.shell(&format!("\"$BEADLOCK\" hold -- sh -c '{script}'")))
        .end()
        .expect(0, &["ends with its process", "held by the outer claim"]);
    assert_eq!(ended.out, "4\n4\n");
    scene.write_shell_lock("vc", 1, "elsewhere");
    let (_, status) = scene.json(&["status", "--json"]);
    let id = status["data"][0]["id"].as_str().unwrap();
    renew(&scene, ".beads", id, "1h").expect(4, &["of another machine"]);
    scene.unlock();
    let printed = detached(&scene, ".beads", "99999999999999h");
    renew(&scene, ".beads", &printed.id, "1h").expect(4, &["has no end"]);
    release(&scene, ".beads", &printed);
    let printed = detached(&scene, ".beads", "1h");
    renew(&scene, ".beads", &printed.id, "99999999h").expect(2, &["--max-hold: "]);
    release(&scene, ".beads", &printed);
}

#[test]
fn the_claim_of_somebody_else_is_left_alone() {
    let scene = a_scene();
    for target in TARGETS {
        renew(&scene, target, "another", "1h").expect(9, &["was lost"]);
        let printed = detached(&scene, target, "1h");
        let before = title(printed.pid);
        renew(&scene, target, "another", "2h").expect(9, &["was lost"]);
        assert_eq!(title(printed.pid), before);
        // A kill leaves a stale record, and a lock of the kernel is gone with it.
        signal(printed.pid, Signal::SIGKILL);
        process_is_gone(printed.pid);
        let (code, answer) = scene.json(&["renew", target, "--id", &printed.id, "--json"]);
        assert_eq!((code, &answer["error"]["code"]), (9, &json!("LOCK_LOST")));
        assert_eq!(answer["data"], Value::Null);
    }
    scene.write_lock("{");
    renew(&scene, ".beads", "another", "1h").expect(5, &["cannot be understood"]);
}

#[test]
fn another_user_cannot_move_it() {
    let scene = a_scene();
    let printed = detached(&scene, ".beads", "1h");
    let before = title(printed.pid);
    let words = ["renew", ".beads", "--id", &printed.id];
    let mortal = root().then(|| scene.beadlock_as_mortal(&words));
    if let Some(command) = mortal.flatten() {
        let ended = Running::apart(command).end();
        ended.expect(1, &["its keeper cannot be told: operation not permitted"]);
        assert_eq!(title(printed.pid), before);
    }
    release(&scene, ".beads", &printed);
}

/// Its record names a process that stands still: nothing was promised, and a new end that has passed meanwhile is none.
#[test]
fn a_keeper_that_stands_still_has_not_renewed() {
    let scene = a_scene();
    let printed = detached(&scene, ".beads", "1h");
    let before = title(printed.pid);
    signal(printed.pid, Signal::SIGSTOP);
    until("it is stopped", || is_stopped(printed.pid));
    renew(&scene, ".beads", &printed.id, "1s").expect(1, &["has not answered within 5s"]);
    assert!(has_pending(printed.pid));
    signal(printed.pid, Signal::SIGCONT);
    until("it is received", || !has_pending(printed.pid));
    // Without a number it is not a renewal.
    signal(printed.pid, Signal::SIGUSR1);
    until("it is received", || !has_pending(printed.pid));
    assert_eq!(title(printed.pid), before);
    renew(&scene, ".beads", &printed.id, "2h").expect(0, &[]);
    assert_ne!(title(printed.pid), before);
    release(&scene, ".beads", &printed);
}

/// Never a yes to a claim that ends.
#[test]
fn a_claim_that_ends_meanwhile_is_not_renewed() {
    let scene = a_scene();
    for target in TARGETS {
        let printed = detached(&scene, target, "1h");
        signal(printed.pid, Signal::SIGSTOP);
        until("it is stopped", || is_stopped(printed.pid));
        let words = ["renew", target, "--id", &printed.id, "--max-hold", "2h"];
        let renewing = Running::apart(scene.beadlock(&words));
        until("it is asked", || has_pending(printed.pid));
        signal(printed.pid, Signal::SIGTERM);
        signal(printed.pid, Signal::SIGCONT);
        renewing.end().expect(9, &["was lost"]);
        until("the keeper has ended", || !lives(printed.pid));
        scene.run(&["check", target]).expect(0, &[]);
    }
}

/// The lock stands until somebody ends it, so a renewal that comes before that is in time.
#[test]
fn a_renewal_beats_an_end_that_nobody_has_seen_yet() {
    let scene = a_scene();
    let printed = detached(&scene, ".beads", "3s");
    let begun = Instant::now();
    signal(printed.pid, Signal::SIGSTOP);
    until("it is stopped", || is_stopped(printed.pid));
    until("the end is near", || {
        begun.elapsed() > Duration::from_secs(2)
    });
    let words = ["renew", "--id", &printed.id, "--max-hold", "1h"];
    let renewing = Running::apart(scene.beadlock(&words));
    until("it is asked", || has_pending(printed.pid));
    until("the end is over", || {
        begun.elapsed() > Duration::from_secs(4)
    });
    signal(printed.pid, Signal::SIGCONT);
    renewing.end().expect(0, &["at most 1h from now"]);
    scene.run(&["check"]).expect(4, &[]);
    release(&scene, ".beads", &printed);
}

#[test]
fn of_several_at_once_each_is_followed_and_the_last_one_stays() {
    let scene = a_scene();
    for target in [".beads", "flock:f"] {
        let printed = detached(&scene, target, "1h");
        let start = |hours: &u32| {
            let hours = format!("{hours}h");
            let words = ["renew", target, "--id", &printed.id, "--max-hold", &hours];
            Running::apart(scene.beadlock(&words))
        };
        let renewing: Vec<Running> = (2..10).collect::<Vec<u32>>().iter().map(start).collect();
        let ended: Vec<Ended> = renewing
            .into_iter()
            .map(|one| one.end().expect(0, &[]))
            .collect();
        let title = title(printed.pid);
        let is_last = |one: &Ended| title.ends_with(&format!(" until {}", printed_end(one)));
        assert!(ended.iter().any(is_last), "{title} {ended:?}");
        release(&scene, target, &printed);
    }
}

#[test]
fn the_lock_is_never_free_meanwhile() {
    let Some(_) = tool("flock") else { return };
    let scene = a_scene();
    let printed = detached(&scene, "flock:f", "1h");
    let script = "echo >begun; while ! test -e stop; do flock -n f -c 'echo >>got'; done; :";
    let contender = Running::apart(scene.shell(script));
    until("it contends", || scene.file("begun").exists());
    let inode = fs::metadata(scene.file("f")).unwrap().ino();
    for hours in 1..40 {
        renew(&scene, "flock:f", &printed.id, &format!("{hours}h")).expect(0, &[]);
    }
    scene.write("stop", "");
    contender.end().expect(0, &[]);
    assert!(!scene.file("got").exists());
    assert_eq!(fs::metadata(scene.file("f")).unwrap().ino(), inode);
    release(&scene, "flock:f", &printed);
}

/// A process with the command line of a keeper, which does not know the signal, has `f` locked.
fn of_an_older_beadlock(scene: &Scene) -> Child {
    scene.write(
        "__helper",
        "exec 9>>f; flock 9; echo >ready; read -r line\n",
    );
    let request = json!({ "LeaseKeeper": {
        "lease": { "Kernel": { "mode": "Exclusive" } },
        "target": { "Unix": b"flock:f" },
        "given": "flock:f",
        "max_hold": { "secs": 60, "nanos": 0 },
        "until": "2026-11-25T21:22:58Z",
        "subject": null,
        "request_id": "",
        "audit": null,
    }});
    let mut shell = scene.shell("exec bash __helper \"$0\"");
    shell.arg(request.to_string()).stdin(Stdio::piped());
    shell.spawn().unwrap()
}

/// The signal would end it, and the claim with it.
#[test]
fn a_keeper_that_does_not_know_the_signal_does_not_get_it() {
    let Some(_) = tool("flock") else { return };
    let scene = a_scene();
    let mut keeper = of_an_older_beadlock(&scene);
    until("it is locked", || scene.file("ready").exists());
    let seen = scene.json(&["status", "flock:f", "--json"]).1;
    let id = seen["data"][0]["id"].as_str().unwrap().to_owned();
    renew(&scene, "flock:f", &id, "1h").expect(1, &["older beadlock"]);
    assert!(keeper.try_wait().unwrap().is_none(), "it lives");
    drop(keeper.stdin.take());
    keeper.wait().unwrap();
}
