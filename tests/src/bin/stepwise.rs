//! `stepwise OPERATION best|portable Beads|Memory|Path DIR`: one operation on that lock in DIR, a step at a time.
//!
//! At each hook point it says `at STEP` and goes on when it is sent a line. At the end it lets the gate go, says `done
//! ANSWER`, and lives until its stdin is closed: it is the process that its own claim names. The lock that it releases
//! names its parent, as that of `beadlock acquire` does.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::parent_id;
use std::path::Path;

use beadlock_checker::{Decision, Options, Place, Verdict};
use beadlock_core::facts::{hostname, now, random_id};
use beadlock_core::record::{Record, beads, memory};
use beadlock_core::take::{
    Attempt, BreakableLock, Broken, Held, Licence, Means, Release, Settled, Site, Step,
};
use beadlock_core::{gate::Gate, look::look};
use beadlock_tests::Kind;
use beadlock_tests::stepwise::Operation;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [operation, means, kind, dir] = words.as_slice() else {
        return Err("OPERATION best|portable KIND DIR".into());
    };
    let operation = Operation::named(operation).ok_or("no such operation")?;
    let kind = Kind::named(kind).ok_or("no such lock")?;
    let place = kind.place(Path::new(dir));
    let means = if means == "portable" {
        Means::PORTABLE
    } else {
        Means::BEST
    };
    let answer = match operation {
        Operation::NaiveRemoval
        | Operation::NaiveRecovery
        | Operation::NaiveClaim
        | Operation::NaiveRelease
        | Operation::RemovalWithoutGrace => naively(operation, kind, &place),
        _ => by_the_protocol(operation, means, kind, &place),
    };
    println!(
        "done {}",
        answer.unwrap_or_else(|error| format!("Error: {error}"))
    );
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// Stands at a step until it is sent a line.
fn stop(step: Step) {
    // Nobody is there to hear it, or to send anything: then there is nothing to wait for.
    let _ = writeln!(io::stdout(), "at {step:?}");
    let _ = io::stdin().read_line(&mut String::new());
}

/// What `kind` of lock of the process `pid` says.
fn record(kind: Kind, pid: u32) -> Result<Record, Box<dyn Error>> {
    Ok(match kind {
        Kind::Beads | Kind::Path => beads::Record::for_process(pid, "ours", "")?.into(),
        Kind::Memory => {
            let (mark, host) = (
                memory::BeadlockKey::of(pid, random_id()),
                hostname().map(|name| name.to_string()),
            );
            memory::Record::of_claim((pid, mark), ("ours", "test"), now(), host).into()
        }
    })
}

fn by_the_protocol(
    operation: Operation,
    means: Means,
    kind: Kind,
    place: &Place,
) -> Result<String, Box<dyn Error>> {
    let gate = Gate::take_blocking(place.dir())?;
    let site = || {
        Site::new(&gate, &Options::default())
            .with_names(place.names())
            .with_means(means)
    };
    let stopping = || site().with_hook(stop);
    Ok(match operation {
        Operation::Claim => match stopping().claim(record(kind, std::process::id())?)? {
            Attempt::Claimed(..) => "Claimed".to_owned(),
            Attempt::Refused(skip, _) => format!("Refused: {}", Decision::from(skip)),
        },
        Operation::Release | Operation::ReleaseBesideAClaim => {
            let held = claimed(site(), operation, kind, place)?;
            match stopping().release(&held)? {
                Release::Released => "Released".to_owned(),
                Release::Gone => "Gone".to_owned(),
                Release::NotOurs(_) => "NotOurs".to_owned(),
            }
        }
        Operation::Break => {
            let seen = BreakableLock::at(place, &Options::default());
            match stopping().break_lock(&seen, Licence::EvenIfLive)? {
                Broken::Kept { .. } => "Kept".to_owned(),
                other => format!("{other:?}"),
            }
        }
        _ => match stopping().settle() {
            Settled::Free { .. } => "Free".to_owned(),
            Settled::Refused { skip, .. } => format!("Refused: {}", Decision::from(skip)),
        },
    })
}

/// A claim for the parent; what was aside before is aside again after it.
fn claimed(
    site: Site<'_>,
    operation: Operation,
    kind: Kind,
    place: &Place,
) -> Result<Held, Box<dyn Error>> {
    let (aside, kept) = (place.aside(), place.dir().join("kept"));
    let is_beside = operation == Operation::ReleaseBesideAClaim;
    if is_beside {
        fs::rename(&aside, &kept)?;
    }
    let attempt = site.claim(record(kind, parent_id())?)?;
    if is_beside {
        fs::rename(&kept, &aside)?;
    }
    match attempt {
        Attempt::Claimed(held, _) => Ok(held),
        Attempt::Refused(skip, _) => Err(format!("{skip:?}").into()),
    }
}

/// What everybody writes first: no gate, no second look, nothing aside.
fn naively(operation: Operation, kind: Kind, place: &Place) -> Result<String, Box<dyn Error>> {
    let verdict = || look(place, &Options::default()).verdict;
    let record = |pid| record(kind, pid).map(|record| record.to_json());
    Ok(match operation {
        Operation::NaiveRecovery => {
            stop(Step::SideFound);
            fs::rename(place.aside(), place.path())?;
            stop(Step::Recovered);
            "Refused".to_owned()
        }
        Operation::NaiveClaim => {
            if !matches!(verdict(), Verdict::Free | Verdict::Stale(_)) {
                return Ok("Refused".to_owned());
            }
            stop(Step::Absent);
            if kind == Kind::Memory {
                // As its document has it.
                let draft = place.dir().join(".lock.lock.tmp");
                fs::write(&draft, record(std::process::id())?)?;
                fs::rename(draft, place.path())?;
                stop(Step::Linked);
                return Ok("Claimed".to_owned());
            }
            let mut file = fs::File::create(place.path())?;
            stop(Step::Synced);
            file.write_all(record(std::process::id())?.as_bytes())?;
            stop(Step::Linked);
            "Claimed".to_owned()
        }
        Operation::NaiveRelease => {
            fs::write(place.path(), record(parent_id())?)?;
            if !fs::read_to_string(place.path())?.contains("ours") {
                return Ok("NotOurs".to_owned());
            }
            stop(Step::Judged);
            fs::remove_file(place.path())?;
            stop(Step::Deleted);
            "Released".to_owned()
        }
        Operation::RemovalWithoutGrace => {
            let before = fs::read(place.path())?;
            stop(Step::Judged);
            fs::rename(place.path(), place.aside())?;
            stop(Step::MovedAside);
            if fs::read(place.aside())? != before {
                fs::rename(place.aside(), place.path())?;
                return Ok("Refused".to_owned());
            }
            fs::remove_file(place.aside())?;
            stop(Step::Deleted);
            "Free".to_owned()
        }
        _ => match verdict() {
            Verdict::Stale(_) => {
                stop(Step::Judged);
                fs::remove_file(place.path())?;
                stop(Step::Deleted);
                "Free".to_owned()
            }
            other => format!("Refused: {other:?}"),
        },
    })
}
