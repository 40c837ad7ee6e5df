//! A cycle: gate, check, run, leave. The gate stays shut for as long as the command lives, whichever process is
//! killed.

mod guardian;
mod replaced;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use beadlock_base::process::{Stat, command_line};
use beadlock_core::gate::Gate;
use beadlock_testkit::write_program;
use beadlock_testkit::{
    Ended, Running, Scene, as_nobody, children, dead_pid, lives, process_is_gone, shell_lock_text,
    this_host, until,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Writes its PID to `pid`, and works until there is a file `go`.
const WORK: &str = "echo $$ > pid; until test -e go; do sleep 0.01; done; touch done; exit 7";

fn gate_is_free(scene: &Scene) -> bool {
    Gate::try_take(&scene.beads()).unwrap().is_some()
}

/// Starts a cycle that does [`WORK`]; it, the command and the guardian.
fn start(scene: &Scene) -> (Running, i32, i32) {
    let running = Running::apart(scene.beadlock(&["cycle", "--", "sh", "-c", WORK]));
    let command = scene.pid_in("pid");
    let guardians = guardians(running.pid());
    let [guardian] = guardians[..] else {
        panic!("one guardian: {guardians:?}")
    };
    (running, command, guardian)
}

fn guardians(parent: i32) -> Vec<i32> {
    let guards = |pid: &i32| {
        command_line(*pid).is_some_and(|line| line.starts_with("beadlock: keeps the gate of "))
    };
    children(parent).into_iter().filter(guards).collect()
}

#[test]
fn the_command_runs_where_we_are_and_its_code_is_ours() {
    let scene = crate::a_scene();
    let script = "echo \"$BEADS_DIR $BEADLOCK_CYCLE $PWD\" > seen; exit 7";
    let ended = scene
        .run(&["cycle", "--", "sh", "-c", script])
        .expect(7, &[]);
    assert_eq!(
        (ended.out.as_str(), ended.err.as_str()),
        ("", ""),
        "nothing to be said of a cycle that runs"
    );
    let (dir, here) = (
        fs::canonicalize(scene.beads()).unwrap(),
        fs::canonicalize(scene.path()).unwrap(),
    );
    let (dir, here) = (dir.display(), here.display());
    assert_eq!(scene.read("seen"), format!("{dir} {dir} {here}\n"));
    scene.run(&["cycle", ".beads", "--", "true"]).expect(0, &[]);
    scene
        .run(&["cycle", "--", "sh", "-c", "kill -KILL $$"])
        .expect(137, &[]);
    let stopped = scene.run(&["cycle", "--", "sh", "-c", "kill -INT $PPID; exec sleep 300"]);
    assert_eq!(
        stopped.expect(130, &[]).signal,
        Some(Signal::SIGINT as i32),
        "so that a script around it stops"
    );
    assert!(gate_is_free(&scene) && scene.names().is_empty());
}

#[test]
fn streams_pass_through_and_no_descriptor_of_ours_but_the_gate() {
    let scene = crate::a_scene();
    let mut command = scene.beadlock(&["cycle", "--json", "--", "sh", "-c", "cat; echo talk >&2"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"in and out\n")
        .unwrap();
    let ended = Ended::of(&child.wait_with_output().unwrap()).expect(0, &[]);
    assert_eq!(
        (ended.out.as_str(), ended.err.as_str()),
        ("in and out\n", "talk\n")
    );
    let script = "ls /proc/self/fd | sort -n > fds; readlink /proc/self/fd/20 > gate; true";
    Running::apart(scene.shell(script)).end().expect(0, &[]);
    let without = scene.read("fds");
    scene
        .run(&["cycle", "--", "sh", "-c", script])
        .expect(0, &[]);
    let gate = format!("{}\n", fs::canonicalize(scene.beads()).unwrap().display());
    assert_eq!(scene.read("gate"), gate);
    let others = |fds: String| {
        fds.lines()
            .filter(|fd| *fd != "20")
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        others(scene.read("fds")),
        others(without.clone()),
        "nothing else"
    );
    // The command of a claim has not even that: the lock speaks for it.
    scene
        .run(&["hold", "--", "sh", "-c", script])
        .expect(0, &[]);
    assert_eq!(
        (scene.read("fds"), scene.read("gate").as_str()),
        (without, "")
    );
}

/// Where no descriptor of so high a number is allowed, the gate has a lower one, and never a stream's.
#[test]
fn a_low_limit_of_descriptors_does_not_cost_the_gate() {
    let scene = crate::a_scene();
    let script = "ulimit -n 18; \"$BEADLOCK\" cycle -- sh -c 'ls -l /proc/self/fd > fds; echo out'";
    let mut command = scene.shell(script);
    // What the tests themselves were started with must not use up the few.
    command.stdin(Stdio::null());
    let ended = Running::apart(command).end();
    assert_eq!(ended.expect(0, &[]).out, "out\n");
    let gates: Vec<String> = scene
        .read("fds")
        .lines()
        .filter(|fd| fd.ends_with("/.beads"))
        .map(str::to_owned)
        .collect();
    let [gate] = &gates[..] else {
        panic!("one gate: {gates:?}")
    };
    let number = gate
        .split(" -> ")
        .next()
        .and_then(|line| line.rsplit(' ').next())
        .unwrap();
    assert!(
        number
            .parse::<u32>()
            .is_ok_and(|number| (3..18).contains(&number)),
        "{gate}"
    );
}

#[test]
fn a_claimed_database_is_skipped() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(std::process::id()), &this_host());
    let before = fs::read(scene.lock()).unwrap();
    let run = |args: &[&str]| {
        scene
            .run(&[&["cycle"], args, &["--", "touch", "ran"]].concat())
            .expect(4, &[])
    };
    assert_eq!(run(&[]).err, "beadlock: Skipping database (locked by vc)\n");
    assert_eq!(run(&["-q"]).err, "");
    let json = run(&["--json"]).json();
    assert_eq!(
        (&json["ok"], &json["error"]["code"]),
        (&false.into(), &"LOCK_HELD".into())
    );
    assert_eq!(json["error"]["retryable"], true);
    let check = scene.run(&["check", "--json"]).expect(4, &[]).json();
    assert_eq!(json["data"], check["data"][0], "the fields of a check");
    assert!(!scene.file("ran").exists() && gate_is_free(&scene));
    assert_eq!(fs::read(scene.lock()).unwrap(), before);
}

