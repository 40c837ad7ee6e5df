//! What the scripts of `scripts/` may remove and start: nothing where cargo does not say which directory it builds into,
//! no directory that somebody else has made, and no service of a package that they install.

use std::fs;
use std::path::Path;
use std::process::Command;

use beadlock_tests::skip::{self, checkout, tool};
use beadlock_tests::{Ended, Scene, run, write_program};

/// What cargo says of itself, as far as the scripts read it.
fn metadata(target: &str) -> String {
    format!(
        r#"{{"packages":[{{"description":"a \"target_directory\":\"/no\""}}],"target_directory":"{target}","version":1}}"#
    )
}

/// A scene whose `bin` has a cargo that succeeds in everything and answers `metadata` with these words and this exit code.
/// What the scripts would start before they ask it only succeeds.
fn bench(metadata: &str, code: i32) -> Scene {
    let scene = Scene::new();
    fs::create_dir(scene.file("bin")).expect("make bin");
    scene.write("metadata", metadata);
    let answer = format!(
        "[ \"$1\" != metadata ] || {{ cat '{}'; exit {code}; }}",
        scene.file("metadata").display()
    );
    stand_in(&scene, "cargo", &answer);
    stand_in(&scene, "python3", "");
    stand_in(&scene, "shellcheck", "");
    stand_in(&scene, "shfmt", "");
    scene
}

/// A program of the scene's `bin`, which is first in the PATH of [`with_bench`].
fn stand_in(scene: &Scene, name: &str, script: &str) {
    write_program(
        &scene.file("bin").join(name),
        format!("#!/bin/sh\n{script}\n").as_bytes(),
    );
}

