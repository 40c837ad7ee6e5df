//! `acquire --detach`: what the keeper is, what it survives, and every way it ends.
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools do to a lock file"
)]

use std::fs;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use beadlock_testkit::process::marked_by;
use beadlock_testkit::{Ended, Running, Scene, is_inside, lives, shell_lock_text, skip, until};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::acquire::{Printed, keepers};

#[track_caller]
fn detached(scene: &Scene, words: &[&str]) -> Printed {
    let words = [&["acquire", "--detach", "--audit", "audit"], words].concat();
    Printed::of(
        &scene
            .run(&words)
            .expect(0, &["claimed .beads for ", ", kept for at most "]),
    )
}

/// A shell that leads a session with a terminal of its own, and the terminal's other end, which no child inherits.
pub fn on_pty(scene: &Scene, script: &str) -> (Child, PtyMaster) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let mut slave = fs::File::options();
    let slave = slave
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(ptsname_r(&master).unwrap())
        .unwrap();
    let stream = || slave.try_clone().unwrap();
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "sh", "-c", script])
        .env_clear()
        .current_dir(scene.path());
    command
        .env("PATH", "/usr/bin:/bin")
        .env(beadlock_testkit::scene::MARK, scene.path());
    command.env("BEADLOCK", env!("CARGO_BIN_EXE_beadlock"));
    command.stdin(stream()).stdout(stream()).stderr(stream());
    (command.spawn().unwrap(), master)
}

fn gone(pid: i32) {
    until("the keeper has ended", || !lives(pid));
}

fn last_event(scene: &Scene) -> Value {
    serde_json::from_str(scene.read("audit").lines().last().unwrap_or_default()).unwrap()
}

#[test]
fn it_has_nothing_of_its_callers() {
    let scene = crate::a_scene();
    let script =
        "exec 7> seven 9< /dev/null; \"$BEADLOCK\" acquire --detach -q 8> eight; echo $$ > caller";
    let printed = Printed::of(&Running::apart(scene.shell(script)).end().expect(0, &[]));
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", printed.pid)).unwrap();
    let link = |file: &str| fs::read_link(format!("/proc/{}/{file}", printed.pid)).unwrap();
    let stat = of("stat");
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_ascii_whitespace()
        .collect();
    let me = printed.pid.to_string();
    assert_eq!(
        (fields[2], fields[3], fields[4]),
        (me.as_str(), me.as_str(), "0"),
        "group, session, no terminal"
    );
    assert_eq!(
        (of("comm").as_str(), link("cwd").as_path()),
        ("beadlock-keep\n", Path::new("/"))
    );
    let status = of("status");
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap()
        .trim();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "SIGHUP");
    assert!(
        marked_by(&scene).contains(&Pid::from_raw(printed.pid)),
        "it keeps the environment"
    );
    assert_eq!(
        link("fd/0"),
        Path::new("/dev/null"),
        "as soon as its caller has ended"
    );
    let beads = fs::canonicalize(scene.beads()).unwrap();
    for entry in fs::read_dir(format!("/proc/{me}/fd")).unwrap() {
        let path = entry.unwrap().path();
        let (number, file) = (
            path.file_name().unwrap().to_str().unwrap(),
            fs::read_link(&path).unwrap(),
        );
        let is_own = file.starts_with(&beads) || file.to_str().unwrap().starts_with("anon_inode:");
        let expected = if ["0", "1", "2"].contains(&number) {
            file == Path::new("/dev/null")
        } else {
            is_own
        };
        assert!(expected, "{number} is {file:?}");
    }
    scene.run(&["check"]).expect(4, &[]);
    scene
        .run(&["release", "--id", &printed.id])
        .expect(0, &["released .beads"]);
    gone(printed.pid);
}

