//! What is much stays bounded: names, objects, words.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::wait_until;

use crate::bench::{Bench, is_naive, script, stops_when_naive};

/// More files that must not be tracked than one line can name.
#[test]
fn many_tracked_logs() {
    let bench = Bench::new();
    bench.shell("for i in $(seq 400); do echo log >.beads/daemon.log.$i; done; git add -f .beads; git commit -qm logs");
    let told = bench.once();
    told.ends_with(1, "400 logs");
    told.says("are tracked by git", "400 logs");
    told.says("rm --cached -- .beads/daemon.log.1 ", "400 logs");
    assert!(
        is_naive() || !told.log.contains("Sync cycle complete"),
        "{}",
        told.log
    );
}

/// What is made anew in each cycle, and cannot be pulled, is the same each time.
#[test]
fn a_conflict_makes_no_objects_again() {
    let bench = Bench::new();
    bench.shell(
        "for i in 1 2 3 4; do echo $i >>src/y.rs; git commit -qam $i; done; echo 5 >src/x.rs; git commit -qam 5",
    );
    bench.pushed_there(&[("src/x.rs", "theirs\n")]);
    bench
        .once()
        .says("conflict with origin/main in src/x.rs", "a conflict");
    let objects = || count(&bench.here().join(".git/objects"));
    let (before, begun) = (objects(), second());
    wait_until(PATIENCE, "another second", || second() > begun);
    bench
        .cycles(4)
        .says("conflict with origin/main in src/x.rs", "a conflict");
    assert!(
        is_naive() || objects() == before,
        "{before} objects, then {}",
        objects()
    );
}

fn second() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs()
}

fn count(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).expect("list the objects").flatten();
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                count(&entry.path())
            } else {
                1
            }
        })
        .sum()
}

/// A hook that does not stop printing: what is kept of it is little.
#[test]
fn a_hook_that_prints_without_end() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    // The hook's parent is git, whose parent is the sync.
    let print = "sync=$(cut -d ' ' -f 4 /proc/$PPID/stat); line=$(printf '%01000d' 0); \
                 yes $line | head -c 150000000 >&2; grep VmHWM /proc/$sync/status >../peak";
    script(&bench.here().join(".git/hooks/pre-commit"), print);
    bench.write(".beads/mine.jsonl", "{}\n");
    bench.syncs("much output");
    let peak = fs::read_to_string(bench.path().join("peak")).expect("the hook has looked");
    let peak: u64 = peak
        .split_whitespace()
        .nth(1)
        .and_then(|peak| peak.parse().ok())
        .expect("VmHWM: N kB");
    assert!((1_000..100_000).contains(&peak), "{peak} kB");
    assert!(bench.log().contains("(much left out)"));
}
