//! Every command is killed before every system call, of the program, its threads and what it has forked; and every
//! call to the file system fails once with each error ([`faults`](super::faults)).
//!
//! Each command has a PID namespace of its own, so its calls can be counted: our own stops and strace must count the
//! same ([`counted`]), and no call is overlooked. In `make test` some of the calls, another part each time;
//! `make syscalls` takes each one. `SYSCALL_STRIDE` and `SYSCALL_SEED` repeat a run.

mod counted;
mod path;

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::iter::Sum;
use std::ops::Add;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use beadlock_tests::alone::{Shard, shard, shards};
use beadlock_tests::seed::Recipe;
use beadlock_tests::stepped::{Calls, Counted, Stepped, kill_at};
use beadlock_tests::{Ended, Scene, become_subreaper, binaries, reap_all, skip};

use super::{
    ACQUIRE, BREAK, CHECK, CHECK_REFUSED, CYCLE, CYCLE_REFUSED, Case, DETACH, HOLD, HOLD_REFUSED,
    HOLD_STALE, MEMORY_ACQUIRE, MEMORY_BREAK, MEMORY_CHECK, MEMORY_HOLD, MEMORY_REFRESH,
    MEMORY_REFUSED, MEMORY_RELEASE, MEMORY_STALE, Part, RELEASE, still_claimed, words,
};

/// Processes that divide the work on a command.
const SHARDS: usize = 2;
/// Runs that end undisturbed before the last call counts as passed: not every run is equally long.
const LAST: usize = 3;
/// How long a shard of a command may take; every call of the longest takes a few minutes.
const BOUND: Duration = Duration::from_secs(1800);

const AGENT: Case = Case {
    program: binaries::agent,
    words: |_, _| words(&["--once", "--exec", "sleep 0.1"]),
    ..CHECK
};

/// The shell recipe: it writes its lock in place, and works.
const RECIPE: Case = Case {
    program: || "/bin/sh".into(),
    words: |_, _| vec!["-c".into(), format!("{}true", Recipe::any().create)],
    ..HOLD
};

/// What was tried on a command, and how it went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Row {
    calls: usize,
    /// 0 where it is missing: then there are kills alone.
    strace: usize,
    killed: usize,
    injected: usize,
    failed: usize,
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<usize> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [calls, strace, killed, injected, failed] = numbers[..] else {
            return None;
        };
        Some(Self {
            calls,
            strace,
            killed,
            injected,
            failed,
        })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            calls,
            strace,
            killed,
            injected,
            failed,
        } = self;
        write!(
            f,
            "{calls:>7} {strace:>9} {killed:>9} {injected:>8} {failed:>8}"
        )
    }
}

impl Add for Row {
    type Output = Self;

    /// The same command in another shard: it has as many calls there.
    fn add(self, other: Self) -> Self {
        Self {
            calls: self.calls.max(other.calls),
            strace: self.strace.max(other.strace),
            killed: self.killed + other.killed,
            injected: self.injected + other.injected,
            failed: self.failed + other.failed,
        }
    }
}

impl Sum for Row {
    fn sum<I: Iterator<Item = Self>>(rows: I) -> Self {
        rows.fold(Self::default(), Self::add)
    }
}