/// A reader of what the caller's caller prints gets to the end of it.
#[test]
fn it_does_not_keep_its_callers_pipes_open() {
    let scene = crate::a_scene();
    let begun = Instant::now();
    let mut command = scene.shell("\"$BEADLOCK\" acquire --detach --max-hold 20s; echo end");
    let output = Ended::of(&command.output().unwrap()).expect(0, &["kept for at most 20s"]);
    assert!(
        output.out.ends_with("end\n") && begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    let [keeper] = keepers(&scene)[..] else {
        panic!("it is there")
    };
    assert!(scene.lock().exists());
    kill(Pid::from_raw(keeper), Signal::SIGTERM).unwrap();
    gone(keeper);
}

#[test]
fn it_outlives_its_callers_session_and_terminal() {
    let scene = crate::a_scene();
    let script = "\"$BEADLOCK\" acquire --detach > out; echo > ready; exec sleep 300";
    let (mut child, terminal) = on_pty(&scene, script);
    until("it is claimed", || scene.file("ready").exists());
    drop(terminal);
    until("the caller ends", || child.try_wait().unwrap().is_some());
    assert_eq!(
        child.wait().unwrap().signal(),
        Some(Signal::SIGHUP as i32),
        "the terminal is gone"
    );
    let [keeper] = keepers(&scene)[..] else {
        panic!("it is there")
    };
    for signal in [Signal::SIGHUP, Signal::SIGHUP, Signal::SIGCONT] {
        kill(Pid::from_raw(keeper), signal).unwrap();
    }
    scene.run(&["check"]).expect(4, &[]);
    assert_eq!(keepers(&scene), [keeper]);
    let id = scene
        .read("out")
        .lines()
        .nth(1)
        .unwrap()
        .trim_start_matches("BEADLOCK_ID=")
        .to_owned();
    scene.run(&["release", "--id", &id]).expect(0, &[]);
    gone(keeper);
}

#[test]
fn its_time_is_over_after_max_hold() {
    let scene = crate::a_scene();
    let begun = Instant::now();
    let printed = detached(&scene, &["--max-hold", "3s", "--holder", "nightly"]);
    gone(printed.pid);
    assert!(begun.elapsed() >= Duration::from_secs(3));
    assert!(scene.names().is_empty(), "{:?}", scene.names());
    let event = last_event(&scene);
    assert_eq!(
        (&event["event"], &event["reason"]),
        (&"lock_released".into(), &"max_hold".into())
    );
    assert_eq!(
        (&event["by"]["holder"], &event["by"]["pid"]),
        (&"nightly".into(), &printed.pid.into())
    );
    assert_eq!(
        (&event["result"], &event["lock"]["beadlock"]["id"]),
        (&"success".into(), &printed.id.into())
    );
    let audit = scene.read("audit");
    let first: Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["event"], &first["request_id"]),
        (&"lock_acquired".into(), &event["request_id"])
    );
}

#[test]
fn a_signal_that_ends_it_releases_and_a_kill_leaves_a_stale_lock() {
    let scene = crate::a_scene();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT] {
        let printed = detached(&scene, &[]);
        kill(Pid::from_raw(printed.pid), signal).unwrap();
        gone(printed.pid);
        assert!(scene.names().is_empty(), "{signal}");
        assert_eq!(last_event(&scene)["reason"], "signal");
    }
    for next in [
        &["hold", "--no-wait", "--", "true"][..],
        &["check"],
        &["acquire", "--no-wait", "--detach"],
    ] {
        let printed = detached(&scene, &["--holder", "job"]);
        kill(Pid::from_raw(printed.pid), Signal::SIGKILL).unwrap();
        beadlock_testkit::process_is_gone(printed.pid);
        let ended = scene.run(next).expect(0, &[]);
        assert!(
            format!("{}{}", ended.out, ended.err).contains("stale lock"),
            "{ended:?}"
        );
        for pid in keepers(&scene) {
            kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
            gone(pid);
        }
        assert!(scene.names().is_empty());
    }
}

/// However soon it comes.
#[test]
fn a_release_by_its_id_is_no_loss() {
    for target in [".beads", "memory:."] {
        let scene = crate::a_scene();
        for _ in 0..5 {
            let claimed = scene
                .run(&["acquire", "--detach", "-q", "--audit", "audit", target])
                .expect(0, &[]);
            let printed = Printed::of(&claimed);
            scene
                .run(&["release", "--id", &printed.id, "--audit", "audit", target])
                .expect(0, &[]);
            gone(printed.pid);
            assert_eq!(
                last_event(&scene)["event"],
                "lock_released",
                "{}",
                scene.read("audit")
            );
        }
    }
}

/// Within a second, on a machine that is not too busy: the best of three.
#[test]
fn it_goes_when_the_lock_does() {
    let scene = crate::a_scene();
    let foreign = shell_lock_text("vc", 1, "elsewhere");
    let broken = scene
        .beads()
        .join(".exclusive-lock.broken-20260101T000000Z.json");
    let lock = scene.lock();
    type Way<'w> = (&'static str, &'w dyn Fn(), Option<&'static str>);
    let ways: [Way<'_>; 4] = [
        ("rm", &|| fs::remove_file(&lock).unwrap(), Some("vanished")),
        (
            "overwritten",
            &|| fs::write(&lock, &foreign).unwrap(),
            Some("changed"),
        ),
        (
            "moved over",
            &|| {
                fs::write(scene.file("new"), &foreign).unwrap();
                fs::rename(scene.file("new"), &lock).unwrap();
            },
            Some("changed"),
        ),
        ("broken", &|| fs::rename(&lock, &broken).unwrap(), None),
    ];
    for (name, lose, reason) in ways {
        let mut fastest = Duration::MAX;
        for _ in 0..3 {
            let printed = detached(&scene, &[]);
            let begun = Instant::now();
            lose();
            gone(printed.pid);
            fastest = fastest.min(begun.elapsed());
            let event = last_event(&scene);
            match reason {
                Some(reason) => {
                    assert_eq!(
                        (&event["event"], &event["reason"]),
                        (&"lock_lost".into(), &reason.into()),
                        "{name}"
                    );
                }
                None => assert_eq!(
                    event["event"], "lock_acquired",
                    "{name}: whoever broke it says so"
                ),
            }
            if lock.exists() {
                assert_eq!(fs::read_to_string(&lock).unwrap(), foreign, "{name}");
                fs::remove_file(&lock).unwrap();
            }
            if fastest < Duration::from_secs(1) {
                break;
            }
        }
        assert!(fastest < Duration::from_secs(1), "{name}: {fastest:?}");
    }
}