#[test]
fn a_busy_gate_and_a_second_cycle_are_skips() {
    let scene = crate::a_scene();
    let (running, ..) = start(&scene);
    let line = "beadlock: Skipping database (a sync cycle or a claim is in progress)\n";
    assert_eq!(
        scene
            .run(&["cycle", "--", "touch", "ran"])
            .expect(4, &[])
            .err,
        line
    );
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(7, &[]);
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let json = scene
        .run(&["cycle", "--json", "--", "touch", "ran"])
        .expect(4, &[line.trim_end()])
        .json();
    assert_eq!(
        (&json["error"]["code"], &json["data"]["reason"]),
        (&"DRAIN_TIMEOUT".into(), &"gate_busy".into())
    );
    drop(gate);
    assert!(!scene.file("ran").exists());
}

#[test]
fn what_could_not_be_checked_or_removed_is_5() {
    let scene = crate::a_scene();
    fs::write(scene.lock(), "{").unwrap();
    let json = scene.run(&["cycle", "--json", "--", "touch", "ran"]);
    let json = json
        .expect(
            5,
            &["Skipping database (lock check failed: malformed lock file: "],
        )
        .json();
    assert_eq!(
        (&json["error"]["code"], &json["data"]["reason"]),
        (&"LOCK_UNREADABLE".into(), &"malformed".into())
    );
    fs::write(
        scene.lock(),
        shell_lock_text("dead", i64::from(dead_pid()), &this_host()),
    )
    .unwrap();
    for (path, mode) in [(scene.path(), 0o777), (&scene.beads(), 0o555)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = scene.beadlock(&["cycle", "--json", "--", "touch", "ran"]);
    if as_nobody(&mut command) {
        let json = Running::apart(command).end();
        let json = json
            .expect(5, &["lock check failed: failed to remove stale lock: "])
            .json();
        assert_eq!(
            (&json["error"]["code"], &json["data"]["reason"]),
            (&"LOCK_STALE".into(), &"removal_failed".into())
        );
    }
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!scene.file("ran").exists());
}

