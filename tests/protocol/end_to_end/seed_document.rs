//! The five steps by which the protocol's own document has a tool tested, with our agent as the daemon and a
//! lock by that document's shell recipe.

use beadlock_tests::seed::Recipe;
use beadlock_tests::{Running, Scene};
use nix::sys::signal::Signal;

const SKIPPING: &str = "Skipping database (locked by my-tool)";

/// A claim by the recipe that lasts until there is a file `go`.
fn claim(scene: &Scene, recipe: &Recipe) -> Running {
    let mut bash = scene.command("bash");
    bash.args(["-c", &recipe.around("until [ -e go ]; do sleep 0.05; done")]);
    let claimer = Running::start(bash);
    scene.wait_for_lock();
    claimer
}

#[test]
fn testing_your_integration_works_word_for_word() {
    let Some(recipe) = Recipe::of_the_seed() else {
        return;
    };
    let scene = Scene::new();
    let _daemon = scene.start_agent(&["--db", ".beads", "--interval", "1s"]);
    let claimer = claim(&scene, &recipe);
    scene.wait_for_log("the skip", |log| log.contains(SKIPPING));
    std::fs::write(scene.path().join("go"), "").expect("let it go on");
    assert!(
        claimer
            .finish(beadlock_tests::wait::PATIENCE)
            .status
            .success(),
        "the recipe ends well"
    );
    scene.wait_for_log("a cycle after the release", |log| {
        log.rfind("Starting sync cycle...") > log.rfind(SKIPPING)
    });
    assert!(!scene.lock().exists(), "the agent puts no lock back");
}

#[test]
fn a_recipe_that_was_killed_is_cleaned_up_after() {
    let Some(recipe) = Recipe::of_the_seed() else {
        return;
    };
    let scene = Scene::new();
    let _daemon = scene.start_agent(&["--db", ".beads", "--interval", "1s"]);
    let mut claimer = claim(&scene, &recipe);
    scene.wait_for_log("the skip", |log| log.contains(SKIPPING));
    claimer.signal(Signal::SIGKILL);
    claimer.wait(beadlock_tests::wait::PATIENCE);
    scene.wait_for_log("the removal", |log| {
        log.contains("Removed stale lock (my-tool), proceeding with sync")
            && log.rfind("Starting sync cycle...") > log.rfind(SKIPPING)
    });
    assert!(!scene.lock().exists());
}
