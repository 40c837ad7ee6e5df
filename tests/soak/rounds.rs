//! The rounds: which holder claims which database next, and whether a process is killed.

use beadlock_tests::seed::Recipe;

use super::holders::{Kind, Round};
use super::site::{Database, Site};

/// The first six are one of each; then the commoner again.
const KINDS: [Kind; 10] = [
    Kind::Hold,
    Kind::TwoHolds,
    Kind::Acquire,
    Kind::Recipe,
    Kind::InPlace,
    Kind::Malformed,
    Kind::Hold,
    Kind::Acquire,
    Kind::Recipe,
    Kind::InPlace,
];

/// Rounds in those of the databases that are this lane's, until it is over. The first rounds of all lanes
/// have every kind in them, killed and not; then the dice choose.
pub fn rounds(site: &Site, lane: usize, lanes: usize, recipe: &Recipe) {
    let mut dice = site.dice(&format!("lane {lane}"));
    let databases: Vec<_> = site.databases.iter().skip(lane).step_by(lanes).collect();
    let mut stale: Option<&Database> = None;
    for number in (lane..).step_by(lanes) {
        if site.is_over() {
            break;
        }
        dice.pause(50, 400);
        // A killed holder has often left a lock: the next one comes before, while and after an agent removes it.
        let database = match stale {
            Some(database) if dice.below(2) == 0 => database,
            _ => *dice.one_of(&databases),
        };
        // Often there is a cycle that a claim has to wait for.
        if dice.below(2) == 0 {
            database.edit();
            dice.pause(1, 250);
        }
        let by_dice = (*dice.one_of(&KINDS), dice.below(3) == 0);
        let (kind, is_killed) = match number {
            0..12 => (KINDS[number % 6], number < 6),
            _ => by_dice,
        };
        let round = Round {
            site,
            database,
            millis: 20 + dice.below(200),
            is_killed,
        };
        round.play(kind, recipe, &mut dice);
        stale = is_killed.then_some(database);
    }
}

/// The same for the naive daemon, without what it could not cope with anyway.
pub fn rounds_of_control(site: &Site, recipe: &Recipe) {
    let mut dice = site.dice("control");
    while !site.is_over() {
        dice.pause(20, 100);
        let database = dice.one_of(&site.naive);
        let kind = if dice.below(2) == 0 {
            Kind::Hold
        } else {
            Kind::Acquire
        };
        let round = Round {
            site,
            database,
            millis: 20 + dice.below(100),
            is_killed: false,
        };
        round.play(kind, recipe, &mut dice);
    }
}
