//! A named lock (`tower:NAME`) among eight processes that want it at once. Some of its holders are killed, and what they
//! leave is taken with `--force-lock` once it is stale. Whether two are at work is told by the commands themselves: each
//! has an flock of its own for as long as it or anything that it has started lives.
//!
//! A tenth of `STRESS_ROUNDS` acquisitions.

mod commands;
mod control;
mod kills;
mod log;
mod worker;

use std::time::{Duration, Instant};

use beadlock_tests::{Dice, Scene, become_subreaper, binaries, skip};

use commands::Place;
use kills::Kind;
use log::Log;
use worker::Crowd;

/// How many at once.
pub const PROCESSES: usize = 8;
/// One acquisition for so many rounds.
const ROUNDS_AN_ACQUISITION: usize = 10;
/// As many as the full run is to have in 600 s.
const MANY: usize = 10_000;
const LIMIT: Duration = Duration::from_secs(600);
/// Rounds over one stale lock, by the order of the document's section 6.3 and by ours.
const ROUNDS_OF_CONTROL: usize = 24;
const ROUNDS_OF_OURS: usize = 6;

/// A kill of beadlock ends no work by itself, so this shows more than that the lock excludes: that there is no work where
/// there are no heartbeats.
#[test]
fn eight_processes_over_one_name_never_overlap() {
    if skip::tool("flock").is_none() {
        return;
    }
    become_subreaper();
    // Built before anybody waits for them.
    let _ = binaries::directory();
    let seed = Dice::seed("STRESS_SEED");
    let wanted = super::rounds() / ROUNDS_AN_ACQUISITION;
    let scene = Scene::new();
    let place = Place::in_scene(&scene, "payments-production");
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
    let stolen = place.stolen();
    let log = Log::read(&place.log(), &killed);
    let of = |kind: Kind| killed.iter().filter(|kill| kill.kind == kind).count();
    println!(
        "tower: {} acquisitions by {PROCESSES} processes in {:.0} s; {} killed: beadlock {}, the command {}, the group {} \
         ({} before the command began); {} stolen; {} held longer than the TTL; {} given up for want of a heartbeat; {} overlaps, \
         {} lost",
        log.begun,
        took.as_secs_f64(),
        killed.len(),
        of(Kind::Beadlock),
        of(Kind::Command),
        of(Kind::Group),
        log.killed_before,
        stolen.len(),
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
    for id in &stolen {
        assert!(killed.iter().any(|kill| kill.id == *id), "{id} was stolen, and nobody had killed it");
    }
    assert!(log.begun >= wanted && !killed.is_empty() && !stolen.is_empty(), "this run has shown nothing");
    place.take_what_is_left();
    assert_eq!(place.names(), [""; 0], "nothing is left in the lock directory");
    if wanted >= MANY {
        assert!(stolen.len() >= 100, "{} were stolen", stolen.len());
        assert!(took < LIMIT, "{wanted} acquisitions took {took:?}");
    }
}

/// The document's order for a steal (6.3: look, delete, create) lets in more than one, so that the witness can tell.
#[test]
fn a_stale_name_falls_to_one_where_the_documents_order_lets_in_more() {
    if skip::tool("flock").is_none() {
        return;
    }
    become_subreaper();
    let _ = binaries::directory();
    let scale = super::rounds().div_ceil(super::FEW * 4).max(1);
    let by_script = control::play(ROUNDS_OF_CONTROL * scale, control::Way::AsDocumented);
    let ours = control::play(ROUNDS_OF_OURS * scale, control::Way::Ours);
    println!("tower: eight for one stale lock: ours {ours}; look, delete, create {by_script}");
    assert!(by_script.overlaps > 0, "the control shows nothing: {by_script}");
    assert_eq!((ours.overlaps, ours.begun), (0, PROCESSES * ours.rounds), "{ours}");
}
