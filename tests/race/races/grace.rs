//! A writer that lingers: it has opened the lock at one step, and writes at a later one, or in the grace, when the lock
//! is aside. Without leases nothing but the grace shows it; with a grace of 0, the control, its claim is lost.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use beadlock_tests::stepwise::Operation;
use beadlock_tests::{Kind, Scene};

use crate::actor::{Actor, Said};
use crate::operation::{live, prepare};
use crate::standing::{Checker, standing};

/// For how long a lock that is aside is watched at least.
const GRACE: Duration = Duration::from_millis(100);
/// When the writer writes in it.
const MOMENT: Duration = Duration::from_millis(30);
/// On a machine that is busy with other things it may come too late: then the same again.
const TRIES: usize = 20;

/// Where a lock that may go stands until it is aside.
const STEPS: [&str; 4] = ["Judged", "Leased", "JudgedAgain", "MovedAside"];

/// When the writer writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// At this step.
    At(&'static str),
    /// After the last of them.
    InTheGrace,
}

/// What has come of it.
#[derive(Debug)]
struct Lingered {
    answer: String,
    standing: Vec<String>,
    left: Vec<String>,
}

/// The operation takes its course, without leases, beside such a writer. None: it has written too late.
fn play(operation: Operation, opens: &str, writes: Writes) -> Option<Lingered> {
    let scene = Scene::new();
    prepare(operation, Kind::Beads, &scene);
    let mut actor = Actor::start(&scene, operation, "portable", Kind::Beads);
    let (mut file, mut written) = (None, None);
    let answer = loop {
        let step = match actor.next() {
            Said::At(step) => step,
            Said::Done(answer) => break answer,
        };
        if step == opens && file.is_none() && written.is_none() {
            file = Some(
                OpenOptions::new()
                    .write(true)
                    .open(scene.lock())
                    .expect("open the lock"),
            );
        }
        if matches!(writes, Writes::At(at) if at == step)
            && let Some(file) = file.take()
        {
            write(file);
            written = Some(Duration::ZERO);
        }
        // The grace begins after this: what is written before as long has gone by is written in it.
        let begun = Instant::now();
        actor.go_on();
        if step == "MovedAside"
            && let Some(file) = file.take()
        {
            std::thread::sleep(MOMENT);
            write(file);
            written = Some(begun.elapsed());
        }
    };
    let written = written.unwrap_or_else(|| panic!("{operation:?} did not come so far: {answer}"));
    let standing = standing(&scene, Kind::Beads, Checker::Library);
    let mut left = scene.names();
    left.retain(|name| name != "issues.jsonl");
    (written < GRACE).then_some(Lingered {
        answer,
        standing,
        left,
    })
}

fn write(mut file: File) {
    file.set_len(0).expect("empty the lock");
    file.write_all(live(Kind::Beads, "naive").as_bytes())
        .expect("write the lock");
}

#[test]
fn who_has_the_lock_open_and_writes_up_to_the_end_of_the_grace_keeps_his_claim() {
    let mut squares = Vec::new();
    for operation in [Operation::Removal, Operation::Claim] {
        for (at, opens) in STEPS[..3].iter().enumerate() {
            let later = STEPS[at + 1..].iter().map(|step| Writes::At(step));
            squares.extend(
                later
                    .chain([Writes::InTheGrace])
                    .map(|writes| (operation, *opens, writes)),
            );
        }
    }
    for &(operation, opens, writes) in &squares {
        let in_time = (0..TRIES).find_map(|_| play(operation, opens, writes));
        let lingered = in_time.expect("the writer writes in time");
        let what = format!("{operation:?}, opens at {opens}, {writes:?}: {lingered:?}");
        assert!(lingered.answer.starts_with("Refused"), "{what}");
        assert_eq!(
            (lingered.standing, lingered.left),
            (vec!["naive".to_owned()], vec![]),
            "{what}"
        );
    }
    println!("a writer that lingers: {} squares, 0 lost", squares.len());
    assert_eq!(squares.len(), 18);
}

/// The control: what is aside is compared at once, and deleted.
#[test]
fn who_writes_after_a_grace_of_0_loses_his_claim() {
    let loses = |_| {
        let lingered = play(Operation::RemovalWithoutGrace, "Judged", Writes::InTheGrace);
        lingered.is_some_and(|lingered| lingered.answer == "Free" && lingered.standing.is_empty())
    };
    assert!(
        (0..TRIES).any(loses),
        "no claim was lost: the squares show nothing of the grace"
    );
    // The comparison sees a write before it.
    let seen = play(
        Operation::RemovalWithoutGrace,
        "Judged",
        Writes::At("MovedAside"),
    );
    assert_eq!(
        seen.expect("at a step it is never late").standing,
        ["naive"]
    );
}
