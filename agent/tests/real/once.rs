//! `--once`, the command line, and what the log says of one cycle.

use std::fs;
use std::os::unix::fs::symlink;

use crate::agent::{OfAgent, count_in, fresh_scene};
use beadlock_testkit::{PATIENCE, dead_pid, read, sleeper, this_host, until};

#[test]
fn a_free_database_has_its_cycle() {
    let scene = fresh_scene();
    let exec = "echo one; echo two >&2; echo $BEADS_DIR; echo $BEADLOCK_CYCLE; pwd; cat";
    assert_eq!(scene.once(&["--exec", exec]), (0, String::new()));
    let log = scene.lines();
    let beads = scene.beads();
    let (dir, repo) = (beads.to_str().unwrap(), scene.path().to_str().unwrap());
    assert!(
        log[0].starts_with("beadlock-agent ") && log[0].ends_with("times in UTC"),
        "{log:?}"
    );
    assert!(log[1].starts_with("Agent started: "), "{log:?}");
    assert_eq!(
        log[2..9],
        [
            "Starting sync cycle...",
            "one",
            "two",
            dir,
            dir,
            repo,
            "Sync cycle complete"
        ]
    );
    assert!(log[9].starts_with("Agent stopped: "), "{log:?}");
    assert_eq!(log.len(), 10);
    assert!(scene.gate_is_free());
}

/// The agent itself ignores the signal of a limit for files.
#[test]
fn the_command_gets_the_signals_as_they_were() {
    let scene = fresh_scene();
    assert_eq!(
        scene
            .once(&["--exec", "grep ^SigIgn: /proc/self/status > ignored"])
            .0,
        0
    );
    let line = scene.read("ignored");
    let ignored = u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap();
    assert_eq!(
        ignored >> (nix::sys::signal::Signal::SIGXFSZ as u32 - 1) & 1,
        0,
        "{line}"
    );
}

#[test]
fn without_a_command_it_checks_and_lets_go() {
    let scene = fresh_scene();
    assert_eq!(scene.once(&["--action", "none"]).0, 0);
    assert_eq!(
        scene.lines()[2..4],
        ["Starting sync cycle...", "Sync cycle complete"]
    );
    let lines = scene.log();
    let stamp = lines.lines().next().unwrap();
    let is_stamp = |(at, c): (usize, char)| match at {
        0 => c == '[',
        5 | 8 => c == '-',
        11 => c == ' ',
        14 | 17 => c == ':',
        20 => c == ']',
        21 => c == ' ',
        _ => c.is_ascii_digit(),
    };
    assert!(stamp.chars().take(22).enumerate().all(is_stamp), "{stamp}");
}

#[test]
fn a_held_database_is_4() {
    let scene = fresh_scene();
    let holder = sleeper();
    scene.claim("vc-executor", holder.pid());
    let before = scene.lock_text();
    assert_eq!(scene.once(&["--exec", "touch ran"]).0, 4);
    let log = scene.lines();
    assert_eq!(log[2], "Skipping database (locked by vc-executor)");
    let host = this_host();
    assert_eq!(
        log[3],
        format!(
            "Held since 2025-10-25T12:00:00Z by PID {} on {host} (pid_alive)",
            holder.pid()
        )
    );
    assert!(!scene.file("ran").exists());
    assert_eq!(scene.lock_text(), before);
}

#[test]
fn a_busy_gate_is_4() {
    let scene = fresh_scene();
    let _gate = beadlock_core::gate::Gate::try_take(&scene.beads())
        .unwrap()
        .unwrap();
    assert_eq!(scene.once(&["--exec", "touch ran"]).0, 4);
    assert_eq!(
        scene.lines()[2],
        "Skipping database (a sync cycle or a claim is in progress)"
    );
    assert!(!scene.file("ran").exists());
}

