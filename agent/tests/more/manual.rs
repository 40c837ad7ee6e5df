//! The agent's manual pages, as mandoc and lexgrog read them.

use std::fs;

use beadlock_testkit::{Ended, run, tool};

use crate::fresh_scene;

#[test]
fn mandoc_and_lexgrog_find_no_fault() {
    let (Some(mandoc), Some(lexgrog)) = (tool("mandoc"), tool("lexgrog")) else {
        return;
    };
    let scene = fresh_scene();
    fs::create_dir(scene.file("pages")).unwrap();
    scene.run(&["--man", "pages"]).expect(0, &[]);
    for name in ["beadlock-agent.8", "beadlock-agent.toml.5"] {
        let path = scene.file("pages").join(name);
        let mut lint = scene.command(&mandoc);
        lint.args(["-T", "lint", "-W", "warning"]).arg(&path);
        let lint = Ended::from(run(lint));
        assert_eq!(
            (lint.code, lint.out.as_str(), lint.err.as_str()),
            (0, "", ""),
            "{name}"
        );
        let mut whatis = scene.command(&lexgrog);
        whatis.arg(&path);
        let name = name.rsplit_once('.').unwrap().0;
        let whatis = Ended::from(run(whatis)).expect(0, &[]);
        assert!(whatis.out.contains(&format!("\"{name} - ")), "{whatis:?}");
    }
}

/// The example of beadlock-agent.toml(5), as a reader copies it.
#[test]
fn the_example_of_the_page_is_a_configuration() {
    let Some(mandoc) = tool("mandoc") else { return };
    let scene = fresh_scene();
    scene.run(&["--man", "."]).expect(0, &[]);
    for dir in ["project/.beads", "other/.beads"] {
        fs::create_dir_all(scene.file(dir)).unwrap();
    }
    let mut shown = scene.command(mandoc);
    shown
        .args(["-T", "ascii", "-O", "width=200"])
        .arg(scene.file("beadlock-agent.toml.5"));
    let shown = Ended::from(run(shown)).expect(0, &[]).out;
    // Without overstriking.
    let plain: String = without_overstrikes(&shown);
    let (_, example) = plain.split_once("EXAMPLES").unwrap();
    let (example, _) = example.split_once("SEE ALSO").unwrap();
    let example: String = example
        .lines()
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    assert!(example.contains("[[database]]"), "{example}");
    scene.write("agent.toml", &example);
    let printed = scene
        .run(&["--config", "agent.toml", "--print-config"])
        .expect(0, &[])
        .out;
    assert!(
        printed.contains("make sync") && printed.contains("interval = \"30s\""),
        "{printed}"
    );
}

/// `X\u{8}X` is a bold X.
fn without_overstrikes(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '\u{8}' => drop(plain.pop()),
            c => plain.push(c),
        }
    }
    plain
}
