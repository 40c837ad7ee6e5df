//! Which lock of the directory `.beads` a test is about: the same is tried with each of them, and nothing but its
//! name, its record and its target differs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use beadlock_checker::Place;
use serde_json::{Value, json};

use crate::{Ended, Scene, lock_text};

/// A lock of that directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The database's.
    Beads,
    /// The directory's own (`memory:`), which is judged by its age too.
    Memory,
    /// One at a path of its own (`lock:`): the database's rule, without cycles. Tools that embed a lock have it too.
    Path,
}

/// When the locks of a directory were acquired that no test is to find too old: a time in the future is not an age.
const NEVER_OLD: &str = "9999-01-01T00:00:00Z";

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Beads, Self::Memory, Self::Path];

    /// The one that is called so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| format!("{kind:?}") == name)
    }

    /// What its files are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Beads => ".exclusive-lock",
            Self::Memory => ".lock",
            Self::Path => "work.lock",
        }
    }

    /// The lock file.
    pub fn lock(self, scene: &Scene) -> PathBuf {
        scene.beads().join(self.name())
    }

    /// Where it is for a moment while it is removed.
    pub fn aside(self, scene: &Scene) -> PathBuf {
        scene.beads().join(format!("{}.aside", self.name()))
    }

    /// Where the checker looks for it in `dir`.
    pub fn place(self, dir: &Path) -> Place {
        match self {
            Self::Beads => Place::beads(dir),
            Self::Memory => Place::memory(dir),
            Self::Path => {
                Place::named(dir, OsStr::new(self.name())).expect("a file may be called so")
            }
        }
    }

    /// What is there, lossily; empty where there is no lock.
    pub fn text(self, scene: &Scene) -> String {
        let bytes = fs::read(self.lock(scene)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The holder, by its record alone.
    pub fn holder(self, scene: &Scene) -> Option<String> {
        let record: Value = serde_json::from_str(&self.text(scene)).ok()?;
        record[self.keys()[0]].as_str().map(str::to_owned)
    }

    /// What every record of it says; the holder first.
    pub fn keys(self) -> [&'static str; 4] {
        match self {
            Self::Beads | Self::Path => ["holder", "pid", "hostname", "started_at"],
            Self::Memory => ["session_id", "pid", "hostname", "acquired_at"],
        }
    }

    /// A record as another tool writes it, which only its process can make stale.
    pub fn record(self, holder: &str, pid: i64, hostname: &str) -> String {
        match self {
            Self::Beads | Self::Path => lock_text(holder, pid, hostname),
            Self::Memory => json!({
                "pid": pid, "session_id": holder, "acquired_at": NEVER_OLD, "hostname": hostname, "operation": "test",
            })
            .to_string(),
        }
    }

    /// The option of a claim that says who has it.
    pub fn holder_option(self) -> &'static str {
        match self {
            Self::Beads | Self::Path => "--holder",
            Self::Memory => "--session-id",
        }
    }

    /// What a command calls it: the database is found, every other one has to be named.
    pub fn target(self) -> Option<&'static str> {
        match self {
            Self::Beads => None,
            Self::Memory => Some("memory:.beads"),
            Self::Path => Some("lock:.beads/work.lock"),
        }
    }

    /// The words of a command for it.
    pub fn words<'w>(self, words: &[&'w str]) -> Vec<&'w str> {
        let mut words = words.to_vec();
        if let Some(target) = self.target() {
            words.insert(1, target);
        }
        words
    }

    /// `beadlock WORDS` for it, to its end.
    #[track_caller]
    pub fn run(self, scene: &Scene, words: &[&str]) -> Ended {
        scene.run(&self.words(words))
    }
}
