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
    command
        .args(["-c", "umask 077; exec \"$@\"", "sh"])
        .arg(make)
        .arg("--directory")
        .arg(checkout());
    command
        .arg("--no-print-directory")
        .arg(target)
        .args(variables);
    command.env("BEADLOCK_BIN", binaries::directory());
    run(command).into()
}

/// The files below a directory with their permissions, sorted. Directories have mode 0755.
fn files(top: &Path) -> Vec<(String, u32)> {
    files_of(top, |folder| {
        let mode = fs::metadata(folder)
            .expect("look at a folder")
            .permissions()
            .mode()
            & 0o7777;
        assert_eq!(mode, 0o755, "{}", folder.display());
    })
}

fn files_of(top: &Path, folder_is_right: impl Fn(&Path)) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("list a directory").flatten() {
            let mode = entry
                .metadata()
                .expect("look at a file")
                .permissions()
                .mode()
                & 0o7777;
            if entry.path().is_dir() {
                folder_is_right(&entry.path());
                folders.push(entry.path());
            } else {
                let name = entry
                    .path()
                    .strip_prefix(top)
                    .expect("below it")
                    .display()
                    .to_string();
                found.push((name, mode));
            }
        }
    }
    found.sort();
    found
}

/// Every installed file with its mode: programs, units, shell libraries, samples, licences. The pages are those of the
/// checkout.
fn expected() -> Vec<(String, u32)> {
    let mut expected = vec![
        ("bin/beadlock".to_owned(), 0o755),
        ("bin/beadlock-agent".to_owned(), 0o755),
        (SYSTEM.to_owned(), 0o644),
        (USER.to_owned(), 0o644),
        ("share/beadlock/shell/lock-manager.sh".to_owned(), 0o755),
        ("share/beadlock/git/pre-commit.sh".to_owned(), 0o755),
    ];
    for name in [
        "share/beadlock/ci/github-actions.yml",
        "share/beadlock/ci/gitlab-ci.yml",
        "share/beadlock/cycle/README.md",
        "share/beadlock/cycle/daemon.py",
        "share/beadlock/go/README.md",
        "share/beadlock/go/check.go",
        "share/beadlock/go/cycle.go",
        "share/beadlock/go/doc.go",
        "share/beadlock/go/examples/daemon/main.go",
        "share/beadlock/go/go.mod",
        "share/beadlock/go/judge.go",
        "share/beadlock/go/record.go",
        "share/beadlock/prometheus/README.md",
        "share/beadlock/prometheus/alerts.test.yml",
        "share/beadlock/prometheus/alerts.yml",
        "share/beadlock/prometheus/dashboard.json",
        "share/beadlock/shell/claim.sh",
        "share/beadlock/shell/file-ops.sh",
        "share/doc/beadlock/ARCHITECTURE.md",
        "share/doc/beadlock/CHANGELOG.md",
        "share/doc/beadlock/CONTRIBUTING.md",
        "share/doc/beadlock/LICENSE-APACHE",
        "share/doc/beadlock/LICENSE-MIT",
        "share/doc/beadlock/README.md",
        "share/doc/beadlock/SECURITY.md",
        "share/doc/beadlock/agent.toml.example",
        "share/doc/beadlock/systemd.md",
        "share/doc/beadlock/tests/README.md",
    ] {
        expected.push((name.to_owned(), 0o644));
    }
    for name in pages() {
        let section = name.rsplit('.').next().expect("a section");
        expected.push((format!("share/man/man{section}/{name}"), 0o644));
    }
    for program in ["beadlock", "beadlock-agent"] {
        expected.push((
            format!("share/bash-completion/completions/{program}"),
            0o644,
        ));
        expected.push((format!("share/zsh/site-functions/_{program}"), 0o644));
        expected.push((
            format!("share/fish/vendor_completions.d/{program}.fish"),
            0o644,
        ));
    }
    for folder in ["docs", "examples/examples"] {
        let files = files_of(&checkout().join(folder), |_| {});
        // The site is built from a checkout.
        let is_of_site = |name: &str| matches!(name, "book.toml" | "site.css");
        for (name, _) in files.into_iter().filter(|(name, _)| !is_of_site(name)) {
            expected.push((format!("share/doc/beadlock/{folder}/{name}"), 0o644));
        }
    }
    expected.sort();
    expected
}