/// A pipe into which nothing goes any more.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let flags = OFlag::from_bits_retain(fcntl(&writer, FcntlArg::F_GETFL).unwrap());
    fcntl(&writer, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).unwrap();
    let mut full = writer.try_clone().unwrap();
    for size in [4096, 1] {
        while let Ok(1..) = full.write(&[b'x'; 4096][..size]) {}
    }
    assert_eq!(
        full.write(b"x").unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "{}",
        full.as_raw_fd()
    );
    fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    (reader, writer)
}

/// `acquire --detach`, standing still while it prints: the keeper has begun.
fn printing(scene: &Scene, writer: PipeWriter) -> Child {
    let mut command = scene.beadlock(&["acquire", "--detach", "--audit", "audit"]);
    let running = command.stdout(writer).spawn().unwrap();
    until("the keeper has left, and it prints", || {
        let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        keepers(scene)
            .first()
            .is_some_and(|pid| name(pid) == "beadlock-keep\n")
            && is_inside(running.id().cast_signed(), libc::SYS_write)
    });
    running
}

/// `acquire` is killed after the claim and before it could print the id: nobody could release it but the keeper.
#[test]
fn a_claim_that_nobody_was_told_of_is_ended() {
    let scene = crate::a_scene();
    let (_reader, writer) = full_pipe();
    let mut running = printing(&scene, writer);
    scene.run(&["check"]).expect(4, &[]);
    running.kill().unwrap();
    running.wait().unwrap();
    until("the keeper has ended", || keepers(&scene).is_empty());
    assert!(scene.names().is_empty(), "{:?}", scene.names());
    assert_eq!(last_event(&scene)["reason"], "not_handed_over");
}

/// A caller that is told of a claim must have it.
#[test]
fn a_keeper_that_is_killed_before_the_end_is_no_claim() {
    let scene = crate::a_scene();
    let (mut reader, writer) = full_pipe();
    let running = printing(&scene, writer);
    let [keeper] = keepers(&scene)[..] else {
        panic!("it is there")
    };
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    until("it has ended", || !lives(keeper));
    let read = std::thread::spawn(move || reader.read_to_end(&mut Vec::new()).unwrap());
    let ended = Ended::of(&running.wait_with_output().unwrap());
    ended.expect(1, &["error: the keeper has ended, so nothing is claimed"]);
    read.join().unwrap();
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

#[test]
fn it_is_kept_for_ever_when_that_is_asked_for() {
    let scene = crate::a_scene();
    let printed = detached(&scene, &["--max-hold", "99999999999999h"]);
    assert!(lives(printed.pid));
    scene
        .run(&["release", "--id", &printed.id])
        .expect(0, &["released .beads"]);
    gone(printed.pid);
}

/// With PID 1 every other process of its PID namespace ends.
#[test]
fn nothing_outlives_pid_1() {
    let scene = crate::a_scene();
    let unshare =
        |script: &str| scene.shell(&format!("exec unshare --pid --fork --mount-proc {script}"));
    if Running::apart(unshare("true")).end().code != 0 {
        return skip::cannot("needs a PID namespace");
    }
    let ended = Running::apart(unshare("\"$BEADLOCK\" acquire --detach")).end();
    assert_eq!(
        ended
            .expect(2, &["nothing outlives PID 1", "beadlock hold -- CMD"])
            .out,
        ""
    );
    assert!(scene.names().is_empty());
    // Below it there is no such word; that it ends with PID 1 all the same is its own affair.
    let script =
        "sh -c '\"$BEADLOCK\" acquire --detach > out && \"$BEADLOCK\" check; echo $? > code'";
    Running::apart(unshare(script)).end().expect(0, &[]);
    assert_eq!(scene.read("code"), "4\n");
}

/// Its last step waits for a cycle that is running, as any change of a lock does.
#[test]
fn it_waits_for_the_gate_at_its_end() {
    let scene = crate::a_scene();
    let printed = detached(&scene, &["--max-hold", "1h"]);
    let gate = beadlock_core::gate::Gate::try_take(&scene.beads())
        .unwrap()
        .unwrap();
    kill(Pid::from_raw(printed.pid), Signal::SIGTERM).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(lives(printed.pid) && scene.lock().exists());
    drop(gate);
    gone(printed.pid);
    assert!(scene.names().is_empty());
}
