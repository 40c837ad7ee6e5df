//! A holder that ends while the agent skips, and whose parent does not collect it.

use std::process::Command;

use crate::scene::{Scene, wait_until};

#[test]
fn a_zombie_is_named_in_the_log_with_the_parent_that_has_not_collected_it() {
    let scene = Scene::new();
    let mut holder = Command::new("sleep").arg("300").spawn().unwrap();
    scene.lock("vc", holder.id());
    let agent = scene.start(&["--exec", "touch ran", "--interval", "100ms"]);
    let held = || scene.log().into_iter().filter(|line| line.starts_with("Held since ")).collect::<Vec<_>>();
    wait_until("the holder is named", || !held().is_empty());
    assert!(held()[0].ends_with(" (pid_alive)"), "{:?}", held());
    // Nobody waits for it yet.
    holder.kill().unwrap();
    wait_until("the zombie is named", || held().len() > 1);
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let (me, name) = (std::process::id(), name.trim_end());
    let sentence = format!(
        " (pid_alive); a zombie: it has ended, its parent (PID {me}, {name}) has not collected it; --reap-proven-dead may \
         remove the lock"
    );
    assert!(held()[1].ends_with(&sentence), "{:?}", held());
    let skips = || scene.log().iter().filter(|line| *line == "Skipping database (locked by vc)").count();
    let before = skips();
    wait_until("it goes on skipping", || skips() > before + 2);
    assert_eq!(held().len(), 2, "said once");
    assert!(!scene.file("ran").exists() && scene.lock_file().exists());
    holder.wait().unwrap();
    wait_until("the lock is removed", || scene.file("ran").exists());
    drop(agent);
}
