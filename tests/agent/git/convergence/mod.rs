//! Two clones with an agent each, people who edit, commit and push by hand in them and in a third, and claims in all.
//! Everything arrives everywhere once, nothing of anybody is lost, and no agent works in a time of claim.
//!
//! 12 seconds; `make soak` lets it run for `SOAK_MINUTES` and kills agents now and then. `SOAK_SEED` repeats the dice.

mod claims;
mod daemons;
mod histories;
mod ledger;
mod people;
mod tools;
mod verdict;
mod world;

use std::fs;
use std::path::Path;
use std::time::Duration;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Dice, lock_text, this_host, wait_until};

use claims::KINDS;
use daemons::Kind;
use tools::Tools;
use world::{ALL, World};

/// None in `make test`.
fn soak() -> Option<Duration> {
    let minutes: f64 = std::env::var("SOAK_MINUTES").ok()?.parse().ok()?;
    Some(Duration::from_secs_f64(minutes * 60.0))
}

#[test]
fn two_agents_and_three_people_converge() {
    let (length, kills) = soak().map_or((Duration::from_secs(8), false), |length| (length, true));
    let world = World::new(Kind::Git, Dice::seed("SOAK_SEED"));
    world.run(length, kills);
    let settled = world.settle(Duration::from_secs(60));
    let wrong = verdict::wrong(&world, settled);
    let counts = verdict::counts(&world);
    println!("{counts}");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}\n{counts}",
        wrong.len(),
        wrong.join("\n")
    );
    verdict::shows_something(&world);
}

/// Three clones with an agent each and programs that know nothing of each other; the agents are killed at any time. No
/// record is lost or there twice, no reader sees less than the whole file, and all comes together. Half a minute; `make soak`
/// lets it run for `SOAK_MINUTES`.
#[test]
fn three_clones_with_programs_that_write_keep_every_record() {
    let time = soak().unwrap_or(Duration::from_secs(30));
    let tools = Tools::new(Dice::seed("SOAK_SEED"));
    tools.run(time);
    let settled = histories::settle(&tools);
    let wrong = histories::wrong(&tools, settled);
    let counts = histories::counts(&tools);
    println!("{counts}");
    if let Some(dir) = std::env::var_os("SOAK_KEEP").filter(|_| !wrong.is_empty()) {
        let ground = tools.world.bench.path();
        let mut copy = std::process::Command::new("cp");
        copy.arg("-a").arg(ground).arg(dir);
        println!("{copy:?}: {:?}", copy.status());
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}\n{counts}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// What the test of the people is worth: with a daemon that does not ask, and syncs as one usually writes it, it fails.
#[test]
fn a_naive_daemon_is_found_out() {
    let world = World::new(Kind::Naive, Dice::seed("SOAK_SEED"));
    world.run(
        soak().map_or(Duration::from_secs(6), |_| Duration::from_secs(30)),
        false,
    );
    let settled = world.settle(Duration::from_secs(2));
    let wrong = verdict::wrong(&world, settled);
    println!(
        "naive, {}\n{} wrong, among them: {:#?}",
        verdict::counts(&world),
        wrong.len(),
        wrong.iter().take(8).collect::<Vec<_>>()
    );
    let in_claims = wrong
        .iter()
        .filter(|what| what.contains("in a time of claim"))
        .count();
    assert!(
        in_claims > 0,
        "the naive daemon never worked in a time of claim: the check shows nothing\n{wrong:#?}"
    );
}

/// A claim that is lost, by what takes its lock away or puts another there, is in the verdict, whichever process has
/// made it.
#[test]
fn a_lost_claim_is_found() {
    let world = World::new(Kind::Git, 0);
    for other in ["", "somebody"] {
        std::thread::scope(|threads| {
            for (kind, clone) in KINDS.into_iter().zip(ALL) {
                let world = &world;
                threads.spawn(move || claims::claim(world, clone, kind, "{}", 1500));
                threads.spawn(move || {
                    takes_the_place(&world.beads(clone).join(".exclusive-lock"), other)
                });
            }
        });
        let wrong = verdict::wrong(&world, true);
        for (kind, clone) in KINDS.into_iter().zip(ALL) {
            let is_found = |what: &&String| {
                what.starts_with(&format!("claim by {kind} in {clone} is lost: "))
                    && what.contains(other)
            };
            assert_eq!(
                wrong.iter().filter(is_found).count(),
                1,
                "{kind}: {wrong:#?}"
            );
            let _ = fs::remove_file(world.beads(clone).join(".exclusive-lock"));
        }
        world.ledger().found.clear();
    }
}

/// Once there is a lock: none, or one of this holder's, in the place of it.
fn takes_the_place(lock: &Path, holder: &str) {
    let other = lock.with_extension("other");
    fs::write(
        &other,
        lock_text(holder, std::process::id().into(), &this_host()),
    )
    .expect("write a lock");
    wait_until(PATIENCE, "a claim", || lock.exists());
    fs::rename(&other, lock).expect("put it there");
    if holder.is_empty() {
        fs::remove_file(lock).expect("remove it");
    }
}
