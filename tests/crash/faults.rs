//! A system call that fails: a clear error and the right exit code, and no claim is believed that is not on disk.
//!
//! strace makes the n-th call of a kind fail, counted from the first call that names the database on: what comes before
//! is the dynamic loader's. In `make test` a part of the faults; `make syscalls` tries each one.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use beadlock_tests::{Ended, Running, Scene, binaries, reap_all, run, tool};
use serde_json::Value;

use super::every_call::{Chosen, failures};
use super::power_cut::calls;
use super::{COMMAND, Case};

/// The calls, and with which errors they can fail.
const FAULTS: [(&str, &[&str]); 17] = [
    (
        "openat",
        &["EACCES", "EMFILE", "ENOSPC", "EIO", "EROFS", "EINTR"],
    ),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO", "EINTR"]),
    ("write", &["ENOSPC", "EIO", "EINTR"]),
    ("fchmod", &["EIO", "EROFS", "EACCES"]),
    ("fdatasync", &["EIO", "ENOSPC", "EROFS"]),
    ("linkat", &["ENOSPC", "EIO", "EROFS", "EACCES"]),
    ("renameat2", &["ENOSPC", "EIO", "EROFS", "EACCES"]),
    ("unlinkat", &["EIO", "EROFS", "EACCES"]),
    ("fcntl", &["EINTR", "ENOLCK", "EACCES", "EMFILE"]),
    ("flock", &["EINTR", "ENOLCK", "EIO"]),
    ("fstat", &["EIO", "EACCES"]),
    ("newfstatat", &["EIO", "EACCES"]),
    ("statx", &["EIO", "EACCES"]),
    ("statfs", &["EIO", "EACCES"]),
    ("getdents64", &["EIO"]),
    ("ftruncate", &["EIO", "EROFS"]),
];
/// What docs/design.md#exit-codes knows, without the command line's; 126: the command cannot be executed.
const CODES: [i32; 7] = [0, 1, 4, 5, 9, 125, 126];
/// What an error names, one of them.
const CULPRITS: [&str; 14] = [
    ".beads",
    "/proc",
    "stdout",
    "cannot be executed",
    "or a directory above it cannot be looked at",
    "the command's process",
    "process that keeps the gate",
    "the keeper",
    "the watchdog",
    "Could not acquire lock within",
    "Resource lock held by PID",
    "the heartbeats",
    "to wait with",
    "the answer could not be printed",
];

/// A kind of call, its error, and the how many-th of its kind it is.
struct Fault {
    call: &'static str,
    error: &'static str,
    at: usize,
}

/// The command was executed, wherever its program is.
fn has_run(trace: &str) -> bool {
    let path = format!("/{COMMAND}\"");
    let is_it = |words: &str| {
        words
            .split(", ")
            .next()
            .is_some_and(|program| program.ends_with(&path))
    };
    calls(trace)
        .iter()
        .any(|(_, call)| call.strip_prefix("execve(").is_some_and(is_it))
}

impl Case {
    /// Runs it under strace with these words beside those `others`, and its trace goes to the file `trace`.
    fn traced(
        &self,
        scene: &Scene,
        others: &[Running],
        strace: &Path,
        options: &[&str],
    ) -> (Ended, String) {
        let words = (self.words)(scene, others);
        let mut command = scene.command(strace);
        // It would wait for a keeper.
        command.args((!self.keeper).then_some("-f"));
        command
            .args(["-o", "trace"])
            .args(options)
            .arg((self.program)());
        // Said too: the words for people are looked at.
        command.args(words.iter().filter(|word| *word != "-q"));
        let ended = Ended::from(run(command));
        let trace = fs::read_to_string(scene.path().join("trace")).unwrap_or_default();
        let with_pid = |line: &str| format!("{}{line}\n", if self.keeper { "1 " } else { "" });
        (ended, trace.lines().map(with_pid).collect())
    }

