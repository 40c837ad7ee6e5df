//! Contenders that go the way of beadlock: the gate, the side name, the grace.

use std::path::Path;

use beadlock_checker::{
    Cycle, Decision, Entered, Options, Place, Proceed, check, should_skip_database,
};
use beadlock_core::gate::Gate;
use beadlock_core::record::beads::Record;
use beadlock_core::take::{Attempt, Held, Means, Release, Settled, Site, Step};
use beadlock_tests::Dice;

use super::round::{ATTEMPTS, Crash, DEAD, dies, hesitate, is_excused, pause, says, work};
use super::witness::Witness;

/// One step in so many is a crash.
const CRASHES: u64 = 400;

/// Claims under the gate, works, releases.
pub fn claim(dir: &Path, means: Means, witness: &Witness<'_>, dice: &mut Dice) {
    let mut record = Record::new("ours", "").expect("a record of this process");
    let dies = dies(dice);
    if dies {
        record.pid = DEAD;
    }
    for _ in 0..ATTEMPTS {
        let gate = Gate::take_blocking(dir).expect("a gate");
        let attempt = site(&gate, means)
            .with_hook(|step| stumble(step, dice))
            .claim(&record);
        drop(gate);
        match attempt.expect("a claim or none") {
            Attempt::Claimed(..) if dies => std::panic::resume_unwind(Box::new(Crash)),
            Attempt::Claimed(held, _) => return hold(dir, means, held, witness, dice),
            Attempt::Refused(..) => pause(dice),
        }
    }
}

fn hold(dir: &Path, means: Means, held: Held, witness: &Witness<'_>, dice: &mut Dice) {
    witness.command(|| {
        work(dice);
        // Looked at before the end: from then on somebody else may be at work.
        if !says(dir, held.id()) && !is_excused(witness) {
            witness.lost();
        }
    });
    let gate = Gate::take_blocking(dir).expect("a gate");
    let released = site(&gate, means)
        .with_hook(|_| hesitate(dice))
        .release(&held);
    let released = released.expect("a release");
    assert!(
        released == Release::Released || is_excused(witness),
        "a lock that nobody overwrote is {released:?}"
    );
}

/// A cycle of an agent.
pub fn cycle(dir: &Path, means: Means, witness: &Witness<'_>, dice: &mut Dice) {
    if means == Means::BEST && dice.below(2) == 0 {
        let mut entered = None;
        witness.daemon(|| {
            if let Entered::Cycle(cycle) = Cycle::enter(dir) {
                entered = Some(cycle);
            }
            entered.is_some()
        });
        if let Some(cycle) = entered {
            witness.cycle(|| work(dice));
            cycle.leave();
        }
        return;
    }
    // The same, step by step.
    let Some(gate) = Gate::try_take(dir).expect("a gate") else {
        return;
    };
    let mut let_in = false;
    witness.daemon(|| {
        let_in = is_free(&gate, means, dice);
        let_in
    });
    if let_in {
        witness.cycle(|| work(dice));
    }
}

/// The check of a daemon without a gate.
pub fn ask(dir: &Path, means: Means, witness: &Witness<'_>, dice: &mut Dice) {
    if means == Means::BEST {
        return witness.daemon(|| !should_skip_database(dir).is_skip());
    }
    // The same, step by step: a dry run looks, and what is stale goes by these means.
    let dry_run = Options {
        dry_run: true,
        ..Options::default()
    };
    witness.daemon(|| match check(&Place::beads(dir), &dry_run) {
        Decision::Proceed(Proceed::WouldRemoveStale(..)) => {
            let gate = Gate::try_take(dir).expect("a gate");
            gate.is_some_and(|gate| is_free(&gate, means, dice))
        }
        decision => !decision.is_skip(),
    });
}

fn is_free(gate: &Gate, means: Means, dice: &mut Dice) -> bool {
    matches!(
        site(gate, means)
            .with_hook(|step| stumble(step, dice))
            .settle(),
        Settled::Free { .. }
    )
}

fn site(gate: &Gate, means: Means) -> Site<'_> {
    Site::new(gate, &Options::default()).with_means(means)
}

/// A step that never continues, as after a kill: descriptors are closed, and nothing else happens. Not once the lock
/// is linked: its process lives.
fn stumble(step: Step, dice: &mut Dice) {
    if step != Step::Linked && dice.below(CRASHES) == 0 {
        std::panic::resume_unwind(Box::new(Crash));
    }
    hesitate(dice);
}
