//! Each way that a tool may end.

use std::fs;
use std::process::Stdio;

use beadlock_tests::process::watches;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, become_subreaper, is_request_id, reap, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::waits::is_waiting;
use crate::{AT_ONCE, Bench, LONG, answer, died_of};

#[test]
fn a_return_releases_and_prints_the_answer() {
    let bench = Bench::new();
    let (json, code) = answer(&bench.run(&["return"]));
    assert_eq!(
        (code, &json["ok"], &json["error"]),
        (0, &json!(true), &json!(null))
    );
    assert_eq!(json["data"]["id"].as_str().expect("an id").len(), 32);
    assert_eq!(json["warnings"], json!(["mind the gap"]));
    assert!(
        json["meta"]["duration_ms"].is_u64() && is_request_id(&json["meta"]["request_id"]),
        "{json}"
    );
    bench.is_clean();
}

#[test]
fn an_error_releases_and_has_its_own_code_and_exit_code() {
    let bench = Bench::new();
    let (json, code) = answer(&bench.run(&["fail"]));
    assert_eq!(
        (code, &json["ok"], &json["data"]),
        (7, &json!(false), &json!(null))
    );
    let told = json!({
        "code": "QUOTA", "message": "no room", "retryable": true, "retry_after_ms": 9000, "detail": null,
    });
    assert_eq!(json["error"], told);
    bench.is_clean();
    let (json, code) = answer(&bench.run(&["question-mark"]));
    assert_eq!(
        (code, &json["error"]["code"]),
        (1, &json!("COMMAND_FAILED"))
    );
    assert_eq!(
        json["error"]["message"],
        "No such file or directory (os error 2)"
    );
    bench.is_clean();
}

#[test]
fn a_lock_that_is_lost_is_said_and_another_in_its_place_is_left_there() {
    let bench = Bench::new();
    let (json, code) = answer(&bench.run(&["lose"]));
    assert_eq!((code, &json["ok"]), (0, &json!(true)));
    let warning = json["warnings"][0].as_str().expect("a warning");
    assert!(
        warning.contains("work.lock was gone when it was to be released"),
        "{warning}"
    );
    bench.is_clean();
    let (json, code) = answer(&bench.run(&["overwritten"]));
    assert_eq!((code, &json["error"]["code"]), (9, &json!("LOCK_LOST")));
    let warning = json["warnings"][0].as_str().expect("a warning");
    assert!(
        warning.contains("was another's lock when it was to be released"),
        "{warning}"
    );
    assert_eq!(
        fs::read_to_string(bench.lock()).expect("it is there"),
        "somebody else's"
    );
}

#[test]
fn a_panic_releases() {
    let bench = Bench::new();
    let output = bench.run(&["panic"]);
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    assert!(
        output.stdout.is_empty() && String::from_utf8_lossy(&output.stderr).contains("as told")
    );
    bench.is_clean();
    // Also where that is not the end of the process.
    let output = bench.run(&["caught"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "panicked true, held false\n",
        "{output:?}"
    );
}

#[test]
fn process_exit_releases_in_whichever_thread() {
    for work in ["exit", "exit-elsewhere"] {
        let bench = Bench::new();
        let output = bench.run(&[work]);
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(7), &b""[..]),
            "{output:?}"
        );
        bench.is_clean();
    }
}

#[test]
fn a_signal_releases_and_is_what_the_tool_dies_of() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        for work in [&["sleep"][..], &["heed", "witness"], &["block-all"]] {
            let bench = Bench::new();
            let running = bench.start(work);
            running.signal(signal);
            died_of(signal, &running.finish(AT_ONCE));
            bench.is_clean();
        }
    }
}

#[test]
fn many_signals_are_one_end() {
    let bench = Bench::new();
    let running = bench.start(&["sleep"]);
    for signal in [
        Signal::SIGTERM,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGTERM,
    ] {
        running.signal(signal);
    }
    let output = running.finish(AT_ONCE);
    assert!(
        output.status.code().is_none() && output.stdout.is_empty(),
        "{output:?}"
    );
    bench.is_clean();
}

#[test]
fn what_was_ignored_stays_ignored() {
    let bench = Bench::new();
    let mut command = bench.0.shell("trap '' HUP; exec \"$0\" \"$@\"");
    command
        .arg(crate::EMBEDDED)
        .arg(bench.dir())
        .args(["heed", "witness"]);
    let running = Running::start(command);
    bench.wait_for(running.pid());
    running.signal(Signal::SIGHUP);
    running.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    bench.is_clean();
}

