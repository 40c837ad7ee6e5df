//! Every operation at every hook point, with every intruder. The hook points are those that it comes to by itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use beadlock_core::take::Step;
use beadlock_tests::stepwise::Operation;
use beadlock_tests::{Kind, become_subreaper};

use crate::course::{Course, play};
use crate::intruder::Intruder;
use crate::rule::broken_rule;

/// Scenes side by side: they mostly wait.
const LANES: usize = 8;
/// One square of so many, where all of them are another lock's too and nobody asks for more (`RACES_STRIDE`).
const STRIDE: usize = 16;
/// The same, where the steps are another lock's and the gate is not.
const STRIDE_BESIDE_ANOTHER_GATE: usize = 4;

/// One square of the table.
#[derive(Debug, Clone)]
pub struct Square {
    pub operation: Operation,
    means: &'static str,
    kind: Kind,
    /// Which of its steps, from 0, and what that is called.
    at: usize,
    pub step: String,
    pub intruder: Intruder,
}

/// A square in which something that must hold does not.
#[derive(Debug)]
pub struct Broken {
    pub square: Square,
    /// What does not.
    pub sentence: &'static str,
    #[expect(dead_code, reason = "for who reads why a test has failed")]
    course: Course,
}

/// What playing the squares has come to.
pub struct Table {
    /// Those that were played.
    pub squares: usize,
    pub broken: Vec<Broken>,
    /// All steps that were come to.
    steps: BTreeSet<String>,
}

/// Plays every square of these operations on such a lock.
pub fn play_all(operations: &[Operation], means: &[&'static str], kind: Kind) -> Table {
    play_some(operations, means, kind, 1)
}

/// Plays one square of so many, another part of them each time.
fn play_some(operations: &[Operation], means: &[&'static str], kind: Kind, stride: usize) -> Table {
    become_subreaper();
    let (mut courses, mut steps) = (Vec::new(), BTreeSet::new());
    for &operation in operations {
        for &means in means {
            let (alone, _) = play(operation, means, kind, None);
            assert!(
                alone.left.is_empty(),
                "{operation:?}, {kind:?}, {means}: {alone:?}"
            );
            steps.extend(alone.steps.iter().cloned());
            courses.push((operation, means, alone));
        }
    }
    let squares: Vec<_> = courses
        .iter()
        .flat_map(|(operation, means, alone)| squares(*operation, means, kind, alone))
        .skip(std::process::id() as usize % stride)
        .step_by(stride)
        .collect();
    let (next, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..LANES {
            threads.spawn(|| {
                while let Some((square, alone)) = squares.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let found = play_square(square, alone);
                    broken
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .extend(found);
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    Table {
        squares: squares.len(),
        broken,
        steps,
    }
}

/// The squares of an operation that takes this course when it is alone.
fn squares<'a>(
    operation: Operation,
    means: &'static str,
    kind: Kind,
    alone: &'a Course,
) -> Vec<(Square, &'a Course)> {
    // Until somebody comes, a removal that gives way is any other.
    let met = alone.steps.iter().position(|step| step == "JudgedAgain");
    let first = met
        .filter(|_| operation == Operation::RemovalThatGivesWay)
        .map_or(0, |at| at + 1);
    let intruders = Intruder::of(means, kind);
    let at_a_step = |(at, step): (usize, &String)| {
        let square = |&intruder| {
            (
                Square {
                    operation,
                    means,
                    kind,
                    at,
                    step: step.clone(),
                    intruder,
                },
                alone,
            )
        };
        intruders.iter().map(square).collect::<Vec<_>>()
    };
    alone
        .steps
        .iter()
        .enumerate()
        .skip(first)
        .flat_map(at_a_step)
        .collect()
}

/// How often a square is set up.
const TRIES: usize = 3;

fn play_square(square: &Square, alone: &Course) -> Option<Broken> {
    let Square {
        operation,
        means,
        kind,
        at,
        intruder,
        ..
    } = *square;
    // A child of another lane has this lane's files open for writing until it executes: a lease may be refused for
    // that.
    let tries = || (0..TRIES).map(|_| play(operation, means, kind, Some((at, intruder))));
    let goes_the_same_way = |course: &Course| course.steps.get(..=at) == alone.steps.get(..=at);
    let (course, visit) = tries()
        .find(|(course, _)| goes_the_same_way(course))
        .unwrap_or_else(|| {
            panic!(
                "{square:?} was not reached in {TRIES} tries by the steps {:?}",
                alone.steps
            )
        });
    let visit = visit.unwrap_or_else(|| panic!("{square:?} was not reached: {course:?}"));
    let sentence = broken_rule(operation, &visit, alone, &course)?;
    Some(Broken {
        square: square.clone(),
        sentence,
        course,
    })
}

/// Steps of a heartbeat alone: its intruders are in the tests of the checker (`takeover heartbeat::`).
const OF_HEARTBEATS: [Step; 2] = [Step::Ours, Step::Exchanged];

fn nothing_is_lost(kind: Kind, at_least: usize, stride: usize) {
    let Table {
        squares,
        broken,
        steps,
    } = play_some(&Operation::OURS, &["best", "portable"], kind, stride);
    let is_ours = |step: &&Step| !OF_HEARTBEATS.contains(step);
    let all: BTreeSet<_> = Step::ALL
        .iter()
        .filter(is_ours)
        .map(|step| format!("{step:?}"))
        .collect();
    assert_eq!(
        steps, all,
        "every step is come to, and none that is not in the list"
    );
    println!(
        "races at every step, {kind:?}: {squares} squares, {} lost",
        broken.len()
    );
    assert!(
        broken.is_empty(),
        "{} of {squares}: {broken:#?}",
        broken.len()
    );
    assert!(
        squares >= at_least / stride,
        "{squares} squares: that shows little"
    );
}

/// In `make test` a part, another one each time; in `make rows` all of it.
fn stride(few: usize) -> usize {
    let asked = std::env::var("RACES_STRIDE")
        .ok()
        .and_then(|stride| stride.parse().ok());
    asked.unwrap_or(few).max(1)
}

#[test]
fn nothing_is_lost_whoever_comes_at_whatever_step() {
    nothing_is_lost(Kind::Beads, 400, 1);
}

#[test]
fn nor_is_the_lock_of_a_directory() {
    nothing_is_lost(Kind::Memory, 350, stride(STRIDE_BESIDE_ANOTHER_GATE));
}

/// The same code as a database's, and a name of its own for each file.
#[test]
fn nor_is_a_lock_at_a_path() {
    nothing_is_lost(Kind::Path, 350, stride(STRIDE));
}
