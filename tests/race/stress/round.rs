//! Rounds: a stale lock, eight contenders for it, and afterwards the next check. Many lanes side by side, because what
//! beadlock does to a stale lock is mostly to wait.

use std::fs;
use std::iter::StepBy;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use beadlock_checker::{Decision, Skip, should_skip_database};
use beadlock_core::take::Means;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Dice, lock_text, this_host, wait_until};

use super::cast::{CONTENDERS, Cast, Role, draw};
use super::moves::Moves;
use super::witness::{Counts, Witness};
use super::{naive, ours};

/// How often a contender tries to claim before it gives up.
pub const ATTEMPTS: usize = 8;
/// It belongs to no process, whatever processes come and go meanwhile.
pub const DEAD: i64 = i32::MAX as i64;

/// How a contender goes about it, other than the naive writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As beadlock does, by these means.
    Ours(Means),
    /// The control: read, judge, unlink.
    Naive,
}

/// Why a contender stops in the middle.
pub struct Crash;

/// What rounds have shown, and how often a lock was set aside and put back meanwhile.
#[derive(Debug, Default)]
pub struct Shown {
    pub counts: Counts,
    pub aside: usize,
    pub back: usize,
}

/// Plays rounds 0 to `rounds` in `dir`, in so many lanes side by side.
pub fn play(dir: &Path, way: Way, rounds: usize, lanes: usize, seed: u64) -> Shown {
    let (counts, moves) = (Counts::default(), Moves::new());
    std::thread::scope(|threads| {
        for lane in 0..lanes {
            let (counts, moves) = (&counts, &moves);
            threads.spawn(move || {
                let dir = dir.join(format!("lane-{lane}"));
                fs::create_dir(&dir).expect("create a lane");
                moves.watch(&dir);
                play_lane(
                    &dir,
                    way,
                    (lane..rounds).step_by(lanes),
                    seed,
                    (counts, moves),
                );
                fs::remove_dir(&dir).expect("a lane is left empty");
            });
        }
    });
    moves.count();
    Shown {
        counts,
        aside: moves.aside.into_inner(),
        back: moves.back.into_inner(),
    }
}

type Rounds = StepBy<Range<usize>>;

fn play_lane(dir: &Path, way: Way, rounds: Rounds, seed: u64, (counts, moves): (&Counts, &Moves)) {
    let witness = Witness::new(counts);
    let (start, end) = (Barrier::new(CONTENDERS + 1), Barrier::new(CONTENDERS + 1));
    std::thread::scope(|threads| {
        for contender in 0..CONTENDERS {
            let (witness, start, end, rounds) = (&witness, &start, &end, rounds.clone());
            threads.spawn(move || {
                for round in rounds {
                    start.wait();
                    to_the_barrier(counts, || {
                        contend(dir, way, seed, round, contender, witness)
                    });
                    end.wait();
                }
            });
        }
        for round in rounds {
            to_the_barrier(counts, || {
                let cast = cast_of(seed, round, way);
                witness.begin(
                    cast.iter()
                        .filter(|role| !matches!(role, Role::Cycle | Role::Check))
                        .count(),
                );
                fs::write(
                    dir.join(".exclusive-lock"),
                    lock_text("crashed", DEAD, &this_host()),
                )
                .expect("write the stale lock");
            });
            start.wait();
            end.wait();
            to_the_barrier(counts, || {
                settle(dir, way, &witness);
                moves.count();
            });
        }
    });
}

/// Does this, and counts a panic: a thread that waits at a barrier for this one would wait for ever.
fn to_the_barrier(counts: &Counts, work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        // Whatever else it is has been said by the panic itself.
        let counted = if panic.is::<Crash>() {
            &counts.crashes
        } else {
            &counts.broken
        };
        counted.fetch_add(1, SeqCst);
    }
}

fn cast_of(seed: u64, round: usize, way: Way) -> Cast {
    draw(
        &mut Dice::new(seed, &format!("round {round}")),
        way == Way::Ours(Means::BEST),
    )
}

