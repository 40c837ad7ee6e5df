//! A holder that ends while the agent skips, and whose parent does not collect it.

use crate::agent::{OfAgent, fresh_scene};
use beadlock_testkit::{PATIENCE, sleeper, until};

#[test]
fn a_zombie_is_named_in_the_log_with_the_parent_that_has_not_collected_it() {
    let scene = fresh_scene();
    let mut holder = sleeper();
    scene.claim("vc", holder.pid());
    let agent = scene.start(&["--exec", "touch ran", "--interval", "100ms"]);
    let held = || {
        scene
            .lines()
            .into_iter()
            .filter(|line| line.starts_with("Held since "))
            .collect::<Vec<_>>()
    };
    until("the holder is named", || !held().is_empty());
    assert!(held()[0].ends_with(" (pid_alive)"), "{:?}", held());
    // Nobody waits for it yet.
    holder.signal(nix::sys::signal::Signal::SIGKILL);
    until("the zombie is named", || held().len() > 1);
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let (me, name) = (std::process::id(), name.trim_end());
    let sentence = format!(
        " (pid_alive); a zombie: it has ended, its parent (PID {me}, {name}) has not collected it; --reap-proven-dead may \
         remove the lock"
    );
    assert!(held()[1].ends_with(&sentence), "{:?}", held());
    let skips = || {
        scene
            .lines()
            .iter()
            .filter(|line| *line == "Skipping database (locked by vc)")
            .count()
    };
    let before = skips();
    until("it goes on skipping", || skips() > before + 2);
    assert_eq!(held().len(), 2, "said once");
    assert!(!scene.file("ran").exists() && scene.lock().exists());
    holder.wait(PATIENCE);
    until("the lock is removed", || scene.file("ran").exists());
    drop(agent);
}
