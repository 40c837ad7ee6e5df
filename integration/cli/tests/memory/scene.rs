//! A directory `memory`, and locks in it as other programs write them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use beadlock_core::facts;
use beadlock_core::record::StartedAt;
use beadlock_testkit::{Ended, Running, Scene, this_host, until};
use serde_json::{Value, json};

pub const TARGET: &str = "memory:memory";

pub struct Memory {
    pub scene: Scene,
}

impl Memory {
    pub fn new() -> Self {
        let memory = Self {
            scene: crate::a_scene(),
        };
        fs::create_dir(memory.dir()).unwrap();
        memory
    }

    pub fn dir(&self) -> PathBuf {
        self.scene.file("memory")
    }

    pub fn lock(&self) -> PathBuf {
        self.dir().join(".lock")
    }

    /// The names in the directory.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.scene.beadlock(args)
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ended {
        self.scene.run(args)
    }

    #[track_caller]
    pub fn hold(&self, options: &[&str], script: &str) -> Ended {
        self.run(&[&["hold", TARGET][..], options, &["--", "sh", "-c", script]].concat())
    }

    /// Same as `hold`, but returns once the command runs. The command writes its PID into `pid` first.
    #[track_caller]
    pub fn holding(&self, options: &[&str], script: &str) -> Running {
        let _ = fs::write(self.scene.file("pid"), "");
        let script = format!("echo $$ >pid; {script}");
        let args = [&["hold", TARGET][..], options, &["--", "sh", "-c", &script]].concat();
        let mut running = Running::apart(self.command(&args));
        until("the command runs", || {
            assert!(!running.has_ended(), "{}", running.err());
            self.scene.read("pid").ends_with('\n')
        });
        running
    }

    /// The record that is there.
    #[track_caller]
    pub fn record(&self) -> Value {
        parsed(&fs::read_to_string(self.lock()).unwrap())
    }

    /// A lock as another program writes it: of this process, so many milliseconds old, on this host.
    pub fn write(&self, age: i64) {
        self.write_as(std::process::id().into(), age, &this_host());
    }

    pub fn write_as(&self, pid: i64, age: i64, host: &str) {
        let record = json!({
            "pid": pid, "session_id": "main", "acquired_at": millis_ago(age), "hostname": host, "operation": "write:tasks.json",
        });
        self.put(&serde_json::to_string_pretty(&record).unwrap());
    }

    pub fn put(&self, text: &str) {
        fs::write(self.lock(), text).unwrap();
    }
}

#[track_caller]
pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The time so many milliseconds ago, in the form of Python's `isoformat`.
pub fn millis_ago(millis: i64) -> String {
    let then = StartedAt(facts::now().0 - jiff::SignedDuration::from_millis(millis));
    then.to_string().replace('Z', "+00:00")
}

/// Checks of an ended command's stdout, as [`Ended::expect`] checks its stderr.
pub trait Says {
    /// Asserts that the command ended with `code`, and that its stdout has all of `words`.
    fn says(self, code: i32, words: &[&str]) -> Self;
}

impl Says for Ended {
    #[track_caller]
    fn says(self, code: i32, words: &[&str]) -> Self {
        let ended = self.expect(code, &[]);
        for word in words {
            assert!(ended.out.contains(word), "no {word:?} in {ended:?}");
        }
        ended
    }
}
