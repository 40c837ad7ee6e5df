//! SIGHUP reads the configuration again, and what did not change runs on.

use std::fs;
use std::time::{Duration, Instant};

use crate::agent::{OfAgent, count_in, fresh_scene, log_of};
use beadlock_testkit::{PATIENCE, Running, Scene, dead_pid, read, sleeper, until};
use nix::sys::signal::Signal;

/// Writes the file, asks for a reload and waits for this line in the scene's log.
fn reload(scene: &Scene, agent: &Running, text: &str, line: &str) {
    let before = scene.count(line);
    scene.write("conf.toml", text);
    agent.signal(Signal::SIGHUP);
    until(line, || scene.count(line) > before);
}

const HERE: &str = "[[database]]\ndir = '.beads'\n";
const OTHER: &str = "[[database]]\ndir = 'other/.beads'\n";

/// A configuration of this top and these databases.
fn conf(top: &str, databases: &[&str]) -> String {
    [top, "\n", &databases.concat()].concat()
}

fn start(scene: &Scene, text: &str) -> Running {
    scene.write("conf.toml", text);
    scene.start(&["--config", "conf.toml"])
}

#[test]
fn databases_come_and_go_and_a_streak_of_skips_goes_on() {
    let scene = fresh_scene();
    let other = scene.database("other");
    let top = "interval = '100ms'\nexec = 'echo work'";
    let agent = start(&scene, &conf(top, &[HERE]));
    until("a first cycle", || scene.count("Sync cycle complete") > 0);
    let holder = sleeper();
    scene.claim("vc", holder.pid());
    let skipping = "Skipping database (locked by vc)";
    until("three skips", || scene.count(skipping) >= 3);
    reload(
        &scene,
        &agent,
        &conf(top, &[HERE, OTHER]),
        "Configuration reloaded: 2 databases, 1 new, 0 gone, 0 changed",
    );
    until("a cycle of the new one", || {
        count_in(&other, "Sync cycle complete") > 0
    });
    let skips = scene.count(skipping);
    until("more skips", || scene.count(skipping) >= skips + 2);
    reload(
        &scene,
        &agent,
        &conf(top, &[HERE]),
        "Configuration reloaded: 1 database, 0 new, 1 gone, 0 changed",
    );
    let last = "Configuration reloaded: 1 database, 0 new, 1 gone, 0 changed";
    until("its last word", || count_in(&other, last) == 1);
    let skips = scene.count(skipping);
    until("more skips", || scene.count(skipping) >= skips + 2);
    scene.unlock();
    until("the end of the streak", || {
        scene
            .lines()
            .iter()
            .any(|line| line.starts_with("Resumed after "))
    });
    assert_eq!(agent.stop(), Some(0));
    let resumed = format!("Resumed after {} skip", scene.count(skipping));
    assert!(
        scene.lines().iter().any(|line| line.starts_with(&resumed)),
        "{resumed}: {:?}",
        scene.lines()
    );
    assert_eq!(
        scene
            .lines()
            .iter()
            .filter(|line| line.starts_with("Held since "))
            .count(),
        1
    );
    let ended = log_of(&other)
        .iter()
        .any(|line| line.starts_with("Agent stopped: "));
    assert!(
        !ended,
        "that is not for its log any more: {:?}",
        log_of(&other)
    );
}

#[test]
fn a_running_cycle_ends_under_its_old_settings_and_one_that_has_gone_has_no_other() {
    let scene = fresh_scene();
    let other = scene.database("other");
    let exec = "interval = '100ms'\nexec = 'echo $$ >> ran; while ! test -e go; do sleep 0.01; done; echo old'";
    let agent = start(&scene, &conf(exec, &[HERE, OTHER]));
    let runs = |name: &str| scene.read(name).lines().count();
    until("the commands", || {
        runs("ran") == 1 && runs("other/ran") == 1
    });
    let new = "interval = '100ms'\ncycle-timeout = 1\nexec = 'echo new'";
    reload(
        &scene,
        &agent,
        &conf(new, &[HERE]),
        "Configuration reloaded: 1 database, 0 new, 1 gone, 1 changed",
    );
    // Neither its new time-out nor its going does anything to it.
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(
        (scene.count("new"), scene.count("Sync cycle complete")),
        (0, 0)
    );
    scene.write("go", "");
    scene.write("other/go", "");
    until("its end, and a new one", || {
        scene.count("old") == 1 && scene.count("new") > 0
    });
    until("the end of the other", || {
        count_in(&other, "Sync cycle complete") == 1
    });
    let cycles = scene.count("new");
    until("some cycles", || scene.count("new") >= cycles + 3);
    assert_eq!((runs("ran"), runs("other/ran")), (1, 1));
    assert_eq!(agent.stop(), Some(0));
}

