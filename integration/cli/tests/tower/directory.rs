//! Sections 2.3, 10.1 and 12.1: the lock directory.
#![expect(clippy::disallowed_methods, reason = "a test clears up")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use beadlock_testkit::{Running, as_nobody, may_be_root, root};

use crate::scene::{INTENT, TARGET, Tower};

#[test]
fn the_default_is_the_documents() {
    if !root() {
        return;
    }
    let tower = Tower::new();
    let json = tower.scene.run(&["status", TARGET, "--json"]).json();
    assert_eq!(
        json["data"][0]["path"],
        "/root/tower-fleet/logs/locks/app-prod.lock"
    );
}

/// Locks in the directory of another user's are others: so the lines say which directory it is.
#[test]
fn without_root_it_is_the_users_and_the_lines_name_it() {
    let tower = Tower::new();
    let home = fs::canonicalize(tower.scene.path()).unwrap();
    let is_root = may_be_root();
    if is_root {
        chown(&home, Some(65534), Some(65534)).unwrap();
    }
    let run = |words: &[&str], state: &str| {
        let mut command = tower.scene.beadlock(words);
        command.env("HOME", &home).env("XDG_STATE_HOME", state);
        assert!(!is_root || as_nobody(&mut command));
        Running::apart(command).end()
    };
    let hold = [&["hold", TARGET][..], &INTENT, &["--", "sh", "-c"]].concat();
    for (state, below) in [
        ("", ".local/state"),
        (home.join("state").to_str().unwrap(), "state"),
    ] {
        let dir = home.join(below).join("tower-fleet/locks");
        let look = format!("ls -A {}; $BEADLOCK status {TARGET}", dir.display());
        let ended = run(&[&hold[..], &[&look]].concat(), state);
        let claimed = ended.err.lines().next().unwrap();
        assert!(
            ended.code == 0 && claimed.ends_with(&format!(") in {}", dir.display())),
            "{ended:?}"
        );
        assert!(ended.out.starts_with("app-prod.lock\n"), "{ended:?}");
        let directory = format!(
            "  directory: {}; a lock of this name elsewhere, as in /root/",
            dir.display()
        );
        assert!(ended.out.contains(&directory), "{ended:?}");
        assert_eq!(
            fs::metadata(&dir).unwrap().permissions().mode() & 0o7777,
            0o700
        );
        assert!(dir.parent().unwrap().join("audit.jsonl").exists());
        assert!(
            run(&["status", TARGET], state)
                .expect(0, &[])
                .out
                .contains(&directory),
            "free, too"
        );
        let acquired = run(
            &[&["acquire", TARGET, "--detach"][..], &INTENT].concat(),
            state,
        )
        .expect(0, &[]);
        let id = acquired
            .out
            .lines()
            .find_map(|line| line.strip_prefix("BEADLOCK_ID="))
            .unwrap();
        assert!(
            acquired
                .out
                .contains(&format!("BEADLOCK_LOCK_DIR={}\n", dir.display())),
            "{acquired:?}"
        );
        run(&["release", TARGET, "--id", id], state).expect(0, &["released"]);
    }
    assert!(tower.names().is_empty());
}

#[test]
fn the_documents_directory_is_named_by_no_line() {
    let tower = Tower::new();
    // The default of another user is another directory.
    if root() {
        let status = tower.scene.run(&["status", TARGET]).expect(0, &[]).out;
        assert!(!status.contains("directory: "), "{status}");
    }
    let documents = [
        "status",
        TARGET,
        "--lock-dir",
        "/root/tower-fleet/logs/locks/",
    ];
    assert!(!tower.run(&documents).out.contains("directory: "));
}

#[test]
fn the_option_beats_the_environment_and_the_file_is_name_dot_lock() {
    let tower = Tower::new();
    let hold = |dir: &[&str]| {
        let words = [
            &["hold", TARGET][..],
            &INTENT,
            dir,
            &["--", "sh", "-c", "ls locks other"],
        ]
        .concat();
        Running::apart(tower.command(&words)).end()
    };
    fs::create_dir(tower.scene.file("other")).unwrap();
    assert_eq!(
        hold(&[]).expect(0, &[]).out,
        "locks:\napp-prod.lock\n\nother:\n"
    );
    assert_eq!(
        hold(&["--lock-dir", "other"]).expect(0, &[]).out,
        "locks:\n\nother:\napp-prod.lock\n"
    );
}

#[test]
fn it_is_made_with_mode_0700() {
    let tower = Tower::new();
    fs::remove_dir(tower.dir()).unwrap();
    let words = [
        &["hold", TARGET, "--lock-dir", "a/b/locks"][..],
        &INTENT,
        &["--", "true"],
    ]
    .concat();
    let made = format!(
        "made the lock directory {}",
        tower.scene.path().join("a/b/locks").display()
    );
    tower.run(&words).expect(0, &[&made]);
    assert!(
        !tower.run(&words).expect(0, &[]).err.contains("made the"),
        "once"
    );
    for made in ["a", "a/b", "a/b/locks"] {
        assert_eq!(
            fs::metadata(tower.scene.file(made))
                .unwrap()
                .permissions()
                .mode()
                & 0o7777,
            0o700,
            "{made}"
        );
    }
    assert!(tower.scene.file("a/b/audit.jsonl").exists());
}

