//! From Rust: what a claim that is refused says of when to come back, asked often enough to see all of its range.

use std::time::{Duration, Instant};

use beadlock::{Code, Hold, Wait};
use beadlock_tests::Scene;
use jiff::SignedDuration;

use super::{told, write_lock};

/// Of so many none is in a certain fifth of the range once in five thousand million times.
const ASKED: usize = 100;

#[test]
fn a_refusal_says_every_pause_of_the_rule_and_no_other() {
    let scene = Scene::new();
    let path = scene.path().join("deploy.lock");
    let locks = [(path.clone(), format!("lock:{}", path.display())), {
        let target = scene.beads().display().to_string();
        (scene.lock(), target)
    }];
    for age in [-1000, 0, 8, 40, 121] {
        for (path, target) in &locks {
            let begun = Instant::now();
            write_lock(path, SignedDuration::from_secs(age));
            let refused = || {
                let error = Hold::target(target)
                    .wait(Wait::No)
                    .claim()
                    .expect_err("it is held");
                assert_eq!(error.code(), Code::LockHeld, "{error}");
                error.retry_in().expect("when to come back").as_millis() as u64
            };
            let said: Vec<u64> = (0..ASKED).map(|_| refused()).collect();
            let ((least, most), (_, at_first)) =
                (told(age, begun.elapsed()), told(age, Duration::ZERO));
            let fifth = (at_first - least) / 5;
            let in_range = said.iter().all(|said| (least..=most).contains(said));
            let is_spread = said.iter().any(|said| *said <= least + fifth)
                && said.iter().any(|said| *said >= at_first - fifth);
            assert!(
                in_range && is_spread,
                "{target} at {age} s, of {least} to {most}: {said:?}"
            );
        }
    }
}
