//! A machine that sleeps cannot be produced here. A library that moves CLOCK_BOOTTIME, and the timers of that clock,
//! by a minute shows the same: work whose deadline has passed meanwhile is ended at once.

use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_tests::{Scene, lives, tool, until};

use crate::deadline::{RunnerAtWork, deadline, warded};

/// For `LD_PRELOAD`: from the moment on in which the file `$CLOCK_JUMP` is there, CLOCK_BOOTTIME is a minute ahead. A
/// timer of that clock that was set before fires as it would after a sleep.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#define JUMP 60
static struct itimerspec set[1024];
static char known[1024];
static volatile int jumped;
static int (*real_set)(int, int, const struct itimerspec *, struct itimerspec *);
static int (*real_get)(clockid_t, struct timespec *);
static void find(void) {
    if (!real_set) real_set = dlsym(RTLD_NEXT, "timerfd_settime");
    if (!real_get) real_get = dlsym(RTLD_NEXT, "clock_gettime");
}
static int move(int fd, const struct itimerspec *to) {
    struct itimerspec earlier = *to;
    earlier.it_value.tv_sec = earlier.it_value.tv_sec > JUMP ? earlier.it_value.tv_sec - JUMP : 0;
    if (earlier.it_value.tv_sec == 0) earlier.it_value.tv_nsec = 1;
    return real_set(fd, TFD_TIMER_ABSTIME, &earlier, 0);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    find();
    int done = real_get(clock, now);
    if (clock == CLOCK_BOOTTIME && jumped) now->tv_sec += JUMP;
    return done;
}
int timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *old) {
    find();
    if (!(flags & TFD_TIMER_ABSTIME) || fd >= 1024) return real_set(fd, flags, to, old);
    set[fd] = *to;
    known[fd] = 1;
    return jumped ? move(fd, to) : real_set(fd, flags, to, old);
}
static void *wait_for_it(void *path) {
    while (access(path, F_OK)) usleep(10000);
    jumped = 1;
    for (int fd = 0; fd < 1024; fd++) if (known[fd]) move(fd, &set[fd]);
    return 0;
}
static int is_helper(void) {
    static char words[65536];
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = file ? fread(words, 1, sizeof words, file) : 0;
    if (file) fclose(file);
    return memmem(words, length, "__helper", 8) != 0;
}
__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    char *path = getenv("CLOCK_JUMP");
    find();
    char *who = getenv("CLOCK_THREADS");
    /* What forks must have one thread: of a claim only the watchdog has the second one. */
    if (!path || !who) return;
    if (!strcmp(who, "watchdog") && !is_helper()) return;
    pthread_create(&thread, 0, wait_for_it, path);
}
"#;

/// The library; `None` where there is no compiler.
pub fn shim(scene: &Scene) -> Option<PathBuf> {
    tool("cc")?;
    scene.write("shim.c", SHIM);
    let library = scene.file("shim.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"])
        .arg(&library)
        .arg(scene.file("shim.c"))
        .arg("-ldl");
    assert!(cc.status().expect("cc starts").success());
    Some(library)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn work_whose_deadline_has_passed_in_a_sleep_is_ended_at_once() {
    let scene = Scene::new();
    let Some(library) = shim(&scene) else { return };
    let jump = scene.file("jump");
    let envs = [
        ("LD_PRELOAD", text(&library)),
        ("CLOCK_JUMP", text(&jump)),
        ("CLOCK_THREADS", "1"),
    ];
    // Half a minute ahead: without the jump the test would fail for want of patience.
    let script =
        "unset LD_PRELOAD; trap '' TERM; echo $$ > command; while :; do /bin/sleep 0.05; done";
    let work = RunnerAtWork::start(&scene, deadline(29_000, 30_000), script, &envs, &[]);
    let command = scene.pid_in("command");
    assert!(lives(command));
    let begun = std::time::Instant::now();
    scene.write("jump", "");
    until("the command's end", || !lives(command));
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(work.ended(), "fleet-lost");
}

#[test]
fn work_under_a_claim_is_ended_at_once_too() {
    let scene = Scene::new();
    let Some(library) = shim(&scene) else { return };
    let jump = scene.file("jump");
    let envs = [
        ("LD_PRELOAD", text(&library)),
        ("CLOCK_JUMP", text(&jump)),
        ("CLOCK_THREADS", "watchdog"),
    ];
    let script =
        "unset LD_PRELOAD; trap '' TERM; echo $$ > command; while :; do /bin/sleep 0.05; done";
    let owner = warded(&scene, deadline(29_000, 30_000), script, &envs);
    let command = scene.pid_in("command");
    // Only the watchdog can end it then.
    owner.signal(nix::sys::signal::Signal::SIGSTOP);
    let begun = std::time::Instant::now();
    scene.write("jump", "");
    until("the command's end", || !lives(command));
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    owner.signal(nix::sys::signal::Signal::SIGKILL);
}
