//! Claims of every kind, at any time, for a moment each; under each a line is written to the file that all share.

use std::fs::{self, File};
use std::io::Write;

use beadlock_tests::{Ended, lock_text, run, this_host};
use nix::fcntl::{Flock, FlockArg};

use super::ledger::{Span, in_one_line, now};
use super::world::World;

const SHARED: &str = ".beads/shared.jsonl";

const HOLD: &str = "hold";
const ACQUIRE: &str = "acquire";
const NAIVE_WRITER: &str = "naive writer";
pub const KINDS: [&str; 3] = [HOLD, ACQUIRE, NAIVE_WRITER];

/// What a claim came to.
#[derive(Default)]
struct Claim {
    /// From, to; none when it was not had, or its work was ended before its time.
    span: Option<Span>,
    /// What became of it, when it did not stay in place to its end.
    wrong: Option<String>,
}

pub fn claims(world: &World, clone: char) {
    let mut dice = world.dice("claims", clone);
    let mut count = 0;
    while !world.is_over() {
        dice.pause(100, 1000);
        count += 1;
        let line = format!("{{\"id\":\"shared-{clone}-{count}\"}}");
        let millis = 20 + dice.below(250);
        claim(world, clone, dice.one_of::<&str>(&KINDS), &line, millis);
    }
}

/// One claim, and what the ledger has of it.
pub fn claim(world: &World, clone: char, kind: &'static str, line: &str, millis: u64) {
    let claim = match kind {
        HOLD => by_hold(world, clone, line, millis),
        ACQUIRE => by_acquire(world, clone, line, millis),
        _ => by_writing(world, clone, line, millis),
    };
    let mut ledger = world.ledger();
    if let Some(span) = claim.span {
        ledger.claims.push((clone, kind, span));
        ledger.count(format!("claims by {kind}"));
        ledger
            .lines
            .entry(SHARED.to_owned())
            .or_default()
            .push(line.to_owned());
    } else if claim.wrong.is_none() {
        ledger.count(format!("claims by {kind} that were not had"));
    }
    if let Some(what) = claim.wrong {
        ledger
            .found
            .push(format!("claim by {kind} in {clone} {what}"));
    }
}

/// For how long a claim waits for the cycle that it has come into: shorter than the test waits for the claim, however
/// busy the machine is with other things.
const DRAIN: &str = "45s";

/// The line before what is in the place of a claim's lock.
const LOST: &str = "lost\n";

/// What is done under a claim: the times of its beginning and end are printed, and then the lock, if it is not the
/// claim's any more.
fn work(line: &str, millis: u64) -> String {
    format!(
        "date +%s%N; sleep {}; echo '{line}' >>{SHARED}; date +%s%N
        found=$(cat .beads/.exclusive-lock 2>&1) || :
        case $found in *\"${{BEADLOCK_HELD_ID-$BEADLOCK_ID}}\"*) ;; *) echo lost; echo \"$found\" ;; esac",
        millis as f64 / 1000.0
    )
}

fn lost(found: &str) -> String {
    format!("is lost: {}", in_one_line(found))
}

impl From<Ended> for Claim {
    fn from(ended: Ended) -> Self {
        let (times, found) = match ended.out.split_once(LOST) {
            Some((times, found)) => (times, Some(found)),
            None => (ended.out.as_str(), None),
        };
        let mut times = times.lines().filter_map(|line| line.parse::<u128>().ok());
        let (from, to) = (times.next(), times.next());
        let wrong = match (found, ended.code) {
            (Some(found), _) => Some(lost(found)),
            (None, 9) => Some(lost(&ended.err)),
            (None, 0) => None,
            (None, code) => {
                from.map(|_| format!("ended with exit code {code}: {}", in_one_line(&ended.err)))
            }
        };
        Self {
            span: from.zip(to),
            wrong,
        }
    }
}

fn by_hold(world: &World, clone: char, line: &str, millis: u64) -> Claim {
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
    Ended::from(run(hold)).into()
}

fn by_acquire(world: &World, clone: char, line: &str, millis: u64) -> Claim {
    let script = format!(
        "set -eu\nclaim=$(\"$BEADLOCK\" acquire -q --drain {DRAIN} --holder importer)\nset -a; eval \"$claim\"; set +a\n{}\n\
         \"$BEADLOCK\" release -q --id \"$BEADLOCK_ID\"",
        work(line, millis)
    );
    let mut shell = world.bench.scene().shell(&script);
    shell
        .current_dir(world.clone_of(clone))
        .env("BEADLOCK", beadlock_tests::binaries::beadlock());
    Ended::from(run(shell)).into()
}

/// As a tool that knows only the lock file, but for two things: it does not write over a lock, and its claim counts
/// from the end of the cycle that it has come into.
fn by_writing(world: &World, clone: char, line: &str, millis: u64) -> Claim {
    let lock = world.beads(clone).join(".exclusive-lock");
    let record = lock_text("naive", std::process::id().into(), &this_host());
    let Ok(mut file) = File::create_new(&lock) else {
        return Claim::default();
    };
    file.write_all(record.as_bytes()).expect("write the lock");
    drop(file);
    let dir = File::open(world.beads(clone)).expect("open .beads");
    drop(Flock::lock(dir, FlockArg::LockExclusive).expect("the gate opens"));
    let from = now();
    std::thread::sleep(std::time::Duration::from_millis(millis));
    world.append(clone, SHARED, line);
    let to = now();
    let found = fs::read_to_string(&lock).unwrap_or_else(|error| error.to_string());
    // Whosever it is by now: such a tool does not look.
    let removed = fs::remove_file(&lock);
    let found = if found == record {
        removed.err().map(|error| error.to_string())
    } else {
        Some(found)
    };
    Claim {
        span: Some((from, to)),
        wrong: found.map(|found| lost(&found)),
    }
}
