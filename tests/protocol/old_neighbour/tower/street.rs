//! The lock directory that the document's script and beadlock share.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use beadlock_tests::seed::LockManager;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, run, skip, wait_until};
use serde_json::Value;

pub const NAME: &str = "app-production";
pub const TARGET: &str = "tower:app-production";
/// Takes it, with what the test says of it.
pub const ITS_CLAIM: &str = "ACTOR=old-tool acquire_lock app-production old-1 deploy-app 1.2.0";

/// A lock directory that both use.
pub struct Street {
    pub scene: Scene,
    script: LockManager,
}

impl Street {
    /// None, and said so, where the document or a program that its script needs is absent.
    pub fn new() -> Option<Self> {
        for name in ["bash", "jq", "hostname"] {
            skip::tool(name)?;
        }
        let scene = Scene::new();
        let dir = scene.path().join("locks");
        let script = LockManager::of_the_seed(&dir)?;
        fs::create_dir(&dir).expect("create the lock directory");
        Some(Self { scene, script })
    }

    pub fn dir(&self) -> PathBuf {
        self.scene.path().join("locks")
    }

    pub fn lock(&self) -> PathBuf {
        self.dir().join(format!("{NAME}.lock"))
    }

    pub fn text(&self) -> String {
        fs::read_to_string(self.lock()).unwrap_or_default()
    }

    pub fn record(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap_or_default()
    }

    /// The lock's file, whatever is in it.
    pub fn inode(&self) -> Option<u64> {
        fs::metadata(self.lock()).ok().map(|meta| meta.ino())
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir())
            .expect("list the lock directory")
            .flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// bash with the script, and then this.
    pub fn bash(&self, work: &str) -> Command {
        let mut command = self.scene.command("bash");
        command
            .args(["-c", &self.script.before(work)])
            .env("LOCK", self.lock());
        command
    }

    pub fn it(&self, work: &str) -> Ended {
        run(self.bash(work)).into()
    }

    pub fn beadlock(&self, words: &[&str]) -> Command {
        let mut command = self.scene.beadlock(words);
        command
            .env("BEADLOCK_LOCK_DIR", self.dir())
            .env("TMPDIR", self.scene.path());
        command
    }

    pub fn ours(&self, words: &[&str]) -> Ended {
        run(self.beadlock(words)).into()
    }

    /// `beadlock hold TARGET OPTIONS -- sh -c WORK`, as request ours-1.
    pub fn hold(&self, options: &[&str], work: &str) -> Command {
        let fields = [
            "--request-id",
            "ours-1",
            "--actor",
            "ours",
            "--intent-name",
            "i",
            "--intent-version",
            "1",
        ];
        self.beadlock(
            &[
                &["hold", TARGET][..],
                &fields,
                options,
                &["--", "sh", "-c", work],
            ]
            .concat(),
        )
    }

    /// Starts one, and returns once its command is at work.
    pub fn holder(&self, options: &[&str]) -> Running {
        let running = Running::start(self.hold(options, "echo >at-work; exec sleep 60"));
        wait_until(PATIENCE, "our command", || {
            self.scene.path().join("at-work").exists()
        });
        running
    }

    pub fn has_run(&self) -> bool {
        self.scene.path().join("at-work").exists()
    }

    /// Its lock, whose last heartbeat was long ago.
    pub fn its_stale_lock(&self) {
        let ended = self.it(&format!(
            "{ITS_CLAIM}; jq '.last_heartbeat_at = \"2025-12-18T10:00:00Z\"' \"$LOCK\" >old; cat old >\"$LOCK\""
        ));
        assert_eq!(ended.code, 0, "{ended:?}");
    }
}
