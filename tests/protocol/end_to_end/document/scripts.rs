//! Claims by shell scripts: the recipe, and the library that releases however a script ends.

use beadlock_tests::seed::Recipe;
use beadlock_tests::skip::checkout;
use beadlock_tests::{Ended, Running, Scene, binaries, run, wait::PATIENCE};
use nix::sys::signal::Signal;

use super::one_cycle;

/// The document's recipe where the document is, else one that does the same.
#[test]
fn the_recipe_claims_and_removes_its_lock() {
    let scene = Scene::new();
    let mut bash = scene.command("bash");
    bash.args([
        "-c",
        &Recipe::any().around("until [ -e go ]; do sleep 0.02; done"),
    ]);
    let claimer = Running::start(bash);
    // The recipe writes in place: for a moment the file may be empty.
    beadlock_tests::until("the whole lock", || scene.lock_text().ends_with("}\n"));
    let checked = scene.run(&["check"]);
    assert_eq!(
        (checked.out.as_str(), checked.code),
        ("Skipping database (locked by my-tool)\n", 4)
    );
    let record: serde_json::Value =
        serde_json::from_str(&scene.lock_text()).expect("the lock is JSON");
    assert_eq!(record["pid"], claimer.pid(), "the shell's own PID");
    assert_eq!(one_cycle(&scene, "touch ran"), 4);
    scene.write("go", "");
    assert!(claimer.finish(PATIENCE).status.success());
    assert!(!scene.lock().exists() && !scene.file("ran").exists());
    assert_eq!(one_cycle(&scene, "touch ran"), 0);
    assert!(scene.file("ran").exists());
}