/// The manual pages that the programs make. What each must be is tested beside its program.
fn pages() -> Vec<String> {
    let scene = Scene::new();
    let top = scene.path().join("pages");
    fs::create_dir(&top).expect("make a directory");
    let dir = top.to_str().expect("text");
    for made in [scene.beadlock(&["man", dir]), scene.agent(&["--man", dir])] {
        let ended = Ended::from(run(made));
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    let pages: Vec<String> = files(&top).into_iter().map(|(name, _)| name).collect();
    let of_files = ["beadlock-agent.toml.5", "exclusive-lock.5", "fleet.toml.5"];
    for page in ["beadlock.1", "beadlock-hold.1", "beadlock-agent.8"]
        .into_iter()
        .chain(of_files)
    {
        assert!(pages.iter().any(|name| name == page), "{page} in {pages:?}");
    }
    pages
}

#[test]
fn installs_and_removes_the_same_files() {
    let Some(program) = tool("make") else { return };
    let scene = Scene::new();
    let top = scene.path().join("a destination/of packages");
    let variables = [format!("DESTDIR={}", top.display())];
    let installed = make(&scene, &program, "install", &variables);
    assert_eq!(installed.code, 0, "{installed:?}");
    let local = top.join("usr/local");
    assert_eq!(files(&local), expected());
    let mut version = scene.command(local.join("bin/beadlock-agent"));
    version.arg("--version");
    let version = run(version);
    assert!(version.status.success());
    for unit in [SYSTEM, USER] {
        let text = fs::read_to_string(local.join(unit)).expect("read a unit");
        assert!(
            text.contains("\nExecStart=/usr/local/bin/beadlock-agent --config "),
            "{text}"
        );
    }
    let again = make(&scene, &program, "install", &variables);
    assert_eq!(again.code, 0, "over what is there: {again:?}");

    let mine = ["share/beadlock/shell/mine.sh", "share/doc/beadlock/mine"];
    for file in mine {
        fs::write(local.join(file), "").expect("write a file of one's own");
    }
    for what in ["what is there", "what is not"] {
        let removed = make(&scene, &program, "uninstall", &variables);
        assert_eq!(removed.code, 0, "{what}: {removed:?}");
        let left: Vec<_> = files(&local).into_iter().map(|(name, _)| name).collect();
        assert_eq!(left, mine, "{what}");
    }
    let is_there = |folder: &str| local.join("share").join(folder).exists();
    assert!(
        !is_there("beadlock/ci") && !is_there("doc/beadlock/docs"),
        "folders without a file are removed"
    );
    for file in mine {
        fs::remove_file(local.join(file)).expect("remove it");
    }
    let removed = make(&scene, &program, "uninstall", &variables);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert!(!is_there("beadlock") && !is_there("doc/beadlock"));
}

/// Relative links of the installed pages lead to what is installed too.
#[test]
fn the_links_of_installed_pages_lead_to_installed_files() {
    let Some(program) = tool("make") else { return };
    let scene = Scene::new();
    let prefix = installed(&scene, &program);
    let mut count = 0;
    for (name, _) in files(&prefix) {
        let page = prefix.join(&name);
        let text = fs::read_to_string(&page).unwrap_or_default();
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split([')', '#']).next());
        for link in
            links.filter(|link| name.ends_with(".md") && !link.is_empty() && !link.contains("://"))
        {
            let target = page.parent().expect("a folder").join(link);
            assert!(
                target.exists(),
                "{name} links to {link}, which is not installed"
            );
            count += 1;
        }
    }
    assert!(count > 80, "few links, or the scan sees few: {count}");
}

/// Each page that tells a script what to source names a file that is installed, below whatever prefix.
#[test]
fn what_pages_tell_to_source_is_installed_there_and_works() {
    let (Some(program), Some(bash)) = (tool("make"), tool("bash")) else {
        return;
    };
    let scene = Scene::new();
    let prefix = installed(&scene, &program);
    let share = format!("{}/share/beadlock/shell/", prefix.display());
    let doc = prefix.join("share/doc/beadlock");
    let alerts = fs::read_to_string(prefix.join("share/beadlock/prometheus/alerts.yml"));
    let runbook = format!(
        "runbook_url: file://{}/docs/guide/alerts.md#",
        doc.display()
    );
    let alerts = alerts.expect("the alerts");
    assert_eq!(alerts.matches(&runbook).count(), 7, "{alerts}");
    let mut named = std::collections::BTreeSet::new();
    for page in [
        "README.md",
        "docs/guide/shell.md",
        "docs/protocols/tower.md",
        "docs/protocols/file.md",
    ] {
        let text = fs::read_to_string(doc.join(page)).expect("read a page");
        assert!(
            !text.contains("/usr/local/share/"),
            "{page} names another prefix"
        );
        let mentions: Vec<_> = text.split(&share).skip(1).collect();
        assert!(!mentions.is_empty(), "{page} names no path of a library");
        for mention in mentions {
            let file: String = mention
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || "-.".contains(*c))
                .collect();
            if file.ends_with(".sh") {
                named.insert(file);
            }
        }
    }
    assert_eq!(
        named.iter().collect::<Vec<_>>(),
        ["claim.sh", "file-ops.sh", "lock-manager.sh"]
    );
    for (file, function) in [
        ("claim.sh", "claim"),
        ("file-ops.sh", "save_json"),
        ("lock-manager.sh", "acquire_lock"),
    ] {
        let mut command = scene.command(&bash);
        command
            .args(["-c", "source \"$1\" && type -t \"$2\"", "sh"])
            .arg(format!("{share}{file}"))
            .arg(function);
        let ended = Ended::from(run(command));
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (0, "function\n"),
            "{file}: {ended:?}"
        );
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
        assert!(
            ended.err.contains(&format!("make install: {words}")),
            "{}",
            ended.err
        );
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
    let ended = make(
        scene,
        make_program,
        "install",
        &[format!("PREFIX={}", prefix.display())],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    prefix
}

