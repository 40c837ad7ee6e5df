//! Eight contenders for one stale lock, again and again: claims, agents and checks, and writers that know nothing of
//! the gate. No claim is lost, and no two are at work at once; in the same rounds the obvious way (read, judge, unlink)
//! loses some, else this has shown nothing.
//!
//! Threads play most of it, through the library; the real programs play the same with kills.
//!
//! `STRESS_ROUNDS` says how many (`make stress`: 100,000), `STRESS_SEED` repeats the dice, though not the kernel's.

mod cast;
mod crowd;
mod ground;
mod memory;
mod moves;
mod naive;
mod ours;
mod path;
mod programs;
mod report;
mod round;
mod tower;
mod witness;

use std::path::Path;

use beadlock_core::take::Means;
use beadlock_tests::{Dice, become_subreaper, binaries, skip};

use programs::Troupe;
use report::{print_head, print_row};
use round::{Shown, Way};

/// In `make test`.
const FEW: usize = 300;
/// Rounds side by side: they mostly wait.
const LANES: usize = 96;
const LANES_OF_PROGRAMS: usize = 4;
/// One round in so many is played again by programs, and in `make test` some more.
const ROUNDS_A_PROGRAM: usize = 100;
const FEW_OF_PROGRAMS: usize = 12;
/// In a few rounds the control may have luck: it is played again so often, until it loses one.
const MORE_OF_THE_CONTROL: u64 = 20;

fn rounds() -> usize {
    std::env::var("STRESS_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(FEW)
}

/// Plays each way on each file system and prints the table. The last way is the control: it must lose claims in 0.5 %
/// of its rounds. The others lose nothing, let no two work at once, and leave nothing behind.
fn compare<W: Copy + Send + Sync>(
    ways: &[(&str, W)],
    rounds: usize,
    play: impl Fn(&Path, W, usize, u64) -> Shown + Sync,
) {
    let seed = Dice::seed("STRESS_SEED");
    let each = rounds.div_ceil(2 * ground::ALL.len());
    let mut wrong = Vec::new();
    print_head();
    let (mut of_control, mut lost_by_control) = (0, 0);
    for ground in ground::ALL.into_iter().chain([ground::HERE]) {
        if ground.name == ground::HERE.name && of_control > 0 {
            break;
        }
        let all = |dir: &Path| {
            let one = |(name, way): &(&str, W)| {
                let shown = play(dir, *way, each, seed);
                print_row(ground.name, name, each, &shown);
                shown
            };
            ways.iter().map(one).collect::<Vec<_>>()
        };
        let Some(shown) = ground.on(all) else {
            continue;
        };
        for (number, ((name, _), shown)) in ways.iter().zip(shown).enumerate() {
            if number + 1 < ways.len() {
                wrong.extend(
                    shown
                        .counts
                        .wrong()
                        .map(|what| format!("{}, {name}: {what}", ground.name)),
                );
            } else {
                of_control += each;
                lost_by_control += shown.counts.lost.into_inner();
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for turn in 1..=MORE_OF_THE_CONTROL {
        if lost_by_control > 0 {
            break;
        }
        let (name, way) = ways.last().expect("there is a control");
        let again = ground::HERE
            .on(|dir| play(dir, *way, each, seed.wrapping_add(turn)))
            .expect("the temporary directory is there");
        print_row(ground::HERE.name, name, each, &again);
        of_control += each;
        lost_by_control += again.counts.lost.into_inner();
    }
    assert!(
        of_control > 0 && lost_by_control * 200 >= of_control,
        "the control lost {lost_by_control} in {of_control} rounds: this run has shown nothing"
    );
}

#[test]
fn no_claim_is_lost_where_the_obvious_way_loses_some() {
    let ways = [
        ("leases", Way::Ours(Means::BEST)),
        (
            "no leases",
            Way::Ours(Means {
                leases: false,
                ..Means::BEST
            }),
        ),
        ("read, judge, unlink", Way::Naive),
    ];
    compare(&ways, rounds(), |dir, way, each, seed| {
        round::play(dir, way, each, LANES, seed)
    });
}

#[test]
fn no_program_loses_its_claim_where_scripts_lose_some() {
    if ["flock", "setpriv"]
        .iter()
        .any(|name| skip::tool(name).is_none())
    {
        return;
    }
    become_subreaper();
    // Built before anybody waits for them.
    let _ = binaries::directory();
    let rounds = (rounds() / ROUNDS_A_PROGRAM).max(FEW_OF_PROGRAMS);
    let mut ways = vec![("programs", Troupe::Ours), ("scripts", Troupe::Naive)];
    // The stale lock is made another user's.
    if skip::root() {
        ways.insert(1, ("programs, no leases", Troupe::WithoutLeases));
    }
    compare(&ways, rounds, |dir, troupe, each, seed| {
        programs::play(dir, troupe, each, LANES_OF_PROGRAMS, seed)
    });
}
