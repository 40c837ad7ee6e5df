//! A database, the locks that lie in it, and the tools that know nothing of the gate.

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirEntryExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use beadlock_checker::{Decision, Options, Reason, Skip, should_skip_database};
use beadlock_core::gate::Gate;
use beadlock_core::record::beads::Record;
use beadlock_core::take::{Attempt, Held, Means, Release, Site, Step};
use beadlock_testkit::{dead_pid, shell_lock_text, this_host, until};

pub const MEANS: [Means; 4] = [
    Means::BEST,
    Means {
        leases: false,
        ..Means::BEST
    },
    Means {
        renameat2: false,
        ..Means::BEST
    },
    Means::PORTABLE,
];

/// Every step of a removal.
pub const REMOVAL: [Step; 7] = [
    Step::Recovered,
    Step::Judged,
    Step::Leased,
    Step::JudgedAgain,
    Step::MovedAside,
    Step::GraceOver,
    Step::Deleted,
];

pub struct Database {
    pub dir: tempfile::TempDir,
}

impl Database {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn lock(&self) -> PathBuf {
        self.path().join(".exclusive-lock")
    }

    pub fn aside(&self) -> PathBuf {
        self.path().join(".exclusive-lock.aside")
    }

    pub fn gate(&self) -> Gate {
        Gate::try_take(self.path())
            .unwrap()
            .expect("the gate is free")
    }

    pub fn holder(&self) -> String {
        Record::parse(&fs::read(self.lock()).unwrap_or_default())
            .map_or_else(|no| no.to_string(), |there| there.holder)
    }

    /// The decision of the next check. Asserts that the check leaves no side file behind.
    pub fn next_check(&self) -> Decision {
        let decision = should_skip_database(self.path());
        assert!(
            !self.aside().exists(),
            "a side file for ever, after: {decision:?}"
        );
        decision
    }

    pub fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

pub fn record(holder: &str, pid: u32) -> String {
    shell_lock_text(holder, pid.into(), &this_host())
}

pub fn live(holder: &str) -> String {
    record(holder, std::process::id())
}

pub fn dead(holder: &str) -> String {
    record(holder, dead_pid().unsigned_abs())
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Writer {
    InPlace,
    ByRename,
}

/// A tool that claims without the gate: it overwrites what is there. Under a lease a writer in place stands still
/// until the lease ends, so it works beside us.
pub fn claim_naively(writer: Writer, lock: PathBuf) -> JoinHandle<()> {
    let dir = lock.parent().unwrap().to_owned();
    let thread = std::thread::spawn(move || {
        let record = live("naive");
        match writer {
            Writer::InPlace => fs::File::create(&lock)
                .unwrap()
                .write_all(record.as_bytes())
                .unwrap(),
            Writer::ByRename => {
                let draft = lock.with_extension("draft");
                fs::write(&draft, record).unwrap();
                fs::rename(draft, &lock).unwrap();
            }
        }
    });
    until_done_or_still(&thread, &dir);
    thread
}

/// Until a tool has done its work, or stands still before a file of this directory that somebody has a lease on.
pub fn until_done_or_still(tool: &JoinHandle<()>, dir: &Path) {
    until("a tool that is done or waits", || {
        tool.is_finished() || waits_for_a_lease(dir)
    });
}

/// By `/proc/locks`: `3: LEASE  BREAKING  READ 4242 fe:00:131 0 EOF`.
fn waits_for_a_lease(dir: &Path) -> bool {
    let inodes: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|entry| entry.ino())
        .collect();
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let breaking = locks
        .lines()
        .filter(|line| line.contains("LEASE") && line.contains("BREAKING"));
    let inode = |line: &str| {
        line.split_whitespace()
            .nth(5)?
            .rsplit(':')
            .next()?
            .parse::<u64>()
            .ok()
    };
    breaking
        .filter_map(inode)
        .any(|inode| inodes.contains(&inode))
}

/// What `act` comes to when a tool claims naively at `step`, once: it has claimed when this returns.
pub fn with_claim_at<T>(
    step: Step,
    writer: Writer,
    database: &Database,
    act: impl FnOnce(&mut dyn FnMut(Step)) -> T,
) -> T {
    let mut claiming = None;
    let answer = act(&mut |at| {
        if at == step && claiming.is_none() {
            claiming = Some(claim_naively(writer, database.lock()));
        }
    });
    claiming.unwrap().join().unwrap();
    answer
}

/// The step never continues; what the kernel does for a dead process, unwinding does here.
pub fn crash_at(at: Step, step: Step) {
    if at == step {
        resume_unwind(Box::new("a crash"));
    }
}

/// True when `act` came to a step at which it [crashes](crash_at).
pub fn has_crashed<T>(act: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(act)).is_err()
}

pub fn locked_by(holder: &str) -> impl Fn(&Decision) -> bool {
    move |decision| matches!(decision, Decision::Skip(Skip::Locked(record, Reason::PidAlive)) if record.holder() == holder)
}

pub fn site(gate: &Gate, means: Means) -> Site<'_> {
    Site::new(gate, &Options::default()).with_means(means)
}

pub fn claimed(gate: &Gate, means: Means, record: &Record) -> Held {
    match site(gate, means).claim(record).unwrap() {
        Attempt::Claimed(held, _) => held,
        Attempt::Refused(skip, _) => panic!("{means:?}: {skip:?}"),
    }
}

pub fn released(held: Held, gate: &Gate) -> Release {
    held.release(Some(gate))
        .map_err(|(_, error)| error)
        .unwrap()
}
