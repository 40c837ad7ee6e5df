//! The pages of `beadlock man`: mandoc and lexgrog find no fault.

use std::fs;

use beadlock_testkit::{Ended, run, tool};

#[test]
fn mandoc_and_lexgrog_find_no_fault() {
    let (Some(mandoc), Some(lexgrog)) = (tool("mandoc"), tool("lexgrog")) else {
        return;
    };
    let scene = crate::a_scene();
    fs::create_dir(scene.file("pages")).unwrap();
    scene.run(&["man", "pages"]).expect(0, &[]);
    let pages: Vec<_> = fs::read_dir(scene.file("pages"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(pages.len() > 20, "{pages:?}");
    for path in pages {
        let page = path.file_name().unwrap().to_str().unwrap();
        let mut lint = scene.command(&mandoc);
        lint.args(["-T", "lint", "-W", "warning"]).arg(&path);
        let lint = Ended::from(run(lint));
        assert_eq!(
            (lint.code, lint.out.as_str(), lint.err.as_str()),
            (0, "", ""),
            "{page}"
        );
        let mut whatis = scene.command(&lexgrog);
        whatis.arg(&path);
        let whatis = Ended::from(run(whatis)).expect(0, &[]);
        let name = page.rsplit_once('.').unwrap().0;
        assert!(whatis.out.contains(&format!("\"{name} - ")), "{whatis:?}");
    }
    // And they would.
    fs::write(
        scene.file("bad.1"),
        ".TH bad 1 today\n.SH NAME\nbad\n.PP\n.SH\n",
    )
    .unwrap();
    let mut lint = scene.command(&mandoc);
    lint.args(["-T", "lint", "-W", "warning"])
        .arg(scene.file("bad.1"));
    assert_ne!(Ended::from(run(lint)).code, 0);
}
