//! REQ-F-033 on real processes: what a tool that embeds a lock, and `beadlock` on `lock:PATH`, answer and leave behind.

mod forked;
mod library;
mod requests;
mod shell;

use std::fs;
use std::path::Path;
use std::time::Duration;

use beadlock_tests::{lock_text, this_host};
use jiff::{SignedDuration, Timestamp};

/// Writes a lock of a process that lives, this test, acquired so long ago.
fn write_lock(path: &Path, age: SignedDuration) {
    let text = lock_text("deploy", std::process::id().into(), &this_host());
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("a record is JSON");
    record["started_at"] = (Timestamp::now() - age).to_string().into();
    fs::write(path, record.to_string()).expect("write the lock");
}

/// The least and the most, in milliseconds, that is said of a lock of this age in seconds, negative for a time to
/// come, `took` after it was as old as that.
fn told(age: i64, took: Duration) -> (u64, u64) {
    let pause = |age: Duration| (age.as_millis() as u64 / 4).clamp(1000, 30_000);
    match u64::try_from(age) {
        Err(_) => (2400, 3600),
        Ok(age) => {
            let age = Duration::from_secs(age);
            (
                (pause(age) * 4 / 5).max(1000),
                (pause(age + took) * 6 / 5).min(30_000),
            )
        }
    }
}
