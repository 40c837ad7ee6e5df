//! The document's functions, in Rust.

use std::fs;

use beadlock_checker::{Decision, Skip, should_skip_database};
use beadlock_core::facts::is_process_alive;
use beadlock_tests::{Scene, dead_pid, this_host};

const ELSEWHERE: &str = "elsewhere.example";

/// Whether to skip, the holder, and whether the check itself failed: what the document's function returns.
fn answer(scene: &Scene) -> (bool, String, bool) {
    let decision = should_skip_database(scene.beads());
    let failed = matches!(decision, Decision::Skip(Skip::CheckFailed { .. }));
    let holder = decision
        .record()
        .map(|record| record.holder().to_owned())
        .unwrap_or_default();
    (decision.is_skip(), holder, failed)
}

#[test]
fn should_skip_database_says_whether_by_whom_and_what_failed() {
    let scene = Scene::new();
    let living = i64::from(std::process::id());
    let with = |text: &str| {
        fs::write(scene.lock(), text).expect("write the lock");
        answer(&scene)
    };
    let lock = beadlock_tests::shell_lock_text;
    assert_eq!(answer(&scene), (false, String::new(), false), "no lock");
    assert_eq!(
        with(&lock("a", living, &this_host())),
        (true, "a".to_owned(), false),
        "alive"
    );
    assert_eq!(
        with(&lock("b", living, ELSEWHERE)),
        (true, "b".to_owned(), false),
        "of another host"
    );
    assert_eq!(
        with(&lock("c", dead_pid().into(), &this_host())),
        (false, "c".to_owned(), false),
        "removed"
    );
    assert!(!scene.lock().exists());
    assert_eq!(with("{"), (true, String::new(), true), "malformed");
    assert_eq!(
        with(&lock("", living, &this_host())),
        (true, String::new(), true),
        "invalid"
    );
}

/// Unlike the command, which says so and exits with 1.
#[test]
fn should_skip_database_proceeds_where_there_is_no_directory() {
    let scene = Scene::new();
    let missing = scene.file("missing/.beads");
    let decision = should_skip_database(&missing);
    assert!(
        !decision.is_skip() && decision.to_string().is_empty(),
        "{decision:?}"
    );
    assert!(!missing.exists(), "and makes none");
    let checked = scene.run(&["check", "missing/.beads"]);
    assert_eq!(checked.code, 1, "{checked:?}");
}

#[test]
fn a_process_is_dead_only_where_this_host_says_so() {
    let (living, dead) = (i64::from(std::process::id()), i64::from(dead_pid()));
    assert!(is_process_alive(living, &this_host()));
    assert!(is_process_alive(living, &this_host().to_uppercase()));
    assert!(!is_process_alive(dead, &this_host()));
    assert!(is_process_alive(dead, ELSEWHERE), "nobody here can tell");
    assert!(
        is_process_alive(1 << 31, &this_host()),
        "no kernel has it, and it is never asked for"
    );
}
