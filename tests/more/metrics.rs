//! The agent's metrics by the reference reader of OpenMetrics.

use std::fs;
use std::path::Path;

use beadlock_tests::watched::pages::{agent, ask};
use beadlock_tests::{Scene, skip};
use serde_json::{Value, json};

/// Reads what is to be exposed, strictly, and prints it: name, type, unit, and each sample.
const READER: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
print(json.dumps([[f.name, f.type, f.unit, f.documentation, [[s.name, s.labels, float(s.value)] for s in f.samples]]
                  for f in families]))
";

#[test]
fn the_metrics_are_read_by_the_reference_reader() {
    let Some(python) = skip::python("prometheus_client.openmetrics.parser") else {
        return;
    };
    let scene = Scene::new();
    let (_agent, odd) = agent(&scene);
    let text = ask(&scene, "/metrics").expect("metrics");
    let families = read(&scene, &python, &text).expect("what a reader accepts");
    let families = families.as_array().expect("a list");
    let family = |name: &str| {
        let name = format!("beadlock_agent_{name}");
        let found = families.iter().find(|family| family[0] == name);
        found.unwrap_or_else(|| panic!("no {name}: {text}")).clone()
    };
    for (name, kind, unit) in [
        ("build", "info", ""),
        ("start_time_seconds", "gauge", "seconds"),
        ("cycles", "counter", ""),
        ("skips", "counter", ""),
        ("stale_removals", "counter", ""),
        ("skip_warnings", "counter", ""),
        ("watcher_resyncs", "counter", ""),
        ("check_duration_seconds", "histogram", "seconds"),
        ("cycle_duration_seconds", "histogram", "seconds"),
        ("databases", "gauge", ""),
        ("sync_state", "gauge", ""),
        ("database_state", "gauge", ""),
        ("unpushed_commits", "gauge", ""),
        ("skipping_databases", "gauge", ""),
        ("longest_skip_streak_seconds", "gauge", "seconds"),
        ("skip_streak", "gauge", ""),
        ("skip_streak_age_seconds", "gauge", "seconds"),
    ] {
        let family = family(name);
        assert_eq!(
            (&family[1], &family[2]),
            (&json!(kind), &json!(unit)),
            "{name}"
        );
        assert!(
            family[3].as_str().is_some_and(|help| help.ends_with('.')),
            "{family}"
        );
    }
    assert_eq!(
        families.len(),
        17,
        "each is named above; without a push and a failure these two have no series"
    );
    let sample = |name: &str, label: &str, value: &str| {
        let family = family(name);
        let samples = family[4].as_array().expect("samples").clone();
        let found = samples.into_iter().find(|sample| sample[1][label] == value);
        found.unwrap_or_else(|| panic!("no {value}: {family}"))[2].clone()
    };
    assert_eq!(sample("cycles", "outcome", "complete"), json!(1.0));
    assert_eq!(sample("skips", "reason", "pid_alive"), json!(1.0));
    assert_eq!(
        sample("skip_streak", "db", &odd),
        json!(1.0),
        "its name survives the way"
    );
    for broken in [
        text.replace("# EOF\n", ""),
        text.replace("le=\"+Inf\"", "le=\"9999\""),
    ] {
        assert!(
            read(&scene, &python, &broken).is_none(),
            "the reader takes anything"
        );
    }
}

/// What the reader makes of it; `None`: it does not take it.
fn read(scene: &Scene, python: &Path, text: &str) -> Option<Value> {
    fs::write(scene.path().join("metrics"), text).expect("write the metrics");
    let mut command = scene.command(python);
    command
        .args(["-c", READER])
        .stdin(fs::File::open(scene.path().join("metrics")).expect("open them"));
    let output = command.output().expect("start python");
    output
        .status
        .success()
        .then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}
