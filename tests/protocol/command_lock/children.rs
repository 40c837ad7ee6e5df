//! What a tool has started, when a signal ends it.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};
use nix::sys::signal::Signal;

use crate::{AT_ONCE, Bench, died_of};

/// Takes half a second to heed SIGTERM, and then says whether the lock is there.
const SLOW: &str =
    "trap 'sleep 0.5; test -e \"$LOCK\" && echo there > seen || echo gone > seen; exit' TERM
    echo begun > begun; while :; do sleep 0.02; done";

fn ended_with_a_slow_child(option: &[&str]) -> String {
    let bench = Bench::new();
    let running = bench.start(&[option, &["shell", SLOW]].concat());
    bench.written("begun");
    running.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    bench.is_clean();
    // The tool waits for it in either order.
    std::fs::read_to_string(bench.file("seen"))
        .expect("the child has ended before the tool")
        .trim()
        .to_owned()
}

#[test]
fn the_lock_is_there_until_the_children_have_ended() {
    assert_eq!(ended_with_a_slow_child(&[]), "there");
}

#[test]
fn it_is_released_before_they_hear_of_it_where_that_is_wanted() {
    assert_eq!(ended_with_a_slow_child(&["--release-first"]), "gone");
}

#[test]
fn who_outlives_its_parent_is_waited_for_too() {
    let bench = Bench::new();
    let script = format!(
        "sh -c '{}' & while :; do sleep 0.02; done",
        SLOW.replace('\'', "'\\''")
    );
    let running = bench.start(&["shell", &script]);
    bench.written("begun");
    running.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    assert_eq!(bench.written("seen"), "there");
    bench.is_clean();
}

#[test]
fn who_does_not_heed_it_is_killed_and_then_the_lock_is_released() {
    let bench = Bench::new();
    let script = "trap '' TERM; echo begun > begun; while :; do sleep 0.02; done";
    let mut running = bench.start(&["--kill-after", "300ms", "shell", script]);
    bench.written("begun");
    let begun = Instant::now();
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait(AT_ONCE).signal(), Some(Signal::SIGTERM as i32));
    let took = begun.elapsed();
    // Without the option it would be ten seconds.
    assert!(
        (Duration::from_millis(300)..Duration::from_secs(10)).contains(&took),
        "{took:?}"
    );
    bench.is_clean();
    wait_until(PATIENCE, "nobody is left", || {
        marked_by(&bench.0).is_empty()
    });
}

#[test]
fn who_is_stopped_goes_on_to_end() {
    let bench = Bench::new();
    let script = "trap 'echo ended > seen; exit' TERM; echo begun > begun; kill -STOP $$; while :; do sleep 0.02; done";
    let running = bench.start(&["shell", script]);
    bench.written("begun");
    running.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    assert_eq!(bench.written("seen"), "ended");
    bench.is_clean();
}

/// The work starts the next child when one has ended, and does not ask whether the tool is ending.
#[test]
fn who_is_started_while_the_tool_ends_hears_of_it_too() {
    let bench = Bench::new();
    let script = "echo begun > begun; exec sleep 1000\nexec sleep 1000\nexec sleep 1000";
    let running = bench.start(&["--kill-after", "60s", "steps", script]);
    bench.written("begun");
    running.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    bench.is_clean();
    assert!(marked_by(&bench.0).is_empty());
}

/// A child that heeds the signal may run programs to do so, and they programs of their own: those are left alone.
#[test]
fn what_a_child_starts_to_come_to_its_end_does_not_hear_of_it() {
    let bench = Bench::new();
    let script = "trap 'sleep 0.2 && sh -c \"sleep 0.3 && echo done > seen\"; exit' TERM
        echo begun > begun; while :; do sleep 0.02; done";
    let running = bench.start(&["shell", script]);
    bench.written("begun");
    running.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    assert_eq!(bench.written("seen"), "done");
    bench.is_clean();
}

#[test]
fn without_proc_the_lock_is_there_until_the_children_have_ended() {
    is_there_until_the_children_have_ended(&["--mount"], "mount -t tmpfs none /proc || exit");
}

/// Its numbers are those of strangers.
#[test]
fn nor_does_it_go_before_them_beside_the_proc_of_another_pid_namespace() {
    is_there_until_the_children_have_ended(&["--pid", "--fork"], "");
}

/// A process that starts something and ends leaves it to us, and it is told.
#[test]
fn who_loses_its_parent_by_the_end_hears_of_it_too() {
    let bench = Bench::new();
    let script =
        "trap '(sleep 1000 &); exit' TERM; echo begun > begun; while :; do sleep 0.02; done";
    let running = bench.start(&["--kill-after", "60s", "shell", script]);
    bench.written("begun");
    running.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    bench.is_clean();
    assert!(marked_by(&bench.0).is_empty());
}

/// Where nobody can be seen, and so nobody told; but whether there are children can be asked.
fn is_there_until_the_children_have_ended(namespaces: &[&str], first: &str) {
    let bench = Bench::new();
    let script = format!(
        "{first}
         {} {} shell 'echo begun > begun; while [ ! -e go ]; do sleep 0.02; done; test -e \"$LOCK\" && echo there > seen' &
         while [ ! -e begun ]; do sleep 0.02; done
         kill $!; sleep 0.5; echo > go; wait $!; echo ended $?",
        crate::EMBEDDED,
        bench.dir().display(),
    );
    let Some(command) = bench.0.in_namespaces(namespaces, &script) else {
        return;
    };
    let output = Running::start(command).finish(AT_ONCE);
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("ended 143"),
        "{output:?}"
    );
    assert_eq!(bench.written("seen"), "there");
    bench.is_clean();
}

#[test]
fn two_signals_reach_the_children_both() {
    let bench = Bench::new();
    let script = "trap 'echo term >> got' TERM; trap 'echo int > seen; exit' INT; echo begun > begun; while :; do sleep 0.02; done";
    let running = bench.start(&["shell", script]);
    bench.written("begun");
    running.signal(Signal::SIGTERM);
    bench.written("got");
    running.signal(Signal::SIGINT);
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    assert_eq!(bench.written("seen"), "int");
    bench.is_clean();
}

/// A shell that becomes the tool has left it a child that is none of the command's.
#[test]
fn who_was_there_before_the_lock_is_left_alone() {
    let bench = Bench::new();
    let mut command = bench
        .0
        .shell("sleep 1000 & echo $! > before; exec \"$0\" \"$@\"");
    command
        .arg(crate::EMBEDDED)
        .arg(bench.dir())
        .args(["shell", "echo begun > begun; sleep 1000"]);
    let mut running = Running::start(command);
    bench.written("begun");
    running.signal(Signal::SIGTERM);
    // Its streams are the other's, too: they stay open.
    running.wait(AT_ONCE);
    bench.is_clean();
    let before: i32 = bench.written("before").parse().expect("a PID");
    let left: Vec<i32> = marked_by(&bench.0).iter().map(|pid| pid.as_raw()).collect();
    assert_eq!(left, [before]);
}

/// A return is not a signal: what the body has left behind is the author's affair, and the lock is released.
#[test]
fn a_return_does_not_wait_for_them() {
    let bench = Bench::new();
    let mut running = Running::start(bench.command(&["leave-behind", "exec sleep 1000"]));
    assert_eq!(running.wait(AT_ONCE).code(), Some(0));
    bench.is_clean();
    assert_eq!(marked_by(&bench.0).len(), 1);
}
