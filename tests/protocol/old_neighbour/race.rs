//! Four of the document's lock managers and four of ours over one counter, and a log of which was at work when.
//!
//! Two of ours are never at work at once. One of theirs and one of ours are only where it wrote its lock after ours was
//! complete: it looks first and writes then, and in between ours came. `NEIGHBOUR_SECONDS` (3) is how long they go on.

use std::fs;
use std::time::{Duration, Instant};

use beadlock_tests::{Running, wait_until};

use crate::memory::Workspace;

const PATIENCE: Duration = Duration::from_secs(60);

/// The work under the lock: its process, from when to when, and whose lock was there at the begin.
const WORK: &str = "import json, os, signal, sys, time\n\
    log = os.open('log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n\
    def say(*words): os.write(log, (' '.join(map(str, (time.monotonic_ns(), os.getpid()) + words)) + '\\n').encode())\n\
    def there():\n    try: return json.load(open('memory/.lock')).get('pid', 0)\n    except (OSError, ValueError): return 0\n\
    def work(who):\n    say('begin', who, there())\n    \
        count = int(open('counter').read() or 0)\n    time.sleep(0.02)\n    open('counter', 'w').write(str(count + 1))\n    say('end', who)\n";

/// One of ours, under `beadlock hold`: told to end, it says when it did.
const OURS: &str =
    "signal.signal(signal.SIGTERM, lambda *_: (say('end', 'ours'), os._exit(1)))\nwork('ours')\n";

/// One of theirs. What its own race with another of theirs makes of it (their new locks have one name before they are
/// renamed) is an end like any other. It looks often, or it would never find the lock free beside four who are woken.
const THEIRS: &str = "lock.BACKOFF_BASE_MS, lock.BACKOFF_MAX_MS = 1, 10\nwrite = lock._write_lock\n\
    def written(operation): write(operation); say('wrote', 'old')\n\
    lock._write_lock = written\n\
    try: lock.acquire_blocking('count', max_wait=2)\nexcept (LockError, OSError, AttributeError): sys.exit()\n\
    work('old')\nlock.release()\n";

#[derive(Debug, Clone)]
struct Turn {
    process: u32,
    is_ours: bool,
    begin: u64,
    end: u64,
    /// Whose lock was there at the begin.
    there: u32,
    /// When its lock was written, of theirs.
    wrote: Option<u64>,
}

fn turns(log: &str) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut wrote = std::collections::BTreeMap::new();
    for line in log.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [time, process, what, who, rest @ ..] = &*words else {
            panic!("{line}")
        };
        let (time, process): (u64, u32) = (
            time.parse().expect("a time"),
            process.parse().expect("a process"),
        );
        match *what {
            "wrote" => {
                wrote.insert(process, time);
            }
            "begin" => turns.push(Turn {
                process,
                is_ours: *who == "ours",
                begin: time,
                end: u64::MAX,
                there: rest
                    .first()
                    .and_then(|pid| pid.parse().ok())
                    .unwrap_or_default(),
                wrote: wrote.get(&process).copied(),
            }),
            _ => {
                if let Some(turn) = turns.iter_mut().find(|turn| turn.process == process) {
                    turn.end = time.min(turn.end);
                }
            }
        }
    }
    turns
}

#[test]
fn two_of_ours_are_never_at_work_at_once_and_one_of_theirs_only_by_its_own_race() {
    let Some(workspace) = Workspace::new() else {
        return;
    };
    let seconds = std::env::var("NEIGHBOUR_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    let path = workspace.scene.path();
    fs::write(path.join("counter"), "").expect("write the counter");
    fs::write(path.join("ours.py"), format!("{WORK}{OURS}")).expect("write ours");
    let begun = Instant::now();
    let limit = Duration::from_secs(seconds.unwrap_or(3));
    // A process has one turn: by the document it would have the lock again while its PID is in it.
    let ours = || {
        let hold = [
            "hold",
            "memory:memory",
            "--wait",
            "30",
            "--kill-after",
            "1s",
            "--",
            "python3",
            "ours.py",
        ];
        Running::start(workspace.scene.beadlock(&hold))
    };
    let theirs = || Running::start(workspace.python(&format!("{WORK}{THEIRS}")));
    let mut running: Vec<(bool, Running)> = Vec::new();
    for _ in 0..4 {
        running.push((true, ours()));
        running.push((false, theirs()));
    }
    let mut rounds = 0_u32;
    while begun.elapsed() < limit {
        rounds += 1;
        for (at, (is_ours, one)) in running.iter_mut().enumerate() {
            // Ours come back less often than theirs.
            let is_due = !*is_ours || (rounds as usize + at * 5).is_multiple_of(40);
            if is_due && !one.is_running() {
                *one = if *is_ours { ours() } else { theirs() };
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // All of them each time: a zombie's lock is a living process's.
    wait_until(PATIENCE, "their end", || {
        let ended = running
            .iter_mut()
            .filter_map(|(_, one)| (!one.is_running()).then_some(()));
        ended.count() == 8
    });
    let turns = turns(&fs::read_to_string(path.join("log")).unwrap_or_default());
    let (mut of_theirs, mut mixed) = (0, 0);
    for (at, one) in turns.iter().enumerate() {
        for other in &turns[at + 1..] {
            if one.begin >= other.end || other.begin >= one.end {
                continue;
            }
            let (ours, its) = match (one.is_ours, other.is_ours) {
                (true, true) => panic!("two of ours at once: {one:?} {other:?}"),
                (false, false) => {
                    of_theirs += 1;
                    continue;
                }
                (true, false) => (one, other),
                (false, true) => (other, one),
            };
            mixed += 1;
            // Ours never goes over a file: what is there in its place at its begin came after it.
            let came_after =
                its.wrote.is_some_and(|wrote| wrote > ours.begin) || ours.there == its.process;
            assert!(
                came_after,
                "its lock was there, and ours was at work: {ours:?} {its:?}"
            );
        }
    }
    let count = |is_ours| turns.iter().filter(|turn| turn.is_ours == is_ours).count();
    let (ours, its) = (count(true), count(false));
    println!(
        "{ours} of ours, {its} of theirs: 0 times two of ours, {mixed} times one of each, {of_theirs} times two of theirs"
    );
    assert!(ours > 0 && its > 0, "no race");
    assert!(
        turns
            .iter()
            .all(|turn| !turn.is_ours || turn.end < u64::MAX),
        "each of ours has said its end"
    );
}
