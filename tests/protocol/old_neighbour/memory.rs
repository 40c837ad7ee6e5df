//! The clawdbot document's own lock manager, run by Python beside beadlock in one directory: each sees the other's
//! locks, and they say the same of them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use beadlock_tests::seed::MemoryManager;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, run, skip, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

const TARGET: &str = "memory:memory";
/// `lock`, its lock of this directory.
const ITS_LOCK: &str = "import json, os, sys, time\nimport lock_manager\nfrom lock_manager import LockError\n\
                        lock = lock_manager.MemoryLock('.')\n";

/// A workspace that both use.
pub struct Workspace {
    pub scene: Scene,
    python: PathBuf,
}

impl Workspace {
    /// None, and said so, where the document or Python is absent.
    pub fn new() -> Option<Self> {
        let python = skip::python("json")?;
        let manager = MemoryManager::of_the_seed()?;
        let scene = Scene::new();
        fs::write(scene.path().join("lock_manager.py"), manager.module).expect("write the module");
        fs::create_dir(scene.path().join("memory")).expect("create the directory");
        Some(Self { scene, python })
    }

    pub fn lock(&self) -> PathBuf {
        self.scene.path().join("memory/.lock")
    }

    pub fn text(&self) -> String {
        fs::read_to_string(self.lock()).unwrap_or_default()
    }

    fn record(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap_or_default()
    }

    /// Python with its lock, and then this.
    pub fn python(&self, work: &str) -> Command {
        let mut command = self.scene.command(&self.python);
        command
            .args(["-B", "-c", &format!("{ITS_LOCK}{work}")])
            .env("CLAWDBOT_SESSION_ID", "old");
        command
    }

    fn it(&self, work: &str) -> Ended {
        run(self.python(work)).into()
    }

    fn ours(&self, words: &[&str]) -> Ended {
        run(self.scene.beadlock(words)).into()
    }

    /// Starts ours, and returns once its command is at work.
    fn holder(&self, options: &[&str]) -> Running {
        let _ = fs::remove_file(self.scene.path().join("at-work"));
        let hold = [
            &[
                "hold",
                TARGET,
                "--session-id",
                "ours",
                "--operation",
                "write:tasks.json",
            ][..],
            options,
        ];
        let work = ["--", "sh", "-c", "echo >at-work; exec sleep 60"];
        let running = Running::start(self.scene.beadlock(&[&hold.concat()[..], &work].concat()));
        wait_until(PATIENCE, "our command", || {
            self.scene.path().join("at-work").exists()
        });
        running
    }

    /// Starts its, and returns once it has the lock.
    fn its_holder(&self) -> Running {
        let running = Running::start(
            self.python("lock.acquire_blocking('write:state.json')\ntime.sleep(60)"),
        );
        wait_until(PATIENCE, "its lock", || {
            self.record()["session_id"] == "old"
        });
        running
    }

    /// What both say of the lock that is there: one status, seen from outside.
    fn status(&self) -> Value {
        let (its, ours) = self.both();
        assert_eq!(
            (&its["is_stale"], &its["we_hold_it"]),
            (&ours["is_stale"], &ours["we_hold_it"]),
            "{its} {ours}"
        );
        its
    }

    /// Its status and ours, of one record.
    fn both(&self) -> (Value, Value) {
        let parsed = |ended: Ended| -> Value {
            assert_eq!(ended.code, 0, "{ended:?}");
            serde_json::from_str(&ended.out).expect("a status")
        };
        let its = parsed(self.it("print(json.dumps(lock.status()))"));
        let ours = parsed(self.ours(&["status", TARGET, "--raw"]));
        let keys = |status: &Value| {
            status
                .as_object()
                .map(|status| status.keys().cloned().collect::<Vec<_>>())
        };
        assert_eq!((&its["holder"], keys(&its)), (&ours["holder"], keys(&ours)));
        (its, ours)
    }
}

#[test]
fn it_waits_for_ours_and_names_it() {
    let Some(workspace) = Workspace::new() else {
        return;
    };
    assert_eq!(workspace.status(), serde_json::json!({"locked": false}));
    let mut holder = workspace.holder(&[]);
    let status = workspace.status();
    assert_eq!(
        (&status["locked"], &status["is_stale"]),
        (&true.into(), &false.into())
    );
    assert_eq!(
        workspace.it("print(lock.acquire_nowait('x'))").out,
        "False\n"
    );
    let refused = workspace.it(
        "try: lock.acquire_blocking('x', max_wait=0.3)\nexcept LockError as error: print(error)",
    );
    let words = "Could not acquire lock within 0.3s. Held by session 'ours' for operation 'write:tasks.json'\n";
    assert_eq!((refused.code, &*refused.out), (0, words), "{refused:?}");
    holder.signal(Signal::SIGTERM);
    holder.wait(PATIENCE);
    let taken = workspace.it("with lock.acquire('x'): print(lock.status()['we_hold_it'])");
    assert_eq!((&*taken.out, &*taken.err), ("True\n", ""));
    assert!(!workspace.lock().exists());
}

