//! A lock directory of its own, named by the variable, and locks in it as other tools write them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use beadlock_checker::{Options, Place};
use beadlock_core::record::tower::{LockName, StartedAt};
use beadlock_core::{
    facts,
    look::{Look, look},
};
use beadlock_testkit::{Ended, Running, Scene, until};
use serde_json::Value;

pub const TARGET: &str = "tower:app-prod";
/// The options that every claim needs without an intent file.
pub const INTENT: [&str; 4] = ["--intent-name", "deploy-app", "--intent-version", "1.2.0"];

pub struct Tower {
    pub scene: Scene,
}

impl Tower {
    pub fn new() -> Self {
        let tower = Self {
            scene: crate::a_scene(),
        };
        fs::create_dir(tower.dir()).unwrap();
        fs::set_permissions(tower.dir(), fs::Permissions::from_mode(0o700)).unwrap();
        tower
    }

    pub fn dir(&self) -> PathBuf {
        fs::canonicalize(self.scene.path()).unwrap().join("locks")
    }

    pub fn lock(&self) -> PathBuf {
        self.dir().join("app-prod.lock")
    }

    pub fn place(&self) -> Place {
        Place::tower(self.dir(), &LockName::parse("app-prod").unwrap())
    }

    pub fn look(&self) -> Look {
        look(&self.place(), &Options::default())
    }

    /// The names in the lock directory.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.scene.beadlock(args);
        command
            .env("BEADLOCK_LOCK_DIR", self.dir())
            .env("LOCK", self.lock());
        command
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ended {
        Running::apart(self.command(args)).end()
    }

    /// `hold tower:app-prod …OPTIONS -- sh -c SCRIPT`
    pub fn hold_command(&self, options: &[&str], script: &str) -> Command {
        self.command(
            &[
                &["hold", TARGET][..],
                &INTENT,
                options,
                &["--", "sh", "-c", script],
            ]
            .concat(),
        )
    }

    #[track_caller]
    pub fn hold(&self, options: &[&str], script: &str) -> Ended {
        Running::apart(self.hold_command(options, script)).end()
    }

    /// Same as `hold`, but returns once the command runs. The command writes its PID into `pid` first.
    #[track_caller]
    pub fn holding(&self, options: &[&str], script: &str) -> Running {
        let _ = fs::write(self.scene.file("pid"), "");
        let mut running =
            Running::apart(self.hold_command(options, &format!("echo $$ >pid; {script}")));
        until("the command runs", || {
            assert!(!running.has_ended(), "{}", running.err());
            self.scene.read("pid").ends_with('\n')
        });
        running
    }

    /// The record that is there.
    #[track_caller]
    pub fn record(&self) -> Value {
        parsed(&fs::read_to_string(self.lock()).unwrap())
    }

    /// A lock as another tool writes it, whose last heartbeat is so many seconds ago.
    pub fn write(&self, silent: i64) {
        fs::write(self.lock(), record("app-prod", silent)).unwrap();
    }

    /// The events in the audit file beside the lock directory.
    pub fn events(&self) -> Vec<Value> {
        self.scene.read("audit.jsonl").lines().map(parsed).collect()
    }

    /// The names of the events in the audit file beside the lock directory.
    pub fn event_names(&self) -> Vec<String> {
        self.events()
            .iter()
            .map(|event| event["event"].as_str().unwrap().to_owned())
            .collect()
    }

    #[track_caller]
    pub fn event(&self, name: &str) -> Value {
        let found = self
            .events()
            .into_iter()
            .rfind(|event| event["event"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.events()))
    }
}

#[track_caller]
pub fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub fn keys(object: &Value) -> Vec<&str> {
    object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

pub fn seconds_ago(seconds: i64) -> String {
    StartedAt::from_unix(facts::now().0.as_secs() - seconds, 0).to_string()
}

/// Its PID is one that lives: nobody asks.
pub fn record(name: &str, silent: i64) -> String {
    let (created, beat, pid) = (
        seconds_ago(silent + 60),
        seconds_ago(silent),
        std::process::id(),
    );
    format!(
        r#"{{"lock_version":"v1","lock_name":"{name}","request_id":"req_abc","actor":"claude-code","intent":"deploy-app",
        "intent_version":"1.2.0","host_id":"tower-01","pid":{pid},"created_at":"{created}","last_heartbeat_at":"{beat}",
        "ttl_seconds":900,"metadata":{{"ticket":7}},"note":"kept"}}"#
    )
}
