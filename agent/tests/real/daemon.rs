//! The daemon over time: when cycles start, and how it ends.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::agent::{OfAgent, count_in, fresh_scene};
use beadlock_core::gate::Gate;
use beadlock_testkit::{PATIENCE, Running, dead_pid, read, run, skip, sleeper, until};
use nix::sys::signal::Signal;

const STARTING: &str = "Starting sync cycle...";

/// Long enough that no tick comes in a test.
const NEVER: [&str; 4] = ["--interval", "10m", "--debounce", "50ms"];

fn with(exec: &str) -> Vec<&str> {
    [&NEVER[..], &["--exec", exec]].concat()
}

#[test]
fn skips_while_held_and_resumes_at_once() {
    let scene = fresh_scene();
    let agent = scene.start(&["--interval", "200ms", "--exec", "echo work"]);
    until("a first cycle", || scene.count("Sync cycle complete") > 0);
    let holder = sleeper();
    scene.claim("vc-executor", holder.pid());
    until("three skips", || {
        scene.count("Skipping database (locked by vc-executor)") >= 3
    });
    let begun = scene.count(STARTING);
    until("one more", || {
        scene.count("Skipping database (locked by vc-executor)") >= 4
    });
    assert_eq!(scene.count(STARTING), begun, "no cycle while it is held");
    scene.unlock();
    until("a cycle", || scene.count("Sync cycle complete") > begun);
    assert_eq!(agent.stop(), Some(0));
    let log = scene.lines();
    let resumed = log
        .iter()
        .position(|line| line.starts_with("Resumed after "))
        .unwrap();
    let skips = scene.count("Skipping database (locked by vc-executor)");
    assert!(
        log[resumed].starts_with(&format!("Resumed after {skips} skip")),
        "{}",
        log[resumed]
    );
    assert_eq!(
        log[resumed + 1..resumed + 4],
        [STARTING, "work", "Sync cycle complete"]
    );
    assert_eq!(
        log.iter()
            .filter(|line| line.starts_with("Held since "))
            .count(),
        1,
        "{log:?}"
    );
    assert!(
        log.last().unwrap().starts_with("Agent stopped: "),
        "{log:?}"
    );
}

/// The debounce, or a clock that looks now and then, would show in the median. The control is a bare command of the
/// same kind.
#[test]
fn a_lock_that_goes_away_starts_a_cycle_within_a_moment() {
    let scene = fresh_scene();
    let _agent = scene.start(&with("date +%s%N >> ran"));
    until("the first cycle", || {
        scene.count("Sync cycle complete") == 1
    });
    let holder = sleeper();
    let (mut waits, mut controls) = (Vec::new(), Vec::new());
    for round in 2..12 {
        scene.claim("t", holder.pid());
        let begun = Instant::now();
        scene.unlock();
        until("a cycle", || scene.read("ran").lines().count() == round);
        waits.push(begun.elapsed());
        until("its end", || scene.count("Sync cycle complete") == round);
        let begun = Instant::now();
        assert!(
            Command::new("sh")
                .args(["-c", "date +%s%N"])
                .output()
                .unwrap()
                .status
                .success()
        );
        controls.push(begun.elapsed());
    }
    waits.sort();
    controls.sort();
    let limit = Duration::from_millis(100).max(10 * controls[5]);
    assert!(waits[5] <= limit, "median: {waits:?}, beside {controls:?}");
}

