//! The lock directory of a run, and the commands that are run under the lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_tests::{Ended, Scene, run};
use serde_json::Value;

/// In seconds: the least that there is.
pub const TTL: &str = "1";

/// Where it all happens.
pub struct Place<'s> {
    pub scene: &'s Scene,
    pub name: &'static str,
}

/// What a command does between its first line in the log and its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Nothing, or hardly anything.
    Short,
    /// Goes on for longer than the TTL.
    Long,
    /// Does not end by itself, nor does what it has started.
    Endless,
    /// Does not end by itself, and has started nothing: beadlock lets go when the command has ended, whatever that leaves.
    Alone,
}

/// The commands' own log, and their own witness: a file that each locks for its life, and that its children inherit.
pub const BEGINS: &str =
    r#"exec 9>>inside; flock -n 9 || echo "overlap $1 $$" >>log; echo "begin $1 $$" >>log"#;
pub const ENDS: &str = r#"echo "end $1 $$" >>log"#;

impl Work {
    fn script(self) -> String {
        match self {
            Self::Short => format!("{BEGINS}; {ENDS}"),
            Self::Long => format!("{BEGINS}; sleep 2.5; {ENDS}"),
            Self::Endless => format!("{BEGINS}; sleep 60; {ENDS}"),
            Self::Alone => format!("{BEGINS}; exec sleep 60"),
        }
    }
}

impl<'s> Place<'s> {
    /// Below the scene, with room for temporary files there.
    pub fn in_scene(scene: &'s Scene, name: &'static str) -> Self {
        for dir in ["locks", "tmp"] {
            fs::create_dir(scene.path().join(dir)).expect("create a directory");
        }
        Self { scene, name }
    }

    /// `beadlock hold tower:NAME --force-lock` for `id`, with this work.
    pub fn hold(&self, id: &str, work: Work) -> Command {
        let target = format!("tower:{}", self.name);
        let mut words = vec!["hold", "-q", &target, "--force-lock", "--wait", "120s", "--ttl", TTL];
        words.extend([
            "--request-id",
            id,
            "--actor",
            "stress",
            "--intent-name",
            "i",
            "--intent-version",
            "1",
        ]);
        let script = work.script();
        words.extend(["--", "sh", "-c", &script, "sh", id]);
        let mut command = self.scene.beadlock(&words);
        command.env("BEADLOCK_LOCK_DIR", self.locks()).env("TMPDIR", self.scene.path().join("tmp"));
        command
    }

    pub fn locks(&self) -> PathBuf {
        self.scene.path().join("locks")
    }

    pub fn lock(&self) -> PathBuf {
        self.locks().join(format!("{}.lock", self.name))
    }

    pub fn log(&self) -> PathBuf {
        self.scene.path().join("log")
    }

    /// A command of this id has begun.
    pub fn has_begun(&self, id: &str) -> bool {
        fs::read_to_string(self.log()).is_ok_and(|log| log.contains(&format!("begin {id} ")))
    }

    /// What the lock says.
    pub fn record(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.lock()).ok()?).ok()
    }

    /// Whose locks were stolen, by the audit.
    pub fn stolen(&self) -> Vec<String> {
        let audit = fs::read_to_string(self.scene.path().join("audit.jsonl")).expect("an audit");
        let events = audit.lines().map(|line| serde_json::from_str::<Value>(line).expect("an event a line"));
        let of = |event: Value| event["previous_lock"]["request_id"].as_str().unwrap_or_default().to_owned();
        events.filter(|event| event["event"] == "lock_stolen").map(of).collect()
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
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
