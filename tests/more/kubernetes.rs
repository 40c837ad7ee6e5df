//! The manifest of docs/guide/containers.md by the schemas of Kubernetes.

use std::fs;
use std::path::Path;
use std::process::Command;

use beadlock_tests::skip::{checkout, lacking};
use beadlock_tests::{Ended, Scene, run};

/// An environment below the target directory with kubernetes-validate in it.
fn validator() -> Option<String> {
    let mut script = Command::new("scripts/python-environment.sh");
    script
        .args(["kubernetes", "tests/more/kubernetes-validate.txt"])
        .current_dir(checkout());
    let ended = Ended::from(script.output().expect("start it"));
    match ended.code {
        0 => Some(ended.out.trim().to_owned() + "/bin/kubernetes-validate"),
        3 => {
            lacking(ended.out.trim());
            None
        }
        _ => panic!("{ended:?}"),
    }
}

#[test]
fn the_manifest_holds_against_the_schemas() {
    let Some(validator) = validator() else {
        return;
    };
    let page =
        fs::read_to_string(checkout().join("docs/guide/containers.md")).expect("read the page");
    let blocks = page.split("```yaml\n").skip(1);
    let blocks: Vec<&str> = blocks.filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 1, "{page}");
    let scene = Scene::new();
    let validate = |text: &str| {
        scene.write("manifest.yml", text);
        let mut command = scene.command(Path::new(&validator));
        command.args(["--strict", "manifest.yml"]);
        Ended::from(run(command))
    };
    for block in blocks {
        let ended = validate(block);
        assert_eq!(ended.code, 0, "{ended:?}");
        let wrong = block.replace("restartPolicy", "restartPolicies");
        assert_ne!(validate(&wrong).code, 0, "it takes anything");
    }
}
