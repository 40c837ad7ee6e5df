//! What packages say of a release, in files of others' forms: its version, its address, the names of its files.

use std::collections::BTreeSet;

use super::document;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The value of the one `KEY = "…"` or `KEY "…"` of a file.
fn value(text: &str, key: &str) -> String {
    let mut found = text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix(key)?.trim_start();
        let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
        Some(rest.strip_prefix('"')?.split('"').next()?.to_owned())
    });
    let first = found.next().unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(found.next(), None, "{key} twice");
    first
}

fn repository() -> String {
    value(&document("Cargo.toml"), "repository")
}

/// Where a release has its tarball.
fn tarball() -> String {
    let repository = repository();
    format!("{repository}/releases/download/v{VERSION}/beadlock-{VERSION}-{TARGET}.tar.gz")
}

#[test]
fn the_formula_names_the_tarball_of_this_version() {
    let formula = document("integration/packages/beadlock.rb");
    assert_eq!(value(&formula, "url"), tarball());
    assert_eq!(value(&formula, "homepage"), repository());
    // `make dist` writes the real one.
    assert_eq!(value(&formula, "sha256"), "0".repeat(64));
    for program in ["beadlock", "beadlock-agent"] {
        assert!(
            formula.contains(&format!("/{program} --version")),
            "{program}"
        );
    }
}

#[test]
fn cargo_binstall_finds_each_program_in_the_tarball() {
    for (manifest, program) in [
        ("integration/cli/Cargo.toml", "beadlock"),
        ("agent/Cargo.toml", "beadlock-agent"),
    ] {
        let manifest = document(manifest);
        let filled = |key| {
            value(&manifest, key)
                .replace("{ repo }", &repository())
                .replace("{ version }", VERSION)
                .replace("{ target }", TARGET)
                .replace("{ bin }", program)
                .replace("{ binary-ext }", "")
        };
        assert_eq!(filled("pkg-url"), tarball());
        assert_eq!(
            filled("bin-dir"),
            format!("beadlock-{VERSION}-{TARGET}/bin/{program}")
        );
        assert!(manifest.contains("\nrepository.workspace = true\n"));
    }
}

/// The flake reads version and address, and so cannot differ. What it builds has these names.
#[test]
fn the_flake_builds_both_programs() {
    let flake = document("flake.nix");
    assert!(flake.contains("builtins.fromTOML (builtins.readFile ./Cargo.toml)"));
    assert!(!flake.contains(VERSION), "{VERSION} is read, not written");
    for manifest in ["integration/cli/Cargo.toml", "agent/Cargo.toml"] {
        let package = document(manifest);
        let package = package.split("[").nth(1).expect("its first table");
        let package = format!("\"--package={}\"", value(package, "name"));
        assert!(flake.contains(&package), "{package}");
    }
    assert!(flake.contains("scripts/install.sh install"));
}

#[test]
fn the_image_has_both_programs_and_an_ordinary_user() {
    let dockerfile = document("integration/packages/Dockerfile");
    for line in [
        "COPY beadlock beadlock-agent /usr/local/bin/",
        "USER 1000:1000",
        "ENTRYPOINT [\"beadlock-agent\"]",
    ] {
        assert!(dockerfile.lines().any(|found| found == line), "{line}");
    }
    let socket = dockerfile
        .lines()
        .find_map(|line| line.strip_prefix("ENV BEADLOCK_AGENT_LISTEN="));
    let socket = socket.expect("where its agent listens");
    let asks = format!("HEALTHCHECK CMD beadlock status --agent {socket} ");
    assert!(dockerfile.contains(&asks), "{asks}");
}

/// Every file of a release that the page names, and every address to get one from.
#[test]
fn the_page_names_the_files_of_this_version() {
    let page = document("docs/install.md");
    let base = format!("{}/releases/download/v{VERSION}/", repository());
    let addresses: Vec<_> = page.split("/releases/download/").collect();
    assert!(addresses.len() > 4, "few addresses, or the scan sees few");
    for before in &addresses[..addresses.len() - 1] {
        assert!(before.ends_with(&repository()), "{before}");
    }
    let known = BTreeSet::from([
        format!("beadlock-{VERSION}-{TARGET}.tar.gz"),
        format!("beadlock_{VERSION}-1_amd64.deb"),
        format!("beadlock-{VERSION}-1.x86_64.rpm"),
        format!("beadlock-{VERSION}.tgz"),
        "beadlock.rb".to_owned(),
        format!("beadlock-{VERSION}-cp39-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"),
        format!("beadlock-{VERSION}.tar.gz"),
        format!("beadlock-{VERSION}.cdx.json"),
        format!("beadlock-agent-{VERSION}.cdx.json"),
    ]);
    let is_file = |word: &&str| {
        [".tar.gz", ".deb", ".rpm", ".tgz", ".rb", ".whl", ".json"]
            .iter()
            .any(|end| word.ends_with(end) && word.starts_with("beadlock"))
    };
    let named: BTreeSet<_> = page
        .split(|c: char| c.is_whitespace() || "`/\"".contains(c))
        .filter(is_file)
        .map(str::to_owned)
        .collect();
    assert_eq!(named, known);
    assert!(page.contains(&base));
}
