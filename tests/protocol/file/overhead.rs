//! What the lock of a write costs beside the write: section 8.1 of the document. `make bench BENCH=files` measures it
//! more exactly, and with the shell's functions too.

use std::time::{Duration, Instant};

use beadlock::file::FileLock;

/// At most so much of an unlocked write.
const SHARE: f64 = 0.05;

/// How often each is measured in a round. The quickest of them counts: what disturbs the machine does not disturb all.
const TIMES: u32 = 40;

#[test]
fn the_lock_of_a_write_costs_less_than_a_twentieth_of_it() {
    // On a disk: in memory there is nothing to sync.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
    let path = dir.path().join("todo.json");
    let content = format!("[{}0]", "{\"id\": 1, \"done\": false}, ".repeat(40));
    let mut rounds = (0..5).map(|_| {
        // The control: writes under one lock, which takes no other for them.
        let held = FileLock::exclusive(&path).expect("a free lock");
        let write = quickest(|| drop(held.write(&content).expect("it is written")));
        held.release().expect("it stood");
        let lock = quickest(|| {
            FileLock::exclusive(&path)
                .expect("a free lock")
                .release()
                .expect("it stood");
        });
        println!("a lock {lock:?}, a write {write:?}");
        lock.as_secs_f64() / write.as_secs_f64()
    });
    assert!(
        rounds.any(|share| share < SHARE),
        "in each of five rounds the lock cost more"
    );
}

fn quickest(mut once: impl FnMut()) -> Duration {
    let measured = (0..TIMES).map(|_| {
        let begun = Instant::now();
        once();
        begun.elapsed()
    });
    measured.min().expect("at least one")
}
