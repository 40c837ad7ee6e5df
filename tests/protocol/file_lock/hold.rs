//! `beadlock hold file:PATH`: exclusive, shared, waited for, refused.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, run};

use crate::scene::{Files, TARGET};

#[test]
fn a_hold_keeps_flock_out_and_leaves_the_lock_file_empty() {
    let files = Files::new();
    let script = "flock -n todo.json.lock true; echo $?; cat todo.json.lock; test -e todo.json";
    let ended = files.scene.run(&["hold", TARGET, "--", "sh", "-c", script]);
    assert_eq!((ended.code, ended.out.as_str()), (0, "1\n"), "{ended:?}");
    assert!(
        ended.err.contains("claimed file:todo.json for sh (PID "),
        "{ended:?}"
    );
    assert!(
        ended.err.contains("released file:todo.json after "),
        "{ended:?}"
    );
    let meta = files.lock().metadata().expect("the lock file stays");
    assert_eq!(
        (meta.len(), meta.permissions().mode() & 0o7133),
        (0, 0),
        "0644 less the umask"
    );
    assert!(files.is_free());
    assert_eq!(
        files
            .scene
            .run(&["hold", "-q", TARGET, "--", "sh", "-c", "exit 7"])
            .code,
        7
    );
    assert_eq!(
        files
            .scene
            .run(&["hold", "-q", "file:new.json", "--", "true"])
            .code,
        0
    );
    assert!(!files.path("new.json").exists() && files.path("new.json.lock").exists());
    let ended = files
        .scene
        .run(&["hold", TARGET, "--", "/bin/sh", "-c", ":"]);
    assert!(
        ended.err.contains("claimed file:todo.json for sh (PID "),
        "by its base name: {ended:?}"
    );
}

#[test]
fn flock_of_the_shell_keeps_a_hold_waiting_and_one_file_does_not_block_another() {
    let files = Files::new();
    let somebody = files.somebody("-x");
    let waiting = files.scene.start(&["hold", TARGET, "--", "touch", "ran"]);
    let other = files
        .scene
        .run(&["hold", "--no-wait", "file:todo-log.jsonl", "--", "true"]);
    assert_eq!(other.code, 0, "{other:?}");
    assert!(!files.path("ran").exists());
    drop(somebody);
    let ended = Ended::from(waiting.finish(PATIENCE));
    assert!(ended.code == 0 && files.path("ran").exists(), "{ended:?}");
}

#[test]
fn a_wait_that_ran_out_is_exit_8_and_says_what_the_document_says() {
    let files = Files::new();
    let somebody = files.somebody("-x");
    let begun = Instant::now();
    let (code, envelope) = files
        .scene
        .json(&["hold", TARGET, "--wait", "1s", "--", "touch", "ran"]);
    assert!(begun.elapsed() >= Duration::from_secs(1));
    let error = &envelope["error"];
    assert_eq!(
        (code, error["code"].as_str(), error["retryable"].as_bool()),
        (8, Some("E_LOCK_FAILED"), Some(true))
    );
    assert!(
        error["retry_after_ms"]
            .as_u64()
            .is_some_and(|pause| (1000..=30_000).contains(&pause))
    );
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.starts_with("Failed to acquire lock (timeout after 1s): "),
        "{message}"
    );
    assert!(
        message.contains(&format!(
            "todo.json is locked by PID {} (sleep 600)",
            somebody.pid()
        )),
        "{message}"
    );
    assert!(
        message.contains("raise the timeout (--wait DUR)"),
        "{message}"
    );
    assert!(
        message.ends_with(&format!("to see its process: ps -fp {}", somebody.pid())),
        "{message}"
    );
    let detail = error["detail"].as_str().expect("a detail");
    assert!(
        detail.ends_with(&format!(" timeout_ms=1000 holder_pid={}", somebody.pid())),
        "{detail}"
    );
    assert!(!files.path("ran").exists());
}

