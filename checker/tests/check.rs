//! The check against real processes and real odd files.

#![expect(
    clippy::unwrap_used,
    reason = "a test ends where something is not as it must be"
)]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use beadlock_base::process::Stat;
use beadlock_checker::{Cycle, Entered, Options, Place, Reason, check, should_skip_database};
use beadlock_core::{facts::is_process_alive, gate::Gate, look::look};
use beadlock_testkit::{skip, this_host, write_program};

fn write_lock(dir: &Path, pid: u32) {
    let host = this_host();
    let record = format!(
        r#"{{"holder":"t","pid":{pid},"hostname":"{host}","started_at":"2025-10-25T12:00:00Z"}}"#
    );
    fs::write(dir.join(".exclusive-lock"), record).unwrap();
}

fn database() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A child that is ended and reaped when the test is over, however it ends.
struct Living(Child);

impl Drop for Living {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn sleeper() -> Command {
    let mut command = Command::new("sleep");
    command.arg("60").stdin(Stdio::null());
    command
}

#[test]
fn a_life_from_its_claim_to_its_removal() {
    let dir = database();
    let mut child = Living(sleeper().spawn().unwrap());
    write_lock(dir.path(), child.0.id());
    let alive = should_skip_database(dir.path());
    assert_eq!(
        (alive.to_string().as_str(), alive.reason()),
        ("Skipping database (locked by t)", Reason::PidAlive)
    );
    assert!(is_process_alive(
        child.0.id().into(),
        &this_host().to_uppercase()
    ));

    child.0.kill().unwrap();
    let pid = child.0.id().cast_signed();
    while !Stat::read(pid).unwrap().is_zombie() {
        std::thread::yield_now();
    }
    assert_eq!(
        should_skip_database(dir.path()).reason(),
        Reason::PidAlive,
        "a zombie answers kill"
    );
    let reaping = Options {
        reap_proven_dead: true,
        dry_run: true,
        ..Options::default()
    };
    let proven = check(&Place::beads(dir.path()), &reaping);
    assert_eq!((proven.is_skip(), proven.reason()), (false, Reason::Zombie));

    child.0.wait().unwrap();
    assert!(!is_process_alive(pid.into(), &this_host()));
    assert!(
        is_process_alive(pid.into(), "elsewhere"),
        "another host's process is never dead"
    );
    let dry = check(
        &Place::beads(dir.path()),
        &Options {
            dry_run: true,
            ..Options::default()
        },
    );
    assert_eq!(
        dry.to_string(),
        "Stale lock (t) would be removed, proceeding with sync"
    );
    assert!(dir.path().join(".exclusive-lock").exists());
    let gone = should_skip_database(dir.path());
    assert_eq!(
        gone.to_string(),
        "Removed stale lock (t), proceeding with sync"
    );
    assert!(gone.removed().is_some() && gone.reason() == Reason::PidGone);
    let free = should_skip_database(dir.path());
    assert_eq!(
        (free.to_string().as_str(), free.reason()),
        ("", Reason::NoLock)
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
#[ignore = "a part of a_process_of_another_user_is_alive"]
fn as_nobody() {
    let Some(dir) = std::env::args()
        .find_map(|argument| argument.strip_prefix("as_nobody_in=").map(str::to_owned))
    else {
        return skip::cannot("is a part of another test");
    };
    let decision = should_skip_database(&dir);
    println!("decision: {decision} [{}]", decision.reason());
}

/// A real EPERM: a process of another user.
#[test]
fn a_process_of_another_user_is_alive() {
    if !skip::root() {
        return;
    }
    let dir = database();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    write_lock(dir.path(), std::process::id());
    // A copy that another user may reach, wherever this was built.
    let shared = database();
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = shared.path().join("check");
    write_program(
        &program,
        fs::File::open(std::env::current_exe().unwrap()).unwrap(),
    );
    let output = Command::new(program)
        .args(["--ignored", "--exact", "as_nobody", "--nocapture", "--skip"])
        .arg(format!("as_nobody_in={}", dir.path().display()))
        .uid(65534)
        .gid(65534)
        .env_clear()
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.contains("decision: Skipping database (locked by t) [pid_not_permitted]"),
        "{output}"
    );
}

fn unreadable(dir: &Path, words: &str) {
    let begun = Instant::now();
    let decision = should_skip_database(dir);
    let expected =
        format!("Skipping database (lock check failed: failed to read lock file: {words})");
    assert_eq!(decision.to_string(), expected);
    assert_eq!(decision.reason(), Reason::Unreadable);
    assert!(begun.elapsed() < Duration::from_secs(5), "it must not hang");
    assert!(matches!(Cycle::enter(dir), Entered::Skipped(_)));
    assert!(
        fs::symlink_metadata(dir.join(".exclusive-lock")).is_ok(),
        "it must stay"
    );
}

#[test]
fn odd_files_are_never_opened_for_good_and_never_removed() {
    let dir = database();
    let lock = dir.path().join(".exclusive-lock");
    nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
    unreadable(dir.path(), "it is a FIFO");

    let dir = database();
    fs::create_dir(dir.path().join(".exclusive-lock")).unwrap();
    unreadable(dir.path(), "it is a directory");

    let dir = database();
    let target = dir.path().join("elsewhere");
    fs::write(&target, "").unwrap();
    symlink(&target, dir.path().join(".exclusive-lock")).unwrap();
    unreadable(dir.path(), "it is a symbolic link");

    let dir = database();
    symlink("/nowhere", dir.path().join(".exclusive-lock")).unwrap();
    unreadable(dir.path(), "it is a symbolic link");

    let dir = database();
    let _socket = UnixListener::bind(dir.path().join(".exclusive-lock")).unwrap();
    unreadable(dir.path(), "it is a socket");

    let dir = database();
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(dir.path().join(".exclusive-lock"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    unreadable(dir.path(), "it is larger than 64 KiB");
}

/// However fast a file grows while it is read, the check ends, and never takes it for no lock.
#[test]
fn a_file_that_grows_while_it_is_read_is_a_lock() {
    let dir = database();
    let lock = dir.path().join(".exclusive-lock");
    let done = AtomicBool::new(false);
    fs::write(&lock, "{").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = OpenOptions::new().append(true).open(&lock).unwrap();
            while !done.load(Ordering::Relaxed) {
                if file.metadata().unwrap().len() > 100_000 {
                    file.set_len(1).unwrap();
                }
                file.write_all(&[b' '; 4096]).unwrap();
            }
        });
        for _ in 0..300 {
            let decision = should_skip_database(dir.path());
            assert!(decision.is_skip(), "{decision:?}");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(lock.exists());
}

#[test]
fn a_directory_that_is_not_there_is_free_and_one_that_is_none_is_not() {
    let dir = database();
    assert!(!should_skip_database(dir.path().join("nowhere")).is_skip());
    let Entered::Cycle(cycle) = Cycle::enter(dir.path().join("nowhere")) else {
        panic!("it is free")
    };
    assert!(cycle.gate().is_none() && cycle.no_gate().unwrap().to_string().contains("nowhere"));
    fs::write(dir.path().join("file"), "").unwrap();
    assert_eq!(
        should_skip_database(dir.path().join("file")).reason(),
        Reason::Unreadable
    );
}

/// A cycle keeps the gate from its check to its end, and a stale lock waits for the gate.
#[test]
fn a_cycle_holds_the_gate() {
    let dir = database();
    let Entered::Cycle(cycle) = Cycle::enter(dir.path()) else {
        panic!("nobody claims it")
    };
    let Entered::Skipped(second) = Cycle::enter(dir.path()) else {
        panic!("two cycles at once")
    };
    assert_eq!(
        second.to_string(),
        "Skipping database (a sync cycle or a claim is in progress)"
    );
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    write_lock(dir.path(), child.id());
    let busy = should_skip_database(dir.path());
    assert_eq!(
        (busy.reason(), busy.is_skip()),
        (Reason::GateBusy, true),
        "nothing is removed without the gate"
    );
    cycle.leave();
    let Entered::Cycle(cycle) = Cycle::enter(dir.path()) else {
        panic!("its holder is dead")
    };
    assert_eq!(
        cycle.decision().to_string(),
        "Removed stale lock (t), proceeding with sync"
    );
    drop(cycle);
    assert!(Gate::try_take(dir.path()).unwrap().is_some());
}

/// A look shows what is there, with its witnesses, and changes nothing.
#[test]
fn a_look_changes_nothing() {
    let dir = database();
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    write_lock(dir.path(), child.id());
    let seen = look(&Place::beads(dir.path()), &Options::default());
    assert_eq!(seen.verdict.as_str(), "stale");
    assert_eq!(seen.record.unwrap().holder(), "t");
    let id = seen.id.unwrap();
    assert!(id.starts_with("sha256:") && id.len() == 19, "{id}");
    assert!(seen.facts.unwrap().proof.is_some());
    assert!(dir.path().join(".exclusive-lock").exists());
}
