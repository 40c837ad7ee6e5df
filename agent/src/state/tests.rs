use std::time::Duration;

use beadlock_git::GitReason;
use tokio::time::Instant;

use super::*;
use crate::outcome::CycleFailure;

fn report(kind: HindranceKind, reason: GitReason, commits: u64) -> CycleOutcome {
    let oldest = (commits > 0).then_some(1_764_083_400);
    let hindrance = Hindrance {
        kind,
        reason,
        why: format!("WHY {reason}"),
        next: None,
    };
    CycleOutcome::Synced(SyncReport {
        unpushed: Unpushed { commits, oldest },
        behind: 0,
        hindrance: Some(hindrance),
        ..SyncReport::default()
    })
}

#[test]
fn each_end_of_a_cycle_leads_to_one_state() {
    use HindranceKind::{Failed, NotPulling, NotPushing, NotServing, Unreachable};
    let failure = || CycleFailure::new("exit_code", "exit code 3 after 2s");
    let cases = [
        (CycleOutcome::Ran, "idle", "", ""),
        (
            CycleOutcome::Synced(SyncReport::default()),
            "synced",
            "",
            "",
        ),
        (
            CycleOutcome::Failed(failure()),
            "failed",
            "exit_code",
            "exit code 3 after 2s",
        ),
        (
            CycleOutcome::NotServed(failure()),
            "not_serving",
            "exit_code",
            "exit code 3 after 2s",
        ),
        (
            report(NotServing, GitReason::Dolt, 0),
            "not_serving",
            "dolt",
            "WHY dolt",
        ),
        (
            report(Failed, GitReason::Conflict, 0),
            "failed",
            "conflict",
            "WHY conflict",
        ),
        (
            report(Failed, GitReason::Conflict, 2),
            "failed",
            "conflict",
            "WHY conflict",
        ),
        (
            report(NotPushing, GitReason::NoUpstream, 0),
            "local_only",
            "no_upstream",
            "WHY no_upstream",
        ),
        (
            report(NotPushing, GitReason::NoUpstream, 1),
            "local_only",
            "no_upstream",
            "WHY no_upstream; 1 commit waits, since 2025-11-25 15:10:00",
        ),
        (
            report(Unreachable, GitReason::RemoteUnreachable, 3),
            "local_only",
            "remote_unreachable",
            "WHY remote_unreachable; 3 commits wait, the oldest since 2025-11-25 15:10:00",
        ),
        (
            report(Unreachable, GitReason::RemoteUnreachable, 0),
            "behind",
            "remote_unreachable",
            "WHY remote_unreachable",
        ),
        (
            report(NotPulling, GitReason::DirtyTree, 0),
            "behind",
            "dirty_tree",
            "WHY dirty_tree",
        ),
        (
            report(NotPulling, GitReason::DirtyTree, 2),
            "local_only",
            "dirty_tree",
            "WHY dirty_tree; 2 commits wait, the oldest since 2025-11-25 15:10:00",
        ),
    ];
    for (outcome, word, reason, why) in cases {
        let state = DatabaseState::of(&outcome, Path::new("/r/.beads"));
        let found = state.details.as_ref().map_or("", |details| &details.why);
        assert_eq!(
            (state.word.as_str(), state.reason(), found),
            (word, reason, why),
            "{outcome:?}"
        );
        let code = DatabaseState::exit_code(state.word, Some(&outcome));
        assert_eq!(
            code,
            u8::from(!["idle", "synced"].contains(&word)),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_synced_database_names_what_is_not_synced() {
    let words = |shown: &[&str], count: u64, writing: &str| {
        let report = SyncReport {
            left_out: shown.iter().map(|path| (*path).to_owned()).collect(),
            left_out_count: count,
            writing: writing.to_owned(),
            ..SyncReport::default()
        };
        let state = DatabaseState::of(&CycleOutcome::Synced(report), Path::new("/r/.beads"));
        assert_eq!((state.word.as_str(), state.reason()), ("synced", ""));
        state.details.map(|details| details.why).unwrap_or_default()
    };
    assert_eq!(words(&[], 0, ""), "");
    assert_eq!(
        words(&[".beads/x.key"], 1, ""),
        "1 file is not synced: .beads/x.key"
    );
    assert_eq!(
        words(&["a", "b", "c", "and 2 more"], 5, "d"),
        "5 files are not synced: a, b, c, …; d is being written"
    );
    assert_eq!(words(&[], 0, "d"), "d is being written");
}

#[test]
fn a_skip_names_what_is_skipped_and_what_to_type() {
    use beadlock_core::record::beads;
    let root = tempfile::tempdir().unwrap();
    let record = beads::Record::new("nightly", "other-host").unwrap();
    std::fs::write(
        root.path().join(".exclusive-lock"),
        serde_json::to_vec(&record).unwrap(),
    )
    .unwrap();
    let decision = beadlock_core::check(
        &beadlock_core::Place::beads(root.path()),
        &Default::default(),
    );
    let outcome = CycleOutcome::Skipped(decision);
    let state = DatabaseState::of(&outcome, Path::new("/r/.beads"));
    let details = state.details.as_ref().unwrap();
    assert_eq!(
        (state.word.as_str(), details.why.as_str()),
        ("skipped", "locked by nightly")
    );
    assert_eq!(details.next.as_deref(), Some("beadlock status /r/.beads"));
    assert_eq!(DatabaseState::exit_code(state.word, Some(&outcome)), 4);
}

#[test]
fn the_words_are_those_of_the_log_and_the_worst_comes_first() {
    let words = StateWord::ALL.map(StateWord::as_str);
    assert_eq!(
        words,
        [
            "not_serving",
            "failed",
            "skipped",
            "local_only",
            "behind",
            "starting",
            "idle",
            "synced"
        ]
    );
    assert!(StateWord::ALL.is_sorted());
    let troubled: Vec<_> = StateWord::ALL
        .into_iter()
        .filter(|word| word.is_trouble())
        .collect();
    assert_eq!(troubled, StateWord::ALL[..5]);
    assert!(!StateWord::Skipped.can_be_stale() && StateWord::Behind.can_be_stale());
}

#[test]
fn the_log_is_told_when_the_word_or_the_reason_changes_and_once_an_hour() {
    let (begun, wall) = (Instant::now(), |seconds| {
        StartedAt::from_unix(1_764_083_400 + seconds, 0)
    });
    let mut history = StateHistory::new(begun, wall(0));
    let turn = |history: &mut StateHistory, outcome: &CycleOutcome, seconds: u64| {
        let state = DatabaseState::of(outcome, Path::new("/r"));
        history.turn(
            state,
            begun + Duration::from_secs(seconds),
            wall(seconds as i64),
        )
    };
    let unreachable = |commits| {
        report(
            HindranceKind::Unreachable,
            GitReason::RemoteUnreachable,
            commits,
        )
    };
    assert!(turn(&mut history, &unreachable(1), 10));
    assert!(
        !turn(&mut history, &unreachable(2), 20),
        "only the number has changed"
    );
    assert_eq!(
        history.words(),
        " since 2025-11-25 15:10:10: WHY remote_unreachable; 2 commits wait, the oldest since 2025-11-25 15:10:00"
    );
    assert!(
        turn(
            &mut history,
            &report(HindranceKind::NotPushing, GitReason::PushRefused, 2),
            30
        ),
        "another reason"
    );
    assert_eq!(history.since_wall, wall(10), "and the same state");
    let at = |seconds| begun + Duration::from_secs(seconds);
    assert!(!history.is_to_be_said_again(at(30 + 3599)));
    assert!(history.is_to_be_said_again(at(30 + 3600)));
    assert!(!history.is_to_be_said_again(at(30 + 3601)));
    assert!(turn(
        &mut history,
        &CycleOutcome::Synced(SyncReport::default()),
        9000
    ));
    assert_eq!(history.words(), " since 2025-11-25 17:40:00");
    assert!(!history.is_to_be_said_again(at(90_000)), "nothing is wrong");
}

#[test]
fn failures_are_counted_by_a_bounded_number_of_reasons() {
    let (now, wall) = (Instant::now(), StartedAt::from_unix(7, 0));
    let mut history = StateHistory::new(now, wall);
    for number in 0..40 {
        let reason = Cow::Owned(format!("reason_{}", number % 20));
        history.count(
            &CycleOutcome::Failed(CycleFailure {
                reason,
                why: String::new(),
            }),
            wall,
        );
    }
    let failures = history.failures.unwrap();
    assert_eq!(
        (failures.len(), failures["reason_0"], failures["other"]),
        (17, 2, 8)
    );
    let pushed = SyncReport {
        has_pushed: true,
        ..SyncReport::default()
    };
    let mut history = StateHistory::new(now, wall);
    history.count(&CycleOutcome::Synced(pushed), wall);
    assert_eq!((history.last_push(), history.failures), (Some(7), None));
}
