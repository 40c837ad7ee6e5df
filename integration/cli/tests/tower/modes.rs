//! Section 9 (docs/protocols/tower.md#the-requirements): which modes lock.

use std::fs;

use beadlock_testkit::Ended;

use crate::scene::{TARGET, Tower};

fn intent(tower: &Tower, mode: &str, lock: &str) {
    let text = format!(
        "metadata: {{name: n, version: 1}}\nspec:\n  mode: {mode}\n  controls: {{{lock}}}\n"
    );
    fs::write(tower.scene.file("i.yaml"), text).unwrap();
}

fn hold(tower: &Tower, script: &str) -> Ended {
    tower.run(&["hold", "--intent", "i.yaml", "--", "sh", "-c", script])
}

const LOCK: &str = "lock: app-prod";

#[test]
fn mutate_locks_what_its_intent_names() {
    let tower = Tower::new();
    intent(&tower, "mutate", LOCK);
    assert_eq!(
        hold(&tower, "ls locks")
            .expect(0, &["claimed tower:app-prod"])
            .out,
        "app-prod.lock\n"
    );
    tower.write(30);
    hold(&tower, "true").expect(4, &["held by claude-code"]);
}

#[test]
fn reconcile_locks_and_is_blocked() {
    let tower = Tower::new();
    intent(&tower, "reconcile", LOCK);
    assert_eq!(
        hold(&tower, "ls locks").expect(0, &[]).out,
        "app-prod.lock\n"
    );
    tower.write(30);
    hold(&tower, "touch ran").expect(4, &["held by claude-code"]);
    assert!(!tower.scene.file("ran").exists());
}

#[test]
fn observe_takes_no_lock() {
    let tower = Tower::new();
    intent(&tower, "observe", LOCK);
    let ended = hold(&tower, "ls -A locks; exit 7").expect(7, &[]);
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""));
    // Nor where the target is typed.
    tower
        .run(&["hold", TARGET, "--mode", "observe", "--", "true"])
        .expect(0, &[]);
    assert!(tower.events().is_empty() && !tower.scene.file("audit.jsonl").exists());
}

#[test]
fn observe_runs_beside_a_held_lock() {
    let tower = Tower::new();
    intent(&tower, "observe", LOCK);
    for silent in [30, 1000] {
        tower.write(silent);
        let before = fs::read(tower.lock()).unwrap();
        assert_eq!(hold(&tower, "echo ran").expect(0, &[]).out, "ran\n");
        assert_eq!(fs::read(tower.lock()).unwrap(), before);
    }
}

#[test]
fn observe_may_ask_for_the_status() {
    let tower = Tower::new();
    intent(&tower, "observe", LOCK);
    tower.write(30);
    let ended = hold(&tower, "$BEADLOCK status tower:app-prod").expect(0, &[]);
    assert!(
        ended
            .out
            .starts_with("active tower:app-prod: held by claude-code"),
        "{ended:?}"
    );
}

#[test]
fn mutate_without_a_lock_is_a_warning_and_runs() {
    let tower = Tower::new();
    intent(&tower, "mutate", "");
    let ended = hold(&tower, "ls -A locks; echo ran").expect(
        0,
        &["warning: Mutate intent without lock - concurrent execution possible"],
    );
    assert_eq!(ended.out, "ran\n");
}