/// A stale lock's grace is time enough for a reload between the check and the work.
#[test]
fn one_that_has_gone_while_it_was_checked_does_no_work() {
    let has_gone_in_time = || {
        let scene = fresh_scene();
        let other = scene.database("other");
        scene.claim("vc", dead_pid());
        #[expect(
            clippy::disallowed_methods,
            reason = "the test is the holder of the lock"
        )]
        fs::rename(scene.lock(), other.join(".exclusive-lock")).unwrap();
        let top = "interval = '10m'\nexec = 'touch ran'";
        let agent = start(&scene, &conf(top, &[HERE, OTHER]));
        let aside = other.join(".exclusive-lock.aside");
        until("the removal", || {
            aside.exists() || scene.file("other/ran").exists()
        });
        let line = "Configuration reloaded: 1 database, 0 new, 1 gone, 0 changed";
        reload(&scene, &agent, &conf(top, &[HERE]), line);
        let in_time = aside.exists();
        until("the end of the check", || !aside.exists());
        assert_eq!(agent.stop(), Some(0));
        assert!(
            !in_time || !scene.file("other/ran").exists(),
            "{:?}",
            log_of(&other)
        );
        in_time
    };
    assert!(
        (0..20).any(|_| has_gone_in_time()),
        "never while it was checked"
    );
}

#[test]
fn one_that_comes_back_while_its_last_cycle_runs_goes_on() {
    let scene = fresh_scene();
    let other = scene.database("other");
    let exec =
        "interval = '100ms'\nexec = 'echo $$ >> ran; while ! test -e go; do sleep 0.01; done'";
    let agent = start(&scene, &conf(exec, &[HERE, OTHER]));
    let runs = || scene.read("other/ran").lines().count();
    until("the command", || runs() == 1);
    reload(
        &scene,
        &agent,
        &conf(exec, &[HERE]),
        "Configuration reloaded: 1 database, 0 new, 1 gone, 0 changed",
    );
    reload(
        &scene,
        &agent,
        &conf(exec, &[HERE, OTHER]),
        "Configuration reloaded: 2 databases, 1 new, 0 gone, 0 changed",
    );
    scene.write("go", "");
    scene.write("other/go", "");
    until("its cycles", || {
        count_in(&other, "Sync cycle complete") >= 3
    });
    assert_eq!(agent.stop(), Some(0));
    let skips = |line: &String| line.starts_with("Skipping");
    assert_eq!(
        log_of(&other).iter().filter(|line| skips(line)).count(),
        0,
        "it never stood in its own way"
    );
    assert!(
        log_of(&other)
            .last()
            .unwrap()
            .starts_with("Agent stopped: ")
    );
}

