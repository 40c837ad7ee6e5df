//! A tool with a command lock (`beadlock::framework`), started as its users start it: however it ends, the lock goes
//! with it, and no other's ever does.

mod children;
mod ends;
mod examples;
mod executors;
mod refusals;
mod rounds;
mod squatted;
mod steps;
mod terminal;
mod waits;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, Scene, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Where the tool is, whose work is what it is told (`tests/src/bin/embedded.rs`).
const EMBEDDED: &str = env!("CARGO_BIN_EXE_embedded");

/// A directory for the tool's locks.
struct Bench(Scene);

impl Bench {
    fn new() -> Self {
        Self(Scene::new())
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("locks")
    }

    fn lock(&self) -> PathBuf {
        self.dir().join("work.lock")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `embedded DIR WORDS`.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.0.command(EMBEDDED);
        command.arg(self.dir()).args(words);
        command
    }

    /// Starts it, and returns once it has its lock.
    #[track_caller]
    fn start(&self, words: &[&str]) -> Running {
        let running = Running::start(self.command(words));
        self.wait_for(running.pid());
        running
    }

    /// Waits until this process has the lock.
    #[track_caller]
    fn wait_for(&self, pid: i32) {
        let says = format!("\"pid\": {pid},");
        let is_its = || fs::read_to_string(self.lock()).is_ok_and(|text| text.contains(&says));
        wait_until(PATIENCE, &format!("the lock of PID {pid}"), is_its);
    }

    #[track_caller]
    fn run(&self, words: &[&str]) -> Output {
        Running::start(self.command(words)).finish(PATIENCE)
    }

    /// Nothing of a lock is left.
    #[track_caller]
    fn is_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.dir())
            .expect("the directory")
            .flatten()
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Waits until a process has written the file `name`, and answers what it says.
    #[track_caller]
    fn written(&self, name: &str) -> String {
        let read = || fs::read_to_string(self.file(name)).unwrap_or_default();
        wait_until(PATIENCE, name, || read().ends_with('\n'));
        read().trim_end().to_owned()
    }
}

/// Long enough that nobody takes it for the end of a wait by event.
const LONG: &str = "120s";
/// Much less than [`LONG`].
const AT_ONCE: Duration = Duration::from_secs(20);

/// It died of this signal and printed nothing.
#[track_caller]
fn died_of(signal: Signal, output: &Output) {
    assert_eq!(output.status.signal(), Some(signal as i32), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
}

/// The one line that it printed, and its exit code.
#[track_caller]
fn answer(output: &Output) -> (Value, i32) {
    let text = std::str::from_utf8(&output.stdout).expect("UTF-8");
    let line = text.strip_suffix('\n').filter(|line| !line.contains('\n'));
    let line = line.unwrap_or_else(|| panic!("one line: {output:?}"));
    let json = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (json, output.status.code().expect("an exit code"))
}
