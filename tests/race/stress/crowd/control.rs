//! Eight for one lock that is stale from the start: the document's order for that (look, delete, create) beside ours.

use std::fmt;
use std::fs;
use std::time::Duration;

use beadlock_tests::{Running, Scene, memory};

use super::PROCESSES;
use super::commands::{BEGINS, ENDS, Place, Work};
use super::lock_kind::LockKind;

/// The contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Ours,
    /// A script of ours in the document's order.
    AsDocumented,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub rounds: usize,
    pub begun: usize,
    pub overlaps: usize,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            begun,
            overlaps,
        } = self;
        write!(
            f,
            "{rounds} rounds, {begun} commands, {overlaps} times beside another"
        )
    }
}

/// So many rounds, each with a fresh stale lock.
pub fn play(lock_kind: LockKind, rounds: usize, way: Way) -> Seen {
    let mut seen = Seen {
        rounds,
        ..Seen::default()
    };
    for _ in 0..rounds {
        let scene = Scene::below(&memory());
        let place = Place::in_scene(&scene, lock_kind);
        fs::write(place.lock(), lock_kind.stale().to_string()).expect("write the stale lock");
        let start = |number: usize| {
            let id = format!("c{number}");
            Running::start(match way {
                Way::Ours => place.hold(&id, Work::Short),
                Way::AsDocumented => {
                    let script = lock_kind
                        .script()
                        .replace("WORK", &format!("{BEGINS}; sleep 0.02; {ENDS}; exec 9>&-"));
                    let mut command = scene.command("bash");
                    command.args(["-c", &script, "bash", &id]);
                    command
                }
            })
        };
        let all: Vec<Running> = (0..PROCESSES).map(start).collect();
        for running in all {
            let _ = running.finish(Duration::from_secs(60));
        }
        let log = fs::read_to_string(place.log()).unwrap_or_default();
        let count = |what: &str| log.lines().filter(|line| line.starts_with(what)).count();
        seen.begun += count("begin ");
        seen.overlaps += count("overlap ");
    }
    seen
}
