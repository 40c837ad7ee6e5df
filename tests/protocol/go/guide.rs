//! The program of docs/guide/daemon.md, built as the page says, and what `go doc` says of the module.

use std::fs;

use beadlock_tests::skip::checkout;
use beadlock_tests::{Scene, go, run};

use super::target;

const INSTALLED: &str = "/usr/local/share/beadlock/go";

#[test]
fn the_guides_program_skips_what_is_claimed() {
    let scene = Scene::new();
    let program = scene.file("my-daemon");
    let Some(mut build) = go::go(&["build", "-o"], target()) else {
        return;
    };
    let page = fs::read_to_string(checkout().join("docs/guide/daemon.md")).expect("the page");
    let block = |fence: &str| {
        let (_, rest) = page.split_once(fence).expect("a block");
        rest.split_once("```").expect("its end").0.to_owned()
    };
    let requires = block("```text\n");
    assert!(requires.contains(INSTALLED), "{requires}");
    let module = checkout().join("integration/go");
    fs::create_dir(scene.file("source")).expect("a directory");
    scene.write(
        "source/go.mod",
        requires.replace(INSTALLED, module.to_str().expect("UTF-8")),
    );
    scene.write("source/main.go", block("```go\n"));
    build
        .arg(&program)
        .arg(".")
        .current_dir(scene.file("source"));
    go::done(build);

    let says = || {
        let output = run(scene.command(&program));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(says(), "syncing\n");
    let claim = scene.hold(&["--holder", "importer", "--", "sleep", "300"]);
    assert_eq!(says(), "Skipping database (locked by importer)\n");
    drop(claim);
}

#[test]
fn what_each_call_returns_is_in_its_documentation() {
    let Some(doc) = go::go(&["doc", "."], target()) else {
        return;
    };
    let doc = String::from_utf8_lossy(&go::done(doc).stdout).into_owned();
    for call in [
        "func Check(",
        "func Parse(",
        "type Cycle struct",
        "func Enter(",
    ] {
        assert!(doc.contains(call), "{call}: {doc}");
    }
}
