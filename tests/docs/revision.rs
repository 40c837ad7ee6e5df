//! `build.rs` of both programs: what `--version` says of the commit.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use beadlock_tests::skip::{checkout, tool};
use beadlock_tests::{Ended, Scene, binaries, run};

/// The build script, compiled.
fn script(scene: &Scene) -> PathBuf {
    let program = scene.file("build");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    // Where the toolchain is said: rust-toolchain.toml.
    compile
        .current_dir(checkout())
        .args(["--edition=2024", "-Awarnings", "-o"])
        .arg(&program)
        .arg("agent/build.rs");
    let ended = Ended::from(run(compile));
    assert_eq!(ended.code, 0, "{}", ended.err);
    program
}

/// What it gives to the code when it runs there: `REVISION`, then `LONG_VERSION`.
fn told(scene: &Scene, dir: &str, variables: &[(&str, &str)]) -> (String, String) {
    let said = said(scene, dir, variables);
    let value = |name: &str| {
        let begin = format!("cargo::rustc-env={name}=");
        let line = said.lines().find_map(|line| line.strip_prefix(&begin));
        line.unwrap_or_else(|| panic!("{name}: {said}")).to_owned()
    };
    (value("REVISION"), value("LONG_VERSION"))
}

fn said(scene: &Scene, dir: &str, variables: &[(&str, &str)]) -> String {
    let mut build = scene.command(scene.file("build"));
    build
        .current_dir(scene.file(dir))
        .env("CARGO_PKG_VERSION", "1.2.3")
        .env("PROFILE", "release")
        .env("GIT_CEILING_DIRECTORIES", scene.path())
        .envs(variables.iter().copied());
    let ended = Ended::from(run(build));
    assert_eq!(ended.code, 0, "{}", ended.err);
    ended.out
}

/// A repository with a crate in it, committed at ten to one of 29 November in UTC, which is 1 o'clock elsewhere.
fn repository(scene: &Scene) {
    fs::create_dir_all(scene.file("repository/crate/src")).expect("make the crate");
    scene.write("repository/crate/build.rs", "");
    scene.write("repository/crate/src/main.rs", "");
    let mut git = scene.shell(
        "cd repository && git init -q && git add . && \
         git -c user.name=test -c user.email=test@example.org commit -q -m one",
    );
    git.env("GIT_COMMITTER_DATE", "2026-11-30T00:50:00+0200")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let ended = Ended::from(run(git));
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn the_version_names_the_commit_and_its_day_in_a_release_of_a_checkout_alone() {
    if tool("git").is_none() {
        return;
    }
    let scene = Scene::new();
    script(&scene);
    repository(&scene);
    let plain = ("unknown".to_owned(), "1.2.3".to_owned());
    let commit = scene.shell("git -C repository rev-parse --short=12 HEAD");
    let commit = Ended::from(run(commit)).out.trim().to_owned();
    assert_eq!(commit.len(), 12, "{commit}");

    let release = |revision: &str| {
        (
            revision.to_owned(),
            format!("1.2.3 ({revision} 2026-11-29)"),
        )
    };
    assert_eq!(told(&scene, "repository/crate", &[]), release(&commit));
    let debug = told(&scene, "repository/crate", &[("PROFILE", "debug")]);
    assert_eq!(debug, plain, "a commit builds no debug build anew");
    let named = [("BEADLOCK_REVISION", "1.2.3-4")];
    let (revision, long) = ("1.2.3-4".to_owned(), "1.2.3 (1.2.3-4)".to_owned());
    assert_eq!(told(&scene, "repository/crate", &named), (revision, long));
    let dated = [("BEADLOCK_REVISION", "abc 2026-11-28")];
    let (revision, long) = ("abc".to_owned(), "1.2.3 (abc 2026-11-28)".to_owned());
    assert_eq!(told(&scene, "repository/crate", &dated), (revision, long));

    // A cargo that builds again because a file is missing would build each time.
    for said in said(&scene, "repository/crate", &[]).lines() {
        if let Some(path) = said.strip_prefix("cargo::rerun-if-changed=") {
            assert!(scene.file("repository/crate").join(path).exists(), "{path}");
        }
    }

    scene.write("repository/crate/src/main.rs", "fn main() {}\n");
    let dirty = release(&format!("{commit}-dirty"));
    assert_eq!(told(&scene, "repository/crate", &[]), dirty);

    // A published crate in somebody's repository, then one that was added to it, and one where there is none.
    fs::create_dir_all(scene.file("repository/vendor")).expect("make a crate");
    scene.write("repository/vendor/build.rs", "");
    assert_eq!(told(&scene, "repository/vendor", &[]), plain);
    scene.write("repository/crate/.cargo_vcs_info.json", "{}");
    assert_eq!(told(&scene, "repository/crate", &[]), plain);
    fs::create_dir(scene.file("alone")).expect("make a crate");
    scene.write("alone/build.rs", "");
    assert_eq!(told(&scene, "alone", &[]), plain);
}

/// One file for both programs, so that they name the same commit.
#[test]
fn both_programs_have_the_same_build_script() {
    let text = |of: &str| fs::read(checkout().join(of).join("build.rs")).expect("read");
    assert_eq!(text("agent"), text("integration/cli"));
}

/// The short form is the version alone, whatever the long one says of the commit: scripts compare it.
#[test]
fn the_short_version_names_no_commit() {
    let scene = Scene::new();
    for program in [binaries::beadlock(), binaries::agent()] {
        let name = program.file_name().expect("a name").display().to_string();
        let said = |option: &str| {
            let mut command = scene.command(&program);
            command.arg(option);
            Ended::from(run(command)).out
        };
        let version = format!("{name} {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(said("-V"), format!("{version}\n"));
        assert!(said("--version").starts_with(&version), "{name}");
    }
}
