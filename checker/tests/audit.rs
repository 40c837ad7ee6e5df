//! The audit trail where it hangs on the whole process: its umask, its working directory, other processes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use beadlock_core::audit::{Audit, AuditEntry, Author, Event};
use beadlock_testkit::skip;
use nix::sys::stat::{Mode, umask};

const TRAIL: &str = "BEADLOCK_TEST_TRAIL";
const LINES: usize = 300;

fn author() -> Author {
    Author::new("test", "1")
}

fn entry(id: &str) -> AuditEntry {
    AuditEntry::new(
        Event::LockAcquired,
        id,
        "beads:.beads",
        Path::new("/r/.beads/.exclusive-lock"),
    )
}

/// The only test here whose files hang on the umask.
#[test]
fn a_new_file_is_nobody_elses_whatever_the_umask() {
    let root = tempfile::tempdir().unwrap();
    let before = umask(Mode::empty());
    for mask in [0o000, 0o022, 0o077] {
        umask(Mode::from_bits_truncate(mask));
        let path = root.path().join(mask.to_string());
        Audit::open(&path, author())
            .unwrap()
            .write(&entry("a"))
            .unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode(), 0o600, "{mask:o}");
        // What is there keeps what its owner has made of it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        Audit::open(&path, author())
            .unwrap()
            .write(&entry("b"))
            .unwrap();
        assert_eq!(mode(), 0o640, "{mask:o}");
    }
    umask(before);
}

/// Runs this program several times at once; each process is [`one_of_many`].
#[test]
fn the_lines_of_many_processes_never_mix() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("trail");
    let start = || {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["one_of_many", "--exact", "--ignored"])
            .env(TRAIL, &path);
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| start()).collect();
    let pids: Vec<_> = children.iter().map(|child| child.id()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert_eq!(lines.len(), pids.len() * LINES);
    for pid in pids {
        assert_eq!(
            lines.iter().filter(|line| line["by"]["pid"] == pid).count(),
            LINES
        );
    }
}

#[test]
#[ignore = "a part of the_lines_of_many_processes_never_mix"]
#[expect(
    clippy::disallowed_methods,
    reason = "the test that starts it says where in a variable"
)]
fn one_of_many() {
    let Some(path) = env::var_os(TRAIL) else {
        return skip::cannot("is a part of another test");
    };
    let audit = Audit::open(Path::new(&path), author()).unwrap();
    for number in 0..LINES {
        audit
            .write(&entry(&number.to_string()).detail("x".repeat(number * 13 % 1000)))
            .unwrap();
    }
}

#[test]
fn a_relative_name_is_kept_as_it_was_meant() {
    let here = env::current_dir().unwrap();
    let root = tempfile::tempdir_in(&here).unwrap();
    let path = Path::new(root.path().file_name().unwrap()).join("trail");
    let audit = Audit::open(&path, author()).unwrap();
    env::set_current_dir(root.path()).unwrap();
    let written = audit.write(&entry("a"));
    env::set_current_dir(&here).unwrap();
    written.unwrap();
    assert!(
        fs::read_to_string(here.join(&path))
            .unwrap()
            .contains("lock_acquired")
    );
}