#[test]
fn a_shorter_interval_holds_at_once_and_watches_stay() {
    let scene = fresh_scene();
    let other = scene.database("other");
    let top = |interval| format!("interval = '{interval}'\ndebounce = '20ms'\nexec = 'true'");
    let agent = start(&scene, &conf(&top("10m"), &[HERE, OTHER]));
    let cycles = |dir: &std::path::Path| count_in(dir, "Sync cycle complete");
    until("the first cycles", || {
        cycles(&scene.beads()) == 1 && cycles(&other) == 1
    });
    reload(
        &scene,
        &agent,
        &conf(&top("11m"), &[HERE]),
        "Configuration reloaded: 1 database, 0 new, 1 gone, 1 changed",
    );
    fs::write(other.join("issues.jsonl"), "x").unwrap();
    fs::write(scene.beads().join("issues.jsonl"), "x").unwrap();
    until("a cycle for the change", || cycles(&scene.beads()) == 2);
    reload(
        &scene,
        &agent,
        &conf(&top("11m"), &[HERE, OTHER]),
        "Configuration reloaded: 2 databases, 1 new, 0 gone, 0 changed",
    );
    until("the cycle of one that is new again", || cycles(&other) == 2);
    until("the gate", || {
        beadlock_core::gate::Gate::try_take(&other)
            .unwrap()
            .is_some()
    });
    fs::write(other.join("issues.jsonl"), "y").unwrap();
    until("a cycle for the change", || cycles(&other) == 3);
    assert_eq!(cycles(&scene.beads()), 2);
    reload(
        &scene,
        &agent,
        &conf(&top("50ms"), &[HERE, OTHER]),
        "Configuration reloaded: 2 databases, 0 new, 0 gone, 2 changed",
    );
    until("many cycles", || {
        cycles(&scene.beads()) >= 6 && cycles(&other) >= 6
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_broken_file_keeps_the_old_configuration_whole() {
    let scene = fresh_scene();
    let other = scene.database("other");
    scene.write("plain", "");
    let top = "interval = '50ms'\nexec = 'echo old'";
    let agent = start(&scene, &conf(top, &[HERE, OTHER]));
    until("the first cycles", || {
        scene.count("old") > 0 && count_in(&other, "old") > 0
    });
    let new = "interval = '50ms'\nexec = 'echo new'\n";
    let missing = "[[database]]\ndir = 'nowhere/.beads'\n";
    for (text, words) in [
        (
            format!("{new}intervall = 1\n"),
            "conf.toml:3:1: unknown key intervall; did you mean interval?",
        ),
        (
            conf(new, &[HERE, HERE]),
            "conf.toml:7:1: the same directory as the [[database]] of line 5; leave one out",
        ),
        (
            format!("{new}root = ['plain']\n"),
            "is not a directory; name a directory to look below",
        ),
        (
            format!("{new}log-file = 'nowhere/x.log'\n{HERE}"),
            "nowhere/x.log cannot be written: no such file",
        ),
        (conf(new, &[HERE, missing]), "nowhere/.beads does not exist"),
        ("x".repeat(2 << 20), "conf.toml is longer than 1 MiB"),
    ] {
        let said = |dir: &std::path::Path| {
            let is_said = |line: &String| {
                line.starts_with("Configuration not reloaded: ")
                    && line.contains(words)
                    && line.ends_with("; the old one stays")
            };
            log_of(dir).iter().filter(|line| is_said(line)).count()
        };
        scene.write("conf.toml", &text);
        agent.signal(Signal::SIGHUP);
        until(words, || said(&scene.beads()) == 1 && said(&other) == 1);
    }
    let cycles = (scene.count("old"), count_in(&other, "old"));
    until("more cycles", || {
        scene.count("old") >= cycles.0 + 3 && count_in(&other, "old") >= cycles.1 + 3
    });
    assert_eq!((scene.count("new"), count_in(&other, "new")), (0, 0));
    reload(
        &scene,
        &agent,
        &conf(new, &[HERE]),
        "Configuration reloaded: 1 database, 0 new, 1 gone, 1 changed",
    );
    until("the new command", || scene.count("new") > 0);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn the_log_moves_and_the_audit_trail_waits_for_the_next_start() {
    let scene = fresh_scene();
    let top = "interval = '50ms'\nexec = 'echo work'\n";
    let agent = start(&scene, &conf(top, &[HERE]));
    until("a cycle", || scene.count("work") > 0);
    reload(
        &scene,
        &agent,
        &conf(&format!("{top}audit = 'audit.jsonl'"), &[HERE]),
        "Configuration reloaded: 1 database, 0 new, 0 gone, 0 changed; another audit file is opened at the next start",
    );
    assert!(!scene.file("audit.jsonl").exists());
    scene.write(
        "conf.toml",
        conf(
            &format!("{top}log-file = 'all.log'\nlog-format = 'json'"),
            &[HERE],
        ),
    );
    agent.signal(Signal::SIGHUP);
    let all = || scene.read("all.log");
    until("the word", || {
        all().contains("Configuration reloaded: 1 database, 0 new, 0 gone, 0 changed\"")
    });
    until("a cycle", || all().matches("\"work\"").count() > 1);
    let lines = scene.lines().len();
    until("two more", || all().matches("\"work\"").count() > 3);
    assert_eq!(scene.lines().len(), lines, "the old one is left");
    assert_eq!(agent.stop(), Some(0));
    assert!(
        all()
            .lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
    );
}

#[test]
fn a_storm_of_signals_is_harmless_from_the_start_to_the_end() {
    let scene = fresh_scene();
    let exec = "interval = '20ms'\nexec = 'while ! test -e go; do sleep 0.01; done'";
    let mut agent = start(&scene, &conf(exec, &[HERE]));
    // From the moment that it can be: before that no program could help it.
    until("a program that hears", || {
        let status = read(&std::path::PathBuf::from(format!(
            "/proc/{}/status",
            agent.pid()
        )));
        let has_hangup =
            |line: &str| u64::from_str_radix(line.trim(), 16).is_ok_and(|signals| signals & 1 == 1);
        ["SigIgn:", "SigCgt:"].iter().any(|name| {
            status
                .lines()
                .filter_map(|line| line.strip_prefix(name))
                .any(has_hangup)
        })
    });
    let reloaded = "Configuration reloaded: 1 database, 0 new, 0 gone, 0 changed";
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) || scene.count(reloaded) < 10 {
        agent.signal(Signal::SIGHUP);
        assert!(agent.is_running());
    }
    agent.signal(Signal::SIGTERM);
    until("the word", || {
        scene.count("Ending on SIGTERM after 1 running cycle") == 1
    });
    let reloads = scene.count(reloaded);
    for _ in 0..200 {
        agent.signal(Signal::SIGHUP);
    }
    scene.write("go", "");
    assert_eq!(agent.wait(PATIENCE).code(), Some(0));
    assert_eq!(
        scene.count(reloaded),
        reloads,
        "nothing begins after the end"
    );
    assert_eq!(scene.count("Sync cycle complete"), 1);
}

#[test]
fn one_run_alone_is_not_reloaded() {
    let scene = fresh_scene();
    scene.write(
        "conf.toml",
        "exec = 'echo $$ > command; while ! test -e go; do sleep 0.01; done'\n",
    );
    let mut agent = scene.start(&["--config", "conf.toml", "--once"]);
    scene.pid_in("command");
    scene.write("conf.toml", "x");
    for _ in 0..20 {
        agent.signal(Signal::SIGHUP);
    }
    scene.write("go", "");
    assert_eq!(agent.wait(PATIENCE).code(), Some(0));
    assert!(
        !scene
            .lines()
            .iter()
            .any(|line| line.starts_with("Configuration"))
    );
}
