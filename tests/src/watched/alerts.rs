//! `integration/prometheus`, and an agent about which each of its alerts has something to say.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use beadlock_testkit::skip::checkout;
use beadlock_testkit::{Ended, Running, Scene, dead_pid, lock_text, run, this_host, wait_until};
use serde_json::Value;

/// Longer than anything here takes.
pub const BOUND: Duration = Duration::from_secs(60);

/// A file of `integration/prometheus`.
pub fn file(name: &str) -> PathBuf {
    checkout().join("integration/prometheus").join(name)
}

/// What is in it.
pub fn text(name: &str) -> String {
    fs::read_to_string(file(name)).expect("a file of integration/prometheus")
}

/// An HTTP answer's body; nothing while nobody listens.
pub fn get(address: &str, page: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(BOUND)).ok()?;
    stream
        .write_all(format!("GET {page} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let body = answer.split_once("\r\n\r\n")?.1;
    beadlock_testkit::schema::see(body);
    Some(body.to_owned())
}

/// An agent of seven databases, one for each alert about a database: `unpushed` has pushed once and has lost its remote,
/// `behind` has only lost it, `failing` fails, the lock of `malformed` is malformed, `claimed` and `stale` are free. Every
/// metric has a series.
pub struct Fleet {
    pub scene: Scene,
    pub agent: Running,
    /// Where the agent listens.
    pub address: String,
}

impl Fleet {
    /// Returns once each database is in its state.
    pub fn start() -> Self {
        let scene = Scene::new();
        for name in [
            "unpushed",
            "behind",
            "failing",
            "malformed",
            "claimed",
            "stale",
        ] {
            scene.database(name);
        }
        let script = "
            set -e
            for name in unpushed behind; do
                git init -q --bare -b main $name.git
                cd $name
                git init -q -b main
                git config user.name test
                git config user.email test@example.org
                echo '{}' > .beads/issues.jsonl
                git add . && git commit -q -m one
                git remote add origin ../$name.git
                git push -q -u origin main
                cd ..
            done
            echo '{\"id\":1}' > unpushed/.beads/issues.jsonl";
        let ended = Ended::from(run(scene.shell(script)));
        assert_eq!(ended.code, 0, "{ended:?}");
        scene.write("malformed/.beads/.exclusive-lock", "{\"holder\":");
        let dead = lock_text("dead", dead_pid().into(), &this_host());
        scene.write("stale/.beads/.exclusive-lock", dead);
        let mut conf =
            "interval = '200ms'\nfetch-interval = '200ms'\nlisten = '127.0.0.1:0'\n".to_owned();
        for (name, setting) in [
            ("unpushed", "action = 'git'"),
            ("behind", "action = 'git'"),
            ("failing", "exec = 'exit 3'"),
            ("malformed", "action = 'none'"),
            ("claimed", "action = 'none'"),
            ("stale", "action = 'none'"),
        ] {
            conf += &format!("[[database]]\ndir = '{name}/.beads'\n{setting}\n");
        }
        scene.write(
            "agent.toml",
            conf + "[[database]]\ndir = '.beads'\naction = 'none'\n",
        );
        let agent = scene.start_agent(&["--config", "agent.toml"]);
        let address = || {
            Some(
                scene
                    .log()
                    .split_once("Listening at ")?
                    .1
                    .lines()
                    .next()?
                    .to_owned(),
            )
        };
        wait_until(BOUND, "an address", || address().is_some());
        let fleet = Self {
            address: address().expect("an address"),
            agent,
            scene,
        };
        let pushed = || {
            fleet
                .scene
                .read("unpushed/.beads/daemon.log")
                .contains("] Pushed")
        };
        wait_until(BOUND, "a push", pushed);
        let ended = Ended::from(run(fleet
            .scene
            .shell("mv unpushed.git u.git && mv behind.git b.git")));
        assert_eq!(ended.code, 0, "{ended:?}");
        fleet
            .scene
            .write("unpushed/.beads/issues.jsonl", "{\"id\":2}\n");
        for (name, state) in [
            ("unpushed", "local_only"),
            ("behind", "behind"),
            ("failing", "failed"),
            ("malformed", "skipped"),
            ("claimed", "idle"),
        ] {
            wait_until(BOUND, &format!("{name} is {state}"), || {
                fleet.state(name) == state
            });
        }
        fleet
    }

    /// A database, as the metrics name it.
    pub fn dir(&self, name: &str) -> String {
        self.scene.file(name).join(".beads").display().to_string()
    }

    fn state(&self, name: &str) -> String {
        let status = get(&self.address, "/status")
            .and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let rows = status
            .and_then(|status| status["databases"].as_array().cloned())
            .unwrap_or_default();
        let row = rows.into_iter().find(|row| row["dir"] == self.dir(name));
        row.and_then(|row| row["state"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

/// Every query of the dashboard, with what Grafana puts in the place of its variables: of its panels, and of its
/// annotations.
pub fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&text("dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let annotations = dashboard["annotations"]["list"].as_array();
    let annotations = annotations.expect("annotations").iter();
    let with_values = |query: &str| {
        query
            .replace("$instance", ".*")
            .replace("$db", ".*")
            .replace("$__rate_interval", "10s")
    };
    targets
        .chain(annotations)
        .map(|target| with_values(target["expr"].as_str().expect("a query")))
        .collect()
}
