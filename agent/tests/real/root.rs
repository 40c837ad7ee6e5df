//! `--root`: databases are found, and go, while the agent runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::agent::{OfAgent, count_in, fresh_scene, log_of};
use beadlock_testkit::{Running, Scene, read, skip, until, write_program};
use nix::sys::signal::Signal;

/// An agent that looks below the repository often.
fn start(scene: &Scene) -> Running {
    scene.start(&[
        "--root",
        ".",
        "--interval",
        "100ms",
        "--exec",
        "echo $BEADS_DIR",
    ])
}

fn cycles(dir: &Path) -> usize {
    count_in(dir, "Sync cycle complete")
}

fn found(dir: &Path) -> String {
    format!("Database found: {}", dir.display())
}

fn gone(dir: &Path) -> String {
    format!("Database gone: {}", dir.display())
}

#[expect(clippy::disallowed_methods, reason = "what a user does")]
fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

#[test]
fn databases_are_served_for_as_long_as_they_are_there() {
    let scene = fresh_scene();
    let deep = scene.database("a/b/c");
    scene.database(".git/modules/x");
    scene.database("a/.beads/nested");
    let agent = start(&scene);
    let all = [scene.beads().clone(), deep.clone(), scene.file("a/.beads")];
    until("cycles", || all.iter().all(|dir| cycles(dir) > 0));
    for dir in &all {
        let log = log_of(dir);
        assert!(
            log[1].starts_with("Agent started: ") && log[2] == found(dir),
            "{log:?}"
        );
        assert_eq!(log[4], dir.to_str().unwrap());
    }
    let new = scene.database("new");
    until("the new one", || cycles(&new) > 0);
    assert_eq!(log_of(&new)[1], found(&new), "and its log begins so");
    // Away and back.
    let (repo, away) = (scene.file("new"), scene.file("away"));
    rename(&repo, &away);
    until("its going", || scene.count(&gone(&new)) == 1);
    until("it under its new name", || {
        count_in(&away.join(".beads"), &found(&away.join(".beads"))) == 1
    });
    rename(&away, &repo);
    until("it under its old name", || {
        count_in(&new, &found(&new)) == 2
    });
    // A file in its place.
    fs::remove_dir_all(&new).unwrap();
    fs::write(&new, "").unwrap();
    until("its going", || scene.count(&gone(&new)) == 2);
    let sees = cycles(&scene.beads());
    until("some cycles", || cycles(&scene.beads()) > sees + 5);
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(scene.count(&gone(&deep)), 0);
    assert!(!scene.file(".git/modules/x/.beads/daemon.log").exists());
    assert!(!scene.file("a/.beads/nested/.beads/daemon.log").exists());
    assert_eq!(fs::metadata(&new).unwrap().len(), 0);
}

