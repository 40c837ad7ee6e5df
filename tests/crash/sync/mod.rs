//! A sync that has something to commit, to pull and to push is killed, and a tool writes to its record file, before each
//! call that changes a file and before and after each git: of the sync itself, and of its gits.
//!
//! After at most three cycles more every record of both clones is in the file, in the last commit and at the remote,
//! once; what a person has staged is as it was; and a reader who looks all the time has never seen the file missing or
//! cut. In `make test` a few of the steps, others each time; `make syscalls` takes each one. `SYSCALL_STRIDE` and
//! `SYSCALL_SEED` repeat a run.

mod clones;

use std::sync::atomic::{AtomicUsize, Ordering};

use beadlock_tests::skip;
use beadlock_tests::stepped::walk::Next;

use clones::{Clones, Found, Tool, Watched};

use crate::every_call::{asked, seed};

/// How many walks there are at a time: they mostly compute.
const LANES: usize = 2;

/// What happens at a step of the sync.
#[derive(Debug, Clone, Copy)]
enum Act {
    Kill,
    KillAll,
    Write(Tool),
}

impl Act {
    /// Does it, where it is a tool's, and says how the sync goes on.
    fn done(self, clones: &Clones) -> Next {
        match self {
            Self::Kill => Next::Kill,
            Self::KillAll => Next::KillAll,
            Self::Write(tool) => {
                clones.write(tool);
                Next::GoOn
            }
        }
    }
}

/// One cycle with acts at some of its steps, and one more after that with others; then cycles that nobody disturbs.
/// Returns whether each act had its step.
fn play(
    (found, watched): (Found, Watched),
    first: &[(usize, Act)],
    second: &[(usize, Act)],
) -> Option<bool> {
    let clones = Clones::new(found);
    let all = first.iter().chain(second);
    let acts = all.clone().count();
    let at = format!("{found:?}, {watched:?}: {first:?}, then {second:?}");
    let seen = AtomicUsize::new(0);
    let tried = clones.watched(|| {
        for acts in [first, second] {
            if acts.is_empty() {
                continue;
            }
            clones.cycle_in_steps(watched, |step| {
                let of_this = acts.iter().filter(|(number, _)| *number == step.number);
                let next = of_this.map(|(_, act)| {
                    seen.fetch_add(1, Ordering::Relaxed);
                    act.done(&clones)
                });
                next.filter(|next| *next != Next::GoOn)
                    .last()
                    .unwrap_or(Next::GoOn)
            })?;
            clones.remove_locks_of_git();
        }
        clones.settle(&at);
        Some(())
    });
    tried?;
    let tools: Vec<_> = all
        .filter_map(|(_, act)| match act {
            Act::Write(tool) => Some(*tool),
            _ => None,
        })
        .collect();
    let all_seen = seen.into_inner() == acts;
    if all_seen {
        clones.are_whole(&tools, &at);
    }
    Some(all_seen)
}

/// How many steps an undisturbed cycle has.
fn steps((found, watched): (Found, Watched)) -> Option<usize> {
    let clones = Clones::new(found);
    let walked = clones.cycle_in_steps(watched, |_| Next::GoOn)?;
    clones.are_whole(&[], "undisturbed");
    Some(walked.steps)
}

/// Of so many steps those that this run tries: `few`, or as many as are asked for.
fn chosen(all: usize, few: usize, whole: usize) -> Vec<usize> {
    let stride = match asked("SYSCALL_STRIDE") {
        Some(stride) => stride * whole,
        None => all / few,
    };
    let stride = stride.max(1);
    (seed() % stride..all).step_by(stride).collect()
}

/// Tries all of these, in lanes, and names each that has failed.
fn all_hold<T: Copy + std::fmt::Debug + Send + Sync>(
    points: &[T],
    hold: impl Fn(T) -> bool + Sync,
) {
    let next = AtomicUsize::new(0);
    let failed = std::sync::Mutex::new(Vec::new());
    let seen = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..LANES {
            threads.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tried =
                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hold(*point)));
                    match tried {
                        Ok(was_there) => {
                            seen.fetch_add(usize::from(was_there), Ordering::Relaxed);
                        }
                        Err(_) => failed.lock().expect("a list").push(*point),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("a list");
    assert!(
        failed.is_empty(),
        "{} of {} have failed: {failed:?} (SYSCALL_SEED={})",
        failed.len(),
        points.len(),
        seed()
    );
    let seen = seen.into_inner();
    assert!(
        seen * 2 > points.len(),
        "only {seen} of {} steps were there: this shows nothing",
        points.len()
    );
    eprintln!("{} steps (SYSCALL_SEED={})", points.len(), seed());
}

/// Tries this at the chosen steps of the sync, or of its gits.
fn at_steps(of: (Found, Watched), (few, whole): (usize, usize), act: impl Fn(usize) -> Act + Sync) {
    let Some(all) = steps(of) else {
        return skip::cannot("nobody may trace a program here");
    };
    let points = chosen(all, few, whole);
    all_hold(&points, |step| {
        play(of, &[(step, act(step))], &[]).unwrap_or_default()
    });
}

