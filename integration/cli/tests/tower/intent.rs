//! Sections 2.1 and 3.3: what an intent file says.

use std::fs;

use crate::scene::{TARGET, Tower, parsed};

const INTENT: &str = "\
metadata:
  name: deploy-app
  version: 1.20
spec:
  mode: mutate
  controls:
    lock: \"${params.app}-${params.environment}\"
";

fn record(tower: &Tower, words: &[&str]) -> serde_json::Value {
    let show = ["--", "sh", "-c", "cat $BEADLOCK_LOCK_DIR/*.lock"];
    parsed(
        &tower
            .run(&[&["hold", "--intent", "i.yaml"][..], words, &show].concat())
            .expect(0, &[])
            .out,
    )
}

fn tower() -> Tower {
    let tower = Tower::new();
    fs::write(tower.scene.file("i.yaml"), INTENT).unwrap();
    tower
}

const PARAMS: [&str; 4] = [
    "--param",
    "app=money-tracker",
    "--param",
    "environment=production",
];

#[test]
fn the_name_is_the_resolved_template() {
    let tower = tower();
    assert_eq!(
        record(&tower, &PARAMS)["lock_name"],
        "money-tracker-production"
    );
    assert_eq!(
        tower.event("lock_acquired")["lock_name"],
        "money-tracker-production"
    );
    assert_eq!(
        record(&tower, &[&[TARGET][..], &PARAMS].concat())["lock_name"],
        "app-prod",
        "what is typed"
    );
    let words = [
        "hold", "--intent", "i.yaml", "--param", "app=x", "--", "touch", "ran",
    ];
    tower
        .run(&words)
        .expect(2, &["i.yaml:7", "${params.environment}", "not set"]);
    assert!(!tower.scene.file("ran").exists());
}

#[test]
fn name_and_version_are_the_files() {
    let tower = tower();
    let there = record(&tower, &PARAMS);
    assert_eq!(
        (&there["intent"], &there["intent_version"]),
        (&"deploy-app".into(), &"1.20".into())
    );
    let typed = record(&tower, &[&["--intent-version", "2"][..], &PARAMS].concat());
    assert_eq!(
        (&typed["intent"], &typed["intent_version"]),
        (&"deploy-app".into(), &"2".into())
    );
}

#[test]
fn the_ttl_is_the_intents_else_900() {
    let tower = tower();
    assert_eq!(record(&tower, &PARAMS)["ttl_seconds"], 900);
    fs::write(
        tower.scene.file("i.yaml"),
        format!("{INTENT}  timeouts: {{lock_ttl: 1800}}\n"),
    )
    .unwrap();
    assert_eq!(record(&tower, &PARAMS)["ttl_seconds"], 1800);
    assert_eq!(
        record(&tower, &[&["--ttl", "60"][..], &PARAMS].concat())["ttl_seconds"],
        60
    );
}
