//! What cannot be claimed, and what is said then.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use beadlock_tests::{Running, skip, write_program};
use serde_json::json;

use crate::{AT_ONCE, Bench, EMBEDDED, LONG, answer};

/// An exit handler of the tool's own, which comes after the one that releases the locks.
#[test]
fn a_lock_that_is_wanted_in_an_exit_handler_is_refused_at_once() {
    let bench = Bench::new();
    let output = bench.run(&["late"]);
    assert_eq!(answer(&output).1, 0);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("late: the process is ending, and claims no lock any more"),
        "{told}"
    );
    bench.is_clean();
}

#[test]
fn who_exits_while_another_thread_waits_says_nothing() {
    let bench = Bench::new();
    let holder = bench.start(&["sleep"]);
    let output = bench.run(&["--timeout", LONG, "exit-in-the-wait"]);
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(3), &b""[..]),
        "{output:?}"
    );
    drop(holder);
}

#[test]
fn a_directory_in_the_place_of_the_lock_file_is_said() {
    let bench = Bench::new();
    fs::create_dir_all(bench.lock()).expect("a directory");
    let (json, code) = answer(&bench.run(&["return"]));
    assert_eq!(
        (code, &json["error"]["code"]),
        (5, &json!("LOCK_UNREADABLE"))
    );
    let message = json["error"]["message"].as_str().expect("a message");
    let words = "work.lock is in the way and was not touched: failed to read lock file: it is a directory; look at it: ls -la";
    assert!(message.contains(words), "{message}");
    assert!(bench.lock().is_dir());
}

/// As the tool of another user has made it, when nobody has made one for both.
#[test]
fn a_directory_that_is_closed_to_this_user_is_refused_with_what_to_do() {
    let bench = Bench::new();
    fs::create_dir(bench.dir()).expect("a directory");
    fs::set_permissions(bench.dir(), Permissions::from_mode(0o0)).expect("chmod");
    let command = if skip::may_be_root() {
        let Some(setpriv) = skip::tool("setpriv") else {
            return;
        };
        let tool = bench.0.open_to_others().join("embedded");
        write_program(&tool, fs::File::open(EMBEDDED).expect("open the tool"));
        let mut command = bench.0.command(setpriv);
        command.args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--",
        ]);
        command
            .arg(&tool)
            .args([bench.dir().as_path(), Path::new("return")]);
        command
    } else {
        bench.command(&["return"])
    };
    let output = Running::start(command).finish(AT_ONCE);
    fs::set_permissions(bench.dir(), Permissions::from_mode(0o700)).expect("chmod");
    let (json, code) = answer(&output);
    assert_eq!((code, &json["error"]["code"]), (1, &json!("NOT_PERMITTED")));
    let message = json["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains("locks is closed to this user"),
        "{message}"
    );
    assert!(
        message.contains(
            "(mode 000); for a lock between users it has to be one that all of them may write"
        ),
        "{message}"
    );
}
