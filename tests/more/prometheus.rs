//! The alert rules of `integration/prometheus` by promtool and by a real Prometheus that scrapes a real agent, and the
//! queries of the dashboard.

use std::fs;

use beadlock_tests::skip::has_program;
use beadlock_tests::watched::alerts::{BOUND, Fleet, file, get, queries, text};
use beadlock_tests::{Ended, Running, Scene, lock_text, run, sleeper, this_host, wait_until};
use serde_json::Value;

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
    // Where the pages are elsewhere, its README says what to type.
    let readme = text("README.md");
    let typed = readme
        .split("```sh\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let typed = Ended::from(run(scene.shell(typed.expect("a command"))));
    assert_eq!(typed.code, 0, "{typed:?}");
    let addresses = scene.read("alerts.yml");
    let site = "runbook_url: https://docs.example.org/beadlock/docs/guide/alerts.html#beadlock";
    assert_eq!(addresses.matches(site).count(), 7, "{addresses}");
    let checked = promtool(&["check", "rules", "--lint-fatal", "alerts.yml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    // Each rule has a case that fires: without the rule its test fails.
    let (rules, marker) = (text("alerts.yml"), "- alert: ");
    let alerts: Vec<&str> = rules
        .split(marker)
        .skip(1)
        .filter_map(|rule| rule.lines().next())
        .collect();
    assert_eq!(alerts.len(), 7, "{alerts:?}");
    for alert in alerts {
        scene.write(
            "alerts.yml",
            rules.replace(&format!("{marker}{alert}\n"), &format!("{marker}Another\n")),
        );
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
        scene.write(
            "rules.yml",
            rules.lines().map(with_short_for).collect::<String>(),
        );
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
            let line = talk
                .lines()
                .find(|line| line.contains("msg=\"Listening on\""))?
                .to_owned();
            Some(line.split_once("address=")?.1.trim().to_owned())
        };
        wait_until(BOUND, "Prometheus listens", || address().is_some());
        let address = address().expect("an address");
        wait_until(BOUND, "Prometheus is ready", || {
            get(&address, "/-/ready").is_some_and(|text| text.contains("eady"))
        });
        Self {
            address,
            _running: running,
        }
    }

    /// The series that a query answers, each with its labels and values.
    fn query(&self, query: &str) -> Vec<Value> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer =
            get(&self.address, &format!("/api/v1/query?query={escaped}")).expect("an answer");
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
            labels["alertname"] == name
                && alert["state"] == state
                && db.is_none_or(|db| labels["db"] == db)
        })
    }

    #[track_caller]
    fn fires(&self, name: &str, db: Option<&str>) -> String {
        wait_until(BOUND, &format!("{name} of {db:?} fires"), || {
            self.alert(name, "firing", db).is_some()
        });
        let alert = self.alert(name, "firing", db).expect("it goes on");
        alert["annotations"]["summary"]
            .as_str()
            .expect("a summary")
            .to_owned()
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
    assert_eq!(
        pushing,
        format!(
            "{} has commits that are not at the remote: 1",
            dir("unpushed")
        )
    );
    prometheus.fires("BeadlockNotPulling", Some(&dir("behind")));
    let failing = prometheus.fires("BeadlockFailing", Some(&dir("failing")));
    assert_eq!(failing, format!("{} is not synced: failed", dir("failing")));
    let malformed = prometheus.fires("BeadlockMalformedLock", None);
    assert!(malformed.ends_with(": malformed"), "{malformed}");
    prometheus.fires("BeadlockSkippedTooLong", Some(&dir("malformed")));

    // A planted lock, from pending to firing, and away again.
    let claimed = dir("claimed");
    assert_eq!(
        prometheus.query(&format!("ALERTS{{db=\"{claimed}\"}}")),
        [] as [Value; 0],
        "it is free"
    );
    let holder = sleeper();
    let lock = lock_text("nightly-import", holder.pid().into(), &this_host());
    fleet.scene.write("claimed/.beads/.exclusive-lock", lock);
    let skipped = prometheus.fires("BeadlockSkippedTooLong", Some(&claimed));
    assert!(
        skipped.starts_with(&format!("{claimed} has been skipped for ")),
        "{skipped}"
    );
    let first = |state: &str| {
        let alerts = format!(
            "ALERTS{{alertname=\"BeadlockSkippedTooLong\",alertstate=\"{state}\",db=\"{claimed}\"}}[5m]"
        );
        prometheus
            .query(&alerts)
            .first()
            .and_then(|series| series["values"][0][0].as_f64())
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
        ["pending", "firing"].iter().all(|state| {
            prometheus
                .alert("BeadlockSkippedTooLong", state, Some(&claimed))
                .is_none()
        })
    });

    assert!(
        prometheus
            .alert("BeadlockAgentGone", "pending", None)
            .is_none()
    );
    let address = fleet.address.clone();
    assert_eq!(fleet.agent.stop(), Some(0));
    assert_eq!(
        prometheus.fires("BeadlockAgentGone", None),
        format!("No beadlock-agent answers at {address}")
    );
}
