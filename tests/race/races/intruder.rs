//! The intruder that comes in between two steps.

use std::fs;
use std::path::Path;
use std::thread::JoinHandle;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Kind, Running, Scene, wait_until};

use crate::kernel::{is_being_broken, name_in_locks, waiters};
use crate::operation::live;
use crate::standing::contents;

/// The intruder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intruder {
    /// A tool that claims without the gate: it opens the lock, empties it and writes.
    WriterInPlace,
    /// The same, with a file of its own that it renames over the lock.
    WriterByRename,
    /// `beadlock check`.
    SecondRemover,
    /// `beadlock hold`.
    Claimer,
    /// `beadlock cycle`.
    Cycle,
    /// Nobody: it is killed and never continues.
    Crash,
}

impl Intruder {
    pub const ALL: [Self; 6] = [
        Self::WriterInPlace,
        Self::WriterByRename,
        Self::Crash,
        Self::SecondRemover,
        Self::Claimer,
        Self::Cycle,
    ];
    /// The intruders for which it makes a difference by which means a lock is moved.
    const OF_THE_MEANS: [Self; 3] = [Self::WriterInPlace, Self::WriterByRename, Self::Crash];

    /// The intruders of an operation by these means. Only a database has cycles.
    pub fn of(means: &str, kind: Kind) -> Vec<Self> {
        let mut all = if means == "best" {
            Self::ALL.to_vec()
        } else {
            Self::OF_THE_MEANS.to_vec()
        };
        all.retain(|intruder| kind == Kind::Beads || *intruder != Self::Cycle);
        all
    }
}

/// What has come of one.
pub struct Visit {
    pub intruder: Intruder,
    pub kind: Kind,
    /// The holder of the lock when it came.
    pub over: Option<String>,
    /// How it ended, where it is a program that has ended.
    pub code: Option<i32>,
    /// What there was before it and after it.
    pub before: Vec<(String, Vec<u8>)>,
    pub after: Vec<(String, Vec<u8>)>,
    /// It waited for the gate.
    pub waited: bool,
    /// A claimer's lock stood in the end.
    pub claimed: bool,
    writer: Option<JoinHandle<()>>,
    claimer: Option<Running>,
}

/// What a claimer and a cycle run.
const CLAIMER: &str = "echo claimer >>ran; until [ -e over ]; do sleep 0.01; done";
const CYCLE: &str = "echo cycle >>ran";

impl Visit {
    /// It comes, and has done what it can for the moment when this returns. The crash is for the caller.
    pub fn of(intruder: Intruder, kind: Kind, scene: &Scene) -> Self {
        let (over, before) = (kind.holder(scene), contents(scene));
        let nothing = (None, None, None);
        let mut waited = false;
        let (writer, claimer, code) = match intruder {
            Intruder::WriterInPlace => (Some(write_in_place(scene, kind)), None, None),
            Intruder::WriterByRename => {
                claim_by_rename(scene, kind, "naive");
                nothing
            }
            Intruder::SecondRemover => (None, None, Some(kind.run(scene, &["check"]).code)),
            Intruder::Cycle => (
                None,
                None,
                Some(scene.run(&["cycle", "-q", "--", "sh", "-c", CYCLE]).code),
            ),
            Intruder::Claimer => {
                let claimer;
                (claimer, waited) = start_claimer(scene, kind);
                (None, Some(claimer), None)
            }
            Intruder::Crash => nothing,
        };
        let after = contents(scene);
        Self {
            intruder,
            kind,
            over,
            code,
            before,
            after,
            waited,
            claimed: false,
            writer,
            claimer,
        }
    }

    /// Nobody is in its way any more.
    pub fn ends(&mut self, scene: &Scene) {
        if let Some(writer) = self.writer.take() {
            writer.join().expect("it writes in the end");
        }
        if let Some(claimer) = self.claimer.as_mut() {
            wait_until(PATIENCE, "the claimer claims or gives up", || {
                self.claimed = is_claimers(scene, self.kind);
                self.claimed || !claimer.is_running()
            });
        }
    }
}

/// The lock is the claimer's, and its command runs.
fn is_claimers(scene: &Scene, kind: Kind) -> bool {
    kind.holder(scene).as_deref() == Some("claimer")
        && ran(scene.path()).contains(&"claimer".to_owned())
}

/// The claimer, and whether it waits for the gate.
fn start_claimer(scene: &Scene, kind: Kind) -> (Running, bool) {
    let options = kind.words(&[
        "hold",
        "-q",
        "--no-wait",
        "--drain",
        "60s",
        kind.holder_option(),
        "claimer",
    ]);
    let before = waiters(&scene.beads());
    let mut claimer = scene.start(&[&options[..], &["--", "sh", "-c", CLAIMER]].concat());
    let mut waits = false;
    wait_until(
        PATIENCE,
        "the claimer waits for the gate, claims or gives up",
        || {
            waits = waiters(&scene.beads()) > before;
            waits || is_claimers(scene, kind) || !claimer.is_running()
        },
    );
    (claimer, waits)
}

/// A draft of its own, renamed over whatever is there.
pub fn claim_by_rename(scene: &Scene, kind: Kind, holder: &str) {
    let draft = scene.path().join("draft");
    fs::write(&draft, live(kind, holder)).expect("write a draft");
    fs::rename(draft, kind.lock(scene)).expect("rename it");
}

/// It has written when this returns, or stands still in its `open` because of somebody's lease.
fn write_in_place(scene: &Scene, kind: Kind) -> JoinHandle<()> {
    let lock = kind.lock(scene);
    let before = name_in_locks(&lock);
    let writer = std::thread::spawn({
        let lock = lock.clone();
        move || fs::write(lock, live(kind, "naive")).expect("write the lock")
    });
    wait_until(
        PATIENCE,
        "the writer has written, or waits for a lease",
        || writer.is_finished() || before.as_deref().is_some_and(is_being_broken),
    );
    writer
}

/// The processes and what they have run, in this order.
pub fn ran(path: &Path) -> Vec<String> {
    fs::read_to_string(path.join("ran"))
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}
