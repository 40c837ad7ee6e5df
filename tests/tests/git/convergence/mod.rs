//! Two clones with an agent each, people who edit, commit and push by hand in them and in a third, and claims in all:
//! everything arrives everywhere once, nothing of anybody is lost, and no agent works in a time of claim.
//!
//! 20 seconds; `make soak` lets it run for `SOAK_MINUTES` and kills agents now and then. `SOAK_SEED` repeats the dice.

mod claims;
mod daemons;
mod ledger;
mod people;
mod verdict;
mod world;

use std::time::Duration;

use beadlock_tests::Dice;

use daemons::Kind;
use world::World;

/// None in `make test`.
fn soak() -> Option<Duration> {
    let minutes: f64 = std::env::var("SOAK_MINUTES").ok()?.parse().ok()?;
    Some(Duration::from_secs_f64(minutes * 60.0))
}

#[test]
fn two_agents_and_three_people_converge() {
    let (length, kills) = soak().map_or((Duration::from_secs(20), false), |length| (length, true));
    let world = World::new(Kind::Git, Dice::seed("SOAK_SEED"));
    world.run(length, kills);
    let settled = world.settle(Duration::from_secs(60));
    let wrong = verdict::wrong(&world, settled);
    let counts = verdict::counts(&world);
    println!("{counts}");
    assert!(wrong.is_empty(), "{} wrong:\n{}\n{counts}", wrong.len(), wrong.join("\n"));
    verdict::shows_something(&world);
}

/// What the test above is worth: with a daemon that does not ask, and syncs as one usually writes it, it fails.
#[test]
fn a_naive_daemon_is_found_out() {
    let world = World::new(Kind::Naive, Dice::seed("SOAK_SEED"));
    world.run(soak().map_or(Duration::from_secs(6), |_| Duration::from_secs(30)), false);
    let settled = world.settle(Duration::from_secs(2));
    let wrong = verdict::wrong(&world, settled);
    println!(
        "naive, {}\n{} wrong, among them: {:#?}",
        verdict::counts(&world),
        wrong.len(),
        wrong.iter().take(8).collect::<Vec<_>>()
    );
    let in_claims = wrong.iter().filter(|what| what.contains("in a time of claim")).count();
    assert!(
        in_claims > 0,
        "the naive daemon never worked in a time of claim: the check shows nothing\n{wrong:#?}"
    );
}
