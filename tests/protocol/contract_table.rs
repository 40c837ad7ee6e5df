//! The contract by name: each row of the dialect's table (docs/design.md#the-beads-rule), each exit code and each error
//! code, and the test that shows it by the real binaries. A row whose test is gone, renamed, ignored or no test fails
//! here.

use std::fs;
use std::path::{Path, PathBuf};

use beadlock_tests::skip::checkout;
use xtask::protocol::sources::has_test;

/// What the contract says, and `file::test` below `tests/tests`, or with a slash below the checkout.
const CONTRACT: &[(&str, &str)] = &[
    ("reason no_lock", "end_to_end/rows.rs::no_lock"),
    ("reason pid_alive", "end_to_end/rows.rs::pid_alive"),
    ("reason pid_not_permitted", "end_to_end/rows.rs::pid_not_permitted"),
    ("reason pid_gone", "end_to_end/rows.rs::pid_gone"),
    ("reason heartbeat_fresh", "/integration/tests/program/tower_look.rs::a_fresh_one_is_active_whoever_lives"),
    ("reason heartbeat_expired", "/integration/tests/program/tower_look.rs::a_stale_one_says_what_takes_it_and_stays"),
    (
        "reason heartbeat_in_future",
        "/integration/tests/program/tower_look.rs::one_beat_in_the_future_is_active_and_reported",
    ),
    ("reason age_fresh", "/integration/tests/memory/check.rs::a_fresh_one_is_skipped"),
    ("reason age_exceeded", "/integration/tests/memory/check.rs::one_that_is_too_old_is_logged_and_removed"),
    ("list tower: exit 0", "/integration/tests/program/tower_look.rs::list_shows_every_lock_of_the_directory"),
    ("reason flock_held", "file_lock/look.rs::flock_held"),
    ("exit 8 E_LOCK_FAILED", "file_lock/hold.rs::a_wait_that_ran_out_is_exit_8_and_says_what_the_document_says"),
    (
        "exit 9 of a file, noticed within a second",
        "file_lock/lost.rs::a_lock_file_that_is_deleted_is_a_loss_within_a_second_and_ends_the_command",
    ),
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
    ("exit 4 LOCK_HELD", "/tests/conformance/main.rs::refuse"),
    ("exit 4 DRAIN_TIMEOUT", "end_to_end/exit_codes.rs::exit_4_drain_timeout"),
    ("exit 4 gate_busy", "end_to_end/rows.rs::gate_busy"),
    ("exit 5 LOCK_UNREADABLE", "end_to_end/exit_codes.rs::exit_5_not_checkable"),
    ("exit 5 removal_failed", "end_to_end/rows.rs::removal_failed"),
    ("exit 9 LOCK_LOST", "/tests/conformance/main.rs::loss"),
    (
        "exit 9, noticed within a second",
        "/integration/tests/program/loss.rs::it_is_noticed_within_a_second_and_the_cause_is_named",
    ),
    ("exit: the command's own", "end_to_end/exit_codes.rs::exit_commands_own"),
    ("exit 125", "end_to_end/exit_codes.rs::exit_125_not_started"),
    ("exit 126", "end_to_end/exit_codes.rs::exit_126_cannot_execute"),
    ("exit 127", "end_to_end/exit_codes.rs::exit_127_not_found"),
    ("exit 128+N", "end_to_end/exit_codes.rs::exit_128_and_the_signal"),
    ("--own-exit-code, --conflict-exit-code", "end_to_end/exit_codes.rs::exit_own_and_conflict_codes"),
    ("acquire exit 0", "/integration/tests/program/acquire.rs::a_script_is_meant_however_deep_in_it_the_call_is"),
    ("acquire exit 1", "/integration/tests/program/acquire/printed.rs::what_cannot_be_printed_is_not_claimed"),
    (
        "acquire exit 2",
        "/integration/tests/program/acquire/not_claimed.rs::every_wrong_word_is_exit_2_and_nothing_is_claimed",
    ),
    (
        "acquire exit 4, 5",
        "/integration/tests/program/acquire/not_claimed.rs::a_claim_that_cannot_be_had_says_why_and_touches_nothing",
    ),
    ("acquire exit 128+N", "/integration/tests/program/acquire/not_claimed.rs::a_signal_ends_the_wait"),
    ("release exit 0", "/integration/tests/program/release.rs::it_is_found_by_every_name_and_from_everywhere"),
    ("release exit 2", "/integration/tests/program/release.rs::without_an_id_nothing_is_released"),
    ("release exit 5", "/integration/tests/program/release.rs::what_cannot_be_read_stays_as_it_is"),
    ("release exit 9 LOCK_LOST", "/integration/tests/program/release.rs::another_ones_lock_stays_as_it_is"),
    (
        "the scene of CI",
        "/integration/tests/program/ci.rs::three_steps_hold_one_claim_and_another_job_does_not_disturb_it",
    ),
    (
        "cycle exit 0, the command's own",
        "/integration/tests/program/cycle.rs::the_command_runs_where_we_are_and_its_code_is_ours",
    ),
    (
        "cycle exit 1, 2, 126, 127",
        "/integration/tests/program/cycle.rs::what_is_wrong_is_said_before_anything_is_touched",
    ),
    ("cycle exit 4 LOCK_HELD", "/integration/tests/program/cycle.rs::a_claimed_database_is_skipped"),
    ("cycle exit 4 gate_busy", "/integration/tests/program/cycle.rs::a_busy_gate_and_a_second_cycle_are_skips"),
    ("cycle exit 5", "/integration/tests/program/cycle.rs::what_could_not_be_checked_or_removed_is_5"),
    (
        "cycle exit 9 LOCK_LOST",
        "/integration/tests/program/cycle/replaced.rs::a_directory_renamed_and_made_anew_is_a_loss",
    ),
    ("cycle exit 125", "/integration/tests/program/cycle/guardian.rs::without_a_guardian_nothing_runs"),
    (
        "cycle exit 128+N",
        "/integration/tests/program/cycle.rs::a_signal_is_passed_on_and_the_gate_shut_until_the_tree_has_ended",
    ),
    ("wait exit 0", "/integration/tests/program/wait.rs::what_is_free_is_said_at_once_and_without_a_word"),
    ("wait exit 1, 2", "/integration/tests/program/wait.rs::what_is_wrong_is_exit_2_and_what_is_not_there_is_exit_1"),
    ("wait exit 4", "/integration/tests/program/wait.rs::a_wait_that_runs_out_is_exit_4_and_names_everything"),
    ("wait exit 5", "/integration/tests/program/wait.rs::what_cannot_be_understood_for_two_seconds_is_exit_5"),
    ("wait exit 128+N", "/integration/tests/program/wait.rs::signals_end_it"),
    ("break exit 0", "/integration/tests/program/break_lock.rs::a_stale_lock_is_broken_by_id_and_by_holder_and_kept"),
    (
        "break exit 1",
        "/integration/tests/program/break_lock/hindered.rs::without_a_gate_or_a_permission_nothing_is_changed",
    ),
    ("break exit 2", "/integration/tests/program/break_lock.rs::every_wrong_word_is_exit_2"),
    (
        "break exit 4 LOCK_HELD",
        "/integration/tests/program/break_lock.rs::a_held_lock_is_refused_and_the_words_are_the_command_to_type",
    ),
    (
        "break exit 4 DRAIN_TIMEOUT",
        "/integration/tests/program/break_lock/hindered.rs::a_gate_that_stays_shut_is_a_drain_time_out",
    ),
    ("break exit 5", "/integration/tests/program/break_lock.rs::nothing_but_what_is_meant_is_touched"),
    (
        "break on a terminal",
        "/integration/tests/program/break_lock/asking.rs::on_a_terminal_the_lock_is_shown_and_its_id_is_typed",
    ),
    ("list exit 0", "/integration/tests/program/list.rs::finds_every_lock_wherever_it_is"),
    ("list exit 1", "/integration/tests/program/list.rs::roots_are_answered_one_by_one"),
    ("doctor exit 0, 1", "/integration/tests/program/doctor.rs::says_who_else_may_write"),
    (
        "doctor exit 5",
        "/integration/tests/program/doctor.rs::a_directory_that_may_not_be_written_or_read_is_no_place_for_locks",
    ),
    ("log exit 0", "/integration/tests/program/log/week.rs::a_recorded_week_is_summed_up"),
    ("log exit 1", "/integration/tests/program/log/input.rs::a_log_that_cannot_be_read_is_named_and_stops_no_other"),
    ("log exit 2", "/integration/tests/program/log.rs::a_wrong_command_line_is_exit_2"),
    ("reason fleet_held", "/tests/fleet/programs/agents.rs::no_agent_of_any_clone_runs_a_cycle_during_a_claim"),
    ("reason fleet_new", "/tests/fleet/programs/cycles.rs::nobody_begins_in_a_fleet_that_is_new"),
    ("reason fleet_unreachable", "/tests/fleet/programs/faults.rs::without_etcd_cycles_go_on_until_the_deadline_and_no_claim_begins"),
    ("reason fleet_use_cycle", "/tests/fleet/programs/cycles.rs::what_cannot_be_kept_in_a_fleet_is_refused"),
    ("reason fleet_lost", "/tests/fleet/programs/cycles.rs::what_is_wrong_with_the_fleet_is_said_with_its_exit_code"),
    ("beadlock-agent --once", "end_to_end/exit_codes.rs::exit_of_an_agent_once"),
    ("beadlock-agent: SIGTERM, SIGINT", "end_to_end/exit_codes.rs::exit_of_an_agent_after_its_cycle"),
];

fn tests() -> PathBuf {
    checkout().join("tests/protocol")
}

#[test]
fn every_row_of_the_contract_has_its_test() {
    let mut missing = Vec::new();
    for (row, test) in CONTRACT {
        let (file, name) = test.split_once("::").expect("FILE::TEST");
        let path = file.strip_prefix('/').map_or(tests().join(file), |below| checkout().join(below));
        let source = fs::read_to_string(path).unwrap_or_default();
        if !has_test(&source, name) {
            missing.push(format!("{row}: there is no test {name} in {file}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// A reason that the checker can give and that has no row here would be a contract without a test.
#[test]
fn every_reason_of_the_dialect_has_its_row() {
    let source = fs::read_to_string(checkout().join("checker/src/verdict.rs")).expect("read verdict.rs");
    let words = source.split(" = \"").skip(1).filter_map(|rest| rest.split_once('"'));
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
