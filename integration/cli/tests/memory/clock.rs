//! A step of the wall clock makes no living holder lose its lock, and one that hangs is broken all the same.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use beadlock_testkit::{Running, has_program, until};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::scene::{Memory, Says, TARGET, millis_ago};

/// Adds the seconds in the file `$CLOCK_STEP` to the wall clock, whenever a program reads it.
const STEPPED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    const char *path = getenv("CLOCK_STEP");
    FILE *file = clock == CLOCK_REALTIME && path ? fopen(path, "re") : NULL;
    long seconds = 0;
    if (file && fscanf(file, "%ld", &seconds) == 1) time->tv_sec += seconds;
    if (file) fclose(file);
    return result;
}
"#;

/// A directory with one lock, among programs whose wall clock can be set.
struct Clock {
    memory: Memory,
    shim: PathBuf,
}

impl Clock {
    /// None, after a line that says so, without a C compiler.
    fn new() -> Option<Self> {
        if !has_program("cc") {
            return None;
        }
        let memory = Memory::new();
        let (source, shim) = (memory.scene.file("clock.c"), memory.scene.file("clock.so"));
        fs::write(&source, STEPPED).unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&shim, &source])
            .arg("-ldl")
            .status();
        assert!(made.unwrap().success());
        let clock = Self { memory, shim };
        clock.set_to(0);
        Some(clock)
    }

    fn set_to(&self, seconds: i64) {
        let (new, file) = (
            self.memory.scene.file("step.new"),
            self.memory.scene.file("step"),
        );
        fs::write(&new, seconds.to_string()).unwrap();
        Command::new("mv").arg(new).arg(file).status().unwrap();
    }

    fn start(&self, args: &[&str]) -> Running {
        let mut command = self.memory.command(args);
        command
            .env("LD_PRELOAD", &self.shim)
            .env("CLOCK_STEP", self.memory.scene.file("step"));
        Running::apart(command)
    }

    /// A command that holds the lock, and the moment after a refresh.
    fn holder(&self) -> Running {
        let script = "echo $$ >pid; while test ! -e go; do sleep 0.05; done";
        let running = self.start(&[
            "hold",
            TARGET,
            "--session-id",
            "main",
            "--",
            "sh",
            "-c",
            script,
        ]);
        self.memory.scene.pid_in("pid");
        let first = self.memory.record()["acquired_at"].clone();
        until("it is refreshed", || {
            self.memory.record()["acquired_at"] != first
        });
        running
    }

    fn situation(&self) -> String {
        let status = self
            .start(&["status", TARGET, "--json"])
            .end()
            .expect(0, &[])
            .json();
        status["data"][0]["witnesses"]["situation"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

#[test]
fn a_living_holder_keeps_its_lock_when_the_clock_is_set_forward() {
    let Some(clock) = Clock::new() else { return };
    let holder = clock.holder();
    clock.set_to(40);
    assert_eq!(
        clock.situation(),
        "old_by_the_clock",
        "the step makes the lock too old, or this test shows nothing"
    );
    clock
        .start(&["hold", TARGET, "--no-wait", "--", "true"])
        .end()
        .expect(4, &["Held by session 'main'"]);
    clock
        .start(&["check", TARGET])
        .end()
        .says(4, &["Skipping (locked by main)"]);
    let waiting = [
        clock.start(&["hold", TARGET, "--", "true"]),
        clock.start(&["acquire", TARGET, "--detach"]),
        clock.start(&["wait", TARGET]),
    ];
    for waited in waiting {
        waited.end().expect(
            4,
            &["Could not acquire lock within 5.0s. Held by session 'main'"],
        );
    }
    assert_eq!(
        clock.situation(),
        "recent",
        "it was refreshed by the new clock"
    );
    fs::write(clock.memory.scene.file("go"), "").unwrap();
    holder.end().expect(0, &["released memory:memory"]);
    assert!(clock.memory.names().is_empty());
}

/// Less than the interval of its refreshes is too old for this one, and it looks at any moment. It breaks a lock that
/// stays unrefreshed for half a second longer than the interval, so one round in time is enough.
#[test]
fn a_lock_that_is_refreshed_is_never_too_old_whatever_the_age() {
    let is_kept = |_| {
        let memory = Memory::new();
        let holder = memory.holding(
            &["--session-id", "main"],
            "while test ! -e go; do sleep 0.05; done",
        );
        let impatient = memory.hold(&["--stale-after", "100ms", "--wait", "7s"], "true");
        if impatient.code == 0 {
            return false;
        }
        impatient.expect(
            4,
            &["Could not acquire lock within 7.0s. Held by session 'main'"],
        );
        fs::write(memory.scene.file("go"), "").unwrap();
        holder.end().expect(0, &["released memory:memory"]);
        true
    };
    assert!((0..5).any(is_kept), "it is broken every time");
}

/// Its process lives, and refreshes nothing: within the usual wait.
#[test]
fn a_holder_that_hangs_is_broken_after_an_interval() {
    let memory = Memory::new();
    let begun = Instant::now();
    let holder = memory.holding(&["--session-id", "main"], "exec sleep 60");
    holder.signal(Signal::SIGSTOP);
    memory.hold(&["--stale-after", "500ms"], "true").expect(
        0,
        &[
            "[LOCK] Breaking stale lock: lock is ",
            "s old (>0.5s)",
            "claimed",
        ],
    );
    assert!(
        begun.elapsed() >= Duration::from_millis(3500),
        "{:?}",
        begun.elapsed()
    );
    holder.signal(Signal::SIGCONT);
    holder.end().expect(9, &["the lock is lost"]);
}

/// By the clock that nobody sets the last refresh is as old: no second look, and so no wait.
#[test]
fn a_holder_that_hangs_is_broken_by_callers_that_do_not_wait() {
    let memory = Memory::new();
    let holder = memory.holding(&["--session-id", "main"], "exec sleep 60");
    holder.signal(Signal::SIGSTOP);
    let hung = memory.record();
    let older = |seconds: u64| {
        let mut older = hung.clone();
        let boottime = &mut older["beadlock"]["boottime_ns"];
        *boottime = (boottime.as_u64().unwrap() - seconds * 1_000_000_000).into();
        older["acquired_at"] = millis_ago(40_000).into();
        older.to_string()
    };
    let refused = |args: &[&str]| {
        memory.put(&older(20));
        let ended = memory.run(args);
        assert_eq!(ended.code, 4, "the wall clock was set: {ended:?}");
    };
    refused(&["check", TARGET]);
    refused(&["hold", TARGET, "--no-wait", "--", "true"]);
    for args in [
        &["check", TARGET][..],
        &["wait", TARGET, "--wait", "0"],
        &["hold", TARGET, "--no-wait", "--", "true"],
        &["hold", TARGET, "--wait", "1s", "--", "true"],
    ] {
        memory.put(&older(40));
        let ended = memory.run(args);
        let said = format!("{}{}", ended.out, ended.err);
        assert!(
            ended.code == 0 && said.contains("[LOCK] Breaking stale lock: lock is 4"),
            "{args:?}: {ended:?}"
        );
    }
    assert!(memory.names().is_empty());
    holder.signal(Signal::SIGCONT);
    holder.end().expect(9, &["the lock is lost"]);
}

/// The document's own programs never refresh.
#[test]
fn an_old_lock_without_beadlocks_key_is_stale_at_the_first_look() {
    let memory = Memory::new();
    memory.write(31_000);
    memory
        .run(&["status", TARGET])
        .says(0, &["stale", "lock is 3", "s old (>30s)"]);
    memory
        .hold(&["--no-wait"], "true")
        .expect(0, &["[LOCK] Breaking stale lock: lock is 3"]);
}

#[test]
fn one_look_at_an_old_lock_of_a_living_process_says_held_and_what_to_type() {
    let memory = Memory::new();
    // By the last line it may be ten seconds older. Its key does not say when it was last refreshed.
    memory.write(40_200);
    let mut kept = memory.record();
    kept["beadlock"] = json!({"id": "x"});
    memory.put(&kept.to_string());
    let before = memory.record();
    assert_eq!(
        memory.run(&["check", TARGET]).says(4, &[]).out,
        "Skipping (locked by main)\n"
    );
    let data = &memory.run(&["check", TARGET, "--json"]).says(4, &[]).json()["data"][0];
    assert_eq!(
        (&data["verdict"], &data["reason"]),
        (&"held".into(), &"pid_alive".into())
    );
    memory
        .hold(&["--no-wait"], "true")
        .expect(4, &["Held by session 'main'"]);
    memory
        .run(&["wait", TARGET, "--wait", "0"])
        .expect(4, &["Held by session 'main'"]);
    memory
        .run(&["break", TARGET, "--holder", "main"])
        .expect(4, &["its process lives (pid_alive)"]);
    memory.run(&["list"]).says(0, &["held", "pid_alive"]);
    memory.run(&["status", TARGET]).says(
        0,
        &[
            "held by session main",
            "(pid_alive)",
            "why: its process lives, and by the clock the lock is 4",
            "s old (>30s); a clock that was set makes a refreshed lock old, so it is stale only when it stays unrefreshed \
             for 3.5s",
            "next: beadlock wait memory:memory   # looks at it for 3.5s and removes it if it is not refreshed",
        ],
    );
    assert_eq!(memory.record(), before, "untouched");
    let begun = Instant::now();
    let ended = memory.run(&["wait", TARGET, "--wait", "1m"]);
    let ended = ended.expect(0, &["[LOCK] Breaking stale lock: lock is ", "s old (>30s)"]);
    // A machine that stood still has made it older.
    assert!(
        ended.err.contains("lock is 4") || begun.elapsed() > Duration::from_secs(6),
        "{ended:?}"
    );
    assert!(
        begun.elapsed() >= Duration::from_millis(3500),
        "{:?}",
        begun.elapsed()
    );
    assert!(memory.names().is_empty());
}
