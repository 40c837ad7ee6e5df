//! Every situation that `status` and `check --explain` tell apart: its witnesses, its words, and what to type.
#![expect(
    clippy::disallowed_methods,
    reason = "what tools do to a lock file, and ages for it"
)]

mod elsewhere;
mod unreadable;

use std::fs;
use std::process::Command;

use beadlock_core::gate::Gate;
use beadlock_testkit::{
    Running, Scene, as_nobody, children, lives, process_is_gone, this_host, until,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// The record that beadlock writes here and now; its process is gone.
fn record(scene: &Scene) -> Value {
    let _ = fs::remove_file(scene.lock());
    let ended = scene
        .run(&["hold", "--", "cat", ".beads/.exclusive-lock"])
        .expect(0, &[]);
    serde_json::from_str(&ended.out).unwrap()
}

fn put(scene: &Scene, record: &Value) {
    fs::write(scene.lock(), record.to_string()).unwrap();
}

/// A record of this test's own process, changed.
fn mine(scene: &Scene, change: impl Fn(&mut Value)) -> Value {
    let me = std::process::id().cast_signed();
    let mut record = record(scene);
    record["pid"] = me.into();
    let stat = beadlock_base::process::Stat::read(me).unwrap();
    record["beadlock"]["start_ticks"] = stat.start_ticks.into();
    change(&mut record);
    put(scene, &record);
    record
}

/// The answers of `status -v` and `status --json`; `check --explain` agrees with them.
struct Seen {
    text: String,
    data: Value,
    next: String,
}

impl Seen {
    #[track_caller]
    fn of(scene: &Scene, situation: &str) -> Self {
        let text = scene.run(&["status", "-v"]).expect(0, &[]).out;
        let data = scene.run(&["status", "--json"]).expect(0, &[]).json()["data"][0].clone();
        assert_eq!(data["witnesses"]["situation"], situation, "{text}");
        let line = |text: &str, label: &str| {
            let line = text
                .lines()
                .find_map(|line| line.trim_start().strip_prefix(label));
            line.unwrap_or_else(|| panic!("no {label} in {text}"))
                .to_owned()
        };
        let next = line(&text, "next: ");
        assert_eq!(data["next"], next);
        let explained = scene.run(&["check", "--dry-run", "--explain"]).out;
        assert_eq!(
            line(&explained, "next: "),
            next,
            "check --explain says the same"
        );
        assert_eq!(
            line(&explained, "why: ").split(" old:").count(),
            line(&text, "why: ").split(" old:").count()
        );
        let pasted = Command::new("sh")
            .args(["-n", "-c", &next])
            .status()
            .unwrap();
        assert!(pasted.success(), "a shell reads {next}");
        Self { text, data, next }
    }

    /// The text has all of these.
    #[track_caller]
    fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.text.contains(word), "no {word:?} in {}", self.text);
        }
        self
    }

    /// Asserts the command to type, without its comment, and some words of the comment.
    #[track_caller]
    fn next(self, command: &str, comment: &str) -> Self {
        let (typed, why) = self.next.split_once("   # ").unwrap_or((&self.next, ""));
        assert_eq!(typed, command, "{}", self.text);
        assert!(why.contains(comment), "no {comment:?} in {}", self.next);
        self
    }

    #[track_caller]
    fn witness(self, key: &str, expected: impl Into<Value>) -> Self {
        assert_eq!(
            self.data["witnesses"][key],
            expected.into(),
            "{key}: {}",
            self.data
        );
        self
    }
}

/// `beadlock break .beads --id … --even-if-live` for what `record` is.
fn by_hand(record: &Value) -> String {
    format!(
        "beadlock break .beads --id {} --even-if-live",
        record["beadlock"]["id"].as_str().unwrap()
    )
}

