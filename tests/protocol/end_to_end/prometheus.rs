//! `integration/prometheus`: the alert rules by promtool and by a real Prometheus that scrapes a real agent, and the
//! names and queries of the dashboard.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use beadlock_tests::skip::{checkout, has_program};
use beadlock_tests::{Ended, Running, Scene, lock_text, run, sleeper, this_host, wait_until};
use serde_json::Value;

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_secs(60);

fn file(name: &str) -> PathBuf {
    checkout().join("integration/prometheus").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(file(name)).expect("a file of integration/prometheus")
}

/// An HTTP answer's body; nothing while nobody listens.
fn get(address: &str, page: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(BOUND)).ok()?;
    stream.write_all(format!("GET {page} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// An agent of seven databases, one for each alert about a database: `unpushed` has pushed once and has lost its remote,
/// `behind` has only lost it, `failing` fails, the lock of `malformed` is malformed, `claimed` and `stale` are free. Every
/// metric has a series.
struct Fleet {
    scene: Scene,
    agent: Running,
    address: String,
}

impl Fleet {
    fn start() -> Self {
        let scene = Scene::new();
        for name in ["unpushed", "behind", "failing", "malformed", "claimed", "stale"] {
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
        let dead = lock_text("dead", beadlock_tests::dead_pid().into(), &this_host());
        scene.write("stale/.beads/.exclusive-lock", dead);
        let mut conf = "interval = '200ms'\nfetch-interval = '200ms'\nlisten = '127.0.0.1:0'\n".to_owned();
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
        scene.write("agent.toml", conf + "[[database]]\ndir = '.beads'\naction = 'none'\n");
        let agent = scene.start_agent(&["--config", "agent.toml"]);
        let address = || Some(scene.log().split_once("Listening at ")?.1.lines().next()?.to_owned());
        wait_until(BOUND, "an address", || address().is_some());
        let fleet = Self { address: address().expect("an address"), agent, scene };
        let pushed = || fleet.scene.read("unpushed/.beads/daemon.log").contains("] Pushed");
        wait_until(BOUND, "a push", pushed);
        let ended = Ended::from(run(fleet.scene.shell("mv unpushed.git u.git && mv behind.git b.git")));
        assert_eq!(ended.code, 0, "{ended:?}");
        fleet.scene.write("unpushed/.beads/issues.jsonl", "{\"id\":2}\n");
        for (name, state) in [
            ("unpushed", "local_only"),
            ("behind", "behind"),
            ("failing", "failed"),
            ("malformed", "skipped"),
            ("claimed", "idle"),
        ] {
            wait_until(BOUND, &format!("{name} is {state}"), || fleet.state(name) == state);
        }
        fleet
    }

    fn dir(&self, name: &str) -> String {
        self.scene.file(name).join(".beads").display().to_string()
    }

    fn state(&self, name: &str) -> String {
        let status = get(&self.address, "/status").and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let rows = status.and_then(|status| status["databases"].as_array().cloned()).unwrap_or_default();
        let row = rows.into_iter().find(|row| row["dir"] == self.dir(name));
        row.and_then(|row| row["state"].as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// Every query of the dashboard, with what Grafana puts in the place of its variables.
fn queries() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&text("dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let with_values = |query: &str| query.replace("$instance", ".*").replace("$__rate_interval", "10s");
    targets.map(|target| with_values(target["expr"].as_str().expect("a query"))).collect()
}

/// The names of the agent's metrics in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_of_name(c)).filter(|word| word.starts_with("beadlock_agent_")).collect()
}

#[test]
fn rules_and_dashboard_name_metrics_that_an_agent_has() {
    if !has_program("git") {
        return;
    }
    let fleet = Fleet::start();
    let metrics = get(&fleet.address, "/metrics").expect("metrics");
    let samples = metrics.lines().filter(|line| !line.starts_with('#'));
    let exposed: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
    let (rules, queries) = (text("alerts.yml"), queries().join("\n"));
    for (what, text, at_least) in [("alerts.yml", &rules, 5), ("dashboard.json", &queries, 17)] {
        let named = names(text);
        assert!(named.len() >= at_least, "{what} names only {named:?}");
        let unknown: Vec<_> = named.difference(&exposed).collect();
        assert!(unknown.is_empty(), "{what} names {unknown:?}, and the agent has {exposed:?}");
    }
    let unit_tests = text("alerts.test.yml");
    assert!(names(&unit_tests).is_subset(&exposed), "{unit_tests}");
}

#[test]
fn promtool_finds_the_rules_right() {
    if !has_program("promtool") {
        return;
    }
    let scene = Scene::new();
    let promtool = |args: &[&str]| {
        let mut command = scene.command("promtool");
        command.args(args).current_dir(scene.path());
        Ended::from(run(command))
    };
    for name in ["alerts.yml", "alerts.test.yml"] {
        fs::copy(file(name), scene.file(name)).expect("copy the rules");
    }
    let checked = promtool(&["check", "rules", "--lint-fatal", "alerts.yml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let tested = promtool(&["test", "rules", "alerts.test.yml"]);
    assert_eq!(tested.code, 0, "{tested:?}");
    // Each rule has a case that fires: without the rule its test fails.
    let (rules, marker) = (text("alerts.yml"), "- alert: ");
    let alerts: Vec<&str> = rules.split(marker).skip(1).filter_map(|rule| rule.lines().next()).collect();
    assert_eq!(alerts.len(), 7, "{alerts:?}");
    for alert in alerts {
        scene.write("alerts.yml", rules.replace(&format!("{marker}{alert}\n"), &format!("{marker}Another\n")));
        let tested = promtool(&["test", "rules", "alerts.test.yml"]);
        assert_eq!(tested.code, 1, "without {alert}: {tested:?}");
    }
}

/// A Prometheus that scrapes an agent twice a second.
struct Prometheus {
    _running: Running,
    address: String,
}

impl Prometheus {
    /// With a copy of the rules in which `for` is 3 seconds, and the range of `increase` 10 seconds.
    fn start(fleet: &Fleet) -> Self {
        let rules = text("alerts.yml").replace("[5m]", "[10s]");
        let with_short_for = |line: &str| match line.trim_start().starts_with("for: ") {
            true => "        for: 3s\n".to_owned(),
            false => format!("{line}\n"),
        };
        let scene = &fleet.scene;
        scene.write("rules.yml", rules.lines().map(with_short_for).collect::<String>());
        let conf = format!(
            "global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}\n\
             rule_files: [rules.yml]\n\
             scrape_configs: [{{job_name: beadlock-agent, static_configs: [{{targets: ['{}']}}]}}]\n",
            fleet.address
        );
        scene.write("prometheus.yml", conf);
        let mut command = scene.command("prometheus");
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.arg("--web.listen-address=127.0.0.1:0");
        let running = Running::apart(command);
        let address = || {
            let talk = running.err();
            let line = talk.lines().find(|line| line.contains("msg=\"Listening on\""))?.to_owned();
            Some(line.split_once("address=")?.1.trim().to_owned())
        };
        wait_until(BOUND, "Prometheus listens", || address().is_some());
        let address = address().expect("an address");
        wait_until(BOUND, "Prometheus is ready", || {
            get(&address, "/-/ready").is_some_and(|text| text.contains("eady"))
        });
        Self { address, _running: running }
    }

    /// The series that a query answers, each with its labels and values.
    fn query(&self, query: &str) -> Vec<Value> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = get(&self.address, &format!("/api/v1/query?query={escaped}")).expect("an answer");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().expect("series").clone()
    }

    /// The alert of this name in this state, about this database where one is given.
    fn alert(&self, name: &str, state: &str, db: Option<&str>) -> Option<Value> {
        let answer = get(&self.address, "/api/v1/alerts").expect("an answer");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let alerts = answer["data"]["alerts"].as_array().expect("alerts").clone();
        alerts.into_iter().find(|alert| {
            let labels = &alert["labels"];
            labels["alertname"] == name && alert["state"] == state && db.is_none_or(|db| labels["db"] == db)
        })
    }

    #[track_caller]
    fn fires(&self, name: &str, db: Option<&str>) -> String {
        wait_until(BOUND, &format!("{name} of {db:?} fires"), || self.alert(name, "firing", db).is_some());
        let alert = self.alert(name, "firing", db).expect("it goes on");
        alert["annotations"]["summary"].as_str().expect("a summary").to_owned()
    }
}

#[test]
fn a_real_prometheus_fires_each_alert() {
    if !has_program("prometheus") || !has_program("git") {
        return;
    }
    let fleet = Fleet::start();
    let prometheus = Prometheus::start(&fleet);
    let dir = |name: &str| fleet.dir(name);
    let pushing = prometheus.fires("BeadlockNotPushing", Some(&dir("unpushed")));
    assert_eq!(pushing, format!("{} has commits that are not at the remote: 1", dir("unpushed")));
    prometheus.fires("BeadlockNotPulling", Some(&dir("behind")));
    let failing = prometheus.fires("BeadlockFailing", Some(&dir("failing")));
    assert_eq!(failing, format!("{} is not synced: failed", dir("failing")));
    let malformed = prometheus.fires("BeadlockMalformedLock", None);
    assert!(malformed.ends_with(": malformed"), "{malformed}");
    prometheus.fires("BeadlockSkippedTooLong", Some(&dir("malformed")));

    // A planted lock, from pending to firing, and away again.
    let claimed = dir("claimed");
    assert_eq!(prometheus.query(&format!("ALERTS{{db=\"{claimed}\"}}")), [] as [Value; 0], "it is free");
    let holder = sleeper();
    let lock = lock_text("nightly-import", holder.pid().into(), &this_host());
    fleet.scene.write("claimed/.beads/.exclusive-lock", lock);
    let skipped = prometheus.fires("BeadlockSkippedTooLong", Some(&claimed));
    assert!(skipped.starts_with(&format!("{claimed} has been skipped for ")), "{skipped}");
    let first = |state: &str| {
        let alerts =
            format!("ALERTS{{alertname=\"BeadlockSkippedTooLong\",alertstate=\"{state}\",db=\"{claimed}\"}}[5m]");
        prometheus.query(&alerts).first().and_then(|series| series["values"][0][0].as_f64())
    };
    let (mut pending, mut firing) = (None, None);
    wait_until(BOUND, "both states are stored", || {
        (pending, firing) = (first("pending"), first("firing"));
        pending.is_some() && firing.is_some()
    });
    let took = firing.expect("stored") - pending.expect("stored");
    assert!(took >= 2.9, "it was pending for {took} s, and `for` is 3s");

    // While everything has happened that a dashboard shows, each of its queries has an answer.
    for query in queries() {
        wait_until(BOUND, &query, || !prometheus.query(&query).is_empty());
    }

    fs::remove_file(fleet.scene.file("claimed/.beads/.exclusive-lock")).expect("the lock is there");
    wait_until(BOUND, "the alert ends", || {
        ["pending", "firing"]
            .iter()
            .all(|state| prometheus.alert("BeadlockSkippedTooLong", state, Some(&claimed)).is_none())
    });

    assert!(prometheus.alert("BeadlockAgentGone", "pending", None).is_none());
    let address = fleet.address.clone();
    assert_eq!(fleet.agent.stop(), Some(0));
    assert_eq!(prometheus.fires("BeadlockAgentGone", None), format!("No beadlock-agent answers at {address}"));
}
