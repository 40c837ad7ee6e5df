//! The lock directory of a run, and the commands that are run under the lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_tests::{Ended, Scene, run};
use serde_json::Value;

use super::lock_kind::LockKind;

/// Where it all happens.
pub struct Place<'s> {
    pub scene: &'s Scene,
    pub lock_kind: LockKind,
}

/// What a command does between its first line in the log and its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nothing, or hardly anything.
    Short,
    /// Goes on for longer than the lock is valid without being kept up.
    Long,
    /// Does not end by itself, nor does what it has started.
    Endless,
    /// Ends by itself, in its own time: of a command whose beadlock is killed, and which works on.
    Left,
    /// Does not end by itself, and has started nothing: beadlock lets go when the command has ended, whatever that
    /// leaves.
    Alone,
}

/// The commands' own log, and their own witness: a file that each locks for its life, and that its children inherit.
pub const BEGINS: &str =
    r#"exec 9>>inside; flock -n 9 || echo "overlap $1 $$" >>log; echo "begin $1 $$" >>log"#;
pub const ENDS: &str = r#"echo "end $1 $$" >>log"#;

impl Work {
    fn script(self, lock_kind: LockKind) -> String {
        match self {
            Self::Short => format!("{BEGINS}; {ENDS}"),
            Self::Long => format!("{BEGINS}; sleep {}; {ENDS}", lock_kind.long()),
            Self::Endless => format!("{BEGINS}; sleep 60; {ENDS}"),
            Self::Left => format!("{BEGINS}; sleep 1; {ENDS}"),
            Self::Alone => format!("{BEGINS}; exec sleep 60"),
        }
    }

    /// For how long a tool works, in milliseconds.
    fn millis(self) -> u64 {
        match self {
            Self::Short => 0,
            Self::Long => 500,
            Self::Endless | Self::Left | Self::Alone => 60_000,
        }
    }
}

impl<'s> Place<'s> {
    /// Below the scene, with room for temporary files there.
    pub fn in_scene(scene: &'s Scene, lock_kind: LockKind) -> Self {
        for dir in ["locks", "tmp"] {
            fs::create_dir(scene.path().join(dir)).expect("create a directory");
        }
        Self { scene, lock_kind }
    }

    /// `beadlock hold` for `id`, with this work; or a tool that works for itself.
    pub fn hold(&self, id: &str, work: Work) -> Command {
        if self.lock_kind == LockKind::Tool {
            let mut command = self.scene.command(env!("CARGO_BIN_EXE_embedded"));
            command
                .args(self.lock_kind.hold(id))
                .arg(format!("{id} {}", work.millis()));
            return command;
        }
        let script = work.script(self.lock_kind);
        let words = [
            &self.lock_kind.hold(id)[..],
            &["--", "sh", "-c", &script, "sh", id],
        ]
        .concat();
        let mut command = self.scene.beadlock(&words);
        command
            .env("BEADLOCK_LOCK_DIR", self.locks())
            .env("TMPDIR", self.scene.path().join("tmp"));
        command
    }

    pub fn locks(&self) -> PathBuf {
        self.scene.path().join("locks")
    }

    pub fn lock(&self) -> PathBuf {
        self.locks().join(self.lock_kind.file())
    }

    pub fn log(&self) -> PathBuf {
        self.scene.path().join("log")
    }

    /// A command of this id has begun.
    pub fn has_begun(&self, id: &str) -> bool {
        fs::read_to_string(self.log()).is_ok_and(|log| log.contains(&format!("begin {id} ")))
    }

    /// The process that has the lock for `id`, as the lock says. A tool's is the tool itself, which was started as
    /// `holder`.
    pub fn process_of(&self, id: &str, holder: i32) -> Option<i32> {
        let record: Value = serde_json::from_slice(&fs::read(self.lock()).ok()?).ok()?;
        let pid = i32::try_from(record["pid"].as_i64()?).ok()?;
        let is_its = match self.lock_kind {
            LockKind::Tool => pid == holder,
            _ => self.lock_kind.id_of(&record) == id,
        };
        is_its.then_some(pid)
    }

    /// Whose locks were taken because they were stale, by the audit. Tools have none.
    pub fn taken(&self) -> Vec<String> {
        if self.lock_kind == LockKind::Tool {
            return Vec::new();
        }
        let audit = fs::read_to_string(self.scene.path().join("audit.jsonl")).expect("an audit");
        let events = audit
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("an event a line"));
        let of = |event: Value| self.lock_kind.id_of(&event["previous_lock"]).to_owned();
        events
            .filter(|event| event["event"] == self.lock_kind.taken())
            .map(of)
            .collect()
    }

    /// The last one may have been killed: its lock is stale in a moment, and goes.
    #[track_caller]
    pub fn take_what_is_left(&self) {
        let ended = Ended::from(run(self.hold("the-last-one", Work::Short)));
        assert_eq!(ended.code, 0, "{ended:?}");
    }

    /// The files in the lock directory.
    pub fn names(&self) -> Vec<String> {
        names(&self.locks())
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("list the directory").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
