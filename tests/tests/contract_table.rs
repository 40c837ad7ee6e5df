//! The contract by name: each row of the dialect's table (DESIGN 4), each exit code and each error code, and the
//! test that shows it by the real binaries. A row whose test is gone, renamed, ignored or no test fails here.

use std::fs;
use std::path::{Path, PathBuf};

use beadlock_tests::skip::checkout;

/// What the contract says, and `file::test` below `tests/tests`.
const CONTRACT: &[(&str, &str)] = &[
    ("reason no_lock", "end_to_end/rows.rs::no_lock"),
    ("reason pid_alive", "end_to_end/rows.rs::pid_alive"),
    ("reason pid_not_permitted", "end_to_end/rows.rs::pid_not_permitted"),
    ("reason pid_gone", "end_to_end/rows.rs::pid_gone"),
    ("reason gate_busy", "end_to_end/rows.rs::gate_busy"),
    ("reason removal_failed", "end_to_end/rows.rs::removal_failed"),
    ("reason pid_unknown", "end_to_end/rows.rs::pid_unknown"),
    ("reason other_host", "end_to_end/rows.rs::other_host"),
    ("reason host_unknown", "end_to_end/rows.rs::host_unknown"),
    ("reason other_machine", "end_to_end/rows.rs::other_machine"),
    ("reason other_pid_namespace", "end_to_end/rows.rs::other_pid_namespace"),
    ("reason other_pid_namespace", "end_to_end/rows.rs::other_pid_namespace_from_inside"),
    ("reason malformed", "end_to_end/rows.rs::malformed"),
    ("reason malformed", "end_to_end/rows.rs::malformed_empty"),
    ("reason invalid", "end_to_end/rows.rs::invalid"),
    ("reason unreadable", "end_to_end/rows.rs::unreadable"),
    ("reason unreadable", "end_to_end/rows.rs::unreadable_by_mode"),
    ("a side file beside an absent lock", "end_to_end/rows.rs::a_side_file_is_recovered"),
    ("check --dry-run", "end_to_end/rows.rs::pid_gone_dry_run"),
    ("check with several targets", "end_to_end/rows.rs::several_targets"),
    ("exit 0", "end_to_end/exit_codes.rs::exit_0_done"),
    ("exit 1", "end_to_end/exit_codes.rs::exit_1_failed"),
    ("exit 2", "end_to_end/exit_codes.rs::exit_2_usage"),
    ("exit 4 LOCK_HELD", "end_to_end/exit_codes.rs::exit_4_lock_held"),
    ("exit 4 DRAIN_TIMEOUT", "end_to_end/exit_codes.rs::exit_4_drain_timeout"),
    ("exit 4 gate_busy", "end_to_end/rows.rs::gate_busy"),
    ("exit 5 LOCK_UNREADABLE", "end_to_end/exit_codes.rs::exit_5_not_checkable"),
    ("exit 5 removal_failed", "end_to_end/rows.rs::removal_failed"),
    ("exit: the command's own", "end_to_end/exit_codes.rs::exit_commands_own"),
    ("exit 125", "end_to_end/exit_codes.rs::exit_125_not_started"),
    ("exit 126", "end_to_end/exit_codes.rs::exit_126_cannot_execute"),
    ("exit 127", "end_to_end/exit_codes.rs::exit_127_not_found"),
    ("exit 128+N", "end_to_end/exit_codes.rs::exit_128_and_the_signal"),
    ("--own-exit-code, --conflict-exit-code", "end_to_end/exit_codes.rs::exit_own_and_conflict_codes"),
    ("beadlock-agent --once", "end_to_end/exit_codes.rs::exit_of_an_agent_once"),
    ("beadlock-agent: SIGTERM, SIGINT", "end_to_end/exit_codes.rs::exit_of_an_agent_after_its_cycle"),
];

fn tests() -> PathBuf {
    checkout().join("tests/tests")
}

/// True when the source has `fn name` as a test that runs: `#[test]` on the line before, and no `#[ignore`.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let is_it = |line: &str| line == format!("fn {name}() {{");
    lines.windows(2).any(|pair| pair[0] == "#[test]" && is_it(pair[1]))
}

#[test]
fn every_row_of_the_contract_has_its_test() {
    let mut missing = Vec::new();
    for (row, test) in CONTRACT {
        let (file, name) = test.split_once("::").expect("FILE::TEST");
        let source = fs::read_to_string(tests().join(file)).unwrap_or_default();
        if !has_test(&source, name) {
            missing.push(format!("{row}: there is no test {name} in tests/tests/{file}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// A reason that the checker can give and that has no row here would be a contract without a test.
#[test]
fn every_reason_of_the_dialect_has_its_row() {
    let source = fs::read_to_string(checkout().join("checker/src/verdict.rs")).expect("read verdict.rs");
    let words = source.split("=> \"").skip(1).filter_map(|rest| rest.split_once('"'));
    let reasons: Vec<_> = words.map(|(word, _)| word).filter(|word| !is_verdict(word)).collect();
    assert!(reasons.len() >= 14, "{reasons:?}");
    let proofs = ["other_boot", "pid_reused", "zombie", "namespace_gone"];
    for reason in reasons.iter().filter(|reason| !proofs.contains(reason)) {
        let row = format!("reason {reason}");
        assert!(CONTRACT.iter().any(|(name, _)| *name == row), "no row for {row}");
    }
}

fn is_verdict(word: &str) -> bool {
    ["free", "held", "stale"].contains(&word)
}

/// The scan itself: an ignored or commented-out test is none.
#[test]
fn the_scan_sees_only_tests_that_run() {
    assert!(has_test("#[test]\nfn a() {\n", "a"));
    assert!(!has_test("#[test]\n#[ignore]\nfn a() {\n", "a"));
    assert!(!has_test("// #[test]\nfn a() {\n", "a"));
    assert!(!has_test("#[test]\nfn ab() {\n", "a"));
    assert!(Path::new(&tests()).is_dir());
}
