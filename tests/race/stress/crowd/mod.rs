//! A lock among eight processes that want it at once, also one that somebody has to keep up. Some of its holders are
//! killed, and what they leave is taken once it is stale. Whether two are at work is told by the commands themselves:
//! each has an flock of its own for as long as it or anything that it has started lives.
//!
//! A tenth of `STRESS_ROUNDS` acquisitions.

mod commands;
mod control;
mod kills;
mod lock_kind;
mod log;
mod worker;

use std::time::{Duration, Instant};

use beadlock_tests::{Dice, Scene, become_subreaper, binaries, memory, skip};

pub use lock_kind::LockKind;

use commands::Place;
use kills::Kind;
use log::Log;
use worker::Crowd;

/// How many at once.
pub const PROCESSES: usize = 8;
/// One acquisition for so many rounds.
const ROUNDS_AN_ACQUISITION: usize = 10;
/// In `make test`.
const FEW: usize = 120;
/// As many as the full run is to have in 600 s.
const MANY: usize = 10_000;
const LIMIT: Duration = Duration::from_secs(600);
/// Rounds over one stale lock, by the document's order and by ours.
const ROUNDS_OF_CONTROL: usize = 24;
const ROUNDS_OF_OURS: usize = 6;
/// Of all of these one more for so many.
const ROUNDS_A_CONTROL: usize = 4800;

/// As many acquisitions as are asked for, and none beside another.
#[track_caller]
pub fn never_overlaps(lock_kind: LockKind) {
    if skip::tool("flock").is_none() {
        return;
    }
    become_subreaper();
    // Built before anybody waits for them.
    let _ = binaries::directory();
    let seed = Dice::seed("STRESS_SEED");
    let rounds = super::rounds();
    let few = if rounds == super::FEW {
        lock_kind.few()
    } else {
        1
    };
    let wanted = (rounds / ROUNDS_AN_ACQUISITION).max(FEW) / few;
    // On a disk that stands still for seconds a heartbeat waits, and so does the end of a process that was writing.
    let scene = Scene::below(&memory());
    let place = Place::in_scene(&scene, lock_kind);
    let begun = Instant::now();
    let crowd = Crowd::new(wanted, seed);
    std::thread::scope(|threads| {
        for worker in 0..PROCESSES {
            let (crowd, place) = (&crowd, &place);
            threads.spawn(move || crowd.work(worker, place));
        }
    });
    let took = begun.elapsed();
    let killed = crowd.killed();
    // The command of a beadlock that was killed works on where the lock is its own, and says its end.
    let ended: Vec<_> = killed
        .iter()
        .filter(|kill| !(lock_kind.is_the_commands() && kill.kind == Kind::Beadlock))
        .cloned()
        .collect();
    let log = Log::read(&place.log(), &ended);
    let taken = match lock_kind {
        // A process that was killed at work has left a stale lock, and others have been at work after it.
        LockKind::Tool => killed
            .iter()
            .filter(|kill| place.has_begun(&kill.id))
            .map(|kill| kill.id.clone())
            .collect(),
        _ => place.taken(),
    };
    let of = |kind: Kind| killed.iter().filter(|kill| kill.kind == kind).count();
    println!(
        "{}: {} acquisitions by {PROCESSES} processes in {:.0} s; {} killed: beadlock {}, the command {}, the group {} \
         ({} before the command began); {} taken when stale; {} held longer than that; {} given up for want of a heartbeat; {} \
         overlaps, {} lost",
        lock_kind.name(),
        log.begun,
        took.as_secs_f64(),
        killed.len(),
        of(Kind::Beadlock),
        of(Kind::Command),
        of(Kind::Group),
        log.killed_before,
        taken.len(),
        crowd.long(),
        crowd.late(),
        log.overlaps.len(),
        crowd.lost(),
    );
    assert!(
        log.overlaps.is_empty(),
        "two at work at once: {:#?}",
        log.overlaps.iter().take(9).collect::<Vec<_>>()
    );
    assert_eq!(crowd.broken(), [""; 0], "every other acquisition ends well");
    assert_eq!(crowd.lost(), 0, "a live lock was taken");
    for id in &taken {
        assert!(
            killed.iter().any(|kill| kill.id == *id),
            "{id}'s was taken, and nobody had killed it"
        );
    }
    assert!(
        log.begun >= wanted && !killed.is_empty() && !taken.is_empty(),
        "this run has shown nothing"
    );
    place.take_what_is_left();
    assert_eq!(
        place.names(),
        [""; 0],
        "nothing is left in the lock directory"
    );
    if wanted >= MANY {
        assert!(taken.len() >= 100, "{} were taken", taken.len());
        assert!(took < LIMIT, "{wanted} acquisitions took {took:?}");
    }
}

/// Of eight over one stale lock one after the other has it, where its document's order, or the obvious one, lets in
/// more than one at once.
#[track_caller]
pub fn falls_to_one(lock_kind: LockKind) {
    if skip::tool("flock").is_none() {
        return;
    }
    become_subreaper();
    let _ = binaries::directory();
    let scale = super::rounds().div_ceil(ROUNDS_A_CONTROL).max(1);
    let of = |rounds: usize| rounds.div_ceil(lock_kind.few()) * scale;
    let by_script = control::play(lock_kind, of(ROUNDS_OF_CONTROL), control::Way::AsDocumented);
    let ours = control::play(lock_kind, of(ROUNDS_OF_OURS), control::Way::Ours);
    let name = lock_kind.name();
    println!("{name}: eight for one stale lock: ours {ours}; look, then take {by_script}");
    assert!(
        by_script.overlaps > 0,
        "the control shows nothing: {by_script}"
    );
    assert_eq!(
        (ours.overlaps, ours.begun),
        (0, PROCESSES * ours.rounds),
        "{ours}"
    );
}
