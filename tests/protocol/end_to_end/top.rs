//! `beadlock top` without a terminal, and its plain form for logs. `tests/more` has the view in a real terminal.

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::watched::view::{agent, claim, scene};
use beadlock_tests::{Ended, Running, Scene, binaries, run, sleeper, until};

#[test]
fn the_plain_form_says_what_changes() {
    let scene = scene();
    let (first, holder) = (agent(&scene), sleeper());
    let args = [
        "status",
        "--agent",
        "unix:agent.sock",
        "--watch",
        "--interval",
        "100ms",
    ];
    let watch = Running::apart(scene.beadlock(&args));
    let says = |what: &str| until(what, || watch.out().contains(what));
    says(": 3 databases: 1 failed, 2 idle\n");
    says("failing/.beads: failed: exit code 3");
    claim(&scene, &holder);
    says("claimed/.beads: skipped: locked by nightly-import\n");
    drop(first);
    says("no agent answers at ");
    let second = agent(&scene);
    until("it is back", || {
        watch.out().matches(": 3 databases: ").count() == 2
    });
    let out = watch.out();
    assert_eq!(out.matches("no agent answers").count(), 1, "{out}");
    for line in out.lines() {
        assert!(
            line.starts_with("[20") && line.as_bytes()[20] == b']',
            "{line}"
        );
    }
    assert_eq!(watch.stop(), Some(0));
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn a_view_needs_a_terminal() {
    let scene = Scene::new();
    let ended = Ended::from(run(scene.beadlock(&["top"])));
    assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
    assert!(
        ended
            .err
            .contains("for a program or a log: beadlock status --agent ADDR --json, or --watch"),
        "{ended:?}"
    );
    for wrong in [
        &["status", "--watch"][..],
        &["status", "--agent", "unix:x", "--interval", "1s"],
        &["top", "--interval", "1ms"],
    ] {
        let ended = Ended::from(run(scene.beadlock(wrong)));
        assert_eq!(ended.code, 2, "{wrong:?}: {ended:?}");
    }
    // A watcher whose reader has gone ends by itself.
    let mut shell = Running::start(scene.shell(&format!(
        "'{}' status --agent unix:x --watch --interval 100ms | head -n 1",
        binaries::beadlock().display()
    )));
    assert!(shell.wait(PATIENCE).success());
}
