//! The default directory of a tool's lock is another user's, or lies where others may rename it: nothing takes the
//! lock, and a user that follows the advice takes the same lock as everybody else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, root, run, wait_until, write_program};
use serde_json::Value;

/// A user who is not root; the squatter is.
const USER: u32 = 65_534;

struct Ground {
    scene: Scene,
}

impl Ground {
    /// `None` where the test cannot be another user.
    fn new() -> Option<Self> {
        if !root() {
            return None;
        }
        let scene = Scene::new();
        mode(scene.path(), 0o755);
        let tool = scene.path().join("embedded");
        write_program(
            &tool,
            fs::File::open(env!("CARGO_BIN_EXE_embedded")).expect("open the tool"),
        );
        fs::create_dir(scene.path().join("tmp")).expect("make TMPDIR");
        Some(Self { scene })
    }

    fn temporary(&self) -> PathBuf {
        self.scene.path().join("tmp")
    }

    fn own(&self) -> PathBuf {
        self.temporary().join(format!("embedded-{USER}"))
    }

    /// The tool of the user, with this work.
    fn tool(&self, work: &[&str]) -> Command {
        let mut command = self.scene.command(self.scene.path().join("embedded"));
        command
            .arg("-")
            .args(work)
            .env("TMPDIR", self.temporary())
            .uid(USER)
            .gid(USER);
        command
    }

    #[track_caller]
    fn refused(&self) -> String {
        let ended: Ended = run(self.tool(&["--timeout", "0s", "return"])).into();
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(!ended.err.contains("begun"), "{ended:?}");
        assert!(
            !ended.out.contains("XDG_RUNTIME_DIR"),
            "another directory is another lock: {ended:?}"
        );
        let answer: Value = serde_json::from_str(&ended.out).expect("an envelope");
        assert_eq!(answer["error"]["code"], "NOT_PERMITTED", "{answer}");
        answer["error"]["message"]
            .as_str()
            .expect("a message")
            .to_owned()
    }

    /// Types, as root, what stands behind `words`.
    #[track_caller]
    fn types(&self, said: &str, words: &str) {
        let (_, command) = said
            .split_once(words)
            .unwrap_or_else(|| panic!("no {words:?} in {said}"));
        let command = command.lines().next().unwrap_or_default();
        // Where there is no sudo, root needs none.
        let script = format!("sudo() {{ \"$@\"; }}\n{command}");
        let mut shell = self.scene.command("sh");
        shell.args(["-c", &script]);
        let ended: Ended = run(shell).into();
        assert_eq!(ended.code, 0, "{command}: {ended:?}");
    }

    /// Two of the user's tools exclude each other.
    #[track_caller]
    fn two_exclude_each_other(&self) {
        let first = Running::start(self.tool(&["sleep"]));
        wait_until(PATIENCE, "the first has the lock", || {
            self.own().join("locks/work.lock").exists()
        });
        let second: Ended = run(self.tool(&["--timeout", "0s", "return"])).into();
        assert_eq!(second.code, 4, "{second:?}");
        drop(first);
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set the mode");
}

#[test]
fn a_directory_of_another_user_is_refused_and_the_advice_leads_to_one_lock() {
    let Some(ground) = Ground::new() else { return };
    mode(&ground.temporary(), 0o1777);
    fs::create_dir(ground.own()).expect("squat");
    for _ in 0..2 {
        let said = ground.refused();
        assert!(
            said.contains("it belongs to user 0, and this is user 65534"),
            "{said}"
        );
    }
    ground.types(&ground.refused(), "remove it as root: ");
    ground.two_exclude_each_other();
}

#[test]
fn a_temporary_directory_in_which_others_may_rename_is_refused() {
    let Some(ground) = Ground::new() else { return };
    for (bits, words) in [
        (0o777, "everybody may rename"),
        (0o775, "its group may rename"),
    ] {
        chown(ground.temporary(), Some(0), Some(USER)).expect("chown");
        mode(&ground.temporary(), bits);
        let said = ground.refused();
        assert!(said.contains(words) && !ground.own().exists(), "{said}");
        let command = format!("(mode {bits:03o}); ");
        ground.types(&said, &command);
        ground.two_exclude_each_other();
        fs::remove_dir_all(ground.own()).expect("start again");
    }
    mode(&ground.temporary(), 0o1777);
    chown(ground.temporary(), Some(USER + 7), None).expect("chown");
    let said = ground.refused();
    assert!(
        said.contains("user 65541 owns it") && said.contains("unset TMPDIR"),
        "{said}"
    );
}
