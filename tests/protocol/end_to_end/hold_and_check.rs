//! A claim seen from a second terminal, through the death of `beadlock` to the end of its command.

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Scene, become_subreaper, reap, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The PID that the lock names.
fn locked_pid(scene: &Scene) -> i32 {
    let record: serde_json::Value =
        serde_json::from_str(&scene.lock_text()).expect("the lock is JSON");
    let pid = record["pid"].as_i64().expect("the lock has a pid");
    i32::try_from(pid).expect("a PID is an i32")
}

/// Ends the command that is left alone.
fn end(command: i32) {
    kill(Pid::from_raw(command), Signal::SIGKILL).expect("it lives");
}

#[test]
fn a_zombie_is_still_held() {
    become_subreaper();
    let scene = Scene::new();
    let mut hold = scene.hold(&["--", "sleep", "1000"]);
    let command = locked_pid(&scene);
    hold.signal(Signal::SIGKILL);
    hold.wait(PATIENCE);
    end(command);
    wait_until(PATIENCE, "the command is a zombie", || {
        std::fs::read_to_string(format!("/proc/{command}/stat"))
            .is_ok_and(|stat| stat.contains(") Z "))
    });
    assert_eq!(scene.run(&["check"]).code, 4);
    let proved = scene.run(&["check", "--dry-run", "--reap-proven-dead"]);
    let expected = (
        "Stale lock (sleep) would be removed, proceeding with sync\n",
        0,
    );
    assert_eq!(
        (proved.out.as_str(), proved.code),
        expected,
        "unless every proof may count: {proved:?}"
    );
    reap(command, PATIENCE);
    assert_eq!(scene.run(&["check"]).code, 0);
}
