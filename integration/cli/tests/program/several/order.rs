//! The order in which several locks are taken, and what that is good for.

use beadlock_testkit::{Running, Scene, until};

use super::{BOTH, CONTRARY, hold, occupy};

#[test]
fn they_are_taken_in_one_order_whatever_order_is_typed() {
    for words in [BOTH, CONTRARY] {
        let scene = crate::a_scene();
        occupy(&scene, "b.lock");
        let running = hold(&scene, &[&words, &["--wait", "1h"][..]].concat(), "true");
        until("it waits for the second, and has the first", || {
            running.err().contains("b.lock") && scene.file("a.lock").exists()
        });
        drop(running);

        let scene = crate::a_scene();
        occupy(&scene, "a.lock");
        let running = hold(&scene, &[&words, &["--wait", "1h"][..]].concat(), "true");
        until("it waits for the first", || {
            running.err().contains("a.lock")
        });
        assert!(!scene.file("b.lock").exists(), "{words:?}");
    }
}

/// Each process has one lock and waits for the lock of the other: `hold` in `hold`.
#[test]
fn nested_holds_in_opposite_orders_wait_for_each_other_until_one_gives_up() {
    let scene = crate::a_scene();
    let nested = |outer: &str, inner: &str| {
        let script = format!(
            "echo > has-{outer}; until test -e has-{inner}; do sleep 0.01; done; \
             exec \"$BEADLOCK\" hold lock:{inner}.lock --wait 500ms -- true"
        );
        hold(&scene, &[&format!("lock:{outer}.lock")], &script)
    };
    let both = [nested("a", "b"), nested("b", "a")].map(Running::end);
    assert!(both.iter().any(|ended| ended.code == 4), "{both:?}");
    assert!(
        both.iter().all(|ended| ended.code == 4 || ended.code == 0),
        "{both:?}"
    );
}

#[test]
fn several_in_opposite_orders_never_wait_for_each_other() {
    let scene = crate::a_scene();
    let work = "mkdir work || echo > overlap; rmdir work; echo >> turns";
    let rounds = 8;
    let loops = |words: [&str; 3]| {
        let again = format!(
            "for round in $(seq {rounds}); do \"$BEADLOCK\" hold -q {} --wait 1h -- sh -c '{work}' || exit; done",
            words.join(" ")
        );
        Running::apart(scene.shell(&again))
    };
    for ended in [loops(BOTH), loops(CONTRARY), loops(CONTRARY)].map(Running::end) {
        ended.expect(0, &[]);
    }
    assert_eq!(scene.read("turns").lines().count(), 3 * rounds);
    assert!(!scene.file("overlap").exists() && is_clear(&scene));
}

fn is_clear(scene: &Scene) -> bool {
    !scene.file("a.lock").exists() && !scene.file("b.lock").exists()
}