/// A waiter with two minutes of patience has it at once: by SIGKILL, and by an abort.
#[test]
fn a_holder_that_is_killed_is_taken_over_at_once() {
    let bench = Bench::new();
    let mut holder = bench.start(&["sleep"]);
    let waiter = Running::start(bench.command(&["--timeout", LONG, "return"]));
    is_waiting(&waiter);
    // At once, and not by looking now and then.
    wait_until(PATIENCE, "it waits for the holder", || {
        watches(waiter.pid(), holder.pid())
    });
    holder.signal(Signal::SIGKILL);
    holder.wait(AT_ONCE);
    let (json, code) = answer(&waiter.finish(AT_ONCE));
    assert_eq!((code, &json["ok"]), (0, &json!(true)));
    bench.is_clean();
    assert_eq!(bench.run(&["abort"]).status.code(), None);
    assert!(bench.lock().exists(), "nobody could release it");
    let (_, code) =
        answer(&Running::start(bench.command(&["--timeout", LONG, "return"])).finish(AT_ONCE));
    assert_eq!(code, 0);
    bench.is_clean();
}

#[test]
fn a_reader_that_has_gone_changes_nothing_and_a_full_disk_is_a_failure() {
    let bench = Bench::new();
    let mut command = bench.0.shell(
        "\"$0\" \"$@\" | true; \"$0\" \"$@\" > /dev/full; echo $?; \"$0\" \"$@\" >&-; echo $?",
    );
    command.arg(crate::EMBEDDED).arg(bench.dir()).arg("return");
    let output = Running::start(command).finish(PATIENCE);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "1\n1\n",
        "{output:?}"
    );
    let said = String::from_utf8_lossy(&output.stderr);
    for words in [
        "could not be printed: no space left on device",
        "could not be printed: stdout is closed",
    ] {
        assert!(said.contains(words), "{said}");
    }
    bench.is_clean();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = bench.command(&["return"]);
    command.stdout(writer).stderr(Stdio::null());
    let status = command.status().expect("it starts");
    assert_eq!(status.code(), Some(0));
    bench.is_clean();
}

/// `daemon` forks in the body, and ends the process that has the lock: what goes on is a fork of it.
#[test]
fn a_fork_in_the_body_has_no_part_in_the_lock() {
    become_subreaper();
    for (by_signal, is_taken) in [(false, true), (true, true), (false, false), (true, false)] {
        let bench = Bench::new();
        let file = bench.file("daemon");
        let mut first = Running::start(bench.command(&["daemon", "daemon"]));
        first.wait(AT_ONCE);
        wait_until(PATIENCE, "the fork", || {
            fs::read_to_string(&file).is_ok_and(|pid| !pid.is_empty())
        });
        let fork: i32 = fs::read_to_string(&file)
            .expect("its PID")
            .parse()
            .expect("a number");
        // The lock was the first one's, which is gone: the next takes it over.
        let next = is_taken.then(|| bench.start(&["heed", "witness"]));
        if by_signal {
            kill(Pid::from_raw(fork), Signal::SIGTERM).expect("it lives");
        } else {
            fs::write(bench.file("daemon.go"), "").expect("it may go on");
        }
        reap(fork, PATIENCE);
        assert!(
            bench.lock().exists(),
            "the fork has taken a lock away that was not its own"
        );
        assert_eq!(
            first.finish(AT_ONCE).stdout,
            b"",
            "the fork has no answer to give"
        );
        let next = next.unwrap_or_else(|| bench.start(&["heed", "witness"]));
        next.signal(Signal::SIGTERM);
        died_of(Signal::SIGTERM, &next.finish(AT_ONCE));
        bench.is_clean();
    }
}

/// A container whose first process reaps nobody: there it stays a zombie.
#[test]
fn a_killed_holder_that_nobody_reaps_is_taken_over_too() {
    let bench = Bench::new();
    let mut command = bench.command(&["sleep"]);
    let mut holder = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    bench.wait_for(i32::try_from(holder.id()).expect("a PID"));
    let waiter = Running::start(bench.command(&["--timeout", LONG, "return"]));
    is_waiting(&waiter);
    holder.kill().expect("it lives");
    assert_eq!(answer(&waiter.finish(AT_ONCE)).1, 0);
    bench.is_clean();
    holder.wait().expect("it is reaped at last");
}
