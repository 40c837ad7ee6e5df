//! The tests' own race: a program that a test has written is executed while other threads start processes.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use beadlock_tests::{OverAtLast, write_program};

const ROUNDS: usize = 200;
const STARTERS: usize = 2;

/// With `std::fs::write` and `chmod` instead, 5 to 16 of 2000 rounds end with ETXTBSY, so this test fails in about
/// half of its runs.
#[test]
fn a_program_that_a_test_writes_can_be_executed_at_once() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = dir.path().join("program");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let over = OverAtLast(&is_over);
        for _ in 0..STARTERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    Command::new("true").status().expect("true starts");
                }
            });
        }
        for round in 0..ROUNDS {
            write_program(
                &program,
                format!("#!/bin/sh\nexit {}\n", round % 100).as_bytes(),
            );
            let status = Command::new(&program)
                .status()
                .unwrap_or_else(|error| panic!("{round}: {error}"));
            assert_eq!(
                status.code(),
                i32::try_from(round % 100).ok(),
                "the program is the one just written"
            );
        }
        drop(over);
    });
}
