//! The agent's metrics by the reference readers of both forms, and by promtool.

use std::fs;
use std::path::Path;

use beadlock_tests::watched::pages::{CLASSIC, OPENMETRICS, agent, metrics};
use beadlock_tests::{Ended, Scene, run, skip};
use serde_json::{Value, json};

/// Reads what is to be exposed, strictly, and prints it: name, type, unit, and each sample.
const READER: &str = "
import importlib, json, sys
text_string_to_metric_families = importlib.import_module(sys.argv[1]).text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
print(json.dumps([[f.name, f.type, f.unit, f.documentation, [[s.name, s.labels, float(s.value)] for s in f.samples]]
                  for f in families]))
";
const READERS: [&str; 2] = [
    "prometheus_client.openmetrics.parser",
    "prometheus_client.parser",
];

#[test]
fn the_metrics_are_read_by_the_reference_reader() {
    let Some(python) = skip::python(READERS[0]) else {
        return;
    };
    let scene = Scene::new();
    let (_agent, odd) = agent(&scene);
    let text = metrics(&scene, OPENMETRICS);
    let families = read(&scene, &python, READERS[0], &text).expect("what a reader accepts");
    let families = families.as_array().expect("a list");
    let family = |name: &str| {
        let name = match name.starts_with("process_") {
            true => name.to_owned(),
            false => format!("beadlock_agent_{name}"),
        };
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
        ("databases_gone", "counter", ""),
        ("sync_state", "gauge", ""),
        ("database_state", "gauge", ""),
        ("unpushed_commits", "gauge", ""),
        ("skipping_databases", "gauge", ""),
        ("longest_skip_streak_seconds", "gauge", "seconds"),
        ("skip_streak", "gauge", ""),
        ("skip_streak_age_seconds", "gauge", "seconds"),
        ("process_cpu_seconds", "counter", "seconds"),
        ("process_resident_memory_bytes", "gauge", "bytes"),
        ("process_virtual_memory_bytes", "gauge", "bytes"),
        ("process_open_fds", "gauge", ""),
        ("process_max_fds", "gauge", ""),
        ("process_start_time_seconds", "gauge", "seconds"),
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
        24,
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
            read(&scene, &python, READERS[0], &broken).is_none(),
            "the reader takes anything"
        );
    }
}

/// A client that does not ask for OpenMetrics gets the same, in the classic form.
#[test]
fn the_classic_form_says_the_same() {
    let Some(python) = skip::python(READERS[1]) else {
        return;
    };
    let scene = Scene::new();
    let (_agent, _) = agent(&scene);
    let [openmetrics, classic] = [OPENMETRICS, CLASSIC].map(|form| metrics(&scene, form));
    let [of_openmetrics, of_classic] = [(READERS[0], &openmetrics), (READERS[1], &classic)]
        .map(|(reader, text)| samples(&read(&scene, &python, reader, text).expect(reader)));
    assert!(of_openmetrics.len() > 70, "{of_openmetrics:?}");
    assert_eq!(of_openmetrics, of_classic);
    assert!(!classic.contains("# UNIT") && !classic.contains("# EOF"));
}

/// Each sample by its name and labels, without the values.
fn samples(families: &Value) -> Vec<String> {
    let families = families.as_array().expect("a list").iter();
    let samples = families.flat_map(|family| family[4].as_array().expect("samples"));
    let mut samples: Vec<String> = samples
        .map(|sample| format!("{} {}", sample[0], sample[1]))
        .collect();
    samples.sort();
    samples
}

#[test]
fn promtool_finds_the_metrics_right() {
    if !skip::has_program("promtool") {
        return;
    }
    let scene = Scene::new();
    let (_agent, _) = agent(&scene);
    let check = |text: &str| {
        let mut command = scene.command("promtool");
        command
            .args(["check", "metrics"])
            .stdin(input(&scene, text));
        Ended::from(run(command))
    };
    let text = metrics(&scene, CLASSIC);
    let checked = check(&text);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""), "{checked:?}");
    let wrong = text.replace("# HELP beadlock_agent_cycles_total", "# HELP another");
    assert_ne!(check(&wrong).code, 0, "promtool takes anything");
}

/// What the reader makes of it; `None`: it does not take it.
fn read(scene: &Scene, python: &Path, reader: &str, text: &str) -> Option<Value> {
    let mut command = scene.command(python);
    command
        .args(["-c", READER, reader])
        .stdin(input(scene, text));
    let output = command.output().expect("start python");
    output
        .status
        .success()
        .then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn input(scene: &Scene, text: &str) -> fs::File {
    scene.write("metrics", text);
    fs::File::open(scene.file("metrics")).expect("open them")
}
