//! What is published: each crate as cargo packs it, the licences of what it is built from, and the one address.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use beadlock_tests::skip::{checkout, tool};
use beadlock_tests::{Ended, Scene, binaries, run};
use serde_json::Value;

/// The crates with a promise, which their siblings take as anybody does.
const FACES: [&str; 2] = ["beadlock", "beadlock-checker"];
const PROGRAMS: [&str; 2] = ["beadlock-cli", "beadlock-agent"];

/// What cargo says of a manifest.
fn metadata(manifest: &Path, options: &[&str]) -> Value {
    let mut cargo = binaries::cargo();
    cargo
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .args(options)
        .current_dir(checkout());
    let ended = Ended::from(run(cargo));
    assert_eq!(ended.code, 0, "{}: {}", manifest.display(), ended.err);
    serde_json::from_str(&ended.out).expect("JSON")
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().expect("packages")
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// The members of the workspace that are published, by name.
fn published() -> BTreeMap<String, Value> {
    let all = metadata(
        &checkout().join("Cargo.toml"),
        &["--locked", "--offline", "--no-deps"],
    );
    let is_published = |package: &&Value| package["publish"].is_null();
    packages(&all)
        .iter()
        .filter(is_published)
        .map(|package| (word(package, "name").to_owned(), package.clone()))
        .collect()
}

/// Packs them as `cargo publish` would, and unpacks them into the scene, each in a directory.
fn unpacked(scene: &Scene, published: &BTreeMap<String, Value>) -> Vec<PathBuf> {
    let mut cargo = binaries::cargo();
    cargo
        .args([
            "package",
            "--locked",
            "--offline",
            "--no-verify",
            "--allow-dirty",
        ])
        .arg("--target-dir")
        .arg(scene.file("target"))
        .current_dir(checkout());
    for name in published.keys() {
        cargo.args(["--package", name]);
    }
    let ended = Ended::from(run(cargo));
    assert_eq!(ended.code, 0, "{}", ended.err);
    published
        .iter()
        .map(|(name, package)| {
            let name = format!("{name}-{}", word(package, "version"));
            let mut tar = scene.command("tar");
            tar.args(["-xzf", &format!("target/package/{name}.crate")]);
            let ended = Ended::from(run(tar));
            assert_eq!(ended.code, 0, "{name}: {}", ended.err);
            scene.file(&name)
        })
        .collect()
}

#[test]
fn a_packed_crate_has_what_its_page_shows_and_takes_its_siblings_as_they_are_promised() {
    if tool("tar").is_none() {
        return;
    }
    let published = published();
    assert_eq!(published.len(), 19, "{:?}", published.keys());
    let address = repository();
    let scene = Scene::new();
    for dir in unpacked(&scene, &published) {
        let all = metadata(&dir.join("Cargo.toml"), &["--offline", "--no-deps"]);
        let package = &packages(&all)[0];
        let name = word(package, "name");
        for key in ["repository", "license", "readme", "description"] {
            assert_ne!(word(package, key), "", "{name} has no {key}");
        }
        assert_eq!(word(package, "repository"), address, "{name}");
        for key in ["keywords", "categories"] {
            let words = package[key].as_array().expect("a list");
            assert!(!words.is_empty() && words.len() <= 5, "{name}: {key}");
        }
        assert!(
            package["metadata"]["docs"]["rs"].is_object(),
            "{name}: how docs.rs builds it"
        );
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = |dir: &Path| fs::read(dir.join(licence)).ok();
            assert_eq!(text(&dir), text(&checkout()), "{name}: {licence}");
        }
        assert!(!dir.join("tests").exists(), "{name}: tests of the testkit");
        what_the_code_includes_is_there(name, &dir.join("src"));
        page_is_its_own(name, &dir);
        dependencies_are_pinned(name, word(package, "version"), package);
    }
}

/// The folders of the files that the code takes in.
fn what_the_code_includes_is_there(name: &str, folder: &Path) {
    for entry in fs::read_dir(folder).expect("list").flatten() {
        let path = entry.path();
        if path.is_dir() {
            what_the_code_includes_is_there(name, &path);
            continue;
        }
        let code = fs::read_to_string(&path).unwrap_or_default();
        for rest in code.split("include_str!(").skip(1) {
            let taken = rest.split('"').nth(1).unwrap_or_default();
            let taken = folder.join(taken.rsplit_once('/').map_or("", |(folder, _)| folder));
            assert!(taken.is_dir(), "{name} takes {} in", taken.display());
        }
    }
}

/// The page of a crate begins with its name, and leads from the library to the program, and from the engine to the faces.
fn page_is_its_own(name: &str, dir: &Path) {
    let page = fs::read_to_string(dir.join("README.md")).unwrap_or_default();
    let mut lines = page.lines().filter(|line| !line.is_empty());
    assert_eq!(lines.next(), Some(format!("# {name}").as_str()));
    let first = lines.next().unwrap_or_default();
    if name == "beadlock" {
        assert!(first.contains("`cargo install beadlock-cli`"), "{first}");
    }
    let is_engine = !FACES.contains(&name) && !PROGRAMS.contains(&name);
    assert_eq!(
        page.contains("part of beadlock's engine"),
        is_engine,
        "{name}"
    );
    assert_eq!(page.contains("\n```"), !is_engine, "{name}: an example");
}