#[test]
fn without_the_watcher_only_the_clock_starts_cycles() {
    let scene = fresh_scene();
    let agent = scene.start(&[&with("true")[..], &["--no-watch"]].concat());
    until("the first cycle", || {
        scene.count("Sync cycle complete") == 1
    });
    scene.claim("t", std::process::id());
    scene.unlock();
    fs::write(scene.beads().join("issues.jsonl"), "x").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(scene.count(STARTING), 1);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_change_starts_one_cycle_and_what_the_cycle_writes_none() {
    let scene = fresh_scene();
    // What a sync does: writes, renames, makes and removes directories, opens the directory.
    let exec = "for i in 1 2 3 4 5 6 7 8; do echo $i > .beads/f$i; mv .beads/f$i .beads/g$i; done; \
                mkdir .beads/sub; echo x > .beads/sub/y; rm -r .beads/sub; ls .beads > .beads/listing; rm .beads/g*";
    let agent = scene.start(&with(exec));
    for round in 1..=25 {
        until("a cycle's end", || {
            scene.count("Sync cycle complete") == round
        });
        until("the gate", || scene.gate_is_free());
        // The cycle has ended: from here on a change is somebody else's.
        fs::write(scene.beads().join("issues.jsonl"), round.to_string()).unwrap();
    }
    until("the last cycle's end", || {
        scene.count("Sync cycle complete") == 26
    });
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(
        scene.count(STARTING),
        26,
        "one cycle for each change, none for its own"
    );
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn own_names_and_accesses_start_none() {
    let scene = fresh_scene();
    fs::write(scene.beads().join("issues.jsonl"), "x").unwrap();
    let agent = scene.start(&with("true"));
    until("the first cycle", || {
        scene.count("Sync cycle complete") == 1
    });
    for name in [
        "daemon.lock",
        "daemon.pid",
        "bd.sock",
        "daemon.log.7",
        ".exclusive-lock.tmp-1-x",
    ] {
        fs::write(scene.beads().join(name), "x").unwrap();
    }
    read(&scene.beads().join("issues.jsonl"));
    fs::read_dir(scene.beads()).unwrap().count();
    scene.claim("t", std::process::id());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(scene.count(STARTING), 1);
    assert_eq!(
        scene
            .lines()
            .iter()
            .filter(|line| line.starts_with("Skipping"))
            .count(),
        0
    );
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_stale_lock_removed_by_the_cycle_starts_no_other() {
    let scene = fresh_scene();
    scene.claim("dead", dead_pid());
    let agent = scene.start(&with("true"));
    until("the cycle", || scene.count("Sync cycle complete") == 1);
    assert_eq!(
        scene.count("Removed stale lock (dead), proceeding with sync"),
        1
    );
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(scene.count(STARTING), 1);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_busy_gate_is_tried_again_soon_and_said_once() {
    let scene = fresh_scene();
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let agent = scene.start(&with("true"));
    let busy = "Skipping database (a sync cycle or a claim is in progress)";
    until("a skip", || scene.count(busy) == 1);
    std::thread::sleep(Duration::from_millis(300));
    drop(gate);
    // The next interval would be ten minutes later.
    until("a cycle", || scene.count("Sync cycle complete") == 1);
    assert_eq!(scene.count(busy), 1, "once an interval");
    assert!(
        scene
            .lines()
            .iter()
            .any(|line| line.starts_with("Resumed after 1 skip in "))
    );
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_signal_waits_for_the_running_cycle() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let scene = fresh_scene();
        let mut agent = scene.start(&with(
            "echo begun > begun; while ! test -e go; do sleep 0.02; done; echo done",
        ));
        until("the command", || scene.file("begun").exists());
        agent.signal(signal);
        until("the word", || {
            scene.count(&format!("Ending on {signal} after 1 running cycle")) == 1
        });
        assert!(agent.is_running());
        fs::write(scene.file("go"), "").unwrap();
        assert_eq!(agent.wait(PATIENCE).code(), Some(0));
        let log = scene.lines();
        assert_eq!(
            log[log.len() - 3..log.len() - 1],
            ["done", "Sync cycle complete"]
        );
        assert!(log.last().unwrap().starts_with("Agent stopped: "));
    }
}

#[test]
fn a_database_that_is_made_anew_is_watched_again() {
    let scene = fresh_scene();
    let agent = scene.start(&["--interval", "200ms", "--exec", "true"]);
    until("a cycle", || scene.count("Sync cycle complete") >= 1);
    fs::remove_dir_all(scene.beads()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(!scene.beads().exists(), "it makes no database");
    fs::create_dir(scene.beads()).unwrap();
    until("a cycle in the new one", || {
        scene.count("Sync cycle complete") >= 1
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn durations_of_ages_are_no_trap() {
    let scene = fresh_scene();
    let ages = "9223372036854775807s";
    let args = [
        "--interval",
        "30000h",
        "--debounce",
        ages,
        "--cycle-timeout",
        ages,
        "--exec",
        "true",
    ];
    let agent = scene.start(&args);
    until("the first cycle", || {
        scene.count("Sync cycle complete") == 1
    });
    fs::write(scene.beads().join("issues.jsonl"), "x").unwrap();
    scene.claim("t", std::process::id());
    scene.unlock();
    until("the next", || scene.count("Sync cycle complete") == 2);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn its_own_log_in_the_database_starts_no_cycle() {
    let scene = fresh_scene();
    let agent = scene.start(&[&with("echo hi")[..], &["--log-file", ".beads/sync.log"]].concat());
    let log = || read(&scene.beads().join("sync.log"));
    until("the first cycle", || log().contains("Sync cycle complete"));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(log().matches(STARTING).count(), 1, "{}", log());
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_command_that_takes_and_drops_the_lock_itself_does_not_spin() {
    let scene = fresh_scene();
    let agent = scene.start(&with(
        "echo x > .beads/.exclusive-lock; rm .beads/.exclusive-lock",
    ));
    until("a few cycles", || scene.count(STARTING) >= 3);
    std::thread::sleep(Duration::from_millis(1_500));
    let cycles = scene.count(STARTING);
    assert!(cycles <= 12, "{cycles} cycles");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_directory_replaced_is_noticed_before_the_tick() {
    let scene = fresh_scene();
    let agent = scene.start(&with("true"));
    until("the first cycle", || {
        scene.count("Sync cycle complete") == 1
    });
    until("the gate", || scene.gate_is_free());
    #[expect(clippy::disallowed_methods, reason = "what a user does")]
    fs::rename(scene.beads(), scene.file("old")).unwrap();
    fs::create_dir(scene.beads()).unwrap();
    until("a cycle in the new one", || {
        scene.count("Sync cycle complete") == 1
    });
    until("the gate", || scene.gate_is_free());
    fs::write(scene.beads().join("issues.jsonl"), "x").unwrap();
    until("a cycle for a change in the new one", || {
        scene.count("Sync cycle complete") == 2
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_lock_that_goes_while_its_database_is_in_the_queue_is_one_cycle() {
    let scene = fresh_scene();
    let other = scene.database("other");
    let exec = "echo x >> ran; while test -e wait; do sleep 0.01; done";
    let dbs = ["--db", ".beads", "--db", "other/.beads", "--jobs", "1"];
    let agent = scene.start(&[&with(exec)[..], &dbs].concat());
    let ran = |file: &str| scene.read(file).lines().count();
    until("the first cycles", || {
        [&scene.beads(), &other]
            .iter()
            .all(|dir| count_in(dir, "Sync cycle complete") == 1)
    });
    fs::write(scene.file("wait"), "").unwrap();
    fs::write(scene.beads().join("issues.jsonl"), "x").unwrap();
    until("the one that takes long", || ran("ran") == 2);
    for _ in 0..3 {
        fs::write(other.join(".exclusive-lock"), "{}").unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "the test is the holder of the lock"
        )]
        fs::remove_file(other.join(".exclusive-lock")).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(ran("other/ran"), 1, "it waits for its turn");
    #[expect(clippy::disallowed_methods, reason = "what the command waits for")]
    fs::remove_file(scene.file("wait")).unwrap();
    until("its turn", || ran("other/ran") == 2);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(ran("other/ran"), 2);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_work_that_hangs_delays_no_check_of_others() {
    let scene = fresh_scene();
    let [slow, claimed, free] = ["slow", "claimed", "free"].map(|name| scene.database(name));
    let me = std::process::id();
    scene.claim("vc-executor", me);
    fs::copy(scene.lock(), claimed.join(".exclusive-lock")).unwrap();
    let exec =
        "case $BEADS_DIR in */slow/.beads) while ! test -e ../go; do sleep 0.01; done;; esac";
    let dbs = [
        "--db",
        "slow/.beads",
        "--db",
        "claimed/.beads",
        "--db",
        "free/.beads",
    ];
    let args = [
        &dbs[..],
        &["--jobs", "1", "--interval", "100ms", "--exec", exec],
    ]
    .concat();
    let agent = scene.start(&args);
    until("the work that hangs", || {
        count_in(&slow, "Starting sync cycle...") == 1
    });
    let skips = || count_in(&claimed, "Skipping database (locked by vc-executor)");
    let before = skips();
    until("checks of another", || skips() >= before + 5);
    assert_eq!(count_in(&slow, "Sync cycle complete"), 0, "it still hangs");
    assert!(
        count_in(&free, "Sync cycle complete") <= 1,
        "there is one job"
    );
    // A waiter for the job does not keep the gate.
    until("a claim of who waits", || {
        Gate::try_take(&free).unwrap().is_some()
    });
    scene.write("go", "");
    until("everybody's turn", || {
        count_in(&free, "Sync cycle complete") >= 2
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn of_many_each_has_its_place_and_a_change_does_not_wait_for_it() {
    let scene = fresh_scene();
    let dirs: Vec<_> = (0..80)
        .map(|number| scene.database(&number.to_string()))
        .collect();
    let mut args = vec!["--action", "none", "--interval", "1h", "--debounce", "1ms"];
    dirs.iter()
        .for_each(|dir| args.extend(["--db", dir.to_str().unwrap()]));
    let agent = scene.start(&args);
    let has_run = |dir: &std::path::PathBuf| count_in(dir, "Sync cycle complete") > 0;
    until("the first", || has_run(&dirs[0]));
    let last = &dirs[79];
    until("the last, by a change", || {
        fs::write(last.join("file"), "x").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        has_run(last)
    });
    assert!(
        dirs.iter().filter(|dir| has_run(dir)).count() < 60,
        "a minute is for all of them"
    );
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn what_cannot_be_watched_any_more_has_its_cycles_by_the_clock() {
    let scene = fresh_scene();
    let dirs = ["a", "b", "c", "d"].map(|name| scene.database(name));
    let args: Vec<String> = dirs
        .iter()
        .map(|dir| format!("--db {}", dir.display()))
        .collect();
    let limit = "echo 3 > /proc/sys/user/max_inotify_watches";
    let script = format!(
        "{limit} && exec \"$AGENT\" --interval 200ms --action none {}",
        args.join(" ")
    );
    let unshare = |script: &str| scene.in_namespaces(&["--user", "--map-root-user"], script);
    let Some(probe) = unshare(limit) else { return };
    if !run(probe).status.success() {
        skip::cannot("cannot lower the limit of watches");
        return;
    }
    let command = unshare(&script).expect("namespaces as before");
    let agent = Running::start(command);
    let said = "Cannot watch for changes (the limit of inotify watches is reached; raise \
                fs.inotify.max_user_watches); cycles start by the clock";
    until("it is said", || {
        dirs.iter().all(|dir| count_in(dir, said) == 1)
    });
    until("cycles of all", || {
        dirs.iter()
            .all(|dir| count_in(dir, "Sync cycle complete") >= 5)
    });
    assert!(dirs.iter().all(|dir| count_in(dir, said) == 1), "once");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_signal_at_the_very_start_is_heard() {
    for _ in 0..5 {
        let scene = fresh_scene();
        let agent = scene.start(&with("true"));
        until("the first line", || {
            scene
                .lines()
                .iter()
                .any(|line| line.starts_with("Agent started: "))
        });
        assert_eq!(agent.stop(), Some(0));
    }
}

#[test]
fn a_terminal_that_stands_still_stops_nothing() {
    let scene = fresh_scene();
    let pty = nix::pty::openpty(None, None).unwrap();
    // Ctrl-S.
    nix::sys::termios::tcflow(&pty.slave, nix::sys::termios::FlowArg::TCOOFF).unwrap();
    let agent = scene.start_on(pty.slave, &with("seq 1000"));
    until("the first cycle", || {
        scene.count("Sync cycle complete") == 1
    });
    fs::write(scene.beads().join("issues.jsonl"), "x").unwrap();
    until("the next", || scene.count("Sync cycle complete") == 2);
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(scene.count("1000"), 2, "all is in the log");
}
