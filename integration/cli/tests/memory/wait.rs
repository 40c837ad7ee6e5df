//! wait: until it is free, or too old.

use crate::scene::{Memory, TARGET};

#[test]
fn it_waits_until_it_is_too_old() {
    let memory = Memory::new();
    memory.write(29_500);
    memory.run(&["wait", TARGET]).expect(
        0,
        &["[LOCK] Breaking stale lock: lock is 3", "s old (>30s)"],
    );
    assert!(memory.names().is_empty());
    memory.write(0);
    memory
        .run(&["wait", TARGET, "--wait", "0.2"])
        .expect(4, &["Could not acquire lock within 0.2s"]);
}

#[test]
fn without_a_directory_it_is_free() {
    let memory = Memory::new();
    for command in ["wait", "check", "status"] {
        memory.run(&[command, "memory:nowhere"]).expect(0, &[]);
    }
    assert!(!memory.scene.file("nowhere").exists());
}