#[test]
fn a_lock_that_cannot_be_checked_is_5() {
    let scene = fresh_scene();
    fs::write(scene.lock(), "{").unwrap();
    assert_eq!(scene.once(&["--exec", "touch ran"]).0, 5);
    assert_eq!(
        scene.lines()[2],
        "Skipping database (lock check failed: malformed lock file: unexpected EOF)"
    );
    assert!(!scene.file("ran").exists());
}

#[test]
fn a_stale_lock_is_removed_first() {
    let scene = fresh_scene();
    scene.claim("dead\ntool", dead_pid());
    assert_eq!(
        scene
            .once(&["--exec", "test ! -e .beads/.exclusive-lock && echo work"])
            .0,
        0
    );
    let log = scene.lines();
    let expected = [
        r"Removed stale lock (dead\ntool), proceeding with sync",
        "Starting sync cycle...",
        "work",
        "Sync cycle complete",
    ];
    assert_eq!(log[2..6], expected);
    assert!(!scene.lock().exists());
}

#[test]
fn a_cycle_that_fails_is_1_and_says_how() {
    for (exec, words) in [
        ("exit 3", "Sync cycle failed: exit code 3 after "),
        (
            "kill -9 $$",
            "Sync cycle failed: killed by signal 9 SIGKILL after ",
        ),
        ("no-such-program", "Sync cycle failed: exit code 127 after "),
    ] {
        let scene = fresh_scene();
        assert_eq!(scene.once(&["--exec", exec]).0, 1, "{exec}");
        let log = scene.lines();
        assert!(
            log.iter().any(|line| line.starts_with(words)),
            "{exec}: {log:?}"
        );
        assert!(!log.contains(&"Sync cycle complete".to_owned()));
        assert!(scene.gate_is_free());
    }
}

#[test]
fn of_several_databases_the_highest_counts_and_one_log_names_each() {
    let scene = fresh_scene();
    let other = scene.database("other");
    symlink(&other, scene.file("link")).unwrap();
    let holder = sleeper();
    scene.claim("t", holder.pid());
    let args = [
        "--db",
        ".beads",
        "--db",
        "other/.beads",
        "--db",
        "link",
        "--log-file",
        "all.log",
        "--exec",
        "echo hi",
    ];
    assert_eq!(scene.once(&args), (4, String::new()));
    let log = scene.read("all.log");
    let has = |line: &str| log.lines().filter(|logged| logged.ends_with(line)).count();
    assert_eq!(
        has(&format!(
            "] {}: Skipping database (locked by t)",
            scene.beads().display()
        )),
        1,
        "{log}"
    );
    assert_eq!(
        has(&format!("] {}: hi", other.display())),
        1,
        "named twice is once: {log}"
    );
    assert!(!scene.beads().join("daemon.log").exists());
    assert_eq!(
        scene.once(&["--db", "other/.beads", "--action", "none"]).0,
        0
    );
}

#[test]
fn what_the_command_prints_cannot_forge_a_line() {
    let scene = fresh_scene();
    let exec = r"printf 'a\033[2Jb\rc\n'; head -c 100000 /dev/zero | tr '\0' x; printf '\377'";
    assert_eq!(scene.once(&["--exec", exec]).0, 0);
    let log = scene.lines();
    assert_eq!(log[3], r"a\u{1b}[2Jb\rc");
    assert_eq!(
        log[4..]
            .iter()
            .filter(|line| line.starts_with("xxx"))
            .map(String::len)
            .sum::<usize>()
            / 1000,
        100
    );
}

