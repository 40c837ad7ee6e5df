//! One of many databases: its claims, and what its log says.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Dice, lock_text, this_host, wait_until};

pub struct Database {
    dir: PathBuf,
}

impl Database {
    /// A new one below a directory.
    pub fn new(ground: &Path, number: usize) -> Self {
        let dir = ground.join(format!("{:02}/{number}/.beads", number % 100));
        fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    /// It has had a cycle.
    pub fn has_begun(&self) -> bool {
        self.count("Sync cycle complete") > 0
    }

    /// How often its log says this.
    pub fn count(&self, what: &str) -> usize {
        let log = fs::read_to_string(self.dir.join("daemon.log")).unwrap_or_default();
        log.lines().filter(|line| line.contains(what)).count()
    }

    /// Is claimed, changes, is seen to be skipped, and is released. Returns how long after that it has resumed, with a
    /// cycle.
    ///
    /// # Panics
    ///
    /// When it is not skipped, or not resumed within `bound`.
    pub fn is_claimed_and_resumes(&self, dice: &mut Dice, bound: Duration) -> Duration {
        let lock = self.dir.join(".exclusive-lock");
        let skips = self.count("Skipping database (locked by soak)");
        let text = lock_text("soak", i64::from(std::process::id()), &this_host());
        fs::write(self.dir.join("claim"), text).unwrap();
        fs::rename(self.dir.join("claim"), &lock).unwrap();
        fs::write(self.dir.join("issues.jsonl"), "changed\n").unwrap();
        let what = format!("{} is skipped", self.dir.display());
        wait_until(PATIENCE, &what, || {
            self.count("Skipping database (locked by soak)") > skips
        });
        dice.pause(0, 200);
        let before = self.count("Sync cycle complete");
        let released = Instant::now();
        fs::remove_file(&lock).unwrap();
        wait_until(bound, &format!("{} resumes", self.dir.display()), || {
            self.count("Sync cycle complete") > before
        });
        released.elapsed()
    }
}