    /// What must hold whatever has failed.
    fn honest(&self, scene: &Scene, ended: &Ended, at: &str) {
        assert!(
            CODES.contains(&ended.code) || ended.code == self.code,
            "{at}"
        );
        assert!(!ended.err.contains("panicked"), "{at}");
        if self.is_tool {
            self.answers(ended, at);
        }
        // One line that names what it failed at; those of a check or a cycle that failed are the contract's.
        let is_clear = |line: &str| {
            line.contains("Skipping database (")
                || line.contains("Skipping (")
                || line.contains("Sync cycle failed: ")
                || ["beadlock: error: ", "beadlock-agent: "]
                    .iter()
                    .any(|start| line.starts_with(start))
                    && CULPRITS.iter().any(|culprit| line.contains(culprit))
        };
        let is_clear = |line: &str| {
            let is_answer = self.is_tool && line.starts_with("{\"ok\":false");
            is_clear(line) || is_answer && CULPRITS.iter().any(|culprit| line.contains(culprit))
        };
        let said = [&ended.err, &ended.out, &scene.log()].map(|text| text.lines().any(is_clear));
        // Whose only words were not taken has said it by its exit code.
        let is_mute = at.starts_with("inject=write:") && ended.code == self.code;
        let is_well = ended.code == self.code && !self.is_refused();
        assert!(
            is_well || ended.code == 0 || is_mute || said.contains(&true),
            "{at}: no clear error"
        );
        let text = self.kind.text(scene);
        let is_whole = serde_json::from_str::<Value>(&text).is_ok();
        assert!(
            !self.kind.lock(scene).exists() || is_whole,
            "{at}: not whole"
        );
    }

    /// A tool's answer: one envelope, whose error is the one that its exit code is for. A tool that dies of a signal
    /// has none.
    fn answers(&self, ended: &Ended, at: &str) {
        let is_told = ended.err.contains("the answer could not be printed");
        if ended.code > 128 || is_told {
            assert!(
                ended.out.is_empty() || is_told,
                "{at}: it answers, and dies of a signal"
            );
            return;
        }
        let line = ended
            .out
            .strip_suffix('\n')
            .filter(|line| !line.contains('\n'));
        let envelope: Option<Value> = line.and_then(|line| serde_json::from_str(line).ok());
        let envelope = envelope.unwrap_or_else(|| panic!("{at}: no envelope"));
        let code = match envelope["error"]["code"].as_str() {
            None => 0,
            Some("LOCK_HELD" | "DRAIN_TIMEOUT") => 4,
            Some("LOCK_UNREADABLE" | "LOCK_STALE") => 5,
            Some("LOCK_LOST") => 9,
            Some("IO" | "NOT_PERMITTED") => 1,
            Some(other) => panic!("{at}: {other} is no code of the contract"),
        };
        assert_eq!(
            (ended.code, &envelope["ok"]),
            (code, &Value::Bool(code == 0)),
            "{at}"
        );
        assert!(envelope["data"].is_null() || code == 0, "{at}");
    }

    /// Every fault from the first call on that names the database: what comes before is the dynamic loader's.
    fn faults(&self, strace: &Path) -> Vec<Fault> {
        let scene = Scene::new();
        let (ended, trace) = self.traced(&scene, &(self.before)(&scene), strace, &[]);
        assert_eq!(ended.code, self.code, "{ended:?}");
        let has_command = trace
            .lines()
            .next()
            .is_some_and(|program| program.contains(COMMAND));
        assert_eq!(
            has_run(&trace),
            has_command && self.code == 0,
            "a command that ran is not seen, or another is: {trace}"
        );
        let begun = trace.lines().filter_map(|line| {
            let (pid, call) = line.split_once(' ')?;
            Some((pid, call.trim_start().split_once('(')?))
        });
        let (program, _) = begun.clone().next().expect("a program");
        // strace counts for each thread and process by itself.
        let (mut first, mut last) = (HashMap::new(), HashMap::new());
        let mut is_named = false;
        for (pid, (call, words)) in begun {
            is_named |= pid == program && call != "execve" && words.contains(".beads");
            let of_this: &mut usize = last.entry((call, pid)).or_default();
            *of_this += 1;
            if pid == program && !is_named {
                first.insert(call, *of_this);
            }
        }
        let of = |call: &str| {
            let counts = last.iter().filter(|((name, _), _)| *name == call);
            first.get(call).map_or(1, |before| before + 1)
                ..=counts.map(|(_, count)| *count).max().unwrap_or(0)
        };
        let errors = FAULTS
            .iter()
            .flat_map(|(call, errors)| errors.iter().map(move |error| (*call, *error)));
        errors
            .flat_map(|(call, error)| of(call).map(move |at| Fault { call, error, at }))
            .collect()
    }

