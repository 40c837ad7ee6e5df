//! The daemon over time: when cycles start, and how it ends.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::scene::{Holder, Scene, count_in, read, wait_until};
use beadlock_checker::internal::Gate;
use nix::sys::signal::Signal;

const STARTING: &str = "Starting sync cycle...";

/// Long enough that no tick comes in a test.
const NEVER: [&str; 4] = ["--interval", "10m", "--debounce", "50ms"];

fn with(exec: &str) -> Vec<&str> {
    [&NEVER[..], &["--exec", exec]].concat()
}

#[test]
fn skips_while_held_and_resumes_at_once() {
    let scene = Scene::new();
    let agent = scene.start(&["--interval", "200ms", "--exec", "echo work"]);
    wait_until("a first cycle", || scene.count("Sync cycle complete") > 0);
    let holder = Holder::alive();
    scene.lock("vc-executor", holder.pid());
    wait_until("three skips", || scene.count("Skipping database (locked by vc-executor)") >= 3);
    let begun = scene.count(STARTING);
    wait_until("one more", || scene.count("Skipping database (locked by vc-executor)") >= 4);
    assert_eq!(scene.count(STARTING), begun, "no cycle while it is held");
    scene.unlock();
    wait_until("a cycle", || scene.count("Sync cycle complete") > begun);
    assert_eq!(agent.stop(), Some(0));
    let log = scene.log();
    let resumed = log.iter().position(|line| line.starts_with("Resumed after ")).unwrap();
    let skips = scene.count("Skipping database (locked by vc-executor)");
    assert!(log[resumed].starts_with(&format!("Resumed after {skips} skips in ")), "{}", log[resumed]);
    assert_eq!(log[resumed + 1..resumed + 4], [STARTING, "work", "Sync cycle complete"]);
    assert_eq!(log.iter().filter(|line| line.starts_with("Held since ")).count(), 1, "{log:?}");
    assert!(log.last().unwrap().starts_with("Agent stopped: "), "{log:?}");
}

/// The debounce, or a clock that looks now and then, would show in the median. The control is a bare command of the same kind.
#[test]
fn a_lock_that_goes_away_starts_a_cycle_within_a_moment() {
    let scene = Scene::new();
    let _agent = scene.start(&with("date +%s%N >> ran"));
    wait_until("the first cycle", || scene.count("Sync cycle complete") == 1);
    let holder = Holder::alive();
    let (mut waits, mut controls) = (Vec::new(), Vec::new());
    for round in 2..12 {
        scene.lock("t", holder.pid());
        let begun = Instant::now();
        scene.unlock();
        wait_until("a cycle", || read(&scene.file("ran")).lines().count() == round);
        waits.push(begun.elapsed());
        wait_until("its end", || scene.count("Sync cycle complete") == round);
        let begun = Instant::now();
        assert!(Command::new("sh").args(["-c", "date +%s%N"]).output().unwrap().status.success());
        controls.push(begun.elapsed());
    }
    waits.sort();
    controls.sort();
    let limit = Duration::from_millis(100).max(10 * controls[5]);
    assert!(waits[5] <= limit, "median: {waits:?}, beside {controls:?}");
}