/// A script that sources claim.sh, claims, says so, and ends with `end`.
fn script(scene: &Scene, end: &str) -> Running {
    let library = checkout().join("integration/shell/claim.sh");
    let path = format!(
        "{}:{}",
        binaries::directory().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let text = format!(
        "set -eu\n. '{}'\nclaim .beads --holder importer\necho $$ >claimed\n{end}\n",
        library.display()
    );
    let mut command = scene.shell(&text);
    command.env("PATH", path);
    Running::start(command)
}

#[test]
fn the_shell_library_releases_however_a_script_ends() {
    for (end, code) in [
        ("true", 0),
        ("exit 3", 3),
        ("false; echo went on", 1),
        ("unclaim; test ! -e .beads/.exclusive-lock", 0),
    ] {
        let scene = Scene::new();
        let ended = Ended::from(
            script(&scene, &format!("cp .beads/.exclusive-lock seen\n{end}")).finish(PATIENCE),
        );
        assert_eq!(ended.code, code, "{end}: {ended:?}");
        assert!(!ended.out.contains("went on"), "{ended:?}");
        let record: serde_json::Value =
            serde_json::from_str(&scene.read("seen")).expect("it was claimed");
        assert_eq!(
            (&record["holder"], &record["pid"]),
            (&"importer".into(), &scene.pid_in("claimed").into())
        );
        assert!(!scene.lock().exists(), "{end}: {ended:?}");
    }
    for (signal, code) in [
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
        (Signal::SIGTERM, 143),
    ] {
        let scene = Scene::new();
        let running = script(&scene, "until [ -e never ]; do sleep 0.02; done");
        scene.pid_in("claimed");
        assert_eq!(scene.run(&["check"]).code, 4);
        running.signal(signal);
        let ended = Ended::from(running.finish(PATIENCE));
        assert_eq!(ended.code, code, "{signal}: {ended:?}");
        assert!(!scene.lock().exists(), "{signal}: {ended:?}");
    }
}

#[test]
fn a_script_with_the_library_that_is_killed_leaves_a_lock_that_the_next_cycle_removes() {
    let scene = Scene::new();
    let mut running = script(&scene, "until [ -e never ]; do sleep 0.02; done");
    scene.pid_in("claimed");
    running.signal(Signal::SIGKILL);
    running.wait(PATIENCE);
    assert!(scene.lock().exists());
    assert_eq!(one_cycle(&scene, "true"), 0);
    assert!(
        scene
            .log()
            .contains("] Removed stale lock (importer), proceeding with sync\n"),
        "{}",
        scene.log()
    );
}

#[test]
fn the_shell_library_goes_no_further_without_a_claim() {
    let scene = Scene::new();
    scene.claim("another", std::process::id());
    let library = checkout().join("integration/shell/claim.sh");
    let path = format!(
        "{}:{}",
        binaries::directory().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let text = format!(
        ". '{}'\nclaim .beads --no-wait || exit\ntouch ran\n",
        library.display()
    );
    let mut command = scene.shell(&text);
    command.env("PATH", path);
    let ended = Ended::from(run(command));
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(!scene.file("ran").exists() && scene.lock_text().contains("another"));
}

/// Runs a script in `shell` that sources claim.sh.
fn by(shell: &str, scene: &Scene, text: &str) -> Ended {
    let library = checkout().join("integration/shell/claim.sh");
    let path = format!(
        "{}:{}",
        binaries::directory().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    scene.write("script", format!(". '{}'\n{text}\n", library.display()));
    let mut command = scene.command(shell);
    command.arg("script").env("PATH", path);
    Ended::from(run(command))
}

#[test]
fn the_shell_library_keeps_the_traps_of_its_script() {
    for shell in ["sh", "bash"] {
        for (text, code, said) in [
            // The script's own trap runs first, under the claim, and has the exit code.
            (
                "trap 'echo own $?; beadlock check' EXIT; claim .beads; exit 3",
                3,
                "own 3\nSkipping",
            ),
            (
                "trap 'echo \"it'\\''s\"\necho two' EXIT; claim .beads; exit 0",
                0,
                "it's\ntwo\n",
            ),
            (
                "trap 'echo own' EXIT; claim .beads; unclaim; echo then; exit 4",
                4,
                "then\nown\n",
            ),
            (
                "trap 'echo term' TERM; claim .beads; kill -TERM $$; echo on",
                0,
                "term\non\n",
            ),
            (
                "trap '' TERM; claim .beads; kill -TERM $$; echo on",
                0,
                "on\n",
            ),
            ("claim .beads; unclaim; trap", 0, ""),
            (
                "claim .beads; unclaim; claim .beads; kill -INT $$; echo on",
                130,
                "",
            ),
            (
                "claim .beads; trap 'unclaim; echo later' EXIT; exit 5",
                5,
                "later\n",
            ),
            // A trap that fails, and the code of a script that has failed already.
            (
                "set -e; trap 'false; echo own' EXIT; claim .beads; false",
                1,
                "own\n",
            ),
            (
                "trap 'echo own' EXIT; claim .beads; rm .beads/.exclusive-lock; exit 3",
                3,
                "own\n",
            ),
            // The traps of a parent are not a subshell's.
            (
                "trap 'echo own' EXIT; (claim .beads; echo in); echo on",
                0,
                "in\non\nown\n",
            ),
        ] {
            let scene = Scene::new();
            let ended = by(shell, &scene, text);
            assert!(
                ended.code == code && ended.out.starts_with(said),
                "{shell}: {text}: {ended:?}"
            );
            assert!(!scene.lock().exists(), "{shell}: {text}: {ended:?}");
        }
    }
}

#[test]
fn the_shell_library_does_not_end_with_0_after_a_loss() {
    let lose = "claim .beads; rm .beads/.exclusive-lock";
    for shell in ["sh", "bash"] {
        for (text, code) in [
            (format!("{lose}; exit 0"), 9),
            (format!("{lose}; exit 3"), 3),
            (format!("set -e; {lose}; unclaim; touch on"), 9),
            (
                format!("{lose}; unclaim; test $? = 9 -a -z \"$BEADLOCK_ID\""),
                0,
            ),
            (
                format!("set -eu; {lose}; unclaim || test -z \"${{BEADLOCK_ID:-}}\""),
                0,
            ),
            (format!("trap 'echo own' EXIT; {lose}"), 9),
            (format!("{lose}; unclaim; claim .beads && unclaim"), 0),
        ] {
            let scene = Scene::new();
            let ended = by(shell, &scene, &text);
            assert_eq!(ended.code, code, "{shell}: {text}: {ended:?}");
            assert!(
                !scene.file("on").exists() && !scene.lock().exists(),
                "{ended:?}"
            );
        }
    }
}