/// A umask that takes nothing away would show a directory that is made as any other is.
#[test]
fn its_mode_is_0700_whatever_the_umask() {
    for (umask, command) in [("000", "hold"), ("007", "acquire"), ("077", "hold")] {
        let tower = Tower::new();
        fs::remove_dir(tower.dir()).unwrap();
        let words = match command {
            "hold" => [&["hold", TARGET][..], &INTENT, &["--", "true"]].concat(),
            _ => [
                &["acquire", TARGET, "--detach", "--max-hold", "1m"][..],
                &INTENT,
            ]
            .concat(),
        };
        let mut shell = tower
            .scene
            .shell("umask \"$0\" && exec \"$BEADLOCK\" \"$@\"");
        shell
            .arg(umask)
            .args(&words)
            .env("BEADLOCK_LOCK_DIR", tower.dir().join("locks"));
        Running::apart(shell).end().expect(0, &[]);
        for made in [tower.dir(), tower.dir().join("locks")] {
            assert_eq!(
                mode(&made),
                0o700,
                "{command} with umask {umask}: {}",
                made.display()
            );
        }
    }
}

/// Others may be meant to read who locks what. That nobody else may write is what locks need.
#[test]
fn one_that_is_there_keeps_its_mode_and_one_that_others_may_read_is_warned_about() {
    let tower = Tower::new();
    for given in [0o700, 0o750, 0o755] {
        fs::set_permissions(tower.dir(), fs::Permissions::from_mode(given)).unwrap();
        let ended = tower.hold(&[], "true").expect(0, &[]);
        let warning = "warning: others may look into the lock directory";
        assert_eq!(
            ended.err.contains(warning) && ended.err.contains("chmod 700"),
            given != 0o700,
            "{given:o}: {ended:?}"
        );
        assert_eq!(mode(&tower.dir()), given);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn another_users_is_warned_about() {
    if !root() {
        return;
    }
    let tower = Tower::new();
    chown(tower.dir(), Some(65534), None).unwrap();
    tower
        .hold(&[], "true")
        .expect(0, &["warning:", "belongs to user 65534"]);
}

#[test]
fn one_that_others_may_write_is_warned_about() {
    let tower = Tower::new();
    fs::set_permissions(tower.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    tower.hold(&[], "true").expect(
        0,
        &["warning: others may write the lock directory", "chmod 700"],
    );
}

#[test]
fn one_that_cannot_be_made_is_said() {
    let tower = Tower::new();
    fs::write(tower.scene.file("file"), "").unwrap();
    let words = [
        &["hold", TARGET, "--lock-dir", "file/locks"][..],
        &INTENT,
        &["--", "true"],
    ]
    .concat();
    tower.run(&words).expect(
        1,
        &["file/locks cannot be made: not a directory", "--lock-dir"],
    );
    fs::remove_file(tower.scene.file("file")).unwrap();
}

/// In every help: among the options of named locks, where the target may be one, and nowhere else.
#[test]
fn its_option_stands_with_those_of_named_locks_alone() {
    let tower = Tower::new();
    for (command, is_shown) in [
        ("hold", true),
        ("acquire", true),
        ("release", true),
        ("check", true),
        ("status", true),
        ("wait", true),
        ("break", true),
        ("list", true),
        ("cycle", false),
        ("write", false),
        ("update", false),
        ("append", false),
        ("log", false),
        ("doctor", false),
        ("", false),
    ] {
        // The help leaves out the options of named locks, unless the command line is about one.
        let plain: Vec<&str> = [command, "--help"]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect();
        assert!(
            !tower.run(&plain).expect(0, &[]).out.contains("--lock-dir"),
            "{command}"
        );
        let words: Vec<&str> = [command, TARGET, "--help"]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect();
        let words = if command.is_empty() { plain } else { words };
        let help = tower.run(&words).expect(0, &[]).out;
        let (mut heading, mut headings) = ("", Vec::new());
        for line in help.lines() {
            match line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
                Some(title) => heading = title,
                None if line.trim_start().starts_with("--lock-dir") => headings.push(heading),
                None => {}
            }
        }
        let wanted: &[&str] = if is_shown {
            &["Named locks (tower:NAME)"]
        } else {
            &[]
        };
        assert_eq!(headings, wanted, "{command}: {help}");
        let short = tower.run(&["--help"]).out;
        let about = help.lines().next().unwrap();
        assert!(
            command.is_empty() || short.contains(about.get(..30).unwrap_or(about)),
            "{command}: {about}"
        );
    }
    // It may stand before the command, too.
    let json = tower
        .run(&["--lock-dir", "a", "status", TARGET, "--json"])
        .expect(0, &[])
        .json();
    assert!(
        json["data"][0]["path"]
            .as_str()
            .unwrap()
            .ends_with("/a/app-prod.lock"),
        "{json}"
    );
}