#[test]
fn what_is_wrong_is_said_before_anything_is_touched() {
    let scene = crate::a_scene();
    fs::write(
        scene.lock(),
        shell_lock_text("dead", i64::from(dead_pid()), &this_host()),
    )
    .unwrap();
    fs::write(scene.file("data"), "x").unwrap();
    scene
        .run(&["cycle", "--", "nosuch"])
        .expect(127, &["nosuch: command not found in PATH"]);
    scene
        .run(&["cycle", "--", "./data"])
        .expect(126, &["./data: cannot be executed: permission denied"]);
    scene
        .run(&["cycle", "nowhere/.beads", "--", "true"])
        .expect(1, &["nowhere/.beads does not exist"]);
    scene
        .run(&["cycle", "make", "-j4"])
        .expect(2, &["did you mean: beadlock cycle -- make -j4\n"]);
    scene
        .run(&["cycle"])
        .expect(2, &["no command; type: beadlock cycle -- CMD"]);
    let words = [
        "lock:x.lock has no sync cycles",
        "type: beadlock hold lock:x.lock -- CMD",
    ];
    scene
        .run(&["cycle", "lock:x.lock", "--", "true"])
        .expect(2, &words);
    let json = scene
        .run(&["cycle", "--json", "lock:x.lock", "--", "true"])
        .expect(2, &words)
        .json();
    assert_eq!(
        (&json["data"], &json["error"]["code"]),
        (&serde_json::Value::Null, &"USAGE".into())
    );
    let mut command = scene.beadlock(&["cycle", "--", "true"]);
    command.env("BEADLOCK_KILL_AFTER", "soon");
    Running::apart(command)
        .end()
        .expect(2, &["$BEADLOCK_KILL_AFTER: "]);
    assert_eq!(scene.names(), [".exclusive-lock"]);
    scene.run(&["check"]).expect(0, &[]);
    fs::remove_dir(scene.beads()).unwrap();
    scene
        .run(&["cycle", "--", "true"])
        .expect(1, &["no .beads here or above"]);
}

#[test]
fn a_command_that_fails_to_execute_leaves_nothing() {
    let scene = crate::a_scene();
    for (name, interpreter, code) in [
        ("gone", "/no/such/interpreter", 127),
        ("refused", "/etc", 126),
    ] {
        write_program(&scene.file(name), format!("#!{interpreter}\n").as_bytes());
        scene
            .run(&["cycle", "--", &format!("./{name}")])
            .expect(code, &[name]);
        assert!(gate_is_free(&scene));
    }
}

#[test]
fn a_stale_lock_is_removed_first() {
    let scene = crate::a_scene();
    fs::write(
        scene.lock(),
        shell_lock_text("dead", i64::from(dead_pid()), &this_host()),
    )
    .unwrap();
    let ended = scene
        .run(&["cycle", "--", "sh", "-c", "ls -A .beads"])
        .expect(0, &[]);
    assert_eq!(
        ended.err,
        "beadlock: Removed stale lock (dead), proceeding with sync\n"
    );
    assert_eq!(ended.out, "", "before the command starts");
    let mut zombie = Command::new("true").spawn().unwrap();
    let pid = zombie.id().cast_signed();
    until("it has ended", || Stat::read(pid).unwrap().is_zombie());
    scene.write_shell_lock("zombie", pid.into(), &this_host());
    scene
        .run(&["cycle", "--", "true"])
        .expect(4, &["locked by zombie"]);
    scene
        .run(&["cycle", "--reap-proven-dead", "--", "true"])
        .expect(0, &["Removed stale lock (zombie), proceeding with sync"]);
    zombie.wait().unwrap();
}

#[test]
fn what_is_skipped_and_removed_leaves_a_line_in_the_audit() {
    let scene = crate::a_scene();
    for pid in [i64::from(std::process::id()), i64::from(dead_pid())] {
        scene.write_shell_lock("vc", pid, &this_host());
        let mut command = scene.beadlock(&["cycle", "--", "true"]);
        command.env("BEADLOCK_AUDIT", "audit");
        Running::apart(command).end();
    }
    let lines: Vec<serde_json::Value> = scene
        .read("audit")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: Vec<_> = lines
        .iter()
        .map(|line| (&line["event"], &line["reason"]))
        .collect();
    let expected = [
        ("lock_blocked", "pid_alive"),
        ("lock_stale_removed", "pid_gone"),
    ];
    let expected =
        expected.map(|(event, reason)| (serde_json::json!(event), serde_json::json!(reason)));
    assert!(
        events
            .into_iter()
            .eq(expected.iter().map(|(event, reason)| (event, reason))),
        "{lines:?}"
    );
    let mut command = scene.beadlock(&["cycle", "--", "touch", "ran"]);
    command.env("BEADLOCK_AUDIT", "nowhere/audit");
    Running::apart(command).end().expect(1, &["nowhere/audit"]);
    assert!(!scene.file("ran").exists());
}

#[test]
fn a_claim_waits_until_the_cycle_has_ended() {
    let scene = crate::a_scene();
    let (running, ..) = start(&scene);
    let script = "test -e done && echo after";
    let claim =
        Running::apart(scene.beadlock(&["hold", "--drain", "1h", "--", "sh", "-c", script]));
    until("it waits", || claim.err().contains("waiting for the gate"));
    assert!(
        claim.err().contains(&format!("PID {} (", running.pid())),
        "{}",
        claim.err()
    );
    assert!(!scene.lock().exists());
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(7, &[]);
    assert_eq!(claim.end().expect(0, &["released .beads"]).out, "after\n");
}