/// No path, no `*`; an engine crate by `=`, a face as anybody takes it. The unstable part of `clap_complete` is in the
/// programs alone, and pinned.
fn dependencies_are_pinned(name: &str, version: &str, package: &Value) {
    for dependency in package["dependencies"].as_array().expect("dependencies") {
        let (of, wanted) = (word(dependency, "name"), word(dependency, "req"));
        assert!(dependency["path"].is_null(), "{name} has a path to {of}");
        assert_ne!(wanted, "*", "{name} takes any {of}");
        if FACES.contains(&of) {
            assert_eq!(wanted, format!("^{version}"), "{name}: {of}");
        } else if of.starts_with("beadlock") {
            assert_eq!(wanted, format!("={version}"), "{name}: {of}");
        }
        if of == "clap_complete" {
            assert!(PROGRAMS.contains(&name), "{name} is a library");
            assert!(wanted.starts_with('='), "{name}: {of} {wanted}");
        }
    }
}

/// The address in Cargo.toml.
fn repository() -> String {
    let published = published();
    let addresses: BTreeSet<&str> = published
        .values()
        .map(|package| word(package, "repository"))
        .collect();
    assert_eq!(addresses.len(), 1, "{addresses:?}");
    addresses.into_iter().next().unwrap_or_default().to_owned()
}

/// Whether a path's part is the name of our repository, and not the beginning of a longer one.
fn is_ours(part: &str) -> bool {
    part.strip_prefix("beadlock").is_some_and(|rest| {
        !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-')
    })
}

#[test]
fn the_address_is_the_same_everywhere() {
    let Some(texts) = super::citations::committed() else {
        return;
    };
    let address = repository();
    let python = &texts[Path::new("integration/python/pyproject.toml")];
    for url in [
        format!("Repository = \"{address}\""),
        format!("Changelog = \"{address}/blob/main/CHANGELOG.md\""),
        format!("Documentation = \"{address}/blob/main/docs/guide/python.md\""),
    ] {
        assert!(python.lines().any(|line| line == url), "pyproject: {url}");
    }
    let node: Value = serde_json::from_str(&texts[Path::new("integration/npm/package.json")])
        .expect("package.json");
    assert_eq!(
        word(&node["repository"], "url"),
        format!("git+{address}.git")
    );
    let at = address.trim_start_matches("https://");
    let owner = at.trim_end_matches("beadlock");
    for (name, text) in &texts {
        for (begin, _) in text.match_indices("github.com/") {
            let link = &text[begin..];
            let mut parts = link.split('/').skip(2);
            if parts.next().is_some_and(is_ours) {
                assert!(link.starts_with(owner), "{}: {link:.60}", name.display());
            }
        }
    }
    // The registry's page knows no relative links.
    let page = &texts[Path::new("integration/python/README.md")];
    for link in page.split("](").skip(1) {
        let inside = link
            .strip_prefix(&format!("{address}/blob/main/"))
            .and_then(|rest| rest.split([')', '#']).next());
        let inside = inside.unwrap_or_else(|| panic!("{link}"));
        assert!(checkout().join(inside).exists(), "{inside}");
    }
}

/// The licences that deny.toml allows.
static LICENCES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let text = super::document("deny.toml");
    let list = text
        .split_once("\nallow = [")
        .and_then(|(_, rest)| rest.split_once(']'));
    let words = list.expect("a list").0.split('"').skip(1).step_by(2);
    words.map(str::to_owned).collect()
});

/// Whether these terms let one choose only what is in the list: `(MIT OR Apache-2.0) AND Unicode-3.0`, in old crates
/// `MIT/Apache-2.0`. An exception permits more, and changes nothing here.
fn is_allowed(terms: &str) -> bool {
    let mut spaced = terms
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    spaced = spaced.replace(" WITH LLVM-exception", "");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest) && rest.is_empty()
}

fn any(rest: &mut &[&str]) -> bool {
    let mut allowed = all(rest);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        allowed |= all(rest);
    }
    allowed
}

fn all(rest: &mut &[&str]) -> bool {
    let mut allowed = one(rest);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        allowed &= one(rest);
    }
    allowed
}

fn one(rest: &mut &[&str]) -> bool {
    let [first, after @ ..] = *rest else {
        return false;
    };
    *rest = after;
    if *first != "(" {
        return LICENCES.iter().any(|licence| licence == first);
    }
    let allowed = any(rest);
    match *rest {
        [")", after @ ..] => {
            *rest = after;
            allowed
        }
        _ => false,
    }
}

#[test]
fn terms_are_read_as_they_are_written() {
    for allowed in [
        "MIT",
        "MIT/Apache-2.0",
        "Unlicense OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "GPL-3.0 OR Apache-2.0 WITH LLVM-exception",
        "Apache-2.0 AND ISC",
    ] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in [
        "",
        "GPL-3.0",
        "BSL-1.0",
        "MIT AND OpenSSL",
        "(MIT OR Apache-2.0) AND NCSA",
        "GPL-2.0 OR GPL-3.0",
        "(MIT",
        "MIT Apache-2.0",
    ] {
        assert!(!is_allowed(refused), "{refused}");
    }
}

#[test]
fn every_dependency_is_licensed_as_contributing_says() {
    for manifest in ["Cargo.toml", "integration/python/Cargo.toml"] {
        let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let all = metadata(
            &checkout().join(manifest),
            &["--locked", "--filter-platform", &here],
        );
        let packages = packages(&all);
        assert!(packages.len() > 40, "{manifest}: {}", packages.len());
        for package in packages {
            let (name, terms) = (word(package, "name"), word(package, "license"));
            // For a watcher that is never asked for: CONTRIBUTING.md.
            if (name, terms) != ("xxhash-rust", "BSL-1.0") {
                assert!(
                    is_allowed(terms),
                    "{manifest}: {name} is licensed {terms:?}"
                );
            }
        }
    }
}