#[test]
fn ours_waits_for_its_and_names_it() {
    let Some(workspace) = Workspace::new() else {
        return;
    };
    let mut holder = workspace.its_holder();
    let (text, status) = (workspace.text(), workspace.status());
    assert_eq!(
        (&status["locked"], &status["is_stale"]),
        (&true.into(), &false.into())
    );
    assert_eq!(workspace.ours(&["check", TARGET]).code, 4);
    let refused = workspace.ours(&["hold", TARGET, "--wait", "0.3", "--", "true"]);
    let words = "Could not acquire lock within 0.3s. Held by session 'old' for operation 'write:state.json'";
    assert!(
        refused.code == 4 && refused.err.contains(words),
        "{refused:?}"
    );
    assert_eq!(workspace.text(), text, "untouched");
    let waiting = Running::start(
        workspace
            .scene
            .beadlock(&["hold", TARGET, "--", "echo", "mine"]),
    );
    holder.signal(Signal::SIGKILL);
    holder.wait(PATIENCE);
    let taken = Ended::from(waiting.finish(PATIENCE));
    assert!(taken.code == 0 && taken.out == "mine\n", "{taken:?}");
    assert!(
        taken.err.contains("[LOCK] Breaking stale lock: process "),
        "{taken:?}"
    );
}

#[test]
fn each_breaks_what_the_other_has_left_dead_in_the_same_words() {
    let Some(workspace) = Workspace::new() else {
        return;
    };
    let holder = workspace.holder(&[]);
    let pid = workspace.record()["pid"].to_string();
    holder.signal(Signal::SIGKILL);
    drop(holder);
    let words = format!("[LOCK] Breaking stale lock: process {pid} is dead\n");
    wait_until(PATIENCE, "the end of our command", || {
        workspace.it("print(lock.status()['is_stale'])").out == "True\n"
    });
    assert_eq!(workspace.status()["is_stale"], true);
    let taken = workspace.it("lock.acquire_blocking('x')");
    assert_eq!((taken.code, &*taken.err), (0, &*words));
    let pid = workspace.record()["pid"].to_string();
    assert_eq!(
        workspace.status()["stale_reason"],
        format!("process {pid} is dead")
    );
    let check = workspace.ours(&["check", TARGET]);
    assert_eq!(
        (check.code, &*check.out),
        (
            0,
            &*format!("[LOCK] Breaking stale lock: process {pid} is dead\n")
        )
    );
    assert!(!workspace.lock().exists());
}

#[test]
fn each_calls_the_others_too_old_in_the_same_words() {
    let Some(workspace) = Workspace::new() else {
        return;
    };
    let old = "lock._write_lock('x')\nold = json.loads(lock.lock_path.read_text())\n\
               from datetime import datetime, timedelta, timezone\n\
               old.update(pid=os.getppid(), hostname=HOST, acquired_at=(datetime.now(timezone.utc) - timedelta(seconds=AGE)).isoformat())\n\
               lock.lock_path.write_text(json.dumps(old))";
    for (host, age, start, end) in [
        ("old['hostname']", "41.2", "lock is 4", "s old (>30s)"),
        (
            "'elsewhere'",
            "12",
            "cross-machine lock from elsewhere, 1",
            "s old",
        ),
    ] {
        // A process that lives. Both believe the age at the first look: the document never refreshes.
        let written = workspace.it(&old.replace("HOST", host).replace("AGE", age));
        assert_eq!(written.code, 0, "{written:?}");
        let (status, ours) = workspace.both();
        assert_eq!(
            (&status["is_stale"], &ours["is_stale"]),
            (&true.into(), &true.into()),
            "{ours}"
        );
        assert_eq!(workspace.ours(&["check", TARGET, "--dry-run"]).code, 0);
        let reason = status["stale_reason"].as_str().unwrap_or_default();
        assert!(
            reason.starts_with(start) && reason.ends_with(end),
            "{reason}"
        );
        let broken = workspace.ours(&["hold", TARGET, "--", "true"]);
        let line = broken
            .err
            .lines()
            .find(|line| line.contains("[LOCK] Breaking stale lock: "))
            .unwrap_or_default();
        assert!(line.contains(start) && line.ends_with(end), "{broken:?}");
    }
}

/// Its patience is cut to a little more than the time between two refreshes of ours.
#[test]
fn a_living_hold_is_never_too_old_for_it() {
    let Some(workspace) = Workspace::new() else {
        return;
    };
    let holder = workspace.holder(&[]);
    let looks = workspace.it(
        "lock_manager.MemoryLock.STALE_TIMEOUT_SECONDS = 5\nseen = set()\n\
         for _ in range(70):\n    status = lock.status()\n    seen.add((status['is_stale'], status['holder']['acquired_at']))\n    \
         time.sleep(0.1)\nprint(len(seen), any(stale for stale, _ in seen))",
    );
    let (count, stale) = looks.out.trim_end().split_once(' ').expect("two words");
    assert!(
        count.parse::<u32>().is_ok_and(|count| count >= 3),
        "it was refreshed: {looks:?}"
    );
    assert_eq!(stale, "False");
    drop(holder);
}

#[test]
fn its_break_of_ours_is_a_loss_and_its_lock_stays() {
    let Some(workspace) = Workspace::new() else {
        return;
    };
    let holder = workspace.holder(&["--kill-after", "1s"]);
    let broken = workspace
        .it("lock_manager.MemoryLock.STALE_TIMEOUT_SECONDS = -1\nlock.acquire_blocking('x')");
    assert!(
        broken.code == 0 && broken.err.contains("[LOCK] Breaking stale lock: lock is "),
        "{broken:?}"
    );
    let text = workspace.text();
    let ended = Ended::from(holder.finish(PATIENCE));
    assert!(
        ended.code == 9 && ended.err.contains("old's now"),
        "{ended:?}"
    );
    assert_eq!(workspace.text(), text, "and it was not touched");
}

/// Both read what the other calls no lock.
#[test]
fn what_is_no_object_is_no_lock_to_both() {
    let Some(workspace) = Workspace::new() else {
        return;
    };
    for none in ["", "{\"pid\": 1"] {
        fs::write(workspace.lock(), none).expect("write");
        assert_eq!(workspace.status(), serde_json::json!({"locked": false}));
    }
}