#[test]
fn readers_share_a_file_and_a_writer_waits_for_all_of_them() {
    let files = Files::new();
    let _reader = files.somebody("-s");
    let ended = files
        .scene
        .run(&["hold", "--shared", "--no-wait", TARGET, "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended = files
        .scene
        .run(&["hold", "--no-wait", TARGET, "--", "true"]);
    assert_eq!(ended.code, 8, "{ended:?}");
}

#[test]
fn what_means_nothing_to_a_file_is_exit_2() {
    let files = Files::new();
    for option in [
        &["--holder", "x"][..],
        &["--drain", "1s"],
        &["--reap-proven-dead"],
        &["--force-lock"],
        &["--raw"],
        &["--rollback", "true"],
    ] {
        let ended = files
            .scene
            .run(&[&["hold", TARGET], option, &["--", "touch", "ran"]].concat());
        assert_eq!(ended.code, 2, "{option:?}: {ended:?}");
        assert!(ended.err.contains(option[0]), "{ended:?}");
    }
    for target in [".beads", "lock:x"] {
        let ended = files
            .scene
            .run(&["hold", target, "--shared", "--", "touch", "ran"]);
        assert_eq!(ended.code, 2, "{ended:?}");
    }
    for target in ["file:", "file:.beads", "file:todo.json/", "file:.."] {
        let ended = files.scene.run(&["hold", target, "--", "touch", "ran"]);
        assert_eq!(ended.code, 2, "{target}: {ended:?}");
    }
    assert!(!files.path("ran").exists() && !files.lock().exists());
    assert_eq!(
        files
            .scene
            .run(&["hold", "file:nowhere/x", "--", "true"])
            .code,
        1
    );
    let ended = files.scene.run(&["cycle", TARGET, "--", "true"]);
    assert_eq!(ended.code, 2, "{ended:?}");
}

/// The file may be there all the same: its lock file's name is longer.
#[test]
fn a_name_that_is_too_long_for_a_lock_file_is_exit_8_and_says_how_long_it_may_be() {
    let files = Files::new();
    let longest = format!("file:{}", "x".repeat(250));
    assert_eq!(
        files
            .scene
            .run(&["hold", "-q", &longest, "--", "true"])
            .code,
        0
    );
    for name in [251, 255] {
        let ended = files.scene.run(&[
            "hold",
            &format!("file:{}", "x".repeat(name)),
            "--",
            "touch",
            "ran",
        ]);
        assert_eq!(ended.code, 8, "{ended:?}");
        let said = format!(
            "cannot be locked: file name too long; the file's name has {name} bytes, and with a lock file beside it at \
             most 250; give it a shorter one\n"
        );
        assert!(ended.err.ends_with(&said), "{ended:?}");
    }
    assert!(!files.path("ran").exists());
}

#[test]
fn a_directory_that_may_not_be_searched_is_named_and_not_the_file() {
    let files = Files::new();
    std::fs::create_dir_all(files.path("half/below")).expect("directories");
    std::fs::write(files.path("half/todo.json.lock"), "").expect("a lock file");
    let chmod = |name: &str, mode: u32| {
        std::fs::set_permissions(files.path(name), std::fs::Permissions::from_mode(mode))
            .expect("chmod");
    };
    let half = std::fs::canonicalize(files.path("half")).expect("it is there");
    let closed = format!(
        "permission denied; this user may not search the directory {0} (mode 0644); its owner may allow it: chmod a+x {0}\n",
        half.display()
    );
    for target in [
        "file:half/todo.json",
        "file:half/new.json",
        "file:half/below/todo.json",
    ] {
        let Some(command) = files
            .scene
            .beadlock_as_mortal(&["hold", target, "--", "touch", "ran"])
        else {
            return;
        };
        chmod("half", 0o644);
        let ended = Ended::from(run(command));
        chmod("half", 0o755);
        assert!(
            ended.code != 0 && ended.err.ends_with(&closed),
            "{target}: {ended:?}"
        );
    }
    // The file's own permissions are another matter.
    chmod("half/todo.json.lock", 0);
    let hold = files
        .scene
        .beadlock_as_mortal(&["hold", "file:half/todo.json", "--", "true"]);
    let ended = hold
        .map(|command| Ended::from(run(command)))
        .expect("as before");
    assert!(
        ended.code == 8 && ended.err.ends_with("let others in: chmod 0644\n"),
        "{ended:?}"
    );
}

#[test]
fn a_lock_file_that_cannot_be_had_is_exit_8_and_names_it() {
    let files = Files::new();
    std::fs::create_dir(files.lock()).expect("a directory in its place");
    let ended = files.scene.run(&["hold", TARGET, "--", "touch", "ran"]);
    assert_eq!(ended.code, 8, "{ended:?}");
    assert!(
        ended
            .err
            .contains("todo.json.lock is a directory, and was not touched"),
        "{ended:?}"
    );
    std::fs::remove_dir(files.lock()).expect("it is empty");
    let Some(command) = files
        .scene
        .beadlock_as_mortal(&["hold", TARGET, "--", "touch", "ran"])
    else {
        return;
    };
    let open = |mode: u32| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(files.scene.path(), mode).expect("chmod");
    };
    open(0o555);
    let ended = Ended::from(run(command));
    assert_eq!(ended.code, 8, "{ended:?}");
    assert!(
        ended
            .err
            .contains("cannot be made: permission denied; its directory must be writable"),
        "{ended:?}"
    );
    // Where it is there it need not be written.
    open(0o755);
    std::fs::write(files.lock(), "").expect("a lock file");
    open(0o555);
    let hold = files
        .scene
        .beadlock_as_mortal(&["hold", "-q", TARGET, "--", "true"]);
    let ended = hold.map(|command| Ended::from(run(command)));
    open(0o755);
    assert!(
        ended.as_ref().is_none_or(|ended| ended.code == 0),
        "{ended:?}"
    );
}
