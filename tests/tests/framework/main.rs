//! REQ-F-033 on real processes: what a tool that embeds a lock, and `beadlock` on `lock:PATH`, answer and leave behind.

mod crowd;
mod shell;

use std::fs;
use std::path::Path;

use beadlock_tests::{lock_text, this_host};
use jiff::{SignedDuration, Timestamp};

/// Writes a lock of a process that lives, this test, acquired so long ago.
fn write_lock(path: &Path, age: SignedDuration) {
    let text = lock_text("deploy", std::process::id().into(), &this_host());
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("a record is JSON");
    record["started_at"] = (Timestamp::now() - age).to_string().into();
    fs::write(path, record.to_string()).expect("write the lock");
}
