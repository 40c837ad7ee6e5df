//! `beadlock man`: a page for each command, and one for each file. `tests/more` has them read by mandoc and lexgrog.

use std::fs;

use beadlock_testkit::Scene;

/// The pages, by their names.
fn pages(scene: &Scene) -> Vec<String> {
    fs::create_dir(scene.file("pages")).unwrap();
    assert_eq!(scene.run(&["man", "pages"]).expect(0, &[]).out, "");
    let mut names: Vec<String> = fs::read_dir(scene.file("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn there_is_a_page_for_each_command_and_for_each_file() {
    let scene = crate::a_scene();
    let pages = pages(&scene);
    let of_fleet = ["beadlock-fleet-create.1", "fleet.toml.5"];
    let all = [
        "beadlock.1",
        "beadlock-hold.1",
        "beadlock-completions.1",
        "exclusive-lock.5",
    ];
    let of_fleet = cfg!(feature = "fleet").then_some(of_fleet);
    for page in all.into_iter().chain(of_fleet.into_iter().flatten()) {
        assert!(pages.iter().any(|name| name == page), "{page} in {pages:?}");
    }
    let hold = fs::read_to_string(scene.file("pages/beadlock-hold.1")).unwrap();
    for words in [
        ".SH EXAMPLES",
        "EXIT STATUS",
        "\\-\\-force\\-lock",
        "Named locks (tower:NAME)",
        "beadlock(1)",
    ] {
        assert!(hold.contains(words), "{words} in {hold}");
    }
    let page = fs::read_to_string(scene.file("pages/beadlock.1")).unwrap();
    assert_eq!(
        scene.run(&["man"]).expect(0, &[]).out,
        page,
        "without a directory that of the program"
    );
    for name in pages
        .iter()
        .filter_map(|name| name.strip_prefix("beadlock-")?.strip_suffix(".1"))
    {
        // A page is named by the page of what it is a command of.
        let words: Vec<&str> = name.split('-').collect();
        let above = words[..words.len() - 1]
            .iter()
            .map(|word| format!("-{word}"))
            .collect::<String>();
        let above = fs::read_to_string(scene.file(&format!("pages/beadlock{above}.1"))).unwrap();
        assert!(
            above.contains(&format!("beadlock\\-{}(1)", name.replace('-', "\\-"))),
            "{name} in {above}"
        );
        scene.run(&[&["help"], &words[..]].concat()).expect(0, &[]);
    }
    scene.run(&["man", "nowhere"]).expect(
        1,
        &["cannot write nowhere/beadlock.1: no such file or directory"],
    );
}

#[test]
fn no_page_goes_through_a_link_or_waits_for_a_reader() {
    let scene = crate::a_scene();
    fs::create_dir(scene.file("pages")).unwrap();
    fs::write(scene.file("other"), "mine").unwrap();
    std::os::unix::fs::symlink("../other", scene.file("pages/beadlock.1")).unwrap();
    scene
        .run(&["man", "pages"])
        .expect(1, &["cannot write pages/beadlock.1: "]);
    assert_eq!(fs::read_to_string(scene.file("other")).unwrap(), "mine");
    fs::create_dir(scene.file("fifo")).unwrap();
    nix::unistd::mkfifo(
        &scene.file("fifo/beadlock.1"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .unwrap();
    scene
        .run(&["man", "fifo"])
        .expect(1, &["cannot write fifo/beadlock.1: "]);
}
