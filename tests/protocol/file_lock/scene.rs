//! A file, and its other lockers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, run, wait_until};

pub const TARGET: &str = "file:todo.json";

/// A scene with `todo.json` in it.
pub struct Files {
    pub scene: Scene,
}

impl Files {
    pub fn new() -> Self {
        let scene = Scene::new();
        fs::write(scene.path().join("todo.json"), "{}\n").expect("write todo.json");
        Self { scene }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.scene.path().join(name)
    }

    /// What a file says; empty where it is not there.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn lock(&self) -> PathBuf {
        self.path("todo.json.lock")
    }

    /// `flock ARGS` in the scene, to its end.
    #[track_caller]
    pub fn flock(&self, args: &[&str]) -> Ended {
        run(self.flock_command(args)).into()
    }

    fn flock_command(&self, args: &[&str]) -> Command {
        let mut command = self.scene.command("flock");
        command.args(args);
        command
    }

    /// Nobody has `todo.json` locked.
    #[track_caller]
    pub fn is_free(&self) -> bool {
        self.flock(&["-n", "todo.json.lock", "true"]).code == 0
    }

    /// `flock -F OPTION todo.json.lock sleep 600`, once it has the lock; it is one process.
    #[track_caller]
    pub fn somebody(&self, option: &str) -> Running {
        let running =
            Running::start(self.flock_command(&["-F", option, "todo.json.lock", "sleep", "600"]));
        wait_until(PATIENCE, "flock(1) has the lock", || !self.is_free());
        running
    }

    /// `beadlock hold OPTIONS file:todo.json -- sh -c SCRIPT`, once the script has written `ready`.
    #[track_caller]
    pub fn holding(&self, options: &[&str], script: &str) -> Running {
        let script = format!("echo $$ >ready; {script}");
        let running = self.scene.start(
            &[
                &["hold", TARGET],
                options,
                &["--", "sh", "-c", script.as_str()],
            ]
            .concat(),
        );
        self.wait_for("ready");
        running
    }

    /// Waits until this file has a whole line.
    #[track_caller]
    pub fn wait_for(&self, name: &str) {
        wait_until(PATIENCE, name, || self.read(name).ends_with('\n'));
    }

    /// The number in this file.
    #[track_caller]
    pub fn number(&self, name: &str) -> i32 {
        self.read(name).trim().parse().expect("a number")
    }
}
