//! acquire and release: a keeper keeps the lock up.

use std::process::Command;

use beadlock_testkit::until;

use crate::scene::{Memory, TARGET};

fn id(out: &str) -> String {
    out.lines()
        .find_map(|line| line.strip_prefix("BEADLOCK_ID="))
        .unwrap()
        .to_owned()
}

#[test]
fn a_claim_over_several_commands_is_released_by_its_owner() {
    let memory = Memory::new();
    let mut process = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = process.id().to_string();
    let acquired = memory
        .run(&["acquire", TARGET, "--for", &pid, "--session-id", "main"])
        .expect(0, &["for as long as"]);
    assert_eq!(memory.record()["pid"].to_string(), pid);
    let id = id(&acquired.out);
    memory
        .run(&["release", TARGET, "--id", "another"])
        .expect(9, &["We don't hold the lock. "]);
    assert_eq!(memory.names(), [".lock"]);
    memory
        .run(&["release", TARGET, "--id", &id])
        .expect(0, &["Lock released.\n"]);
    assert!(memory.names().is_empty());
    memory
        .run(&["release", TARGET, "--id", &id])
        .expect(9, &["We don't hold the lock. "]);
    process.kill().unwrap();
    process.wait().unwrap();
}

#[test]
fn the_same_process_is_let_in_again() {
    let memory = Memory::new();
    let mut process = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = process.id().to_string();
    let acquire = || {
        memory
            .run(&["acquire", TARGET, "--for", &pid, "--no-wait"])
            .expect(0, &[])
            .out
    };
    let (first, second) = (id(&acquire()), id(&acquire()));
    assert_eq!(second, format!("nested:{first}"));
    memory
        .run(&["release", TARGET, "--id", &second])
        .expect(0, &["still held by the outer claim"]);
    assert_eq!(memory.names(), [".lock"]);
    process.kill().unwrap();
    process.wait().unwrap();
    until("the keeper has seen its end", || memory.names().is_empty());
}

#[test]
fn without_a_process_its_time_ends_it() {
    let memory = Memory::new();
    memory
        .run(&["acquire", TARGET, "--detach", "--max-hold", "3s"])
        .expect(0, &["kept for at most 3s"]);
    until("its time is over", || memory.names().is_empty());
}