#[test]
fn without_the_watcher_only_the_clock_starts_cycles() {
    let scene = Scene::new();
    let agent = scene.start(&[&with("true")[..], &["--no-watch"]].concat());
    wait_until("the first cycle", || scene.count("Sync cycle complete") == 1);
    scene.lock("t", std::process::id());
    scene.unlock();
    fs::write(scene.dir.join("issues.jsonl"), "x").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(scene.count(STARTING), 1);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_change_starts_one_cycle_and_what_the_cycle_writes_none() {
    let scene = Scene::new();
    // What a sync does: writes, renames, makes and removes directories, opens the directory.
    let exec = "for i in 1 2 3 4 5 6 7 8; do echo $i > .beads/f$i; mv .beads/f$i .beads/g$i; done; \
                mkdir .beads/sub; echo x > .beads/sub/y; rm -r .beads/sub; ls .beads > .beads/listing; rm .beads/g*";
    let agent = scene.start(&with(exec));
    for round in 1..=25 {
        wait_until("a cycle's end", || scene.count("Sync cycle complete") == round);
        wait_until("the gate", || scene.gate_is_free());
        // The cycle has ended: from here on a change is somebody else's.
        fs::write(scene.dir.join("issues.jsonl"), round.to_string()).unwrap();
    }
    wait_until("the last cycle's end", || scene.count("Sync cycle complete") == 26);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(scene.count(STARTING), 26, "one cycle for each change, none for its own");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn own_names_and_accesses_start_none() {
    let scene = Scene::new();
    fs::write(scene.dir.join("issues.jsonl"), "x").unwrap();
    let agent = scene.start(&with("true"));
    wait_until("the first cycle", || scene.count("Sync cycle complete") == 1);
    for name in ["daemon.lock", "daemon.pid", "bd.sock", "daemon.log.7", ".exclusive-lock.tmp-1-x"] {
        fs::write(scene.dir.join(name), "x").unwrap();
    }
    read(&scene.dir.join("issues.jsonl"));
    fs::read_dir(&scene.dir).unwrap().count();
    scene.lock("t", std::process::id());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(scene.count(STARTING), 1);
    assert_eq!(scene.log().iter().filter(|line| line.starts_with("Skipping")).count(), 0);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_stale_lock_removed_by_the_cycle_starts_no_other() {
    let scene = Scene::new();
    scene.lock("dead", Holder::dead_pid());
    let agent = scene.start(&with("true"));
    wait_until("the cycle", || scene.count("Sync cycle complete") == 1);
    assert_eq!(scene.count("Removed stale lock (dead), proceeding with sync"), 1);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(scene.count(STARTING), 1);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_busy_gate_is_tried_again_soon_and_said_once() {
    let scene = Scene::new();
    let gate = Gate::try_take(&scene.dir).unwrap().unwrap();
    let agent = scene.start(&with("true"));
    let busy = "Skipping database (a sync cycle or a claim is in progress)";
    wait_until("a skip", || scene.count(busy) == 1);
    std::thread::sleep(Duration::from_millis(300));
    drop(gate);
    // The next interval would be ten minutes later.
    wait_until("a cycle", || scene.count("Sync cycle complete") == 1);
    assert_eq!(scene.count(busy), 1, "once an interval");
    assert!(scene.log().iter().any(|line| line.starts_with("Resumed after 1 skips in ")));
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_signal_waits_for_the_running_cycle() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let scene = Scene::new();
        let mut agent =
            scene.start(&with("echo begun > begun; while ! test -e go; do sleep 0.02; done; echo done"));
        wait_until("the command", || scene.file("begun").exists());
        agent.signal(signal);
        wait_until("the word", || scene.count(&format!("Ending on {signal} after 1 running cycles")) == 1);
        assert!(agent.is_running());
        fs::write(scene.file("go"), "").unwrap();
        assert_eq!(agent.wait().code(), Some(0));
        let log = scene.log();
        assert_eq!(log[log.len() - 3..log.len() - 1], ["done", "Sync cycle complete"]);
        assert!(log.last().unwrap().starts_with("Agent stopped: "));
    }
}

#[test]
fn a_database_that_is_made_anew_is_watched_again() {
    let scene = Scene::new();
    let agent = scene.start(&["--interval", "200ms", "--exec", "true"]);
    wait_until("a cycle", || scene.count("Sync cycle complete") >= 1);
    fs::remove_dir_all(&scene.dir).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(!scene.dir.exists(), "it makes no database");
    fs::create_dir(&scene.dir).unwrap();
    wait_until("a cycle in the new one", || scene.count("Sync cycle complete") >= 1);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn durations_of_ages_are_no_trap() {
    let scene = Scene::new();
    let ages = "9223372036854775807s";
    let args = ["--interval", "30000h", "--debounce", ages, "--cycle-timeout", ages, "--exec", "true"];
    let agent = scene.start(&args);
    wait_until("the first cycle", || scene.count("Sync cycle complete") == 1);
    fs::write(scene.dir.join("issues.jsonl"), "x").unwrap();
    scene.lock("t", std::process::id());
    scene.unlock();
    wait_until("the next", || scene.count("Sync cycle complete") == 2);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn its_own_log_in_the_database_starts_no_cycle() {
    let scene = Scene::new();
    let agent = scene.start(&[&with("echo hi")[..], &["--log-file", ".beads/sync.log"]].concat());
    let log = || read(&scene.dir.join("sync.log"));
    wait_until("the first cycle", || log().contains("Sync cycle complete"));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(log().matches(STARTING).count(), 1, "{}", log());
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_command_that_takes_and_drops_the_lock_itself_does_not_spin() {
    let scene = Scene::new();
    let agent = scene.start(&with("echo x > .beads/.exclusive-lock; rm .beads/.exclusive-lock"));
    wait_until("a few cycles", || scene.count(STARTING) >= 3);
    std::thread::sleep(Duration::from_millis(1_500));
    let cycles = scene.count(STARTING);
    assert!(cycles <= 12, "{cycles} cycles");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_directory_replaced_is_noticed_before_the_tick() {
    let scene = Scene::new();
    let agent = scene.start(&with("true"));
    wait_until("the first cycle", || scene.count("Sync cycle complete") == 1);
    wait_until("the gate", || scene.gate_is_free());
    #[expect(clippy::disallowed_methods, reason = "what a user does")]
    fs::rename(&scene.dir, scene.file("old")).unwrap();
    fs::create_dir(&scene.dir).unwrap();
    wait_until("a cycle in the new one", || scene.count("Sync cycle complete") == 1);
    wait_until("the gate", || scene.gate_is_free());
    fs::write(scene.dir.join("issues.jsonl"), "x").unwrap();
    wait_until("a cycle for a change in the new one", || scene.count("Sync cycle complete") == 2);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_lock_that_goes_while_its_database_is_in_the_queue_is_one_cycle() {
    let scene = Scene::new();
    let other = scene.repo.join("other/.beads");
    fs::create_dir_all(&other).unwrap();
    let exec = "echo x >> ran; while test -e wait; do sleep 0.01; done";
    let dbs = ["--db", ".beads", "--db", "other/.beads", "--jobs", "1"];
    let agent = scene.start(&[&with(exec)[..], &dbs].concat());
    let ran = |file: &str| read(&scene.file(file)).lines().count();
    wait_until("the first cycles", || {
        [&scene.dir, &other].iter().all(|dir| count_in(dir, "Sync cycle complete") == 1)
    });
    fs::write(scene.file("wait"), "").unwrap();
    fs::write(scene.dir.join("issues.jsonl"), "x").unwrap();
    wait_until("the one that takes long", || ran("ran") == 2);
    for _ in 0..3 {
        fs::write(other.join(".exclusive-lock"), "{}").unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test is the holder of the lock")]
        fs::remove_file(other.join(".exclusive-lock")).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(ran("other/ran"), 1, "it waits for its turn");
    #[expect(clippy::disallowed_methods, reason = "what the command waits for")]
    fs::remove_file(scene.file("wait")).unwrap();
    wait_until("its turn", || ran("other/ran") == 2);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(ran("other/ran"), 2);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_work_that_hangs_delays_no_check_of_others() {
    let scene = Scene::new();
    let [slow, claimed, free] = ["slow", "claimed", "free"].map(|name| scene.database(name));
    let me = std::process::id();
    scene.lock("vc-executor", me);
    fs::copy(scene.lock_file(), claimed.join(".exclusive-lock")).unwrap();
    let exec = "case $BEADS_DIR in */slow/.beads) while ! test -e ../go; do sleep 0.01; done;; esac";
    let dbs = ["--db", "slow/.beads", "--db", "claimed/.beads", "--db", "free/.beads"];
    let args = [&dbs[..], &["--jobs", "1", "--interval", "100ms", "--exec", exec]].concat();
    let agent = scene.start(&args);
    wait_until("the work that hangs", || count_in(&slow, "Starting sync cycle...") == 1);
    let skips = || count_in(&claimed, "Skipping database (locked by vc-executor)");
    let before = skips();
    wait_until("checks of another", || skips() >= before + 5);
    assert_eq!(count_in(&slow, "Sync cycle complete"), 0, "it still hangs");
    assert!(count_in(&free, "Sync cycle complete") <= 1, "there is one job");
    // Who waits for the job does not keep the gate.
    wait_until("a claim of who waits", || Gate::try_take(&free).unwrap().is_some());
    scene.write("go", "");
    wait_until("everybody's turn", || count_in(&free, "Sync cycle complete") >= 2);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn of_many_each_has_its_place_and_a_change_does_not_wait_for_it() {
    let scene = Scene::new();
    let dirs: Vec<_> = (0..80).map(|number| scene.database(&number.to_string())).collect();
    let mut args = vec!["--action", "none", "--interval", "1h", "--debounce", "1ms"];
    dirs.iter().for_each(|dir| args.extend(["--db", dir.to_str().unwrap()]));
    let agent = scene.start(&args);
    let has_run = |dir: &std::path::PathBuf| count_in(dir, "Sync cycle complete") > 0;
    wait_until("the first", || has_run(&dirs[0]));
    let last = &dirs[79];
    wait_until("the last, by a change", || {
        fs::write(last.join("file"), "x").unwrap();
        std::thread::sleep(Duration::from_millis(20));
        has_run(last)
    });
    assert!(dirs.iter().filter(|dir| has_run(dir)).count() < 60, "a minute is for all of them");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn what_cannot_be_watched_any_more_has_its_cycles_by_the_clock() {
    let scene = Scene::new();
    let dirs = ["a", "b", "c", "d"].map(|name| scene.database(name));
    let args: Vec<String> = dirs.iter().map(|dir| format!("--db {}", dir.display())).collect();
    let limited = "echo 3 > /proc/sys/user/max_inotify_watches && exec \"$AGENT\"";
    let script = format!("{limited} --interval 200ms --action none {}", args.join(" "));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script]).current_dir(&scene.repo).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("AGENT", env!("CARGO_BIN_EXE_beadlock-agent"));
    command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let probe = "echo 3 > /proc/sys/user/max_inotify_watches";
    let mut unshare = Command::new("unshare");
    let probe = unshare.args(["--user", "--map-root-user", "sh", "-c", probe]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        eprintln!("skipped: a low limit of watches needs unshare and a user namespace");
        return;
    }
    let agent = scene.start_command(command);
    let said = "Cannot watch for changes (the limit of inotify watches is reached; raise \
                fs.inotify.max_user_watches); cycles start by the clock";
    wait_until("it is said", || dirs.iter().all(|dir| count_in(dir, said) == 1));
    wait_until("cycles of all", || dirs.iter().all(|dir| count_in(dir, "Sync cycle complete") >= 5));
    assert!(dirs.iter().all(|dir| count_in(dir, said) == 1), "once");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_signal_at_the_very_start_is_heard() {
    for _ in 0..5 {
        let scene = Scene::new();
        let agent = scene.start(&with("true"));
        wait_until("the first line", || scene.log().iter().any(|line| line.starts_with("Agent started: ")));
        assert_eq!(agent.stop(), Some(0));
    }
}

#[test]
fn a_terminal_that_stands_still_stops_nothing() {
    let scene = Scene::new();
    let pty = nix::pty::openpty(None, None).unwrap();
    // Ctrl-S.
    nix::sys::termios::tcflow(&pty.slave, nix::sys::termios::FlowArg::TCOOFF).unwrap();
    let agent = scene.start_on(pty.slave, &with("seq 1000"));
    wait_until("the first cycle", || scene.count("Sync cycle complete") == 1);
    fs::write(scene.dir.join("issues.jsonl"), "x").unwrap();
    wait_until("the next", || scene.count("Sync cycle complete") == 2);
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(scene.count("1000"), 2, "all is in the log");
}
