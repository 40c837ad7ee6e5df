//! `beadlock log --html`: the page as a file. `tests/more` has it shown by a browser.

mod known;

use std::fs;

use known::week;

#[test]
fn a_page_is_for_a_file_and_not_for_json() {
    let scene = crate::a_scene();
    let page = fs::read_to_string(week().page(&scene, &[])).unwrap();
    assert!(
        page.starts_with("<!doctype html>\n") && page.ends_with("</html>\n"),
        "{page}"
    );
    for outside in ["http://", "https://", "src=", "@import", "url(//"] {
        let found = page
            .replace("http://www.w3.org/2000/svg", "")
            .contains(outside);
        assert!(!found, "{outside} leads out of the page");
    }
    scene
        .run(&["log", "--html", "--json"])
        .expect(2, &["cannot be used with"]);
    scene
        .run(&["log", "--html", "none.log"])
        .expect(1, &["none.log"]);
}
