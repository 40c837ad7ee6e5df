//! An agent that runs, in a setting, and what a test does to it.

use std::fs::{self, File};
use std::path::Path;

use beadlock_tests::{Running, until};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;

use super::sections;
use crate::answer::whole;
use crate::setting::Setting;

pub struct Agent {
    pub setting: Setting,
    line: String,
    log: &'static str,
    running: Running,
}

impl Agent {
    /// Starts the line, which is one `beadlock-agent`, and returns when this log of the scene has these words.
    #[track_caller]
    pub fn start(setting: Setting, line: &str, log: &'static str, words: &str) -> Self {
        let running = Running::start(setting.command(&format!("exec {line}")));
        let agent = Self {
            setting,
            line: line.to_owned(),
            log,
            running,
        };
        agent.says_in(log, words, 1);
        agent.rests();
        agent
    }

    /// Waits until no cycle has the gate of a database: what changes in it before that counts as the cycle's own.
    #[track_caller]
    pub fn rests(&self) {
        let dir = self
            .setting
            .scene
            .file(self.log)
            .parent()
            .expect("a directory")
            .to_owned();
        until("the gate", || {
            Flock::lock(
                File::open(&dir).expect("open it"),
                FlockArg::LockExclusiveNonblock,
            )
            .is_ok()
        });
    }

    /// Waits until a log of the scene has these words so many times.
    #[track_caller]
    pub fn says_in(&self, log: &str, words: &str, times: usize) {
        until(&format!("{words} in {log}, {times} times"), || {
            self.count(log, words) >= times
        });
    }

    fn count(&self, log: &str, words: &str) -> usize {
        self.setting.scene.read(log).matches(words).count()
    }

    /// Does something, and returns when the log has these words once more.
    #[track_caller]
    pub fn after(&self, what: impl FnOnce(&Self), words: &str) {
        let before = self.count(self.log, words);
        what(self);
        self.says_in(self.log, words, before + 1);
    }

    /// The same, and the cycle is over.
    #[track_caller]
    pub fn cycle(&self, what: impl FnOnce(&Self), words: &str) {
        self.after(what, words);
        self.rests();
    }

    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    pub fn reload(&self) {
        self.signal(Signal::SIGHUP);
    }

    /// Every database has a cycle now, and asks its remote. One whose cycle has not ended hears nothing of it: its last
    /// line must be that of a state.
    pub fn fetch(&self) {
        self.signal(Signal::SIGUSR1);
    }

    /// Something changes in the database: one event for who watches it.
    pub fn change(&self) {
        self.put(".beads/issues.jsonl", "{\"id\":\"bd-2\"}\n");
    }

    /// Somebody claims the database, in one event.
    pub fn claim(&self, lock: &str) {
        self.put(".beads/.exclusive-lock", lock);
    }

    pub fn unlock(&self) {
        self.setting.scene.unlock();
    }

    /// Writes a file of the scene, and puts it in its place.
    pub fn put(&self, name: &str, text: &str) {
        self.setting.scene.write("new", text);
        self.moves("new", name);
    }

    pub fn moves(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) {
        let scene = self.setting.scene.path();
        fs::rename(scene.join(from), scene.join(to)).expect("move it");
    }

    /// SIGTERM, and its end with these files of the scene, as text.
    #[track_caller]
    pub fn stop(self, files: &[&str]) -> (String, Setting) {
        self.signal(Signal::SIGTERM);
        self.ended(files)
    }

    /// Its end, which it was told of before, with these files of the scene, as text.
    #[track_caller]
    pub fn ended(self, files: &[&str]) -> (String, Setting) {
        let mut ended = self.running.end();
        // Whether it is noticed that a log has gone with its database is a matter of time.
        let is_shown = |line: &&str| !line.starts_with("beadlock-agent: cannot write the log ");
        ended.err = ended.err.split_inclusive('\n').filter(is_shown).collect();
        let mut text = whole(&self.line, &ended);
        sections(&mut text, &self.setting.scene, files);
        (text, self.setting)
    }
}

pub const LOG: &str = ".beads/daemon.log";
pub const COMPLETE: &str = "Sync cycle complete";