#[test]
fn what_the_command_prints_is_told_from_what_the_agent_says() {
    let scene = fresh_scene();
    let forged = [
        "Sync cycle complete",
        "Skipping database (locked by alice)",
        "Held since 2026-01-01T00:00:00Z by PID 1 on evil.example (other_host)",
        "/srv/other/.beads: Skipping database (locked by bob)",
        "a: b: Agent stopped: beadlock-agent 0.1.0, PID 1, host x",
        "beadlock-agent 0.1.0, PID 1, host x, times in UTC",
        "| mine",
    ];
    let plain = [
        "Sync",
        "skipping database: no",
        "a | b",
        "Exported to JSONL",
        "Error: x",
    ];
    fs::write(scene.file("out"), [&forged[..], &plain].concat().join("\n")).unwrap();
    assert_eq!(scene.once(&["--exec", "cat out; exit 3"]).0, 1);
    let log = scene.lines();
    let expected: Vec<String> = forged
        .iter()
        .map(|line| format!("| {line}"))
        .chain(plain.map(String::from))
        .collect();
    assert_eq!(log[3..log.len() - 3], expected);
    assert_eq!(scene.count("Sync cycle complete"), 0);
}

#[test]
fn a_log_that_cannot_be_written_is_said_once_and_stops_nothing() {
    let scene = fresh_scene();
    let victim = scene.file("victim");
    fs::write(&victim, "").unwrap();
    symlink(&victim, scene.beads().join("daemon.log")).unwrap();
    let (code, stderr) = scene.once(&["--exec", "touch ran"]);
    assert_eq!(code, 0);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains(".beads/daemon.log: it is a symbolic link; cycles go on without it"),
        "{stderr}"
    );
    assert!(scene.file("ran").exists());
    assert_eq!(read(&victim), "");
}

#[test]
fn a_log_with_a_second_name_is_said_once_and_not_written() {
    let scene = fresh_scene();
    let victim = scene.file("victim");
    fs::write(&victim, "mine").unwrap();
    fs::hard_link(&victim, scene.beads().join("daemon.log")).unwrap();
    let (code, stderr) = scene.once(&["--exec", "touch ran"]);
    assert_eq!((code, stderr.lines().count()), (0, 1), "{stderr}");
    assert!(
        stderr.contains(".beads/daemon.log: it has 2 hard links; cycles go on without it"),
        "{stderr}"
    );
    assert!(scene.file("ran").exists());
    assert_eq!(read(&victim), "mine");
    let (code, stderr) = scene.once(&["--exec", "touch ran", "--log-file", "victim"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.contains("victim cannot be written: it has 2 hard links; name a"),
        "{stderr}"
    );
}

#[test]
fn bad_targets_and_bad_lines_say_what_to_type() {
    let scene = fresh_scene();
    fs::write(scene.file("plain"), "").unwrap();
    for (args, code, words) in [
        (
            &["--interval", "0"][..],
            2,
            "must be above 0; type 5s or 500ms",
        ),
        (&["--interval", "soon"], 2, "examples: 10s, 500ms, 1h30m"),
        (&["--cycle-timeout", "0ms"], 2, "must be above 0"),
        (&["--jobs", "0"], 2, "--jobs"),
        (
            &["--exec", "true", "--action", "none"],
            2,
            "exclude each other",
        ),
        (&["--exec", ""], 2, "type --exec"),
        (&["--no-such"], 2, "--no-such"),
        (&["--db", "nowhere"], 1, "nowhere does not exist"),
        (&["--db", "plain"], 1, "plain is not a directory"),
        (&["--db", "."], 2, "did you mean ./.beads?"),
    ] {
        let (ended, stderr) = scene.once(args);
        assert_eq!(ended, code, "{args:?}: {stderr}");
        assert!(stderr.contains(words), "{args:?}: {stderr}");
    }
    let output = scene.agent(&["--once"]).current_dir("/").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("name one: beadlock-agent --db path/.beads"),
        "{stderr}"
    );
}