/// The command with the stand-ins in the place of the real programs.
fn with_bench(scene: &Scene, mut command: Command) -> Ended {
    let path = format!(
        "{}:{}",
        scene.file("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    command
        .env("PATH", path)
        .env("CARGO", scene.file("bin/cargo"));
    run(command).into()
}

fn script(scene: &Scene, name: &str) -> Ended {
    with_bench(scene, scene.command(checkout().join("scripts").join(name)))
}

#[test]
fn the_target_directory_is_told_whole_or_not_at_all() {
    let told = script(&bench(&metadata("/srv/a b/zi\u{fc}g"), 0), "target-dir.sh");
    assert_eq!(
        (told.code, told.out.as_str(), told.err.as_str()),
        (0, "/srv/a b/zi\u{fc}g\n", "")
    );
    for (said, code, why) in [
        (metadata("/srv/target"), 101, "cargo metadata failed"),
        (String::new(), 101, "cargo metadata failed"),
        (String::new(), 0, "names no target directory"),
        (metadata(""), 0, "names no target directory"),
        (
            metadata(r#"/srv/a\"b"#),
            0,
            "a quote, a backslash or a control character",
        ),
        (
            metadata(r"/srv/a\\b"),
            0,
            "a quote, a backslash or a control character",
        ),
        (
            metadata(r"/srv/a\nb"),
            0,
            "a quote, a backslash or a control character",
        ),
        (metadata("/"), 0, "not one below /"),
        (metadata("target"), 0, "not one below /"),
    ] {
        let told = script(&bench(&said, code), "target-dir.sh");
        assert_eq!((told.code, told.out.as_str()), (1, ""), "{said}: {told:?}");
        assert!(
            told.err.starts_with("scripts/target-dir.sh: ") && told.err.contains(why),
            "{said}: {told:?}"
        );
    }
}

/// Every script and every recipe that asks for the directory.
#[test]
fn without_a_target_directory_nothing_is_removed_and_nothing_started() {
    let Some(make) = tool("make") else { return };
    for (said, code) in [(metadata("/srv/target"), 101), (String::new(), 0)] {
        let scene = bench(&said, code);
        stand_in(
            &scene,
            "rm",
            &format!("echo \"$*\" >>'{}'", scene.file("removed").display()),
        );
        let stops = |what: &str, ended: Ended| {
            assert!(
                ended.code != 0 && ended.err.contains("scripts/target-dir.sh: cargo metadata "),
                "{what}: {ended:?}"
            );
            assert_eq!(scene.read("removed"), "", "{what}: {ended:?}");
            ended
        };
        for name in ["site.sh", "python.sh", "test.sh", "tutorial.sh"] {
            assert_eq!(stops(name, script(&scene, name)).out, "", "{name}");
        }
        for goal in ["demo", "demo-fleet", "install", "lint"] {
            let mut command = scene.command(&make);
            command
                .arg("--directory")
                .arg(checkout())
                .args(["--no-print-directory", goal]);
            command.arg(format!("PREFIX={}", scene.file("prefix").display()));
            let ended = stops(goal, with_bench(&scene, command));
            // A demo prints what it plays. `make` prints the recipes of lint up to the one that asks.
            let after = ended
                .out
                .lines()
                .skip_while(|line| !line.contains("scripts/target-dir.sh"))
                .skip(2);
            assert!(
                if goal == "lint" {
                    after.count() == 0
                } else {
                    ended.out.is_empty()
                },
                "{goal}: {ended:?}"
            );
        }
        assert!(!scene.file("prefix").exists(), "nothing is installed");
    }
}

#[test]
fn a_directory_that_somebody_else_has_made_stays_as_it_is() {
    let scene = Scene::new();
    let target = scene.file("target");
    let bench = bench(&metadata(&target.display().to_string()), 0);
    for (name, of) in [
        ("site.sh", "site"),
        ("tutorial.sh", "tutorial"),
        ("python.sh", "python"),
    ] {
        let dir = target.join(of);
        fs::create_dir_all(dir.join("checkout")).expect("make a directory");
        fs::write(dir.join("checkout/precious"), "").expect("write a file");
        let ended = script(&bench, name);
        let words = format!("{} was not made by this script", dir.display());
        assert!(
            ended.code == 1 && ended.err.contains(&words),
            "{name}: {ended:?}"
        );
        let left: Vec<_> = fs::read_dir(&dir)
            .expect("it is there")
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(left, ["checkout"], "{name}");
        assert!(dir.join("checkout/precious").exists(), "{name}");
    }
}

/// The control: what the script has made itself it makes anew.
#[test]
fn the_site_is_made_anew_each_time() {
    if tool("git").is_none() {
        return;
    }
    if !checkout().join(".git").exists() {
        return skip::cannot("needs a checkout of git");
    }
    let scene = Scene::new();
    let target = scene.file("target");
    let site = target.join("site");
    let bench = bench(&metadata(&target.display().to_string()), 0);
    fs::create_dir_all(target.join("tools/bin")).expect("make a directory");
    fs::create_dir_all(target.join("rustdoc/doc")).expect("make a directory");
    write_program(
        &target.join("tools/bin/mdbook"),
        &b"#!/bin/sh\n[ \"$1\" != build ] || mkdir \"$2/book\"\n"[..],
    );
    for time in ["the first", "the second"] {
        let mut command = bench.command(checkout().join("scripts/site.sh"));
        // The checkout may belong to another user.
        command.envs([
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", "*"),
        ]);
        let ended = with_bench(&bench, command);
        assert_eq!(ended.code, 0, "{time}: {ended:?}");
        assert!(
            ended.out.ends_with("/target/site/book/index.html\n"),
            "{time}: {ended:?}"
        );
        for made in [
            "src/index.md",
            "src/docs/design.md",
            "src/docs/protocols/tower.md",
            "src/SUMMARY.md",
            "book/api",
        ] {
            assert!(site.join(made).exists(), "{time}: {made}");
        }
        assert!(!site.join("old").exists(), "{time}");
        fs::write(site.join("old"), "").expect("write into the site");
    }
}

#[test]
fn no_other_word_than_uninstall_removes_what_was_installed() {
    let scene = Scene::new();
    fs::create_dir(scene.file("bin")).expect("make bin");
    scene.write("bin/beadlock", "mine");
    let install = |words: &[&str]| {
        let mut command = scene.command(checkout().join("scripts/install.sh"));
        let prefix = scene.path().display().to_string();
        command.args(words).envs([
            ("PREFIX", prefix.as_str()),
            ("UNITDIR", &prefix),
            ("DESTDIR", ""),
        ]);
        Ended::from(run(command))
    };
    for words in [&[][..], &["instal"], &["remove"]] {
        install(words).expect(2, &["usage: scripts/install.sh install|uninstall"]);
    }
    let ended = install(&["install"]);
    assert!(
        ended.code != 0
            && ended
                .err
                .contains("BEADLOCK_BIN: the directory with the programs"),
        "{ended:?}"
    );
    assert_eq!(scene.read("bin/beadlock"), "mine");
    install(&["uninstall"]).expect(0, &[]);
    assert!(!scene.file("bin/beadlock").exists(), "the control");
}

/// An `apt-get install` that asks, as Debian's packages do, whether their services may be started, and ends with `code`.
fn asks_the_policy(code: i32) -> String {
    format!(
        "for service in etcd.service prometheus other; do
            answer=0
            [ ! -e /usr/sbin/policy-rc.d ] || /usr/sbin/policy-rc.d --quiet $service start 2 || answer=$?
            echo \"$service $answer\" >>asked
        done
        echo \"$*\" >>asked
        exit {code}"
    )
}

/// The exit code, what was asked and answered, the services that were disabled, and the policy that is left.
type Installed = (i32, Vec<String>, Vec<String>, Option<String>);

/// Installs these packages with this `apt-get` in a mount namespace whose `/usr/sbin` has `policy` alone, if any.
fn installed(packages: &str, apt_get: &str, policy: Option<&str>) -> Option<Installed> {
    let scene = Scene::new();
    for dir in ["bin", "sbin"] {
        fs::create_dir(scene.file(dir)).expect("make a directory");
    }
    stand_in(&scene, "apt-get", apt_get);
    stand_in(&scene, "systemctl", "echo \"$*\" >>disabled");
    if fs::symlink_metadata("/usr/sbin").is_ok_and(|meta| meta.is_symlink()) {
        skip::cannot("needs a /usr/sbin that is a directory of its own");
        return None;
    }
    let at = Path::new("sbin/policy-rc.d");
    if let Some(policy) = policy {
        write_program(&scene.path().join(at), policy.as_bytes());
    }
    let install = checkout().join("scripts/apt-install.sh");
    let script = format!(
        "mount --bind sbin /usr/sbin && exec '{}' {packages}",
        install.display()
    );
    let ended = with_bench(&scene, scene.in_namespaces(&["--mount"], &script)?);
    let lines = |name: &str| scene.read(name).lines().map(str::to_owned).collect();
    Some((
        ended.code,
        lines("asked"),
        lines("disabled"),
        fs::read_to_string(scene.path().join(at)).ok(),
    ))
}

#[test]
fn no_service_of_a_package_is_started_and_nothing_is_left_behind() {
    let both = "etcd-server jq prometheus";
    let Some((code, asked, disabled, left)) = installed(both, &asks_the_policy(0), None) else {
        return;
    };
    let words = format!("install -y -qq --no-install-recommends {both}");
    assert_eq!(code, 0);
    assert_eq!(
        asked,
        ["etcd.service 101", "prometheus 101", "other 0", &words]
    );
    assert_eq!(
        disabled,
        ["disable --now etcd", "disable --now prometheus"],
        "nor at the next boot"
    );
    assert_eq!(left, None);

    let Some((code, asked, disabled, left)) = installed(both, &asks_the_policy(100), None) else {
        return;
    };
    assert_eq!(
        (code, asked.len(), disabled.len(), left),
        (100, 4, 0, None),
        "a failure leaves no policy either"
    );

    let own = "#!/bin/sh\nexit 104\n";
    let Some((code, asked, _, left)) = installed(both, &asks_the_policy(0), Some(own)) else {
        return;
    };
    assert_eq!(
        (code, asked[0].as_str(), left.as_deref()),
        (0, "etcd.service 104", Some(own)),
        "the machine's own stays"
    );

    let Some((code, asked, disabled, left)) = installed("jq", &asks_the_policy(0), None) else {
        return;
    };
    assert_eq!(
        (code, asked[0].as_str(), disabled.len(), left),
        (0, "etcd.service 0", 0, None),
        "no service, no policy"
    );
}