#[test]
fn a_process_that_lives() {
    let scene = crate::a_scene();
    let me = std::process::id();
    mine(&scene, |_| {});
    Seen::of(&scene, "alive")
        .says(&[
            "why: its process lives here, and started when the record says",
            "succeeds: it lives",
        ])
        .next("beadlock wait --wait 10m .beads", &format!("ps -fp {me}"))
        .witness("kill", "ok");
    scene.write_shell_lock("vc", me.into(), &this_host());
    Seen::of(&scene, "alive").says(&["whether it is still the one that claimed is not recorded"]);
    let mut command = scene.beadlock(&["status", "-v", ".beads"]);
    fs::set_permissions(
        scene.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    if as_nobody(&mut command) {
        let text = Running::apart(command).end().expect(0, &[]).out;
        assert!(
            text.contains("why: its process lives here, and is another user's"),
            "{text}"
        );
        assert!(
            text.contains("says EPERM") && text.contains("next: beadlock wait"),
            "{text}"
        );
    }
}

#[test]
fn a_process_that_is_gone() {
    let scene = crate::a_scene();
    let mut gone = record(&scene);
    put(&scene, &gone);
    let check = "beadlock check .beads";
    Seen::of(&scene, "gone")
        .says(&["stale, left by cat", "says ESRCH"])
        .next(check, "removes it");
    gone["beadlock"]["boot_id"] = "another".into();
    put(&scene, &gone);
    Seen::of(&scene, "gone")
        .says(&[
            "why: its process is gone; this machine has booted since",
            "boot: other",
        ])
        .next(check, "removes it")
        .witness("boot", "other");
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let text = scene.run(&["status", "-v"]).expect(0, &[]).out;
    assert!(
        text.contains("# removes it, once the gate is open"),
        "{text}"
    );
    drop(gate);
}

#[test]
fn a_recycled_pid_and_whose_it_is_now() {
    let scene = crate::a_scene();
    let record = mine(&scene, |record| {
        let ticks = record["beadlock"]["start_ticks"].as_u64().unwrap();
        record["beadlock"]["start_ticks"] = (ticks + 1000).into();
    });
    let pid = &record["pid"];
    let reap = "beadlock check --reap-proven-dead .beads";
    let seen = Seen::of(&scene, "pid_recycled")
        .says(&[
            &format!("why: its process is gone: PID {pid} is another one now ("),
            "that PID now: ",
        ])
        .next(reap, "removes it: pid_reused");
    assert!(
        seen.data["witnesses"]["command_now"].is_string(),
        "{}",
        seen.data
    );
    scene.run(&["check"]).expect(4, &[]);
    let json = scene
        .run(&["check", "--reap-proven-dead", ".beads", "--json"])
        .expect(0, &[])
        .json();
    assert_eq!(
        (&json["data"][0]["reason"], &json["data"][0]["removed"]),
        (&"pid_reused".into(), &true.into())
    );
    assert!(!scene.lock().exists(), "as it said");
}

#[test]
fn a_zombie() {
    let scene = crate::a_scene();
    let mut child = Command::new("true").spawn().unwrap();
    until("it has ended", || !lives(child.id().cast_signed()));
    scene.write_shell_lock("vc", child.id().into(), &this_host());
    let (me, name) = (
        std::process::id(),
        fs::read_to_string("/proc/self/comm").unwrap(),
    );
    let zombie = format!(
        "a zombie: it has ended, its parent (PID {me}, {}) has not collected it; --reap-proven-dead may remove the lock",
        name.trim_end()
    );
    Seen::of(&scene, "zombie")
        .says(&[
            ".beads: held by a zombie, vc (PID ",
            " (pid_alive)\n",
            &format!("why: {zombie}\n"),
        ])
        .next("beadlock check --reap-proven-dead .beads", &zombie)
        .witness("zombie", true);
    scene
        .run(&["hold", "--no-wait", "--", "true"])
        .expect(4, &[&format!("; did not wait; {zombie}; who and why")]);
    scene
        .run(&["break", "--holder", "vc"])
        .expect(4, &[&format!("{zombie} (pid_alive)")]);
    assert_eq!(
        scene.run(&["check"]).expect(4, &[]).out,
        "Skipping database (locked by vc)\n",
        "as ever"
    );
    child.wait().unwrap();
}

#[test]
fn a_boot_since_with_the_pid_in_use_again() {
    let scene = crate::a_scene();
    let boot = |record: &mut Value| record["beadlock"]["boot_id"] = "another".into();
    let record = mine(&scene, boot);
    let local =
        scene.run(&["status", "--json"]).json()["data"][0]["witnesses"]["local_file_system"]
            .clone();
    if local == true {
        Seen::of(&scene, "rebooted")
            .says(&[
                "why: this machine has booted since: its process is gone",
                "that PID now: ",
            ])
            .says(&["file system: only this machine writes it"])
            .next(
                "beadlock check --reap-proven-dead .beads",
                "removes it: other_boot",
            );
    } else {
        not_proved(
            &scene,
            &record,
            "not known to lie on a file system that only this machine writes",
        );
    }
    let record = mine(&scene, |record| {
        boot(record);
        record["beadlock"]
            .as_object_mut()
            .unwrap()
            .remove("machine_id");
    });
    if local == true {
        not_proved(&scene, &record, "which machine it was is not recorded");
    }
}

#[track_caller]
fn not_proved(scene: &Scene, record: &Value, why: &str) {
    Seen::of(scene, "rebooted")
        .says(&["is in use again", why])
        .next(&format!("ps -fp {}", record["pid"]), &by_hand(record));
    scene.run(&["check", "--reap-proven-dead"]).expect(4, &[]);
}

/// A file system that is on no list of local ones proves nothing by a boot.
#[test]
fn a_boot_since_on_a_file_system_that_is_not_known_to_be_local() {
    let scene = crate::a_scene();
    mine(&scene, |record| {
        record["beadlock"]["boot_id"] = "another".into()
    });
    let script =
        "mount -t ramfs none .beads && cp lock .beads/.exclusive-lock && exec $BEADLOCK status -v";
    fs::copy(scene.lock(), scene.file("lock")).unwrap();
    let Some(command) = scene.in_namespaces(&["--mount"], script) else {
        return;
    };
    let text = Running::apart(command).end().expect(0, &[]).out;
    for words in [
        "not known to lie on a file system",
        "file system: other machines may write it",
        "next: ps -fp ",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}

#[test]
fn a_pid_that_no_process_can_have() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", 1 << 40, &this_host());
    Seen::of(&scene, "pid_unknown")
        .says(&["why: no process can have PID 1099511627776"])
        .next(
            &format!("cat {}", fs::canonicalize(scene.lock()).unwrap().display()),
            "beadlock break .beads --id sha256:",
        )
        .witness("kill", "unknown");
}

#[test]
fn a_start_in_the_future() {
    let scene = crate::a_scene();
    mine(&scene, |record| {
        record["started_at"] = "2999-01-01T00:00:00Z".into()
    });
    let seen = Seen::of(&scene, "alive").says(&["in the future: a clock is wrong, here or on "]);
    assert!(
        !seen.text.contains(" for "),
        "no age is made up: {}",
        seen.text
    );
    assert!(
        seen.data["witnesses"]["starts_in_ms"].as_i64() > Some(0) && seen.data["age_ms"] == 0,
        "{}",
        seen.data
    );
}

#[test]
fn a_lock_that_is_aside() {
    let scene = crate::a_scene();
    fs::write(scene.beads().join(".exclusive-lock.aside"), "x").unwrap();
    let text = scene.run(&["status", "-v"]).expect(0, &[]).out;
    for words in [
        "why: no lock, but one is aside: a crash has left it there",
        "side file: .exclusive-lock.aside is there",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    assert!(
        text.contains("next: beadlock check .beads   # puts right what a crash has left"),
        "{text}"
    );
    let witnesses = scene.run(&["status", "--json"]).json()["data"][0]["witnesses"].clone();
    assert_eq!(
        (&witnesses["situation"], &witnesses["side_file"]),
        (&json!("set_aside"), &json!(true))
    );
}

/// A cycle's gate: shut by its runner, then, when that was killed, by what it has left running.
#[test]
fn a_gate_that_an_orphan_keeps_shut() {
    let scene = crate::a_scene();
    let cycle = Running::apart(scene.beadlock(&[
        "cycle",
        "--",
        "sh",
        "-c",
        "echo $$ > pid; exec sleep 300",
    ]));
    until("it works", || scene.read("pid").ends_with('\n'));
    let work: i32 = scene.read("pid").trim().parse().unwrap();
    let daemon = cycle.pid();
    Seen::of(&scene, "free")
        .says(&[
            &format!("PID {daemon} ("),
            &format!("(for PID {daemon})"),
            "(a sync cycle or a claim)",
        ])
        .next(
            "beadlock hold .beads -- CMD",
            "waits until the gate is open",
        );
    let waiting = Running::apart(scene.beadlock(&["hold", "--", "true"]));
    until("it waits", || waiting.err().contains("waiting"));
    let guardians = children(daemon)
        .into_iter()
        .filter(|pid| *pid != work)
        .collect::<Vec<_>>();
    cycle.signal(Signal::SIGKILL);
    drop(cycle);
    until("it is gone", || !lives(daemon));
    let left = format!(
        "gate: shut by what PID {daemon}, which is gone, has left running: PID {work} (sleep 300)"
    );
    until("it is an orphan", || {
        scene.run(&["status", "-v"]).out.contains(&left)
    });
    let seen = Seen::of(&scene, "free")
        .says(&[
            "why: no lock; a claim waits for the gate, which a cycle of",
            "waiting for the gate: PID ",
        ])
        .next(&format!("ps -fp {work}"), "to end it: kill -- ");
    let orphan = &seen.data["witnesses"]["gate"][0];
    assert_eq!(
        (&orphan["role"], &orphan["daemon"]),
        (&json!("orphan"), &json!(daemon))
    );
    assert_eq!(orphan["work"][0]["pid"], work);
    let (_, end) = seen.next.split_once("to end it: ").unwrap();
    assert!(
        Command::new("sh")
            .args(["-c", end])
            .status()
            .unwrap()
            .success(),
        "{end}"
    );
    waiting.end().expect(0, &["claimed"]);
    for pid in guardians.into_iter().chain([work]) {
        process_is_gone(pid);
    }
}
