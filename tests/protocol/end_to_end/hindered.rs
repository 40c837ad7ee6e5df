//! A live lock that cannot be read just now, for want of descriptors or for a stranger's lease: what is wrong is said,
//! nobody is led to break it, and `break` itself does not.

use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;

use beadlock_base::sys;
use beadlock_tests::{Ended, Running, Scene, run};
use nix::errno::Errno;
use serde_json::Value;

/// A live lock; what is to become of it is nothing.
struct Held {
    scene: Scene,
    text: String,
    inode: u64,
    _holder: Running,
}

impl Held {
    fn new() -> Self {
        let scene = Scene::new();
        let mut sleep = scene.command("sleep");
        sleep.arg("300");
        let holder = Running::start(sleep);
        let pid = holder.pid().to_string();
        let ended = scene.run(&["-q", "acquire", ".beads", "--for", &pid, "--holder", "ann"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        let text = scene.lock_text();
        let inode = std::fs::metadata(scene.lock()).expect("a lock").ino();
        Self {
            scene,
            text,
            inode,
            _holder: holder,
        }
    }

    /// Runs it with so many descriptors, or with as many as it likes.
    fn run(&self, descriptors: Option<u32>, words: &str) -> Ended {
        let limit = descriptors
            .map(|limit| format!("ulimit -n {limit}; "))
            .unwrap_or_default();
        let mut command = self.scene.command("sh");
        command.args(["-c", &format!("{limit}exec \"$BEADLOCK\" {words}")]);
        command.env("BEADLOCK", beadlock_tests::binaries::beadlock());
        let ended: Ended = run(command).into();
        // An open of a leased file waits.
        let inode = std::fs::metadata(self.scene.lock())
            .map(|meta| meta.ino())
            .ok();
        assert_eq!(inode, Some(self.inode), "{words}: {ended:?}");
        let said = format!("{}{}", ended.out, ended.err);
        assert!(
            !said.contains("--malformed") && !said.contains("panicked"),
            "{words}: {said}"
        );
        assert!(!self.scene.path().join("ran").exists(), "{words}: {said}");
        ended
    }
}

const COMMANDS: [&str; 8] = [
    "wait .beads --wait 1s",
    "hold .beads --wait 1s -- touch ran",
    "hold .beads --no-wait -- touch ran",
    "acquire .beads --no-wait",
    "break .beads --holder x",
    "break .beads --malformed",
    "check --explain .beads",
    "status .beads",
];

#[test]
fn too_few_descriptors_are_called_so() {
    let held = Held::new();
    let mut hindered = 0;
    // With three the shell cannot even start it; from ten on nothing is short of them.
    for limit in [4, 5, 6, 8] {
        for words in COMMANDS {
            let ended = held.run(Some(limit), words);
            if ended.err.contains("too many open files") && [1, 5].contains(&ended.code) {
                assert!(
                    ended.err.contains("(ulimit -n)"),
                    "{limit}, {words}: {ended:?}"
                );
                hindered += 1;
            }
        }
    }
    assert_eq!(held.scene.lock_text(), held.text);
    assert!(
        hindered >= 8,
        "{hindered} commands were short of descriptors: the test shows nothing"
    );
}

#[test]
fn too_few_descriptors_have_a_code_of_the_list_and_may_be_tried_again() {
    let held = Held::new();
    let ended = held.run(Some(5), "wait .beads --wait 1s --json");
    let answer: Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let error = &answer["error"];
    assert_eq!(
        (&error["code"], &error["retryable"], ended.code),
        (&"LOCK_UNREADABLE".into(), &true.into(), 5)
    );
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.ends_with("the lock may be alive; raise the limit of this process and try again"),
        "{message}"
    );
}

#[test]
fn a_strangers_write_lease_is_called_so() {
    let held = Held::new();
    let lease = || {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(held.scene.lock())
            .expect("open the lock");
        match sys::take_write_lease(&file) {
            Err(Errno::EINVAL) => None, // A file system without leases.
            _ => Some(file),
        }
    };
    // The kernel ends a lease that is kept for too long: each command has one of its own.
    for words in COMMANDS {
        let Some(_lease) = lease() else { return };
        let ended = held.run(None, words);
        let said = format!("{}{}", ended.out, ended.err);
        assert!(
            said.contains("another process has it under a write lease"),
            "{words}: {said}"
        );
        assert!(
            said.contains("the lock may be alive") && said.contains("try again"),
            "{words}: {said}"
        );
        assert_eq!(
            ended.code,
            if words.starts_with("status") { 0 } else { 5 },
            "{words}: {said}"
        );
    }
    let leased = lease();
    let ended = held.run(None, "hold .beads --no-wait --json -- touch ran");
    let answer: Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    let error = &answer["error"];
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&"LOCK_UNREADABLE".into(), &true.into()),
        "{answer}"
    );
    drop(leased);
    assert_eq!(held.scene.lock_text(), held.text);
    assert_eq!(
        held.run(None, "hold .beads --no-wait -- touch ran").code,
        4,
        "it was alive all the time"
    );
}
