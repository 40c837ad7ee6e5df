//! What does not count as a loss: reading the lock, or moving it for a moment, takes nothing away.
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools do to a lock file"
)]

use std::fs;
use std::time::{Duration, Instant};

use beadlock_core::gate::Gate;
use beadlock_testkit::Running;

use super::held;

/// Reading the lock, touching it, or linking it takes nothing away.
#[test]
fn a_reader_is_never_a_loss() {
    let scene = crate::a_scene();
    let running = held(
        &scene,
        &[],
        "echo > ready; until test -e go; do sleep 0.01; done",
    );
    let script = "until test -e go; do \"$BEADLOCK\" check; \"$BEADLOCK\" status; cat .beads/.exclusive-lock; \
                  touch .beads/.exclusive-lock; chmod 600 .beads/.exclusive-lock; ln -f .beads/.exclusive-lock copy; \
                  done > /dev/null 2>&1";
    let reading = Running::apart(scene.shell(script));
    std::thread::sleep(Duration::from_millis(1200));
    fs::write(scene.file("go"), "").unwrap();
    reading.end();
    let ended = running.end().expect(0, &["released .beads"]);
    assert_eq!(ended.err.lines().count(), 2, "{ended:?}");
}

/// Somebody with the gate sets the lock aside, looks at it, and puts it back; or dies, and the next one does.
#[test]
fn a_lock_that_is_aside_for_a_moment_is_not_lost() {
    let scene = crate::a_scene();
    let aside = scene.beads().join(".exclusive-lock.aside");
    let running = held(
        &scene,
        &[],
        "echo > ready; until test -e go; do sleep 0.01; done",
    );
    let before = fs::read(scene.lock()).unwrap();
    for _ in 0..3 {
        let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
        fs::rename(scene.lock(), &aside).unwrap();
        std::thread::sleep(Duration::from_millis(250));
        fs::rename(&aside, scene.lock()).unwrap();
        drop(gate);
    }
    fs::rename(scene.lock(), &aside).unwrap();
    std::thread::sleep(Duration::from_millis(250));
    scene.run(&["check"]).expect(4, &[]);
    assert_eq!(
        fs::read(scene.lock()).unwrap(),
        before,
        "the next check has put it back"
    );
    fs::rename(scene.lock(), &aside).unwrap();
    std::thread::sleep(Duration::from_millis(250));
    fs::write(scene.file("go"), "").unwrap();
    let ended = running.end().expect(0, &["released .beads"]);
    assert!(
        !ended.err.contains("warning") && scene.names().is_empty(),
        "{ended:?}"
    );
}

/// What only *one* look has missed is not lost either: put back by hand at once. A holder each time: one that stands still
/// for a moment may rightly miss it in two rounds.
#[test]
fn a_lock_that_was_put_back_at_once_is_not_lost() {
    for _ in 0..5 {
        let scene = crate::a_scene();
        let running = held(
            &scene,
            &[],
            "echo > ready; until test -e go; do sleep 0.01; done",
        );
        let begun = Instant::now();
        fs::rename(scene.lock(), scene.file("elsewhere")).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        fs::rename(scene.file("elsewhere"), scene.lock()).unwrap();
        let away = begun.elapsed();
        std::thread::sleep(Duration::from_millis(150));
        fs::write(scene.file("go"), "").unwrap();
        let ended = running.end();
        assert!(
            ended.code == 0 || away > Duration::from_millis(90),
            "{ended:?}"
        );
    }
}

/// A directory that was moved away takes the lock along: the claim goes on there, and so does its release.
#[test]
fn a_directory_that_was_renamed_is_no_loss() {
    let scene = crate::a_scene();
    let running = held(
        &scene,
        &[],
        "echo > ready; until test -e go; do sleep 0.01; done",
    );
    fs::rename(scene.beads(), scene.file("moved")).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(0, &["released .beads"]);
    assert_eq!(fs::read_dir(scene.file("moved")).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_looked_at_is_no_loss() {
    use std::os::unix::fs::PermissionsExt;
    let scene = crate::a_scene();
    for path in [scene.path(), &scene.beads()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let script = "chmod 000 .beads; sleep 1.2; chmod 777 .beads; exit 7";
    let mut command = scene.beadlock(&["hold", "--", "sh", "-c", script]);
    if !beadlock_testkit::as_nobody(&mut command) {
        return;
    }
    // A directory of one's own can be shut.
    nix::unistd::chown(&scene.beads(), Some(65534.into()), Some(65534.into())).unwrap();
    let ended = Running::apart(command).end();
    assert_eq!(ended.code, 7, "{ended:?}");
}
