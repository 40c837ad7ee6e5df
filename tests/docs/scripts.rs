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
        for name in [
            "site.sh",
            "python.sh",
            "test.sh",
            "tutorial.sh",
            "dist.sh",
            "dist-check.sh",
        ] {
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
                    ended.out.contains("scripts/target-dir.sh") && after.count() == 0
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
fn make_dist_empties_only_a_directory_of_its_own() {
    if tool("git").is_none() {
        return;
    }
    let target = tempfile::tempdir().expect("a directory");
    let scene = bench(&metadata(&target.path().display().to_string()), 0);
    scene.write("theirs", "");
    let dist = |place: &Path| {
        let mut dist = scene.command(checkout().join("scripts/dist.sh"));
        dist.env("BEADLOCK_DIST", place);
        with_bench(&scene, dist)
    };
    dist(Path::new("relative")).expect(2, &["BEADLOCK_DIST is relative", "from / on"]);
    dist(scene.path()).expect(1, &["was not made by this script"]);
    assert!(scene.file("theirs").exists());
    std::os::unix::fs::symlink(scene.path(), target.path().join("link")).expect("a link");
    dist(&target.path().join("link")).expect(1, &["was not made by this script"]);
    assert!(scene.file("theirs").exists());
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
        let typed = format!(": rm -r '{}'\n", dir.display());
        assert!(
            ended.code == 1 && ended.err.contains(&words) && ended.err.ends_with(&typed),
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

/// The line that is typed reaches that directory, whatever its name.
#[test]
fn what_it_says_to_remove_is_quoted() {
    let scene = Scene::new();
    let dir = scene.file("it's $(touch no) here");
    fs::create_dir_all(dir.join("precious")).expect("make a directory");
    let mut command = scene.command(checkout().join("scripts/own-dir.sh"));
    command.arg(&dir);
    let refused = Ended::from(run(command));
    assert_eq!(refused.code, 1, "{refused:?}");
    let (_, typed) = refused.err.split_once("yourself: ").expect("what to type");
    let removed = Ended::from(run(scene.shell(typed)));
    assert!(removed.code == 0 && !dir.exists(), "{removed:?}");
    assert!(!scene.file("no").exists(), "{typed}");
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
            "src/docs/pictures/top-dark.svg",
            "src/docs/pictures/timeline-light.png",
            "src/SUMMARY.md",
            "site.css",
            "book/api",
        ] {
            assert!(site.join(made).exists(), "{time}: {made}");
        }
        let book = fs::read_to_string(site.join("book.toml")).expect("its settings");
        let title = format!("title = \"beadlock {}\"", env!("CARGO_PKG_VERSION"));
        assert!(book.contains(&title), "{time}: {book}");
        assert!(
            !book.contains("= \"\""),
            "{time}: an empty address is left out: {book}"
        );
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

/// A python3 that makes an environment whose pip installs a ruff. Both say in `$BENCH/asked` what they were asked.
const PYTHON: &str = r#"[ "$2" = venv ] || exit 0
for dir; do :; done
mkdir -p "$dir/bin"
: >"$dir/pyvenv.cfg"
cat >"$dir/bin/python" <<'END'
#!/bin/sh
case $* in *--require-hashes*) ;; *) exit 1 ;; esac
printf '#!/bin/sh\necho "ruff $1" >>"$BENCH/asked"\n' >"${0%python}ruff"
chmod 755 "${0%python}ruff"
END
chmod 755 "$dir/bin/python"
echo venv >>"$BENCH/asked""#;

/// `make test-more` alone, in a fresh clone, makes ruff; `make lint` takes one that is there.
#[test]
fn the_scripts_have_ruff_where_python_can_make_it() {
    if skip::in_path("ruff").is_some() {
        return skip::cannot("needs a PATH without ruff");
    }
    let skipped = "skipped: the scripts need ruff (which takes Python 3.9 or later)\n";
    let deferred = "no ruff here: make test-more runs it\n";
    let both = "venv\nruff check\nruff format\n";
    for (python, words, ci, code, said, asked) in [
        (PYTHON, "", "", 0, "", both),
        (PYTHON, "", "true", 0, "", both),
        (PYTHON, "--if-there", "true", 0, deferred, ""),
        ("exit 1", "", "", 0, skipped, ""),
        ("exit 1", "", "true", 1, skipped, ""),
    ] {
        let place = Scene::new();
        let bench = bench(&metadata(&place.file("target").display().to_string()), 0);
        stand_in(&bench, "python3", python);
        let mut command = bench.command(checkout().join("scripts/lint-scripts.sh"));
        command.args([words].iter().filter(|word| !word.is_empty()));
        command.env("BENCH", bench.path()).env("CI", ci);
        let ended = with_bench(&bench, command);
        assert_eq!(
            (ended.code, ended.err.as_str(), bench.read("asked").as_str()),
            (code, said, asked),
            "{words} {ended:?}"
        );
    }
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

/// What a machine has before packages are installed.
#[derive(Default)]
struct Machine<'a> {
    /// The text of its policy.
    policy: Option<&'a str>,
    /// Packages, units and init scripts, each with a blank before and after it.
    has: &'a str,
}

/// The exit code, what was asked and answered, the services that were disabled, and the policy that is left.
type Installed = (i32, Vec<String>, Vec<String>, Option<String>);

/// Installs these packages with this `apt-get` in a mount namespace where `/usr/sbin` and `/etc/init.d` have what the
/// machine has.
fn installed(packages: &str, apt_get: &str, machine: &Machine) -> Option<Installed> {
    let scene = Scene::new();
    for dir in ["bin", "sbin", "init.d"] {
        fs::create_dir(scene.file(dir)).expect("make a directory");
    }
    let has = machine.has;
    stand_in(&scene, "apt-get", apt_get);
    stand_in(
        &scene,
        "dpkg-query",
        &format!(
            "for last; do :; done; case '{has}' in *\" $last \"*) echo installed ;; *) exit 1 ;; esac"
        ),
    );
    stand_in(
        &scene,
        "systemctl",
        &format!(
            "[ \"$1\" != cat ] || case '{has}' in *\" $2 \"*) exit 0 ;; *) exit 1 ;; esac\necho \"$*\" >>disabled"
        ),
    );
    for script in has
        .split(' ')
        .filter_map(|name| name.strip_prefix("init.d/"))
    {
        scene.write(&format!("init.d/{script}"), "");
    }
    for dir in ["/usr/sbin", "/etc/init.d"] {
        if !fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()) {
            skip::cannot(&format!("needs a {dir} that is a directory of its own"));
            return None;
        }
    }
    let at = Path::new("sbin/policy-rc.d");
    if let Some(policy) = machine.policy {
        write_program(&scene.path().join(at), policy.as_bytes());
    }
    let install = checkout().join("scripts/apt-install.sh");
    let script = format!(
        "mount --bind sbin /usr/sbin && mount --bind init.d /etc/init.d && exec '{}' {packages}",
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

const BOTH: &str = "etcd-server jq prometheus";

#[test]
fn no_service_of_a_package_is_started_and_nothing_is_left_behind() {
    let bare = Machine::default();
    let Some((code, asked, disabled, left)) = installed(BOTH, &asks_the_policy(0), &bare) else {
        return;
    };
    let words = format!("install -y -qq --no-install-recommends {BOTH}");
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

    let Some((code, asked, disabled, left)) = installed(BOTH, &asks_the_policy(100), &bare) else {
        return;
    };
    assert_eq!(
        (code, asked.len(), disabled.len(), left),
        (100, 4, 0, None),
        "a failure leaves no policy either"
    );

    let Some((code, asked, disabled, left)) = installed("jq", &asks_the_policy(0), &bare) else {
        return;
    };
    assert_eq!(
        (code, asked[0].as_str(), disabled.len(), left),
        (0, "etcd.service 0", 0, None),
        "no service, no policy"
    );
}

#[test]
fn a_service_that_the_machine_had_before_stays_as_it_is() {
    for (has, asked_first, disabled_now) in [
        // A newer version of a package that is there: it may be started again.
        (
            " etcd-server ",
            "etcd.service 0",
            "disable --now prometheus",
        ),
        // The machine's own: the package does not start it, and does not disable it.
        (
            " etcd.service ",
            "etcd.service 101",
            "disable --now prometheus",
        ),
        (
            " init.d/prometheus ",
            "etcd.service 101",
            "disable --now etcd",
        ),
    ] {
        let machine = Machine { policy: None, has };
        let Some((code, asked, disabled, left)) = installed(BOTH, &asks_the_policy(0), &machine)
        else {
            return;
        };
        assert_eq!(
            (code, asked[0].as_str(), left),
            (0, asked_first, None),
            "{has}"
        );
        assert_eq!(disabled, [disabled_now], "{has}");
    }
}

#[test]
fn the_machines_own_policy_stays_and_one_that_a_killed_run_has_left_goes() {
    let own = "#!/bin/sh\nexit 104\n";
    let machine = Machine {
        policy: Some(own),
        has: "",
    };
    let Some((code, asked, _, left)) = installed(BOTH, &asks_the_policy(0), &machine) else {
        return;
    };
    assert_eq!(
        (code, asked[0].as_str(), left.as_deref()),
        (0, "etcd.service 104", Some(own)),
    );

    // What a run leaves that is killed: its own policy, word for word.
    let killed = "cp /usr/sbin/policy-rc.d asked; kill -KILL $PPID";
    let Some((_, policy, _, left)) = installed(BOTH, killed, &Machine::default()) else {
        return;
    };
    let left = left.expect("nothing has removed it");
    assert_eq!(policy, left.lines().collect::<Vec<_>>());
    let machine = Machine {
        policy: Some(&left),
        has: "",
    };
    for (packages, answer) in [(BOTH, 101), ("jq", 0)] {
        let Some((code, asked, _, left)) = installed(packages, &asks_the_policy(0), &machine)
        else {
            return;
        };
        let said = format!("etcd.service {answer}");
        assert_eq!((code, &asked[0], left), (0, &said, None), "{packages}");
    }
}
