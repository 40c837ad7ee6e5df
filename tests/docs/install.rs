//! `make install` puts there what it says and `make uninstall` takes exactly that away; systemd finds no
//! fault with the units, and would.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use beadlock_tests::skip::{checkout, tool};
use beadlock_tests::{Ended, Scene, binaries, run};

const SYSTEM: &str = "lib/systemd/system/beadlock-agent@.service";
const USER: &str = "lib/systemd/user/beadlock-agent.service";

/// `make TARGET` with the programs that are built already, and a umask that must not show.
fn make(scene: &Scene, make: &Path, target: &str, variables: &[String]) -> Ended {
    let mut command = scene.command("sh");
    command.args(["-c", "umask 077; exec \"$@\"", "sh"]).arg(make).arg("--directory").arg(checkout());
    command.arg("--no-print-directory").arg(target).args(variables);
    command.env("BEADLOCK_BIN", binaries::directory());
    run(command).into()
}

/// The files below a directory with their permissions, sorted.
fn files(top: &Path) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("list a directory").flatten() {
            let mode = entry.metadata().expect("look at a file").permissions().mode() & 0o7777;
            if entry.path().is_dir() {
                assert_eq!(mode, 0o755, "{}", entry.path().display());
                folders.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(top).expect("below it").display().to_string();
                found.push((name, mode));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn installs_and_removes_the_same_files() {
    let Some(program) = tool("make") else { return };
    let scene = Scene::new();
    let top = scene.path().join("a destination/of packages");
    let variables = [format!("DESTDIR={}", top.display())];
    let installed = make(&scene, &program, "install", &variables);
    assert_eq!(installed.code, 0, "{installed:?}");
    let expected = [
        ("bin/beadlock", 0o755),
        ("bin/beadlock-agent", 0o755),
        (SYSTEM, 0o644),
        (USER, 0o644),
        ("share/doc/beadlock/LICENSE-APACHE", 0o644),
        ("share/doc/beadlock/LICENSE-MIT", 0o644),
        ("share/doc/beadlock/README.md", 0o644),
        ("share/doc/beadlock/agent.toml.example", 0o644),
        ("share/doc/beadlock/systemd.md", 0o644),
    ];
    let local = top.join("usr/local");
    assert_eq!(files(&local), expected.map(|(name, mode)| (name.to_owned(), mode)));
    let mut version = scene.command(local.join("bin/beadlock-agent"));
    version.arg("--version");
    let version = run(version);
    assert!(version.status.success());
    for unit in [SYSTEM, USER] {
        let text = fs::read_to_string(local.join(unit)).expect("read a unit");
        assert!(text.contains("\nExecStart=/usr/local/bin/beadlock-agent --config "), "{text}");
    }
    let again = make(&scene, &program, "install", &variables);
    assert_eq!(again.code, 0, "over what is there: {again:?}");

    fs::write(local.join("share/doc/beadlock/mine"), "").expect("write a file of one's own");
    for what in ["what is there", "what is not"] {
        let removed = make(&scene, &program, "uninstall", &variables);
        assert_eq!(removed.code, 0, "{what}: {removed:?}");
        let left: Vec<_> = files(&local).into_iter().map(|(name, _)| name).collect();
        assert_eq!(left, ["share/doc/beadlock/mine"], "{what}");
    }
}

#[test]
fn refuses_a_prefix_that_a_unit_cannot_name() {
    let Some(program) = tool("make") else { return };
    let scene = Scene::new();
    let top = scene.path().join("top");
    for (variable, words) in [
        ("PREFIX=usr", "usr: name the whole path, from / on"),
        ("PREFIX=/a b", "/a b: only letters"),
        ("UNITDIR=/x%h", "/x%h: only letters"),
        ("PREFIX=/x|y", "/x|y: only letters"),
    ] {
        let variables = [variable.to_owned(), format!("DESTDIR={}", top.display())];
        let ended = make(&scene, &program, "install", &variables);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(&format!("make install: {words}")), "{}", ended.err);
        assert!(!top.exists());
    }
}

/// What `systemd-analyze verify` says about a unit: its exit code and words.
fn verify(scene: &Scene, analyze: &Path, unit: &Path) -> Ended {
    let mut command = scene.command(analyze);
    command.args(["verify", "--man=no", "--recursive-errors=no"]);
    if unit.parent().is_some_and(|folder| folder.ends_with("user")) {
        command.arg("--user");
    }
    command.arg(unit).env("XDG_RUNTIME_DIR", scene.path());
    run(command).into()
}

fn installed(scene: &Scene, make_program: &Path) -> PathBuf {
    let prefix = scene.path().join("prefix");
    let ended = make(scene, make_program, "install", &[format!("PREFIX={}", prefix.display())]);
    assert_eq!(ended.code, 0, "{ended:?}");
    prefix
}

#[test]
fn systemd_finds_no_fault_with_the_units() {
    let (Some(analyze), Some(make)) = (systemd_analyze(), tool("make")) else { return };
    let scene = Scene::new();
    let prefix = installed(&scene, &make);
    for unit in [SYSTEM, USER] {
        let unit = prefix.join(unit);
        let sound = verify(&scene, &analyze, &unit);
        assert_eq!((sound.code, sound.err.as_str()), (0, ""), "{}", unit.display());

        // And it would find one.
        let text = fs::read_to_string(&unit).expect("read the unit");
        for (right, wrong) in [
            ("\nKillMode=", "\nKilMode="),
            ("\nKillMode=mixed", "\nKillMode=mixd"),
            ("\nWatchdogSec=1min", "\nWatchdogSec=1mni"),
            ("bin/beadlock-agent", "bin/beadlock-agnt"),
            ("@system-service", "@sistem-service"),
            ("AF_INET6", "AF_INET7"),
        ] {
            assert!(text.contains(right), "{right} is in {}", unit.display());
            fs::write(&unit, text.replace(right, wrong)).expect("break the unit");
            let broken = verify(&scene, &analyze, &unit);
            assert!(broken.code != 0 || !broken.err.is_empty(), "{wrong} passes in {}", unit.display());
        }
    }
}

/// Where it is there, it has to be content, also in CI; it comes with systemd, which a container seldom has.
fn systemd_analyze() -> Option<PathBuf> {
    let found = Path::new("/usr/bin/systemd-analyze");
    if found.is_file() {
        return Some(found.to_path_buf());
    }
    beadlock_tests::skip::cannot("needs systemd-analyze");
    None
}

/// What the units must wait for, the agent may take.
#[test]
fn stopping_waits_longer_than_a_cycle_may_take() {
    let scene = Scene::new();
    let mut help = scene.agent(&["--help"]);
    let help = Ended::from(run({
        help.env("COLUMNS", "200");
        help
    }));
    let cycle = help.out.split("--cycle-timeout <DUR>").nth(1).expect("the option");
    let cycle = cycle.split("[default: ").nth(1).and_then(|rest| rest.split(']').next()).expect("its default");
    let cycle = beadlock_checker::internal::duration::parse(cycle).expect("a duration");
    for unit in ["beadlock-agent@.service", "user/beadlock-agent.service"] {
        let text = fs::read_to_string(checkout().join("integration/systemd").join(unit)).expect("read the unit");
        let stop = text.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).expect("TimeoutStopSec");
        let stop = beadlock_checker::internal::duration::parse(stop).expect("a duration");
        assert!(stop > cycle + beadlock_checker::internal::runner::GRACE, "{unit}: {stop:?}, {cycle:?}");
    }
}