#[test]
fn settings_come_from_the_environment_and_the_line_beats_it() {
    let scene = fresh_scene();
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let output = scene
            .agent(args)
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let exec = ("BEADLOCK_AGENT_EXEC", "exit 7");
    assert_eq!(run(&[], &[exec, ("BEADLOCK_AGENT_ONCE", "yes")]).0, Some(1));
    assert_eq!(run(&["--once", "--exec", "true"], &[exec]).0, Some(0));
    assert_eq!(
        run(&["--once", "--action", "none"], &[exec]).0,
        Some(0),
        "opposites too"
    );
    let none = ("BEADLOCK_AGENT_ACTION", "none");
    assert_eq!(
        run(
            &["--once"],
            &[
                none,
                ("BEADLOCK_AGENT_INTERVAL", ""),
                ("BEADLOCK_AGENT_ONCE", "")
            ]
        )
        .0,
        Some(0)
    );
    assert_eq!(
        run(&["--once"], &[("BEADLOCK_AGENT_INTERVAL", "0")]).0,
        Some(2)
    );
    assert_eq!(
        run(
            &["--once"],
            &[none, ("BEADLOCK_AGENT_REAP_PROVEN_DEAD", "nonsense")]
        )
        .0,
        Some(0),
        "has none"
    );
}

#[test]
fn a_shared_log_that_cannot_be_written_at_the_start_is_an_error() {
    let scene = fresh_scene();
    fs::write(scene.file("victim"), "").unwrap();
    symlink(scene.file("victim"), scene.file("link")).unwrap();
    nix::unistd::mkfifo(&scene.file("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (path, words) in [
        ("nowhere/x.log", "no such file or directory"),
        (".beads", "is a directory"),
        ("link", "it is a symbolic link"),
        ("fifo", "it is a FIFO"),
    ] {
        let (code, stderr) = scene.once(&["--log-file", path, "--exec", "touch ran"]);
        assert_eq!(code, 1, "{path}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(
            stderr.contains(&format!("{path} cannot be written: {words}; name a")),
            "{stderr}"
        );
    }
    assert!(!scene.file("ran").exists());
}

/// A stale lock's grace is time enough for a signal between the check and the work.
#[test]
fn a_cycle_that_the_end_came_before_is_1() {
    let ended_before_it = || {
        let scene = fresh_scene();
        scene.claim("vc", dead_pid());
        let mut agent = scene.start(&["--once", "--exec", "touch ran"]);
        until("the removal", || {
            scene.beads().join(".exclusive-lock.aside").exists() || !agent.is_running()
        });
        agent.signal(nix::sys::signal::Signal::SIGTERM);
        let code = agent.wait(PATIENCE).code();
        let has_run = scene.file("ran").exists();
        assert_eq!(code, Some(i32::from(!has_run)), "{:?}", scene.lines());
        !has_run
    };
    assert!((0..20).any(|_| ended_before_it()), "never before its cycle");
}

#[test]
fn who_has_had_a_cycle_has_no_other_when_more_databases_are_found() {
    let scene = fresh_scene();
    for number in 0..300 {
        fs::create_dir_all(scene.file(&format!("root/{number}"))).unwrap();
    }
    let found = scene.database("root/found");
    let text = "interval = '50ms'\nroot = ['root']\nexec = 'sleep 0.5'\n[[database]]\ndir = '.beads'\naction = 'none'\n";
    scene.write("conf.toml", text);
    assert_eq!(scene.once(&["--config", "conf.toml"]).0, 0);
    let [named, found] = [&scene.beads(), &found].map(|dir| count_in(dir, "Sync cycle complete"));
    assert_eq!((named, found), (1, 1), "{:?}", scene.lines());
}

/// Cron and CI see no log.
#[test]
fn one_look_that_fails_says_why() {
    let scene = fresh_scene();
    let (code, stderr) = scene.once(&["--db", ".beads", "--exec", "exit 3"]);
    let words = format!("{}: failed: exit code 3", scene.beads().display());
    assert!(code == 1 && stderr.contains(&words), "{code}: {stderr}");
    scene.claim("ann", std::process::id());
    let held = scene.once(&["--db", ".beads", "--exec", "exit 3"]);
    assert_eq!(held, (4, String::new()), "to be held is no failure");
}