#[test]
fn a_signal_is_passed_on_and_the_gate_shut_until_the_tree_has_ended() {
    let scene = crate::a_scene();
    let script = "setsid sh -c 'trap \"until test -e go; do sleep 0.01; done; exit\" TERM; echo $$ > below; \
                  while :; do sleep 0.01; done' & trap 'kill -TERM $(cat below); exit 3' TERM; \
                  until test -s below; do sleep 0.01; done; echo $$ > pid; while :; do sleep 0.01; done";
    let mut command = scene.beadlock(&["cycle", "--", "sh", "-c", script]);
    command.env("BEADLOCK_KILL_AFTER", "1h");
    let running = Running::apart(command);
    scene.pid_in("pid");
    let below = scene.pid_in("below");
    running.signal(Signal::SIGTERM);
    until("it waits for the rest", || {
        running
            .err()
            .contains("the command has ended; waiting for PID ")
    });
    assert!(
        !running.err().contains("keeps the gate of"),
        "the guardian is none of the command's"
    );
    assert!(lives(below) && !gate_is_free(&scene));
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(3, &[]);
    assert!(!lives(below) && gate_is_free(&scene));
}

/// Nothing but the news of the command's end wakes a cycle: it must not be taken in one go with the signal that ends
/// it.
#[test]
fn a_signal_and_the_end_at_the_same_time_are_both_heard() {
    // Nothing is being born when the signal comes: one look would miss that, and it would not be asked to end.
    let script = "sleep 60 & echo > ready; wait";
    for _ in 0..20 {
        let scene = crate::a_scene();
        let running = Running::apart(scene.beadlock(&["cycle", "--", "sh", "-c", script]));
        until("the command runs", || scene.file("ready").exists());
        let begun = std::time::Instant::now();
        running.signal(Signal::SIGTERM);
        let ended = running.end();
        // Unheard, it would be seen after the ten seconds of --kill-after.
        let took = begun.elapsed();
        assert!(
            took < Duration::from_secs(8),
            "the end was not heard of: {took:?}, {ended:?}"
        );
        ended.expect(143, &[]);
    }
}

#[test]
fn what_is_left_behind_is_named_and_keeps_nothing() {
    let scene = crate::a_scene();
    let ended = scene.run(&["cycle", "--", "sh", "-c", "sleep 300 & echo $! > left"]);
    let left: i32 = scene.read("left").trim().parse().unwrap();
    ended.expect(
        0,
        &[&format!(
            "left processes behind, and the gate is let go now: PID {left} ("
        )],
    );
    assert!(lives(left) && gate_is_free(&scene));
    kill(Pid::from_raw(left), Signal::SIGKILL).unwrap();
    process_is_gone(left);
}

#[test]
fn a_cycle_inside_itself_is_refused_and_one_that_has_ended_is_no_obstacle() {
    let scene = crate::a_scene();
    let script = "\"$BEADLOCK\" cycle -q -- touch ran; echo $? > cycle; \"$BEADLOCK\" hold -- touch ran; echo $? > hold";
    scene.run(&["cycle", "--", "sh", "-c", script]).expect(
        0,
        &[
            "which has the gate: a cycle inside it would skip for ever",
            "would wait for itself",
        ],
    );
    assert_eq!(
        (scene.read("cycle").as_str(), scene.read("hold").as_str()),
        ("4\n", "4\n")
    );
    assert!(!scene.file("ran").exists());
    let mut command = scene.beadlock(&["cycle", "--", "touch", "ran"]);
    command.env("BEADLOCK_CYCLE", scene.beads());
    Running::apart(command).end().expect(0, &[]);
    assert!(scene.file("ran").exists());
}

#[test]
fn without_a_gate_it_runs_and_says_so() {
    let scene = crate::a_scene();
    for (path, mode) in [(scene.path(), 0o777), (&scene.beads(), 0o733)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = scene.beadlock(&["cycle", "--", "sh", "-c", "exit 7"]);
    if as_nobody(&mut command) {
        Running::apart(command).end().expect(
            7,
            &[
                "warning: there is no gate here (",
                "claims do not wait for this cycle",
            ],
        );
        scene.write_shell_lock("vc", 1, "elsewhere");
        let mut command = scene.beadlock(&["cycle", "--", "touch", "ran"]);
        assert!(as_nobody(&mut command));
        Running::apart(command)
            .end()
            .expect(4, &["Skipping database (locked by vc)"]);
        assert!(!scene.file("ran").exists());
    }
}
