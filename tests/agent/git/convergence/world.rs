//! The participants: clones with an agent each, their remote, and for the people a clone `c` without one.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use beadlock_tests::Ended;
use beadlock_tests::wait::PATIENCE;

use super::claims;
use super::daemons::{Daemon, Kind};
use super::ledger::Ledger;
use super::people;
use crate::bench::Bench;
use beadlock_tests::Dice;

/// All clones. In the world of people the last of them has no daemon.
pub const ALL: [char; 3] = ['a', 'b', 'c'];

pub struct World {
    pub bench: Bench,
    pub seed: u64,
    pub daemons: Vec<Daemon>,
    ledger: Mutex<Ledger>,
    over: AtomicBool,
}

impl World {
    /// Of people: `a` and `b` have a daemon.
    pub fn new(kind: Kind, seed: u64) -> Self {
        let mut files: Vec<_> = ALL
            .iter()
            .flat_map(|clone| [format!(".beads/{clone}.jsonl"), format!("src/{clone}.txt")])
            .chain([".beads/shared.jsonl".to_owned()])
            .map(|path| (path, String::new()))
            .collect();
        let attributes = ".beads/shared.jsonl merge=union\n".to_owned();
        files.push((".gitattributes".to_owned(), attributes));
        Self::with(kind, seed, &ALL[..2], &files)
    }

    /// These files at the remote and in all clones, and a daemon in these.
    pub fn with(kind: Kind, seed: u64, synced: &[char], files: &[(String, String)]) -> Self {
        // Built before the clock runs.
        let _ = beadlock_tests::binaries::directory();
        let bench = Bench::named("a");
        let a = bench.here().to_path_buf();
        for (path, text) in files {
            crate::bench::write(&a.join(path), text);
        }
        bench.git(&a, &["add", "."]);
        bench.git(&a, &["commit", "--quiet", "--message", "the world"]);
        bench.git(&a, &["push", "--quiet"]);
        for clone in ["b", "c"] {
            bench.git(bench.path(), &["clone", "--quiet", "remote.git", clone]);
        }
        let daemons = synced.iter();
        let daemons = daemons
            .map(|clone| Daemon::new(&bench, *clone, kind))
            .collect();
        Self {
            bench,
            seed,
            daemons,
            ledger: Mutex::default(),
            over: AtomicBool::new(false),
        }
    }

    /// Everybody at once, for so long.
    pub fn run(&self, length: Duration, kills: bool) {
        let end = Instant::now() + length;
        std::thread::scope(|threads| {
            for daemon in &self.daemons {
                let clone = daemon.clone;
                daemon.start(&self.bench);
                threads.spawn(move || people::writes_lines(self, clone));
                threads.spawn(move || people::works_beside(self, clone));
                if kills {
                    threads.spawn(move || daemon.is_killed_now_and_then(self));
                }
            }
            for clone in ALL {
                threads.spawn(move || claims::claims(self, clone));
            }
            threads.spawn(|| people::syncs_by_hand(self, 'c'));
            // On a busy machine few claims are had.
            while Instant::now() < end
                || (!self.has_each_claim() && Instant::now() < end + PATIENCE)
            {
                std::thread::sleep(Duration::from_millis(50));
            }
            self.end();
        });
    }

    /// Everybody stops.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn has_each_claim(&self) -> bool {
        claims::KINDS
            .iter()
            .all(|kind| self.ledger().counted(&format!("claims by {kind}")) > 0)
    }

    /// Nobody writes any more; people push what is theirs, and then the agents bring the last lines to each other.
    /// True once all clones and the remote are the same.
    pub fn settle(&self, bound: Duration) -> bool {
        let mut settled = self.comes_together(bound, |clone| people::pushes(self, clone));
        if settled {
            for clone in self.synced() {
                people::writes_line(self, clone, &format!("{{\"id\":\"{clone}-last\"}}"));
            }
            settled = self.comes_together(bound, |_| {});
        }
        for daemon in &self.daemons {
            daemon.stop();
        }
        settled && self.is_one()
    }

    fn comes_together(&self, bound: Duration, act: impl Fn(char)) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < bound {
            self.synced().for_each(&act);
            people::catches_up(self, 'c');
            if self.is_one() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }

    pub fn is_one(&self) -> bool {
        let main = self
            .bench
            .try_git(self.bench.remote(), &["rev-parse", "main"])
            .out;
        ALL.into_iter().all(|clone| {
            let head = self.git(clone, &["rev-parse", "HEAD"]).out;
            let status = self.git(
                clone,
                &[
                    "status",
                    "--porcelain",
                    "--",
                    ".beads",
                    "src",
                    ":!*daemon.log*",
                    ":!*.note",
                ],
            );
            head == main && status.out.is_empty()
        })
    }

    /// The clones with a daemon.
    pub fn synced(&self) -> impl Iterator<Item = char> {
        self.daemons.iter().map(|daemon| daemon.clone)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn dice(&self, name: &str, clone: char) -> Dice {
        Dice::new(self.seed, &format!("{name} {clone}"))
    }

    pub fn clone_of(&self, clone: char) -> PathBuf {
        self.bench.path().join(clone.to_string())
    }

    pub fn beads(&self, clone: char) -> PathBuf {
        self.clone_of(clone).join(".beads")
    }

    /// A person's git.
    pub fn git(&self, clone: char, args: &[&str]) -> Ended {
        self.bench.try_git(self.clone_of(clone), args)
    }

    /// Adds a line to a file of a clone, as a tool does: one write at its end.
    pub fn append(&self, clone: char, path: &str, line: &str) {
        append(&self.clone_of(clone).join(path), line);
    }
}

pub fn append(path: &Path, line: &str) {
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(path)
        .expect("open");
    file.write_all(format!("{line}\n").as_bytes())
        .expect("write");
}
