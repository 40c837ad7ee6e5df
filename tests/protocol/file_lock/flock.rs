//! `flock:PATH`, the flock on the file or the directory itself: what only it has. docs/coming-from/flock.md is typed in
//! `coming_from`, and tests/conformance has the rest.

use std::fs;

use beadlock_tests::process::become_subreaper;
use beadlock_tests::skip::tool;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, binaries, run, wait_until};
use nix::sys::signal::Signal;

use crate::scene::Files;

#[test]
fn a_file_for_the_lock_of_another_name_is_refused_with_what_was_meant() {
    let files = Files::new();
    for (name, text) in [
        ("empty.lock", ""),
        ("Cargo.lock", "version = 4\n"),
        ("held.lock", "x"),
    ] {
        fs::write(files.path(name), text).expect("a file");
    }
    fs::write(files.lock(), "").expect("the lock file of todo.json");
    let _holding = Running::start({
        let mut flock = files.scene.command("flock");
        flock.args(["-F", "held.lock", "sleep", "600"]);
        flock
    });
    wait_until(PATIENCE, "flock(1) has the lock", || {
        files.flock(&["-n", "held.lock", "true"]).code != 0
    });
    for (name, said) in [
        (
            "empty.lock",
            "empty.lock is an empty lock file, and file:empty.lock would lock empty.lock.lock beside it; did you mean \
             flock:empty.lock? (file:empty is the same lock)\n",
        ),
        (
            "held.lock",
            "held.lock is locked itself, and file:held.lock would lock held.lock.lock beside it; did you mean \
             flock:held.lock? (file:held is the same lock)\n",
        ),
        (
            "todo.json.lock",
            ", or did you mean flock:todo.json.lock?\n",
        ),
    ] {
        let target = format!("file:{name}");
        let ended = files.scene.run(&["hold", &target, "--", "touch", "ran"]);
        assert!(ended.code == 2 && ended.err.ends_with(said), "{ended:?}");
        let meant = said.split_once("did you mean ").expect("advice").1;
        let meant = meant.split_once('?').expect("a question").0;
        let ended = files.scene.run(&["hold", "--no-wait", meant, "--", "true"]);
        let is_held = name == "held.lock";
        assert_eq!(
            ended.code,
            if is_held { 8 } else { 0 },
            "{meant}: {ended:?}"
        );
    }
    // A file of its own.
    let ended = files.scene.run(&["hold", "file:Cargo.lock", "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!files.path("ran").exists() && !files.path("empty.lock.lock").exists());
}

/// The shell would wait for itself.
#[test]
fn a_lock_of_ones_own_shell_is_said_with_its_descriptor_and_how_to_unlock_it() {
    if tool("bash").is_none() {
        return;
    }
    let files = Files::new();
    for (lock, target) in [
        ("todo.json.lock", "file:todo.json"),
        ("x.lock", "flock:x.lock"),
    ] {
        for wait in ["--no-wait", "--wait 300ms"] {
            let script = format!(
                "exec 9>{lock}; flock 9; \"$0\" hold {wait} {target} -- true; echo $?; flock -u 9; \
                 \"$0\" -q hold {wait} {target} -- true; echo $?"
            );
            let mut shell = files.scene.command("bash");
            shell.args(["-c", &script]).arg(binaries::beadlock());
            let running = Running::start(shell);
            let pid = running.pid();
            let ended = Ended::from(running.finish(PATIENCE));
            assert_eq!(ended.out, "8\n0\n", "{ended:?}");
            let who = format!(" is locked by PID {pid} (bash -c ");
            assert!(ended.err.contains(&who), "{ended:?}");
            let advice = ", which this runs in, by its descriptor 9: it would wait for itself; unlock it there first: \
                          flock -u 9\n";
            assert!(ended.err.ends_with(advice), "{ended:?}");
        }
    }
    // The shell becomes its last command.
    let mut shell = files.scene.command("bash");
    let script = "exec 9>x.lock; flock 9; exec \"$0\" hold --no-wait flock:x.lock -- true";
    shell.args(["-c", script]).arg(binaries::beadlock());
    let ended = Ended::from(run(shell));
    let said = "x.lock is locked by this process itself, by the descriptor 9: it would wait for itself; unlock it there \
                first: flock -u 9\n";
    assert!(ended.code == 8 && ended.err.ends_with(said), "{ended:?}");
    let mut flock = files.scene.command("flock");
    flock.arg("x.lock").arg(binaries::beadlock());
    flock.args(["hold", "--json", "--no-wait", "flock:x.lock", "--", "true"]);
    let ended = Ended::from(run(flock));
    let error = &ended.json()["error"];
    let words = error["message"].as_str().expect("a message");
    assert!(
        words.ends_with("; leave out that flock, or this beadlock"),
        "{ended:?}"
    );
    assert!(
        error["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains(" holder_fd=")),
        "{ended:?}"
    );
}

#[test]
fn what_is_neither_a_file_nor_a_directory_is_not_opened() {
    let files = Files::new();
    nix::unistd::mkfifo(&files.path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    for (target, code, said) in [
        ("flock:", 2, "name a file or a directory"),
        ("flock:fifo", 2, "is neither a file nor a directory"),
        (
            "flock:new/",
            1,
            "only a file is made; make it first: mkdir -p new/",
        ),
    ] {
        let ended = files.scene.run(&["hold", target, "--", "touch", "ran"]);
        assert!(
            ended.code == code && ended.err.contains(said),
            "{target}: {ended:?}"
        );
    }
    for words in [
        &["cycle", "flock:x", "--", "true"][..],
        &["write", "flock:x"],
        &["list", "flock:x"],
        &["hold", "flock:x", "--holder", "me", "--", "true"],
        &["hold", "flock:.beads", "--and", ".beads", "--", "true"],
    ] {
        let ended = files.scene.run(words);
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
    }
    assert!(!files.path("ran").exists() && !files.path("x").exists());
}

/// By whatever name it is the same lock, and what runs under it has it already.
#[test]
fn a_file_its_lock_file_and_a_link_are_one_lock() {
    let files = Files::new();
    std::os::unix::fs::symlink("todo.json.lock", files.path("link")).expect("a link");
    let beadlock = binaries::beadlock();
    let beadlock = beadlock.to_str().expect("a plain path");
    for (outer, inner) in [
        ("file:todo.json", "flock:todo.json.lock"),
        ("flock:todo.json.lock", "file:todo.json"),
        ("flock:link", "flock:todo.json.lock"),
        ("flock:.", "flock:../."),
    ] {
        let inner = if outer == "flock:." {
            format!("flock:{}", files.scene.path().display())
        } else {
            inner.to_owned()
        };
        let ended = files.scene.run(&[
            "hold",
            "-q",
            outer,
            "--",
            beadlock,
            "hold",
            "-q",
            "--no-wait",
            &inner,
            "--",
            "echo",
            "nested",
        ]);
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (0, "nested\n"),
            "{ended:?}"
        );
    }
}

/// No work without beadlock, and no lock that is left behind.
#[test]
fn one_that_is_killed_ends_its_command_before_the_lock_is_free() {
    become_subreaper();
    let files = Files::new();
    for target in ["flock:build.lck", "flock:.beads"] {
        let locked = target.trim_start_matches("flock:");
        let holding = files.scene.start(&[
            "hold",
            target,
            "--",
            "sh",
            "-c",
            "echo $$ >pid; exec sleep 600",
        ]);
        let pid = files.scene.pid_in("pid");
        assert_eq!(files.flock(&["-n", locked, "true"]).code, 1);
        let status = files.scene.run(&["status", target]);
        let said = format!("{target}: held by PID {} (", holding.pid());
        assert!(status.out.starts_with(&said), "{status:?}");
        let hold = ["hold", "--wait", "forever", target, "--", "touch", "ran"];
        let waiting = Running::apart(files.scene.beadlock(&hold));
        wait_until(PATIENCE, "it says for whom it waits", || {
            waiting.err().contains("no time limit")
        });
        holding.signal(Signal::SIGKILL);
        let ended = waiting.end();
        assert!(ended.code == 0 && files.path("ran").exists(), "{ended:?}");
        assert!(
            beadlock_base::process::Stat::read(pid).is_none_or(|stat| stat.is_zombie()),
            "the command was ended first"
        );
        fs::remove_file(files.path("ran")).expect("it ran");
        fs::remove_file(files.path("pid")).expect("it is there");
        drop(holding);
    }
}
