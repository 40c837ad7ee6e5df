//! The programs beside what one would use instead: `flock(1)`, and the lock file in a shell with `jq`.
//!
//! All of it in memory (`/dev/shm`), so that the disk sync of a claim costs nothing and no disk is measured. By the
//! clock on the wall, which is what somebody waits for, and by the processor, which leaves out all that they
//! themselves wait for.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use beadlock_core::record::beads::Record;
use beadlock_tests::binaries;

use super::ratio::{Clock, Ratios};
use super::table::Table;

const FLOCK: &str = "/usr/bin/flock";
const JQ: &str = "/usr/bin/jq";
const TRUE: &str = "/usr/bin/true";

/// What the author of a script writes.
const CHECK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/limits/check.sh");
const HOLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/limits/hold.sh");

/// Where nothing is written to a disk.
const MEMORY: &str = "/dev/shm";

/// What a command does that ends just after the release's grace is over, 10 ms after the claim: until then `hold` waits
/// for its command, and after that for nothing.
const A_WHILE: Duration = Duration::from_millis(16);
const A_WHILE_TYPED: &str = "0.016";

/// What is started.
struct Program<'a> {
    dir: &'a Path,
    words: Vec<&'a str>,
    code: i32,
}

impl Program<'_> {
    /// Runs it to its end, from an empty environment; it must end as expected.
    fn run(&self) {
        let mut command = Command::new(self.words[0]);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir(self.dir)
            .args(&self.words[1..]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let code = command.status().expect("a program").code();
        assert_eq!(code, Some(self.code), "{:?}", self.words);
    }

    /// How many seconds it takes, less those for which its command sleeps.
    fn seconds_awake(&self) -> f64 {
        let begun = Clock::Wall.now();
        self.run();
        (Clock::Wall.now() - begun)
            .saturating_sub(A_WHILE)
            .as_secs_f64()
    }
}

pub fn measure(table: &mut Table) {
    let root = if Path::new(MEMORY).is_dir() {
        MEMORY.into()
    } else {
        std::env::temp_dir()
    };
    let root = tempfile::tempdir_in(root).expect("a temporary directory");
    let lock = root.path().join(".beads/.exclusive-lock");
    fs::create_dir(root.path().join(".beads")).expect("a database");
    let path = binaries::beadlock();
    let beadlock = path.to_str().expect("a path that is text");
    let program = |words: &[&'static str], code| Program {
        dir: root.path(),
        words: words.to_vec(),
        code,
    };
    let ours = |words: &[&'static str], code| {
        let words = [&[beadlock], words].concat();
        Program {
            dir: root.path(),
            words,
            code,
        }
    };

    let check = "beadlock check DIR";
    let free = ours(&["check", ".beads"], 0);
    let flock = program(&[FLOCK, "-n", "file", "true"], 0);
    rows(
        table,
        check,
        "flock -n FILE true",
        FLOCK,
        Some(1.5),
        &free,
        &flock,
    );
    rows(
        table,
        check,
        "true, which does nothing",
        TRUE,
        None,
        &free,
        &program(&[TRUE], 0),
    );
    fs::write(
        &lock,
        Record::new("make release", "1.2.3")
            .expect("a record")
            .to_json(),
    )
    .expect("a lock");
    let (held, script) = (
        ours(&["check", ".beads"], 4),
        program(&["sh", CHECK, ".beads"], 4),
    );
    rows(
        table,
        "beadlock check DIR, a live lock",
        "a script with jq, kill -0",
        JQ,
        None,
        &held,
        &script,
    );
    fs::remove_file(&lock).expect("it was there");

    let (hold, flock) = (
        ours(&["hold", "-q", "--", "true"], 0),
        program(&[FLOCK, "file", "true"], 0),
    );
    let script = program(&["sh", HOLD, ".beads", "true"], 0);
    let figure = "beadlock hold -- true";
    let figures = format!("{figure}, without sync, without the release's grace");
    if Path::new(FLOCK).exists() {
        let ours = ours(&["hold", "-q", "--", "sleep", A_WHILE_TYPED], 0);
        let theirs = program(&[FLOCK, "file", "sleep", A_WHILE_TYPED], 0);
        let found = Ratios::between(
            table.runs(),
            3,
            || ours.seconds_awake(),
            || theirs.seconds_awake(),
        );
        table.ratios(
            &format!("{figures}: time"),
            "flock FILE true",
            Some(2.5),
            &found,
        );
        let run = (|| hold.run(), || flock.run());
        let figure = format!("{figures}: processor");
        table.ratio(
            &figure,
            "flock FILE true",
            Some(2.5),
            Clock::Programs,
            run.0,
            run.1,
        );
    } else {
        table.not_here(&figures, &format!("no {FLOCK} here"));
    }
    rows(
        table,
        "beadlock hold lock:PATH -- true",
        "flock FILE true",
        FLOCK,
        Some(1.6),
        &ours(&["hold", "-q", "lock:path.lock", "--", "true"], 0),
        &flock,
    );
    rows(
        table,
        figure,
        "a script with jq, set -C",
        JQ,
        None,
        &hold,
        &script,
    );
}

/// A row by each clock, or why there is none.
fn rows(
    table: &mut Table,
    figure: &str,
    beside: &str,
    needed: &str,
    at_most: Option<f64>,
    ours: &Program,
    theirs: &Program,
) {
    if !Path::new(needed).exists() {
        table.not_here(
            &format!("{figure}, beside {beside}"),
            &format!("no {needed} here"),
        );
        return;
    }
    for (clock, by) in [(Clock::Wall, "time"), (Clock::Programs, "processor")] {
        table.ratio(
            &format!("{figure}: {by}"),
            beside,
            at_most,
            clock,
            || ours.run(),
            || theirs.run(),
        );
    }
}