    /// How many faults there were, and after how many of them not all held; None where strace is missing.
    pub fn fails_at_every_call(&self, chosen: &Chosen) -> Option<(usize, usize)> {
        let strace = tool("strace")?;
        let faults = self.faults(&strace);
        let (mut injected, mut failed) = (0, 0);
        for fault in chosen.of(faults.len()).map_while(|at| faults.get(at)) {
            reap_all();
            failed += failures(|| injected += usize::from(self.fails_at(&strace, fault)));
        }
        Some((injected, failed))
    }

    /// False when this run had no such call.
    fn fails_at(&self, strace: &Path, fault: &Fault) -> bool {
        let Fault { call, error, at } = fault;
        let inject = format!("inject={call}:error={error}:when={at}");
        let scene = Scene::new();
        let log = scene.beads().join("daemon.log").display().to_string();
        let mut options = vec!["-e", inject.as_str()];
        if *call == "write" && (self.program)() == binaries::agent() {
            // Its threads wake each other with a write that cannot fail.
            options.extend(["-P", &log]);
        }
        let others = (self.before)(&scene);
        let (kind, lock) = (self.kind, self.kind.text(&scene));
        let (ended, trace) = self.traced(&scene, &others, strace, &options);
        // The threads of an executor, too; but its program shows no file by which to tell these writes from the others.
        let is_a_wake =
            self.is_tool && *call == "write" && ended.err.contains("failed to wake I/O driver");
        if is_a_wake || !trace.contains("(INJECTED)") {
            return false;
        }
        let what = format!(
            "{inject}: {ended:?}, beside {:?}, {:?}",
            scene.names(),
            kind.text(&scene)
        );
        fs::write(scene.path().join("told"), &ended.out).expect("write what it has told");
        self.honest(&scene, &ended, &what);
        if self.claims && ended.code != self.code {
            // The command of a claim that failed has not run, and so nothing of it is there.
            assert!(
                !has_run(&trace) || ended.code == 9,
                "{what}: it ran all the same"
            );
            let text = kind.text(&scene);
            let is_ours = !text.is_empty() && !text.contains("long gone");
            assert!(!is_ours, "{what}: a claim that nobody believes");
        }
        if self.claims && ended.code == self.code {
            let name = format!("\"{}\"", kind.name());
            let is_link = |call: &str| call.starts_with("linkat(") && call.contains(&name);
            let linked = calls(&trace).iter().any(|(_, call)| is_link(call));
            assert!(
                linked || kind.lock(&scene).exists(),
                "{what}: believed, and not on disk"
            );
        }
        if self.is_refused() {
            assert!(
                ended.code != 0 && !has_run(&trace),
                "{what}: a live lock did not keep it out"
            );
            assert_eq!(kind.text(&scene), lock, "{what}: it touched a live lock");
        }
        if !self.claims && ended.code == 0 {
            assert!(
                !kind.lock(&scene).exists(),
                "{what}: it said that the way is free, and the lock is there"
            );
        }
        // The others live until here: a release that lied has left a live lock.
        self.recovers(&scene, others, &what);
        true
    }
}
