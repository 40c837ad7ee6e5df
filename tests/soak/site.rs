//! The databases, and the ground beside them where the witnesses meet.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use beadlock_tests::{Dice, Scene};

/// Served by the steady agent, by both, by the one that is killed.
pub const GROUPS: [(&str, usize); 3] = [("a", 110), ("b", 20), ("c", 70)];
/// Served by a loop that looks at the lock once and then works.
pub const NAIVE: (&str, usize) = ("naive", 2);

/// A database by its directory `.beads`.
#[derive(Debug, Clone)]
pub struct Database {
    /// `a-017`, as the witness calls it.
    pub name: String,
    pub beads: PathBuf,
}

impl Database {
    fn new(top: &Path, group: &str, number: usize) -> Self {
        let beads = top.join(group).join(format!("{number:03}")).join(".beads");
        fs::create_dir_all(&beads).expect("create a database");
        fs::write(beads.join("issues.jsonl"), "{\"id\":\"bd-1\"}\n").expect("write issues.jsonl");
        Self {
            name: format!("{group}-{number:03}"),
            beads,
        }
    }

    pub fn lock(&self) -> PathBuf {
        self.beads.join(".exclusive-lock")
    }

    /// The directory above.
    pub fn top(&self) -> &Path {
        self.beads.parent().expect("a directory above .beads")
    }

    /// A change that asks for a cycle.
    pub fn edit(&self) {
        let file = fs::File::options()
            .append(true)
            .open(self.beads.join("issues.jsonl"));
        file.and_then(|mut file| file.write_all(b"{\"by\":\"edit\"}\n"))
            .expect("edit issues.jsonl");
    }

    /// Neither locked nor with anything that a cycle has not seen.
    pub fn is_synced(&self, ground: &Path) -> bool {
        let there = fs::metadata(self.beads.join("issues.jsonl"))
            .expect("issues.jsonl")
            .len();
        let noted =
            fs::read_to_string(ground.join(format!("{}.synced", self.name))).unwrap_or_default();
        !self.lock().exists() && noted == there.to_string()
    }

    /// What is in it that belongs to nobody when all is over.
    pub fn left(&self) -> Vec<String> {
        let names = fs::read_dir(&self.beads).expect("list .beads").flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let is_own = |name: &str| name == "issues.jsonl" || name.starts_with("daemon.log");
        names
            .filter(|name| !is_own(name))
            .map(|name| format!("{}: {name}", self.name))
            .collect()
    }
}

pub struct Site {
    pub scene: Scene,
    pub seed: u64,
    /// The 200.
    pub databases: Vec<Database>,
    pub naive: Vec<Database>,
    over: AtomicBool,
    counts: Mutex<BTreeMap<String, usize>>,
    wrong: Mutex<Vec<String>>,
}

impl Site {
    pub fn new(seed: u64) -> Self {
        let scene = Scene::new();
        fs::create_dir(scene.path().join("ground")).expect("create the ground");
        let group = |(group, count): (&'static str, usize)| {
            let top = scene.path().to_path_buf();
            (0..count).map(move |number| Database::new(&top, group, number))
        };
        let (databases, naive) = (
            GROUPS.into_iter().flat_map(group).collect(),
            group(NAIVE).collect(),
        );
        Self {
            scene,
            seed,
            databases,
            naive,
            over: AtomicBool::new(false),
            counts: Mutex::default(),
            wrong: Mutex::default(),
        }
    }

    pub fn ground(&self) -> PathBuf {
        self.scene.path().join("ground")
    }

    /// The command line of a witness in a database.
    pub fn witness(&self, role: &str, database: &Database, millis: u64) -> Vec<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let (ground, beads) = (path(&self.ground()), path(&database.beads));
        vec![
            WITNESS.to_owned(),
            role.to_owned(),
            ground,
            beads,
            millis.to_string(),
        ]
    }

    /// A program of several words.
    pub fn command(&self, words: &[String]) -> Command {
        let mut command = self.scene.command(&words[0]);
        command.args(&words[1..]);
        command
    }

    pub fn dice(&self, name: &str) -> Dice {
        Dice::new(self.seed, name)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub fn count(&self, what: impl Into<String>) {
        *self.counts().entry(what.into()).or_default() += 1;
    }

    pub fn counts(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.counts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Something that must not be.
    pub fn wrong(&self, what: impl Into<String>) {
        self.wrongs().push(what.into());
    }

    pub fn wrongs(&self) -> MutexGuard<'_, Vec<String>> {
        self.wrong
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub const WITNESS: &str = env!("CARGO_BIN_EXE_witness");