pub fn asked(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

/// Where a part is tried, this says which.
pub fn seed() -> usize {
    asked("SYSCALL_SEED").unwrap_or_else(|| std::process::id() as usize)
}

/// As `make syscalls` does.
pub fn is_every_call_asked_for() -> bool {
    asked("SYSCALL_STRIDE") == Some(1)
}

/// Which of `all` are tried, from 0 on: an endless row when `all` is not known for certain.
pub struct Chosen {
    seed: usize,
    few: usize,
    shard: Shard,
}

impl Chosen {
    pub fn of(&self, all: usize) -> impl Iterator<Item = usize> + use<> {
        let stride = asked("SYSCALL_STRIDE").unwrap_or(all / self.few).max(1);
        self.shard.part((self.seed % stride..).step_by(stride))
    }
}

/// Tries `what`, which panics where something does not hold. Returns how many such there were, and says what.
pub fn failures(what: impl FnOnce()) -> usize {
    usize::from(catch_unwind(AssertUnwindSafe(what)).is_err())
}

impl Case {
    /// How many kills there were, and how many of them left what must not be.
    fn killed_at_every_call(&self, counted: Counted, chosen: &Chosen) -> (usize, usize) {
        let (mut killed, mut failed, mut ended) = (0, 0, 0);
        let first = if self.part == Part::All {
            0
        } else {
            counted.before_command
        };
        for at in chosen.of(counted.begun - first).map(|at| first + at) {
            reap_all();
            failed += failures(|| {
                let scene = Scene::new();
                let others = (self.before)(&scene);
                let lock = self.kind.text(&scene);
                let command = self.command(&scene, &others, "kill -STOP $$;");
                let what = format!("before call {at} of {:?}", command.get_args());
                match kill_at(command, at, Calls::All, |left| {
                    still_claimed(self.kind, &scene, left, &what)
                }) {
                    Stepped::Killed => killed += 1,
                    Stepped::Ended(code, _) => {
                        assert_eq!(code, self.code, "{what}: it ended by itself");
                        ended += 1;
                    }
                    Stepped::Impossible => panic!("{what}: nobody may trace it any more"),
                }
                let is_touched = self.is_refused() && self.kind.text(&scene) != lock;
                assert!(!is_touched, "{what}: it touched a live lock");
                self.recovers(&scene, others, &what);
            });
            if ended >= LAST {
                break;
            }
        }
        (killed, failed)
    }

    /// All that this process is to try.
    fn tried(&self, shard: Shard) -> Option<Row> {
        become_subreaper();
        let (counted, strace) = self.counted()?;
        let seed = asked("SYSCALL_SEED").unwrap_or_default();
        let chosen = Chosen {
            seed,
            few: self.few,
            shard,
        };
        let (killed, failed) = self.killed_at_every_call(counted, &chosen);
        let (injected, not_honest) = self.fails_at_every_call(&chosen).unwrap_or_default();
        Some(Row {
            calls: counted.begun,
            strace,
            killed,
            injected,
            failed: failed + not_honest,
        })
    }

    /// The row of this command in the table, and what was said on the way; None where it cannot be tried, which is
    /// said.
    #[track_caller]
    fn row(&self, name: &str) -> Option<(Row, String)> {
        if let Some(shard) = shard() {
            match self.tried(shard) {
                Some(row) => println!("row {row}"),
                None => skip::cannot("nobody may trace a program here"),
            }
            return None;
        }
        static HEAD: Once = Once::new();
        let seed = seed();
        HEAD.call_once(|| {
            eprintln!(
                "SYSCALL_SEED={seed}\n{:<18} {:>7} {:>9} {:>9} {:>8} {:>8} {:>5}",
                "command", "calls", "strace", "killed at", "injected", "failures", "s"
            );
        });
        let begun = Instant::now();
        let test = format!("every_call::{name}");
        // Most of the other's time nothing happens.
        let shared_by = match self.part {
            // What is a part of them needs no other process beside it.
            Part::All if self.few < SHARDS * SHARDS && asked("SYSCALL_STRIDE").is_none() => 1,
            Part::All => SHARDS,
            Part::FromTheCommandOn => 4 * SHARDS,
        };
        let ended = shards(&test, shared_by, ("SYSCALL_SEED", seed.to_string()), BOUND)?;
        let said = ended
            .iter()
            .map(|ended| ended.err.as_str())
            .collect::<String>();
        for line in said
            .lines()
            .filter(|line| line.starts_with("skipped: "))
            .collect::<BTreeSet<_>>()
        {
            // Past the test runner's capture, as `skip` says it.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        let row_of = |ended: &Ended| {
            ended
                .out
                .lines()
                .find_map(|line| Row::parse(line.split_once("row ")?.1))
        };
        let Some(rows) = ended.iter().map(row_of).collect::<Option<Vec<Row>>>() else {
            assert!(said.contains("skipped: "), "{said}");
            return None;
        };
        let row: Row = rows.into_iter().sum();
        eprintln!("{:<18} {row} {:>5.0}", name, begun.elapsed().as_secs_f32());
        Some((row, said))
    }

    /// Nothing of it all may fail.
    #[track_caller]
    fn holds(&self, name: &str) {
        let Some((row, said)) = self.row(name) else {
            return;
        };
        assert_eq!(row.failed, 0, "{name}: {said}");
        let injected = row.injected >= self.few / 2 || row.strace == 0;
        assert!(
            row.killed >= self.few / 2 && injected,
            "{row:?}: this shows nothing"
        );
    }
}

#[test]
fn hold() {
    HOLD.holds("hold");
}

#[test]
fn hold_refused() {
    HOLD_REFUSED.holds("hold_refused");
}

#[test]
fn hold_stale() {
    HOLD_STALE.holds("hold_stale");
}

#[test]
fn acquire() {
    ACQUIRE.holds("acquire");
}

#[test]
fn acquire_detach() {
    DETACH.holds("acquire_detach");
}

#[test]
fn release() {
    RELEASE.holds("release");
}

#[test]
fn break_elsewhere() {
    BREAK.holds("break_elsewhere");
}

#[test]
fn cycle() {
    CYCLE.holds("cycle");
}

#[test]
fn cycle_refused() {
    CYCLE_REFUSED.holds("cycle_refused");
}

#[test]
fn check() {
    CHECK.holds("check");
}

#[test]
fn check_refused() {
    CHECK_REFUSED.holds("check_refused");
}

#[test]
fn agent_once() {
    AGENT.holds("agent_once");
}

#[test]
fn memory_hold() {
    MEMORY_HOLD.holds("memory_hold");
}

#[test]
fn memory_stale() {
    MEMORY_STALE.holds("memory_stale");
}

#[test]
fn memory_refused() {
    MEMORY_REFUSED.holds("memory_refused");
}

#[test]
fn memory_refresh() {
    MEMORY_REFRESH.holds("memory_refresh");
}

#[test]
fn memory_acquire() {
    MEMORY_ACQUIRE.holds("memory_acquire");
}

#[test]
fn memory_release() {
    MEMORY_RELEASE.holds("memory_release");
}

#[test]
fn memory_break() {
    MEMORY_BREAK.holds("memory_break");
}

#[test]
fn memory_check() {
    MEMORY_CHECK.holds("memory_check");
}

/// The control: the same kills and faults, and what must not be is.
#[test]
fn shell_recipe() {
    let Some((row, _)) = RECIPE.row("shell_recipe") else {
        return;
    };
    assert!(
        row.failed > 0,
        "a lock that is written in place was always whole: {row:?}"
    );
}