/// The sync alone, and its gits end with it; and all at once, as without power.
#[test]
fn a_sync_is_killed_at_each_step() {
    at_steps((Found::Both, Watched::Sync), (6, 1), |step| {
        if step % 2 == 0 {
            Act::KillAll
        } else {
            Act::Kill
        }
    });
}

#[test]
fn a_sync_is_killed_within_its_gits() {
    at_steps((Found::Both, Watched::Gits), (3, 5), |_| Act::KillAll);
}

/// What a person has staged is committed by nobody else, and stays staged.
#[test]
fn a_sync_is_killed_beside_staged_work() {
    at_steps((Found::Staged, Watched::Sync), (2, 1), |_| Act::KillAll);
}

#[test]
fn a_tool_writes_the_file_anew_at_each_step() {
    at_steps((Found::Both, Watched::Sync), (3, 2), |_| {
        Act::Write(Tool::Rewrite)
    });
}

#[test]
fn a_tool_appends_at_each_step() {
    at_steps((Found::Both, Watched::Sync), (3, 2), |_| {
        Act::Write(Tool::Append)
    });
}

/// Each order of a tool's write and a kill, in one cycle or in the one that takes back what the first has left.
#[test]
fn a_tool_writes_beside_a_kill() {
    let of = (Found::Both, Watched::Moves);
    let Some(all) = steps(of) else {
        return skip::cannot("nobody may trace a program here");
    };
    let mut points = Vec::new();
    for write in 0..all {
        for kill in 0..all {
            for tool in [Tool::Rewrite, Tool::Append] {
                points.push((write, kill, tool));
            }
        }
    }
    let points: Vec<_> = chosen(points.len(), 4, 3)
        .into_iter()
        .map(|index| points[index])
        .collect();
    all_hold(&points, |(write, kill, tool)| {
        let (write, kill) = ((write, Act::Write(tool)), (kill, Act::KillAll));
        let played = if write.0 <= kill.0 {
            play(of, &[write, kill], &[])
        } else {
            // In the next cycle, which has fewer steps of the kind before its pull.
            play(of, &[kill], &[(write.0 - kill.0, write.1)])
        };
        played.unwrap_or_default()
    });
}

/// The recovery is killed, too.
#[test]
fn a_sync_is_killed_and_the_next_one_too() {
    let of = (Found::Both, Watched::Moves);
    let Some(all) = steps(of) else {
        return skip::cannot("nobody may trace a program here");
    };
    let points: Vec<_> = (0..all)
        .flat_map(|one| (0..all).map(move |two| (one, two)))
        .collect();
    let points: Vec<_> = chosen(points.len(), 2, 3)
        .into_iter()
        .map(|index| points[index])
        .collect();
    all_hold(&points, |(one, two)| {
        let write = (one, Act::Write(Tool::Rewrite));
        let first = [write, (one, Act::KillAll)];
        // The recovery takes fewer steps than the sync.
        let mut seconds = std::iter::successors(Some(two), |two| (*two > 0).then_some(two / 2));
        seconds.any(|two| play(of, &first, &[(two, Act::KillAll)]).unwrap_or_default())
    });
}

/// Repeats one that has failed: `SYNC_STEPS='5w 5k, 390k'` is two cycles. `w` is a tool that writes the file anew, `a` one
/// that appends, `k` and `K` kills of the sync and of all. The steps are those that change a name.
#[test]
fn one_that_is_asked_for() {
    let Ok(asked) = std::env::var("SYNC_STEPS") else {
        return;
    };
    let act = |word: &str| {
        let (number, what) = word.split_at(word.len() - 1);
        let act = match what {
            "w" => Act::Write(Tool::Rewrite),
            "a" => Act::Write(Tool::Append),
            "k" => Act::Kill,
            _ => Act::KillAll,
        };
        (number.parse().expect("a number"), act)
    };
    let cycles: Vec<Vec<_>> = asked
        .split(',')
        .map(|cycle| cycle.split_whitespace().map(act).collect())
        .collect();
    let second = cycles.get(1).map_or(&[][..], Vec::as_slice);
    play((Found::Both, Watched::Moves), &cycles[0], second);
}

/// The control: a pull that writes its files in place is found out.
#[test]
fn a_reader_finds_a_file_that_is_written_in_place() {
    let clones = Clones::new(Found::Both);
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        clones.watched(|| {
            let path = clones.record_file();
            let text = std::fs::read(&path).expect("read");
            for _ in 0..200 {
                std::fs::write(&path, "").expect("write");
                std::thread::sleep(std::time::Duration::from_millis(1));
                std::fs::write(&path, &text).expect("write");
            }
        });
    }));
    assert!(found.is_err(), "a reader has not seen an empty file");
}