#[test]
fn systemd_finds_no_fault_with_the_units() {
    let (Some(analyze), Some(make)) = (systemd_analyze(), tool("make")) else {
        return;
    };
    let scene = Scene::new();
    let prefix = installed(&scene, &make);
    for unit in [SYSTEM, USER] {
        let unit = prefix.join(unit);
        let sound = verify(&scene, &analyze, &unit);
        assert_eq!(
            (sound.code, sound.err.as_str()),
            (0, ""),
            "{}",
            unit.display()
        );

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
            assert!(
                broken.code != 0 || !broken.err.is_empty(),
                "{wrong} passes in {}",
                unit.display()
            );
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
    let cycle = help
        .out
        .split("--cycle-timeout <DUR>")
        .nth(1)
        .expect("the option");
    let cycle = cycle
        .split("[default: ")
        .nth(1)
        .and_then(|rest| rest.split(']').next())
        .expect("its default");
    let cycle = beadlock_base::duration::parse(cycle).expect("a duration");
    for unit in ["beadlock-agent@.service", "user/beadlock-agent.service"] {
        let text = fs::read_to_string(checkout().join("integration/systemd").join(unit))
            .expect("read the unit");
        let stop = text
            .lines()
            .find_map(|line| line.strip_prefix("TimeoutStopSec="))
            .expect("TimeoutStopSec");
        let stop = beadlock_base::duration::parse(stop).expect("a duration");
        assert!(
            stop > cycle + beadlock_supervise::runner::GRACE,
            "{unit}: {stop:?}, {cycle:?}"
        );
    }
}

/// What was there stays as it was, and no file and no folder is added.
#[test]
fn an_install_that_fails_leaves_nothing() {
    let Some(make_program) = tool("make") else {
        return;
    };
    let scene = Scene::new();
    let dest = scene.path().join("dest");
    let variables = [format!("DESTDIR={}", dest.display())];

    let mut command = scene.command(&make_program);
    command
        .arg("--directory")
        .arg(checkout())
        .args(["install", &variables[0]])
        .env("BEADLOCK_BIN", binaries::directory())
        .env("TMPDIR", scene.path().join("nowhere"));
    let failed = Ended::from(run(command));
    assert_ne!(failed.code, 0, "no place for temporary files: {failed:?}");
    assert!(!dest.exists());

    // The last of its folders cannot be made: a file has that name.
    let in_the_way = dest.join("usr/local/share/doc");
    fs::create_dir_all(in_the_way.parent().expect("a folder")).expect("folders");
    fs::write(&in_the_way, "").expect("a file");
    let before = all_below(scene.path());
    let failed = make(&scene, &make_program, "install", &variables);
    assert_ne!(failed.code, 0, "{failed:?}");
    assert_eq!(all_below(scene.path()), before);

    // One of its files cannot be put in place: a folder has that name.
    fs::remove_file(&in_the_way).expect("it goes");
    fs::create_dir_all(dest.join("usr/local/bin/beadlock-agent")).expect("a folder");
    let before = all_below(scene.path());
    let failed = make(&scene, &make_program, "install", &variables);
    assert_ne!(failed.code, 0, "{failed:?}");
    assert!(
        failed.err.contains("beadlock-agent is a directory"),
        "{failed:?}"
    );
    assert_eq!(all_below(scene.path()), before);
}

/// Files and folders.
fn all_below(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![top.to_path_buf()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).expect("list a directory").flatten() {
            left.extend(entry.path().is_dir().then(|| entry.path()));
            found.push(entry.path());
        }
    }
    found.sort();
    found
}
