//! The module in `integration/go`: its own tests beside the real program, the checker's answers, and its cycles among claims.

mod answers;
mod guide;
mod races;

use std::path::Path;

use beadlock_tests::{binaries, go};

/// What Go builds stays here between two runs.
fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

#[test]
fn its_own_tests_pass_and_it_answers_as_the_checker_does() {
    let Some(mut tests) = go::go(&["test", "-count=1", "-v", "./..."], target()) else {
        return;
    };
    let cases = answers::written();
    tests
        .env("BEADLOCK_BIN", binaries::directory())
        .env("BEADLOCK_CASES", cases.path());
    let said = String::from_utf8_lossy(&go::done(tests).stdout).into_owned();
    assert!(!said.contains("--- SKIP"), "{said}");
    let count = said
        .lines()
        .find(|line| line.trim_end().ends_with(" cases"));
    println!("{}", count.expect("how many cases there were").trim());
}

#[test]
fn gofmt_and_vet_find_nothing() {
    let Some(unformatted) = go::unformatted(target()) else {
        return;
    };
    assert_eq!(unformatted, "", "gofmt -w would change these");
    go::done(go::go(&["vet", "./..."], target()).expect("a Go that was there"));
}