#[test]
fn however_many_ways_lead_to_it_a_database_is_served_once() {
    let scene = fresh_scene();
    let target = scene.database("target");
    for name in ["link", "redirected", "parent"] {
        fs::create_dir(scene.file(name)).unwrap();
    }
    symlink(&target, scene.file("link/.beads")).unwrap();
    fs::create_dir(scene.file("redirected/.beads")).unwrap();
    scene.write("redirected/.beads/redirect", "../target/.beads\n");
    // A link to a directory is not followed.
    symlink(scene.path(), scene.file("parent/up")).unwrap();
    let agent = scene.start(&[
        "--root",
        ".",
        "--root",
        "target",
        "--db",
        "target/.beads",
        "--interval",
        "100ms",
        "--exec",
        "true",
    ]);
    until("cycles", || {
        cycles(&target) > 3 && cycles(&scene.beads()) > 3
    });
    let sources = log_of(&target)
        .iter()
        .filter(|line| line.starts_with("Agent started: "))
        .count();
    assert_eq!(sources, 1, "{:?}", log_of(&target));
    assert_eq!(count_in(&target, &found(&target)), 0, "it is named");
    assert_eq!(
        log_of(&target)
            .iter()
            .filter(|line| line.starts_with("Skipping"))
            .count(),
        0
    );
    assert!(!scene.file("redirected/.beads/daemon.log").exists());
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_redirect_that_changes_changes_what_is_served() {
    let scene = fresh_scene();
    fs::create_dir(scene.file("tree")).unwrap();
    let (one, other) = (scene.database("one"), scene.database("other"));
    let at = scene.database("tree/at");
    fs::write(at.join("redirect"), "../../one/.beads").unwrap();
    let agent = scene.start(&["--root", "tree", "--interval", "100ms", "--exec", "true"]);
    until("cycles", || cycles(&one) > 0);
    fs::write(at.join("redirect.new"), "../../other/.beads").unwrap();
    rename(&at.join("redirect.new"), &at.join("redirect"));
    until("cycles in the other", || cycles(&other) > 0);
    assert_eq!(count_in(&other, &found(&other)), 1);
    // Where it leads nowhere, nothing is known, and what was served is served.
    fs::write(at.join("redirect.new"), "../../nowhere").unwrap();
    rename(&at.join("redirect.new"), &at.join("redirect"));
    let words = format!("Not serving {}: cannot follow ", at.display());
    let said = || {
        log_of(&other)
            .iter()
            .filter(|line| line.starts_with(&words))
            .count()
    };
    until("the word", || said() == 1);
    let refused = format!("Not serving {}: cannot follow ", other.display());
    let refusals = || {
        log_of(&other)
            .iter()
            .filter(|line| line.starts_with(&refused))
            .count()
    };
    until("a cycle that is refused", || refusals() == 1);
    let before = cycles(&other);
    fs::write(at.join("redirect.new"), "../../other/.beads").unwrap();
    rename(&at.join("redirect.new"), &at.join("redirect"));
    until("cycles", || cycles(&other) > before + 8);
    assert_eq!(
        (said(), refusals(), count_in(&other, &gone(&other))),
        (1, 1, 0),
        "said once"
    );
    let lines = log_of(&one).len();
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(log_of(&one).len(), lines, "it is served no longer");
}

#[test]
fn a_root_must_be_there_at_the_start_and_may_go_and_come_back() {
    let scene = fresh_scene();
    let (code, stderr) = scene.once(&["--root", "nowhere"]);
    assert!(
        code == 1 && stderr.contains("nowhere cannot be reached: no such file or directory; name"),
        "{stderr}"
    );
    let below = scene.database("tree/below");
    let args = [
        "--db",
        ".beads",
        "--root",
        "tree",
        "--interval",
        "100ms",
        "--exec",
        "true",
    ];
    let agent = scene.start(&args);
    until("cycles", || cycles(&below) > 0);
    rename(&scene.file("tree"), &scene.file("away"));
    let tree = scene.file("tree");
    let words = format!(
        "Cannot look below {}: no such file or directory",
        tree.display()
    );
    until("the word", || {
        scene.count(&words) == 1 && scene.count(&gone(&below)) == 1
    });
    agent.signal(Signal::SIGHUP);
    until("a reload", || {
        scene.count("Configuration reloaded: 1 database, 0 new, 0 gone, 0 changed") == 1
    });
    let before = cycles(&scene.beads());
    until("some cycles", || cycles(&scene.beads()) > before + 5);
    assert_eq!(scene.count(&words), 1, "said once");
    rename(&scene.file("away"), &tree);
    until("it again", || count_in(&below, &found(&below)) == 2);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_signal_looks_at_once() {
    let scene = fresh_scene();
    let agent = scene.start(&["--root", ".", "--interval", "1h", "--exec", "true"]);
    until("the first cycle", || cycles(&scene.beads()) == 1);
    let new = scene.database("new");
    agent.signal(Signal::SIGHUP);
    until("the new one", || cycles(&new) == 1);
    assert_eq!(
        scene.count("Configuration reloaded: 1 database, 0 new, 0 gone, 0 changed"),
        1
    );
    assert_eq!(agent.stop(), Some(0));
}

/// A wrong root looks like a job that is done.
#[test]
fn one_run_that_serves_nothing_fails_and_says_so() {
    let scene = fresh_scene();
    fs::create_dir(scene.file("empty")).unwrap();
    let words = format!(
        "Not serving anything: no database to serve was found below {}; name",
        scene.file("empty").display()
    );
    let (code, stderr) = scene.once(&["--root", "empty", "--exec", "touch ran"]);
    assert!(code == 1 && stderr.contains(&words), "{code}: {stderr}");
    let (code, stderr) = scene.once(&[
        "--root",
        "empty",
        "--exec",
        "touch ran",
        "--log-file",
        "all.log",
    ]);
    assert!(code == 1 && stderr.contains(&words), "{code}: {stderr}");
    assert!(scene.read("all.log").contains(&words));
    let (code, stderr) = scene.once(&[
        "--root",
        "empty",
        "--root",
        ".beads/..",
        "--exec",
        "touch ran",
    ]);
    assert!(
        code == 0 && stderr.is_empty(),
        "one of two: {code}: {stderr}"
    );
    let (code, stderr) = scene.once(&["--root", "empty", "--db", ".beads", "--exec", "true"]);
    assert!(
        code == 0 && stderr.is_empty(),
        "one that is named: {code}: {stderr}"
    );
    // A database that is claimed is served, and answers for itself.
    scene.claim("ann", std::process::id());
    assert_eq!(scene.once(&["--root", ".", "--exec", "true"]).0, 4);
}

/// All that is there belongs to somebody else.
#[test]
fn one_run_that_may_serve_nothing_fails_too() {
    if !skip::root() {
        return;
    }
    let scene = fresh_scene();
    let foreign = scene.database("foreign");
    std::os::unix::fs::chown(&foreign, Some(54_321), None).unwrap();
    let (code, stderr) = scene.once(&["--root", "foreign", "--exec", "touch ran"]);
    assert!(
        code == 1 && stderr.contains("Not serving anything: "),
        "{code}: {stderr}"
    );
    assert!(!scene.file("ran").exists() && !scene.file("foreign/ran").exists());
}

#[test]
fn one_run_alone_finds_them_all() {
    let scene = fresh_scene();
    let dirs: Vec<PathBuf> = (0..20)
        .map(|number| scene.database(&format!("repo-{number}")))
        .collect();
    assert_eq!(scene.once(&["--root", ".", "--exec", "true"]).0, 0);
    assert!(dirs.iter().all(|dir| cycles(dir) == 1));
    assert_eq!(scene.once(&["--root", ".git-none", "--exec", "true"]).0, 1);
    // A mistake in one of them is that one's alone.
    fs::write(dirs[7].join(".exclusive-lock"), "{").unwrap();
    assert_eq!(scene.once(&["--root", ".", "--exec", "true"]).0, 5);
    assert!(
        dirs.iter()
            .all(|dir| cycles(dir) == if dir == &dirs[7] { 1 } else { 2 })
    );
}

#[test]
fn a_root_of_the_file_that_is_taken_out_takes_its_databases_along() {
    let scene = fresh_scene();
    let below = scene.database("tree/below");
    scene.write(
        "conf.toml",
        "interval = '100ms'\nexec = 'true'\nroot = ['tree']\n[[database]]\ndir = '.beads'\n",
    );
    let agent = scene.start(&["--config", "conf.toml"]);
    until("cycles", || {
        cycles(&below) > 0 && cycles(&scene.beads()) > 0
    });
    scene.write(
        "conf.toml",
        "interval = '100ms'\nexec = 'echo new'\n[[database]]\ndir = '.beads'\n",
    );
    agent.signal(Signal::SIGHUP);
    let words = "Configuration reloaded: 1 database, 0 new, 1 gone, 1 changed";
    until("the word", || {
        count_in(&below, words) == 1 && scene.count("new") > 2
    });
    let lines = log_of(&below).len();
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(log_of(&below).len(), lines, "it is left alone");
}

/// Root reads everything: as another user.
#[test]
fn what_cannot_be_read_is_said_once_and_its_databases_stay() {
    let scene = fresh_scene();
    let below = scene.database("shut/below");
    let agent = as_nobody(
        &scene,
        &["--root", ".", "--interval", "100ms", "--exec", "true"],
    );
    until("cycles", || {
        cycles(&below) > 0 && cycles(&scene.beads()) > 0
    });
    let shut = scene.file("shut");
    let mode = |mode| {
        fs::set_permissions(&shut, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap()
    };
    // It can be entered, and not be listed.
    mode(0o111);
    let words = format!("Cannot look below {}: permission denied", shut.display());
    until("the word", || scene.count(&words) == 1);
    let before = cycles(&below);
    until("cycles", || cycles(&below) > before + 8);
    assert_eq!((scene.count(&words), scene.count(&gone(&below))), (1, 0));
    mode(0o755);
    let before = cycles(&below);
    until("cycles", || cycles(&below) > before + 5);
    assert_eq!(
        (scene.count(&gone(&below)), count_in(&below, &found(&below))),
        (0, 1),
        "{}",
        read(&below.join("daemon.log"))
    );
    assert_eq!(agent.stop(), Some(0));
}

/// There may be a redirect in it, as here: no claim uses its own lock.
#[test]
fn one_that_may_not_be_searched_is_not_served_in_place_of_where_it_leads() {
    let scene = fresh_scene();
    let (real, at) = (scene.database("real"), scene.database("tree/at"));
    fs::write(at.join("redirect"), "../../real/.beads").unwrap();
    let agent = as_nobody(
        &scene,
        &["--root", "tree", "--interval", "100ms", "--exec", "true"],
    );
    until("cycles", || cycles(&real) > 0);
    if !skip::root() {
        return;
    }
    let mode = |mode| {
        fs::set_permissions(&at, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap()
    };
    mode(0o600);
    let redirect = at.join("redirect");
    let words = format!(
        "Not serving {}: cannot reach {}: ",
        at.display(),
        redirect.display()
    );
    until("the word", || {
        log_of(&real).iter().any(|line| line.starts_with(&words))
    });
    mode(0o755);
    let before = cycles(&real);
    until("cycles", || cycles(&real) > before + 8);
    assert_eq!(agent.stop(), Some(0));
    assert!(!at.join("daemon.log").exists());
    mode(0o600);
    let named = as_nobody(
        &scene,
        &["--db", "tree/at/.beads", "--once", "--exec", "touch ran"],
    );
    named.end().expect(1, &["may not search the directory"]);
}

#[test]
fn many_that_go_at_once_cost_those_that_stay_a_few_lines_and_no_threads() {
    let scene = fresh_scene();
    // Not more often: a scan that is slowed by commands rests for fifty times as long as it took.
    let agent = scene.start(&[
        "--root",
        ".",
        "--interval",
        "500ms",
        "--exec",
        "echo $BEADS_DIR",
    ]);
    until("a cycle", || cycles(&scene.beads()) > 0);
    let many: Vec<_> = (0..100)
        .map(|number| scene.database(&format!("many/{number}")))
        .collect();
    until("their cycles", || many.iter().all(|dir| cycles(dir) > 0));
    let outside = tempfile::tempdir().unwrap();
    rename(&scene.file("many"), &outside.path().join("many"));
    let lines = || {
        log_of(&scene.beads())
            .into_iter()
            .filter_map(|line| Some(line.strip_prefix("Database gone: ")?.to_owned()))
    };
    let named = || lines().filter(|line| line.starts_with('/')).count();
    let others = || {
        lines()
            .filter_map(|line| line.strip_suffix(" others")?.parse::<usize>().ok())
            .sum::<usize>()
    };
    until("their going", || named() + others() == many.len());
    // A look that was under way has seen a part of it.
    assert!(named() <= 20, "{} are named", named());
    // Each that is idle stays for a while.
    let threads = fs::read_dir(format!("/proc/{}/task", agent.pid()))
        .unwrap()
        .count();
    assert!(threads < 40, "{threads} threads");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn in_a_log_of_all_a_line_says_whose_it_is_also_before_there_are_two() {
    let scene = fresh_scene();
    scene.write("agent.toml", "[[database]]\ndir = '.beads'\n");
    for many in [["--root", "."], ["--config", "agent.toml"]] {
        let args = [
            &many[..],
            &["--once", "--log-file", "all.log", "--action", "none"],
        ]
        .concat();
        assert_eq!(scene.agent(&args).status().unwrap().code(), Some(0));
        let text = scene.read("all.log");
        assert!(
            text.contains(&format!(
                "] {}: Starting sync cycle...",
                scene.beads().display()
            )),
            "{text}"
        );
        assert!(!text.contains("] Starting"), "{text}");
    }
}

#[test]
fn one_look_that_finds_all_well_says_nothing_on_stderr() {
    let scene = fresh_scene();
    assert_eq!(
        scene.once(&["--root", ".", "--action", "none"]),
        (0, String::new())
    );
    assert!(
        log_of(&scene.beads())[1].starts_with("Agent started: "),
        "its log has it"
    );
}

#[test]
fn in_a_log_of_all_the_agent_starts_once() {
    let scene = fresh_scene();
    let other = scene.database("other");
    let args = [
        "--once",
        "--root",
        ".",
        "--log-file",
        "all.log",
        "--action",
        "none",
    ];
    assert_eq!(scene.agent(&args).status().unwrap().code(), Some(0));
    let text = scene.read("all.log");
    let count = |words: &str| text.lines().filter(|line| line.contains(words)).count();
    assert_eq!(count("Agent started: "), 1, "{text}");
    assert_eq!(
        (count(&found(&scene.beads())), count(&found(&other))),
        (1, 1),
        "{text}"
    );
}

/// The agent of a user who is not root, on a scene that is that user's.
fn as_nobody(scene: &Scene, args: &[&str]) -> Running {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let mut command = scene.agent(args);
    if skip::may_be_root() {
        // Where the program lies nobody else may look.
        let program = scene.file("agent");
        write_program(&program, fs::File::open(command.get_program()).unwrap());
        let mut paths = vec![scene.path().parent().unwrap().to_path_buf()];
        while let Some(path) = paths.pop() {
            std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            if path.is_dir() {
                paths.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        }
        command = scene.command(&program);
        command.args(args).uid(NOBODY).gid(NOBODY);
    }
    Running::start(command)
}
