//! The wait for a lock that another process has, or the same one.

use std::fs;
use std::process::Command;
use std::time::Instant;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::{AT_ONCE, Bench, LONG, answer, died_of};

#[test]
fn a_wait_that_runs_out_says_who_has_it_and_ends_with_4() {
    let bench = Bench::new();
    let holder = bench.start(&["sleep"]);
    let before = fs::read(bench.lock()).expect("the lock");
    for (timeout, least, said) in [("300ms", 300, "300ms"), ("0s", 0, "0ms")] {
        let begun = Instant::now();
        let (json, code) = answer(&bench.run(&["--timeout", timeout, "return"]));
        assert_eq!(
            (code, &json["ok"], &json["data"]),
            (4, &json!(false), &json!(null))
        );
        assert!(begun.elapsed().as_millis() >= least);
        // Not the time-out of a tool that says nothing of it, which is 10 s.
        let took = json["meta"]["duration_ms"].as_u64().map(u128::from);
        assert!(
            took.is_some_and(|took| (least..10_000).contains(&took)),
            "{json}"
        );
        let error = &json["error"];
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!("LOCK_HELD"), &json!(true))
        );
        assert!(
            error["retry_after_ms"]
                .as_u64()
                .is_some_and(|pause| pause >= 1000)
        );
        let message = error["message"].as_str().expect("a message");
        let start = format!("Resource lock held by PID {} (age: ", holder.pid());
        assert!(message.starts_with(&start), "{message}");
        assert!(
            message.ends_with(&format!("s) — acquisition timed out after {said}")),
            "{message}"
        );
        let detail = error["detail"].as_str().expect("a detail");
        let who = format!(
            "lock_file={} holder_pid={} holder_age_ms=",
            bench.lock().display(),
            holder.pid()
        );
        assert!(detail.starts_with(&who), "{detail}");
    }
    assert_eq!(
        fs::read(bench.lock()).expect("the lock"),
        before,
        "nobody has touched it"
    );
    holder.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &holder.finish(AT_ONCE));
    bench.is_clean();
}

#[test]
fn a_signal_ends_the_wait_with_nothing_claimed() {
    let bench = Bench::new();
    let holder = bench.start(&["sleep"]);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        for executor in [&[][..], &["--async", "one"]] {
            let waiter = Running::start(
                bench.command(&[&["--timeout", LONG], executor, &["sleep"]].concat()),
            );
            is_waiting(&waiter);
            waiter.signal(signal);
            // One that goes on to wait takes much longer.
            died_of(signal, &waiter.finish(AT_ONCE));
            bench.wait_for(holder.pid());
        }
    }
    assert_eq!(
        fs::read_dir(bench.dir()).expect("the directory").count(),
        1,
        "nothing else is there"
    );
    drop(holder);
}

/// It watches the lock's directory.
#[track_caller]
pub fn is_waiting(waiter: &Running) {
    wait_until(PATIENCE, "it waits", || {
        let fds = fs::read_dir(format!("/proc/{}/fd", waiter.pid())).expect("its descriptors");
        fds.flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.ends_with("anon_inode:inotify")))
    });
}

#[test]
fn the_same_lock_twice_in_one_process_is_an_error_at_once() {
    let bench = Bench::new();
    let (json, code) = answer(&Running::start(bench.command(&["twice"])).finish(AT_ONCE));
    assert_eq!(code, 0);
    let error = &json["data"]["second"]["error"];
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("LOCK_HELD"), &json!(false))
    );
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.contains("holds it already, and would wait for itself"),
        "{message}"
    );
    bench.is_clean();
}

#[test]
fn a_guard_is_released_and_taken_again_and_its_error_has_an_envelope_and_an_exit_code() {
    let bench = Bench::new();
    let output = bench.run(&["guard"]);
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(0), &b"held true\nheld true\n"[..])
    );
    bench.is_clean();
    let holder = bench.start(&["sleep"]);
    let (json, code) = answer(&bench.run(&["--timeout", "0s", "guard"]));
    assert_eq!(
        (code, &json["error"]["code"], &json["tool"]),
        (4, &json!("LOCK_HELD"), &json!("embedded"))
    );
    drop(holder);
}

/// A tool in a command of `beadlock hold` on its lock runs under that, and releases nothing.
#[test]
fn under_a_hold_of_the_same_lock_it_is_nested() {
    let bench = Bench::new();
    fs::create_dir(bench.dir()).expect("the directory");
    let target = format!("lock:{}", bench.lock().display());
    let script = "\"$0\" \"$@\" && test -e \"$LOCK\"";
    let mut command: Command = bench
        .0
        .beadlock(&["hold", "-q", &target, "--", "sh", "-c", script]);
    command
        .arg(crate::EMBEDDED)
        .arg(bench.dir())
        .args(["--timeout", "0s", "return"]);
    command.env("LOCK", bench.lock());
    let (_, code) = answer(&Running::start(command).finish(PATIENCE));
    assert_eq!(code, 0);
    bench.is_clean();
}

#[test]
fn a_tool_says_its_version_and_what_it_is_at() {
    let bench = Bench::new();
    let (version, about) = ("3.1.4-rc.2", "https://ci.example/runs/7");
    let holder = bench.start(&["--version", version, "--about", about, "sleep"]);
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(bench.lock()).expect("the lock")).expect("JSON");
    assert_eq!(
        (&record["version"], &record["beadlock"]["about"]),
        (&version.into(), &about.into())
    );
    let (refused, code) = answer(&bench.run(&["--timeout", "0s", "sleep"]));
    assert_eq!((code, &refused["error"]["code"]), (4, &"LOCK_HELD".into()));
    let detail = refused["error"]["detail"].as_str().expect("a detail");
    assert!(detail.ends_with(&format!(" about={about}")), "{detail}");
    holder.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &holder.finish(AT_ONCE));
    bench.is_clean();

    for (option, value) in [("--version", "1\n2"), ("--about", "ftp://ci.example/7")] {
        let (refused, code) = answer(&bench.run(&[option, value, "sleep"]));
        assert_eq!(
            (code, &refused["error"]["code"]),
            (2, &"USAGE".into()),
            "{refused}"
        );
    }
    let holder = bench.start(&["sleep"]);
    let text = fs::read_to_string(bench.lock()).expect("the lock");
    assert!(
        !text.contains("\n  \"version\""),
        "none unless told: {text}"
    );
    drop(holder);
}
