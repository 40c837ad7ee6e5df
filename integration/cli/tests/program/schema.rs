//! `beadlock schema`: what JSON looks like.

use beadlock_testkit::schema::{errors, names, schema};
use serde_json::{Value, json};

#[test]
fn each_name_of_the_list_has_its_schema() {
    let scene = crate::a_scene();
    let listed = scene.run(&["schema"]).expect(0, &[]).out;
    let mut known: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    known.sort_unstable();
    assert_eq!(known, names());
    for name in known {
        let printed = scene.run(&["schema", name]).expect(0, &[]).json();
        assert_eq!(printed, schema(name));
        assert_eq!(
            printed["$schema"],
            "http://json-schema.org/draft-07/schema#"
        );
    }
}

#[test]
fn an_unknown_name_is_a_usage_error_and_names_the_nearest() {
    let scene = crate::a_scene();
    scene.run(&["schema", "stauts"]).expect(2, &["'status'"]);
    scene
        .run(&["schema", "status", "--json"])
        .expect(2, &["leave --json out"]);
}

#[test]
fn every_answer_says_its_version_and_a_key_of_another_is_seen() {
    let scene = crate::a_scene();
    let mut answer: Value = scene.run(&["status", "--json"]).expect(0, &[]).json();
    assert_eq!(answer["meta"]["schema"], "beadlock/1");
    assert_eq!(errors("status", &answer), Vec::<String>::new());
    answer["data"][0]["mutant"] = json!(1);
    assert_ne!(errors("status", &answer), Vec::<String>::new());
    let wrong = scene.run(&["frobnicate", "--json"]).expect(2, &[]).json();
    assert_eq!(errors("error", &wrong), Vec::<String>::new());
}
