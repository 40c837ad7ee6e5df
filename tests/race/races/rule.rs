//! What must hold after an intruder has come: a sentence each, and the first that does not hold.

use beadlock_tests::stepwise::Operation;

use crate::course::Course;
use crate::intruder::{Intruder, Visit};
use crate::operation::{ends, standing_before};

/// What is said of every claim that stands; the other sentences are about the way there.
pub const CLAIMS: [&str; 6] = [
    "who claims without the gate has his claim, and the next check says so",
    "no claim is lost but the one that he wrote over",
    "a lock that came before the last look is seen",
    "no command runs without its lock",
    "all claims stand",
    "after the next check everybody who lives has his lock, and nobody who is dead",
];

/// The first sentence that is not true of this course. `alone` is the course that the operation takes by itself.
pub fn broken_rule(
    operation: Operation,
    visit: &Visit,
    alone: &Course,
    course: &Course,
) -> Option<&'static str> {
    let rules = match visit.intruder {
        Intruder::WriterInPlace | Intruder::WriterByRename => of_a_writer(operation, visit, course),
        Intruder::SecondRemover => of_a_remover(visit, alone, course),
        Intruder::Cycle => vec![
            (
                "no cycle runs while the gate is held",
                visit.code == Some(4) && course.ran.is_empty(),
            ),
            (
                "a cycle that does not run changes nothing",
                visit.before == visit.after,
            ),
            (
                "nobody notices a cycle that does not run",
                course.is_like(alone),
            ),
        ],
        Intruder::Claimer => of_a_claimer(visit, alone, course),
        Intruder::Crash => of_a_crash(operation, course),
    };
    let left = ("nothing is left behind", course.left.is_empty());
    rules
        .into_iter()
        .chain([left])
        .find(|(_, holds)| !holds)
        .map(|(sentence, _)| sentence)
}

type Rules = Vec<(&'static str, bool)>;

fn of_a_writer(operation: Operation, visit: &Visit, course: &Course) -> Rules {
    let stands = |holder: &str| course.standing.iter().any(|there| there == holder);
    let is_written_over = |holder: &str| visit.over.as_deref() == Some(holder);
    let is_ended = |holder: &str| {
        ends(operation).is_some_and(|(ended, _)| ended == holder)
            && ["Released", "Kept"].contains(&course.answer())
    };
    let mut claims = standing_before(operation).to_vec();
    claims.extend((course.answer() == "Claimed").then_some("ours"));
    let is_spared = claims
        .iter()
        .all(|claim| stands(claim) || is_written_over(claim) || is_ended(claim));
    let is_told = ["Free", "Claimed"].contains(&course.answer());
    vec![
        (CLAIMS[0], stands("naive")),
        (CLAIMS[1], is_spared),
        (CLAIMS[2], !is_told || course.came_at == "Linked"),
    ]
}

fn of_a_remover(visit: &Visit, alone: &Course, course: &Course) -> Rules {
    let there = |name: &str| visit.before.iter().any(|(there, _)| there == name);
    let name = visit.kind.name();
    let is_free = !there(name) && !there(&format!("{name}.aside"));
    vec![
        (
            "a second remover changes nothing while the gate is held",
            visit.before == visit.after,
        ),
        (
            "it proceeds where there is neither a lock nor one aside",
            (visit.code == Some(0)) == is_free,
        ),
        ("nobody notices it", course.is_like(alone)),
    ]
}

fn of_a_claimer(visit: &Visit, alone: &Course, course: &Course) -> Rules {
    let mut standing = alone.standing.clone();
    standing.extend(visit.claimed.then(|| "claimer".to_owned()));
    standing.sort();
    let is_alone = alone.standing.is_empty();
    vec![
        (CLAIMS[3], course.ran.is_empty() || visit.claimed),
        (CLAIMS[4], course.standing == standing),
        ("who claims as well waits for the gate", visit.waited),
        (
            "nobody notices that he waits",
            course.steps == alone.steps && course.answer == alone.answer,
        ),
        (
            "he has the lock then, unless somebody lives who had it first",
            visit.claimed == is_alone,
        ),
    ]
}

fn of_a_crash(operation: Operation, course: &Course) -> Rules {
    let is_ended = |holder: &&str| {
        ends(operation).is_some_and(|(ended, step)| {
            ended == *holder && course.steps.iter().any(|at| at == step)
        })
    };
    let mut standing = standing_before(operation).to_vec();
    standing.retain(|holder| !is_ended(holder));
    vec![
        (CLAIMS[5], course.standing == standing),
        (
            "the next claim needs nobody's help",
            course.next_claim == Some(0),
        ),
    ]
}