/// What one contender does in one round.
fn contend(dir: &Path, way: Way, seed: u64, round: usize, contender: usize, witness: &Witness<'_>) {
    let role = cast_of(seed, round, way)[contender];
    let mut dice = Dice::new(seed, &format!("round {round} contender {contender}"));
    let number = round * CONTENDERS + contender;
    match role {
        Role::Claim => {
            let _done = Done(witness);
            match way {
                Way::Ours(means) => ours::claim(dir, means, witness, &mut dice),
                Way::Naive => naive::claim(dir, number, witness, &mut dice),
            }
        }
        Role::InPlace | Role::ByRename => {
            let _done = Done(witness);
            naive::write(dir, number, role, witness, &mut dice);
        }
        Role::Cycle | Role::Check => loop {
            let last = witness.claiming.load(SeqCst) == 0;
            match (way, role) {
                (Way::Ours(means), Role::Cycle) => ours::cycle(dir, means, witness, &mut dice),
                (Way::Ours(means), _) => ours::ask(dir, means, witness, &mut dice),
                (Way::Naive, Role::Cycle) => naive::cycle(dir, witness, &mut dice),
                (Way::Naive, _) => naive::ask(dir, witness, &mut dice),
            }
            if last {
                return;
            }
            sleep(dice.below(5000));
        },
    }
}

/// Says that a contender has claimed, or given up, or crashed.
struct Done<'a, 'w>(&'a Witness<'w>);

impl Drop for Done<'_, '_> {
    fn drop(&mut self) {
        self.0.claiming.fetch_sub(1, SeqCst);
    }
}

/// Everybody has come to an end, and the next check has run: what a writer has claimed is there, and once its claim
/// ends, nothing.
fn settle(dir: &Path, way: Way, witness: &Witness<'_>) {
    let lock = dir.join(".exclusive-lock");
    let claims = witness.claims_of_writers();
    let next_check = || {
        // A program that is just being started has what was open here for a moment longer, so asked until it is
        // answered.
        wait_until(PATIENCE, "an answer of the next check", || {
            way == Way::Naive || should_skip_database(dir) != Decision::Skip(Skip::InProgress)
        });
        fs::read_to_string(&lock).unwrap_or_default()
    };
    let mut there = next_check();
    if !claims.is_empty() && !claims.contains(&there) {
        witness.lost();
    }
    // Of two writers one may have claimed beside the lock: its turn comes after the other's.
    while claims.contains(&there) {
        fs::remove_file(&lock).expect("the writer releases");
        there = next_check();
    }
    let left: Vec<_> = names(dir).collect();
    if !left.is_empty() && way != Way::Naive {
        witness.counts.left.fetch_add(1, SeqCst);
        println!("left behind: {left:?}, with {there:?}");
    }
    for name in left {
        fs::remove_file(dir.join(name)).expect("empty the lane");
    }
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).expect("list the lane");
    entries.map(|entry| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    })
}

/// The lock is the one with this in it.
pub fn says(dir: &Path, words: &str) -> bool {
    fs::read_to_string(dir.join(".exclusive-lock")).is_ok_and(|text| text.contains(words))
}

/// Somebody who asks nobody has begun to write into or over the lock, so it is nobody else's fault where it is. To be
/// asked after the lock was looked at.
pub fn is_excused(witness: &Witness<'_>) -> bool {
    witness.overwriting.load(SeqCst)
}

/// A command or a cycle.
pub fn work(dice: &mut Dice) {
    match dice.below(8) {
        0 => sleep(8000 + dice.below(8000)),
        1..5 => sleep(dice.below(400)),
        _ => {}
    }
}

/// Until the next attempt to claim.
pub fn pause(dice: &mut Dice) {
    sleep(dice.below(40_000));
}

/// Somewhere in what is done to a stale lock: at its start, or anywhere in its grace and after.
pub fn moment(dice: &mut Dice) {
    match dice.below(3) {
        0 => {}
        1 => sleep(dice.below(500)),
        _ => sleep(dice.below(130_000)),
    }
}

/// Every window between two steps is a wide one now and then.
pub fn hesitate(dice: &mut Dice) {
    match dice.below(32) {
        0 => sleep(dice.below(3000)),
        1..8 => spin(dice.below(100)),
        _ => {}
    }
}

/// One claim in so many is its process's last deed: what it leaves is stale again.
pub fn dies(dice: &mut Dice) -> bool {
    dice.below(4) == 0
}

fn spin(micros: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(micros) {
        std::hint::spin_loop();
    }
}

fn sleep(micros: u64) {
    std::thread::sleep(Duration::from_micros(micros));
}
