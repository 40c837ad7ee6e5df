//! Section 2.2 (docs/protocols/tower.md#the-requirements): what a lock may be called.

use crate::scene::{INTENT, Tower};

#[test]
fn a_wrong_name_is_exit_2_and_names_the_character() {
    let tower = Tower::new();
    let long = format!("tower:{}", "x".repeat(129));
    for (target, words) in [
        ("tower:App", "not 'A'"),
        ("tower:a b", "not ' '"),
        ("tower:a$", "not '$'"),
        ("tower:-a", "must not start with '-'"),
        ("tower:a_", "must not end with '_'"),
        (&long, "at most 128 characters, this one has 129"),
        ("tower:", "names no lock"),
    ] {
        for command in [&["hold", target][..], &["acquire", target]] {
            let rest: &[&str] = if command[0] == "hold" {
                &["--", "touch", "ran"]
            } else {
                &[]
            };
            tower
                .run(&[command, &INTENT, rest].concat())
                .expect(2, &[words]);
        }
    }
    assert!(tower.names().is_empty() && !tower.scene.file("ran").exists());
}

#[test]
fn no_name_leads_out_of_the_lock_directory() {
    let tower = Tower::new();
    for target in ["tower:../x", "tower:/x", "tower:a/b", "tower:..", "tower:."] {
        tower
            .run(&[&["hold", target][..], &INTENT, &["--", "true"]].concat())
            .expect(2, &["not '"]);
    }
    // Of an intent file too.
    std::fs::write(
        tower.scene.file("i.yaml"),
        "metadata: {name: n, version: 1}\nspec:\n  controls: {lock: '${params.x}'}\n",
    )
    .unwrap();
    let words = [
        "hold", "--intent", "i.yaml", "--param", "x=../x", "--", "true",
    ];
    tower.run(&words).expect(2, &["i.yaml:3", "../x"]);
    let mut top: Vec<_> = std::fs::read_dir(tower.scene.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    top.sort();
    assert_eq!(top, [".beads", "i.yaml", "locks"]);
}
