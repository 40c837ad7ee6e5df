//! Claims of every kind, at any time, for a moment each; under each a line is written to the file that all share.

use std::fs::{self, File};
use std::io::Write;

use beadlock_tests::{Ended, lock_text, run, this_host};
use nix::fcntl::{Flock, FlockArg};

use super::ledger::now;
use super::world::World;

const SHARED: &str = ".beads/shared.jsonl";

pub fn claims(world: &World, clone: char) {
    let mut dice = world.dice("claims", clone);
    let mut count = 0;
    while !world.is_over() {
        dice.pause(100, 1000);
        count += 1;
        let line = format!("{{\"id\":\"shared-{clone}-{count}\"}}");
        let millis = 20 + dice.below(250);
        let (kind, span) = match dice.below(3) {
            0 => ("hold", by_hold(world, clone, &line, millis)),
            1 => ("acquire", by_acquire(world, clone, &line, millis)),
            _ => ("naive writer", by_writing(world, clone, &line, millis)),
        };
        let mut ledger = world.ledger();
        match span {
            Ok(span) => {
                ledger.claims.push((clone, kind, span));
                ledger.count(format!("claims by {kind}"));
                ledger.lines.entry(SHARED.to_owned()).or_default().push(line);
            }
            Err(_) => ledger.count(format!("claims by {kind} that were not had")),
        }
    }
}

/// For how long a claim waits for the cycle that it has come into: shorter than the test waits for the claim, however busy the
/// machine is with other things.
const DRAIN: &str = "45s";

/// What is done under a claim: the times of its beginning and end are printed.
fn work(line: &str, millis: u64) -> String {
    format!("date +%s%N; sleep {}; echo '{line}' >>{SHARED}; date +%s%N", millis as f64 / 1000.0)
}

fn span(ended: &Ended) -> Result<(u128, u128), String> {
    let mut times = ended.out.lines().filter_map(|line| line.parse().ok());
    match (ended.code, times.next(), times.next()) {
        (0, Some(from), Some(to)) => Ok((from, to)),
        _ => Err(format!("{ended:?}")),
    }
}

fn by_hold(world: &World, clone: char, line: &str, millis: u64) -> Result<(u128, u128), String> {
    let mut hold = world.bench.scene().beadlock(&[
        "hold",
        "-q",
        "--drain",
        DRAIN,
        "--",
        "sh",
        "-c",
        &work(line, millis),
    ]);
    hold.current_dir(world.clone_of(clone));
    span(&run(hold).into())
}

fn by_acquire(world: &World, clone: char, line: &str, millis: u64) -> Result<(u128, u128), String> {
    let script = format!(
        "set -eu\nclaim=$(\"$BEADLOCK\" acquire -q --drain {DRAIN} --holder importer)\nset -a; eval \"$claim\"; set +a\n{}\n\
         \"$BEADLOCK\" release -q --id \"$BEADLOCK_ID\"",
        work(line, millis)
    );
    let mut shell = world.bench.scene().shell(&script);
    shell.current_dir(world.clone_of(clone)).env("BEADLOCK", beadlock_tests::binaries::beadlock());
    span(&run(shell).into())
}

/// As a tool that knows only the lock file, but for two things: it does not write over a lock, and its claim counts
/// from the end of the cycle that it has come into.
fn by_writing(world: &World, clone: char, line: &str, millis: u64) -> Result<(u128, u128), String> {
    let lock = world.beads(clone).join(".exclusive-lock");
    let record = lock_text("naive", std::process::id().into(), &this_host());
    let mut file = File::create_new(&lock).map_err(|error| error.to_string())?;
    file.write_all(record.as_bytes()).expect("write the lock");
    drop(file);
    let dir = File::open(world.beads(clone)).expect("open .beads");
    drop(Flock::lock(dir, FlockArg::LockExclusive).expect("the gate opens"));
    let from = now();
    std::thread::sleep(std::time::Duration::from_millis(millis));
    world.append(clone, SHARED, line);
    let to = now();
    let found = fs::read_to_string(&lock).unwrap_or_default();
    assert_eq!(found, record, "a claim in place is lost");
    fs::remove_file(&lock).expect("remove the lock");
    Ok((from, to))
}
