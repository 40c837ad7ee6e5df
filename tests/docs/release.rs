//! The version is one, what is told of it is there, and the release check says so of each that is not.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use beadlock_tests::skip::checkout;
use beadlock_tests::{Ended, Scene, run, tool};

use super::document;

/// What the scripts read, in a repository of its own, committed.
const READ: [&str; 12] = [
    "CHANGELOG.md",
    "Cargo.toml",
    "docs/guide/ci.md",
    "docs/install.md",
    "integration/ci/github-actions.yml",
    "integration/ci/github/README.md",
    "integration/go/go.mod",
    "integration/npm/package.json",
    "integration/packages/beadlock.rb",
    "integration/python/Cargo.toml",
    "scripts/release-check.sh",
    "scripts/release-notes.sh",
];

fn copy() -> Option<Scene> {
    let git = tool("git")?;
    let scene = Scene::new();
    for name in READ.into_iter().chain(["scripts/version.sh"]) {
        let to = scene.file("copy").join(name);
        fs::create_dir_all(to.parent().expect("a folder")).expect("make the folder");
        fs::copy(checkout().join(name), to).expect("copy");
    }
    for args in [
        &["init", "--quiet"][..],
        &["add", "--all"],
        &["commit", "--quiet", "--message", "copy"],
    ] {
        let mut git = scene.command(&git);
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        git.args(args).current_dir(scene.file("copy"));
        assert!(run(git).status.success(), "git {args:?}");
    }
    Some(scene)
}

fn edit(scene: &Scene, name: &str, from: &str, to: &str) {
    let path = scene.file("copy").join(name);
    let text = fs::read_to_string(&path).expect("read");
    assert!(text.contains(from), "{from} in {name}");
    fs::write(path, text.replacen(from, to, 1)).expect("write");
}

fn script(scene: &Scene, name: &str, args: &[&str]) -> Ended {
    let mut command: Command = scene.command(scene.file("copy/scripts").join(name));
    command
        .args(args)
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    run(command).into()
}

/// The rows of the table, by their first word.
fn rows(ended: &Ended, result: &str) -> Vec<String> {
    let begun = format!("{result:<8} ");
    let rows = ended
        .out
        .lines()
        .filter_map(|line| line.strip_prefix(&begun));
    rows.map(str::to_owned).collect()
}

#[test]
fn the_version_is_the_same_everywhere_and_one_that_differs_is_named() {
    let Some(scene) = copy() else { return };
    let version = env!("CARGO_PKG_VERSION");
    let said = script(&scene, "version.sh", &[]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, &*format!("{version}\n"))
    );

    edit(&scene, "integration/npm/package.json", version, "7.7.7");
    let said = script(&scene, "version.sh", &[]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("package.json") && said.err.contains("7.7.7"),
        "{said:?}"
    );
    edit(
        &scene,
        "integration/npm/package.json",
        "\"version\"",
        "\"older\"",
    );
    let said = script(&scene, "version.sh", &[]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("package.json: no line"), "{said:?}");
    script(&scene, "version.sh", &["v1"]).expect(2, &["usage:"]);
}

#[test]
fn the_release_check_sees_what_is_not_as_it_should_be() {
    let Some(scene) = copy() else { return };
    let version = env!("CARGO_PKG_VERSION");
    let is_open = document("Cargo.toml").contains("OWNER")
        || document("integration/go/go.mod").contains(".invalid/");
    let address = ["the address of the repository is filled in".to_owned()];

    let said = script(&scene, "release-check.sh", &["words"]);
    let failed = rows(&said, "failed");
    assert_eq!(failed, if is_open { &address[..] } else { &[] }, "{said:?}");
    assert_eq!(said.code, i32::from(is_open));

    edit(
        &scene,
        "CHANGELOG.md",
        "## Unreleased\n",
        "## Unreleased\n\n- Something.\n",
    );
    edit(
        &scene,
        "docs/guide/ci.md",
        &format!("github@v{version}"),
        "github@v7.7.7",
    );
    let said = script(&scene, "release-check.sh", &["words"]);
    let failed = rows(&said, "failed").join("\n");
    for part in [
        "the version is the same",
        "working tree",
        "nothing unreleased",
    ] {
        assert!(failed.contains(part), "{part} in {failed}");
    }
    script(&scene, "release-check.sh", &["word"]).expect(2, &["usage:"]);
}

#[test]
fn the_notes_of_a_release_are_those_of_its_version() {
    let Some(scene) = copy() else { return };
    let changes = "# Changelog\n\n## Unreleased\n\n## 0.3.0 - 2026-01-01\n\nNew.\n\n### More\n\nM.\n\n## 0.2.0 - 2025-01-01\n\nOld.\n";
    scene.write("copy/CHANGELOG.md", changes);
    let said = script(&scene, "release-notes.sh", &["0.3.0"]);
    assert_eq!((said.code, &*said.out), (0, "\nNew.\n\n### More\n\nM.\n\n"));
    assert_eq!(
        script(&scene, "release-notes.sh", &["0.2.0"]).out,
        "\nOld.\n"
    );
    assert_eq!(script(&scene, "release-notes.sh", &["0.3"]).code, 1);
}

/// Each `make TARGET` that a page tells to type.
#[test]
fn what_pages_tell_to_make_is_in_the_makefile() {
    let makefile = document("Makefile");
    let mut pages = vec![
        "README.md".to_owned(),
        "CONTRIBUTING.md".into(),
        "AGENTS.md".into(),
        "ARCHITECTURE.md".into(),
    ];
    pages.extend([
        "tests/README.md".to_owned(),
        "docs/releasing.md".into(),
        "docs/reliability.md".into(),
    ]);
    let mut told = BTreeSet::new();
    for page in &pages {
        let text = document(page);
        let starts = text
            .split("`make ")
            .skip(1)
            .chain(text.split("\nmake ").skip(1));
        told.extend(starts.map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-');
            (rest[..end.unwrap_or(rest.len())].to_owned(), page.clone())
        }));
    }
    assert!(told.len() > 20, "{told:?}");
    for (target, page) in told {
        let is_there = makefile.lines().any(|line| {
            let names = line.split_once(':').map_or("", |(names, _)| names);
            names.split(' ').any(|name| name == target)
        });
        assert!(is_there, "{page} tells of make {target}");
    }
}
