//! The control of the races: the ways that everybody writes first go through the same squares, and lose claims in those
//! that are named here, and in no others.

use beadlock_tests::Kind;
use beadlock_tests::stepwise::Operation;

use crate::rule::CLAIMS;
use crate::steps::{Broken, Table, play_all};

/// Operation, step, who comes, and which of the sentences is not true then.
const LOST: [(&str, &str, &str, usize); 15] = [
    ("NaiveClaim", "Absent", "Claimer", 3),
    ("NaiveClaim", "Absent", "WriterByRename", 0),
    ("NaiveClaim", "Absent", "WriterInPlace", 0),
    ("NaiveClaim", "Synced", "Crash", 5),
    ("NaiveClaim", "Synced", "WriterByRename", 1),
    ("NaiveClaim", "Synced", "WriterInPlace", 0),
    ("NaiveRecovery", "SideFound", "WriterByRename", 0),
    ("NaiveRecovery", "SideFound", "WriterInPlace", 0),
    ("NaiveRelease", "Judged", "WriterByRename", 0),
    ("NaiveRelease", "Judged", "WriterInPlace", 0),
    ("NaiveRemoval", "Deleted", "WriterByRename", 2),
    ("NaiveRemoval", "Deleted", "WriterInPlace", 2),
    ("NaiveRemoval", "Judged", "Claimer", 3),
    ("NaiveRemoval", "Judged", "WriterByRename", 0),
    ("NaiveRemoval", "Judged", "WriterInPlace", 0),
];

#[test]
fn the_naive_ways_lose_claims_where_they_are_known_to() {
    loses(Kind::Beads, &LOST);
}

#[test]
fn the_documents_order_loses_the_lock_of_a_directory_where_it_is_known_to() {
    // Its claim is the whole record at once: there is no step after it.
    let known: Vec<_> = LOST
        .into_iter()
        .filter(|(_, step, ..)| *step != "Synced")
        .collect();
    assert_eq!(known.len(), 12);
    loses(Kind::Memory, &known);
}

fn loses(kind: Kind, known: &[(&str, &str, &str, usize)]) {
    let Table {
        squares, broken, ..
    } = play_all(&Operation::NAIVE, &["best"], kind);
    let claims = broken.iter().filter_map(
        |Broken {
             square, sentence, ..
         }| {
            let which = CLAIMS.iter().position(|claim| claim == sentence)?;
            let [operation, intruder] = [
                format!("{:?}", square.operation),
                format!("{:?}", square.intruder),
            ];
            Some((operation, square.step.clone(), intruder, which))
        },
    );
    let mut lost: Vec<_> = claims.collect();
    lost.sort();
    println!(
        "races at every step, {kind:?}, the naive ways: {squares} squares, {} lost",
        lost.len()
    );
    let known = known.iter().map(|(operation, step, intruder, which)| {
        (
            (*operation).to_owned(),
            (*step).to_owned(),
            (*intruder).to_owned(),
            *which,
        )
    });
    assert_eq!(lost, known.collect::<Vec<_>>());
}
