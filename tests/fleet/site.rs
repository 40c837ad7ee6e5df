//! A fleet of clones on one machine, at an etcd of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use beadlock_core::facts;
use beadlock_fleet::{Config, Fleet, Mark, MemberValue, Name, Who, mark};
use beadlock_tests::{Etcd, Running, Scene};

/// Below which the keys of every test lie.
pub const PREFIX: &str = "test/beads";

/// A fleet that is old enough, and where it is.
pub struct Site {
    pub etcd: Etcd,
    config: Config,
    file: PathBuf,
}

impl Site {
    /// At one node; `None`: there is no etcd here, and the test skips.
    #[track_caller]
    pub fn new() -> Option<Self> {
        Some(Self::at(Etcd::one()?))
    }

    /// At this etcd, which every client reaches directly.
    pub fn at(etcd: Etcd) -> Self {
        let url = etcd.url(PREFIX);
        let file = etcd.dir().join("fleet.toml");
        fs::write(&file, format!("url = \"{url}\"\n")).expect("a file");
        let config = Config::of_url(&url, &file).expect("a url");
        let site = Self { etcd, config, file };
        site.make();
        site
    }

    /// Makes the fleet. What an earlier one of its name has left running there is none, so nobody has to wait.
    pub fn make(&self) {
        Fleet::create(&self.config, None).expect("a fleet");
        self.etcd.ctl(&["del", &self.key("new")]);
    }

    pub fn key(&self, rest: &str) -> String {
        format!("/{PREFIX}/v1/{rest}")
    }

    pub fn fleet(&self) -> Fleet {
        Fleet::open(&self.config).expect("the fleet")
    }

    /// A clone of the database of this name.
    pub fn clone_of(&self, name: &str) -> Scene {
        let scene = Scene::new();
        self.join(&scene, name);
        scene
    }

    /// Takes a clone into the fleet, as `beadlock fleet join` does.
    pub fn join(&self, scene: &Scene, name: &str) {
        let (fleet, Who { host, version, .. }) = (self.fleet(), Who::this_process());
        let mark = Mark::of_new_clone(fleet.nonce(), &Name::parse(name).expect("a name"));
        let path = scene.beads().display().to_string();
        fleet
            .join(
                &mark,
                &MemberValue {
                    host,
                    path,
                    version,
                    since: facts::now(),
                },
            )
            .expect("to join");
        assert!(mark::write(&scene.beads(), &mark).expect("a mark"));
    }

    /// `beadlock ARGS` in a clone.
    pub fn beadlock(&self, scene: &Scene, args: &[&str]) -> Command {
        let mut command = scene.beadlock(args);
        command.env("BEADLOCK_FLEET_CONFIG", &self.file);
        command
    }

    /// Starts `beadlock-agent` for a clone, with a cycle after the other of `sh -c SCRIPT`.
    pub fn agent(&self, scene: &Scene, script: &str) -> Running {
        Running::start(self.agent_command(scene, script))
    }

    /// The same, to be started.
    pub fn agent_command(&self, scene: &Scene, script: &str) -> Command {
        self.agent_with(scene, &["--interval", "20ms", "--exec", script])
    }

    /// `beadlock-agent ARGS` for a clone.
    pub fn agent_with(&self, scene: &Scene, args: &[&str]) -> Command {
        let mut command = scene.agent(args);
        command.env("BEADLOCK_FLEET_CONFIG", &self.file);
        command
    }

    /// What lies below the fleet's prefix: one line a key.
    pub fn keys(&self) -> Vec<String> {
        let listed = self
            .etcd
            .ctl(&["get", "--prefix", "--keys-only", &self.key("")]);
        listed
            .lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    }
}
