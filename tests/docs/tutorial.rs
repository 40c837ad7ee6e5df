//! docs/adding-a-protocol.md does not rot: each of its blocks applies to this checkout, and touches only what a new
//! protocol has to touch. `make tutorial` compiles and tests the result.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use beadlock_tests::skip::{self, checkout, tool};
use beadlock_tests::{Ended, Running, Scene};

use super::document;

const PAGE: &str = "docs/adding-a-protocol.md";

/// What a new protocol touches: its two folders and its file of the command line, the lists of the product, and the list
/// of the conformance suite.
const TOUCHED: [&str; 12] = [
    "checker/core/src/record/toy/",
    "checker/core/src/record/mod.rs",
    "checker/core/src/target.rs",
    "integration/explain/src/by_protocol.rs",
    "integration/claim/src/protocol/toy/",
    "integration/claim/src/protocol/mod.rs",
    "integration/claim/src/protocol/words.rs",
    "integration/claim/src/draft.rs",
    "integration/cli/src/targets/toy.rs",
    "integration/cli/src/targets/mod.rs",
    "tests/conformance/toy.rs",
    "tests/conformance/main.rs",
];

/// Applies the page to a copy of the checkout in the scene; `None`: there is nothing to copy it with.
fn apply(scene: &Scene, page: &Path) -> Option<Ended> {
    tool("git")?;
    if !checkout().join(".git").exists() {
        skip::cannot("needs a checkout of git");
        return None;
    }
    let mut command = scene.command(checkout().join("scripts/tutorial.sh"));
    command.arg("--apply").arg(scene.file("copy"));
    command
        .env("TUTORIAL_PAGE", page)
        .env("TMPDIR", scene.path());
    Some(
        Running::start(command)
            .finish(Duration::from_secs(60))
            .into(),
    )
}

#[test]
fn every_block_of_the_tutorial_applies_and_touches_only_the_seam() {
    let scene = Scene::new();
    let Some(ended) = apply(&scene, Path::new(PAGE)) else {
        return;
    };
    assert_eq!(ended.code, 0, "{ended:?}");
    let files: Vec<(&str, &str)> = ended
        .out
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let is_at =
        |file: &str, place: &str| file == place || place.ends_with('/') && file.starts_with(place);
    for (_, file) in &files {
        assert!(
            TOUCHED.iter().any(|place| is_at(file, place)),
            "{PAGE} touches {file}"
        );
        assert!(scene.file("copy").join(file).exists(), "{file}");
    }
    for place in TOUCHED {
        assert!(
            files.iter().any(|(_, file)| is_at(file, place)),
            "{PAGE} leaves {place} as it is"
        );
    }
    let blocks = document(PAGE)
        .lines()
        .filter(|line| ["```rust", "```diff"].contains(line))
        .count();
    assert_eq!(
        files.len(),
        blocks,
        "one line for each block: {}",
        ended.out
    );
}

/// A block that does not apply, or that nobody can place, fails with its line.
#[test]
fn a_page_that_has_rotted_is_seen() {
    let page = document(PAGE);
    let of = |changed: String, why: &str| {
        let scene = Scene::new();
        scene.write("page.md", &changed);
        assert_ne!(changed, page, "nothing was changed");
        let Some(ended) = apply(&scene, &scene.file("page.md")) else {
            return;
        };
        assert_eq!(ended.code, 1, "{ended:?}");
        let wrong = ended.err.lines().last().unwrap_or_default();
        let (line, said) = wrong.rsplit_once(": ").expect("PAGE:LINE: WHY");
        let line = line
            .rsplit_once(':')
            .and_then(|(_, line)| line.parse::<usize>().ok())
            .expect("a line");
        assert_eq!(said, why, "{ended:?}");
        assert!(
            changed
                .lines()
                .nth(line - 1)
                .is_some_and(|line| line.starts_with("```")),
            "{ended:?}"
        );
        let left: BTreeSet<String> = names(scene.path());
        assert!(
            left.iter()
                .all(|name| ["copy", "page.md", ".beads"].contains(&name.as_str())),
            "{left:?}"
        );
    };
    of(
        page.replace("\n pub mod tower;\n", "\n pub mod towers;\n"),
        "this block does not apply",
    );
    of(
        page.replace("New file", "A file"),
        "no line \"New file `PATH`:\" stands before this block",
    );
    of(
        page.replace("`checker/core/src/record/toy/mod.rs`:", "`README.md`:"),
        "README.md is there already",
    );
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
