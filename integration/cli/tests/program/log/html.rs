//! `beadlock log --html`: the page as a file. `tests/more` has it shown by a browser.

mod known;

use std::fs;

use known::{Log, week};

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

#[test]
fn of_a_very_long_log_the_page_says_what_it_leaves_out() {
    let scene = crate::a_scene();
    let lines: Vec<String> = (0..21_000)
        .flat_map(|number| {
            let at = format!(
                "{:02}:{:02}:{:02}",
                number / 3600,
                number / 60 % 60,
                number % 60
            );
            [
                format!("[2026-02-01 {at}] Skipping database (locked by make)"),
                format!("[2026-02-01 {at}] Resumed after 1 skip in 1s"),
                format!("[2026-02-01 {at}] Starting sync cycle..."),
                format!("[2026-02-01 {at}] Sync cycle complete"),
            ]
        })
        .collect();
    fs::write(scene.file("x.log"), lines.join("\n") + "\n").unwrap();
    let page = scene.run(&["log", "--html", "x.log"]).expect(0, &[]).out;
    let left_out = "The timeline shows the last 11000 claims of 21000";
    assert!(page.contains(left_out), "it says how many");
    assert!(
        page.contains("<td class=\"n\">21000</td>"),
        "the sums are of all"
    );
}

#[test]
fn a_claim_does_not_look_like_a_failure_and_names_are_short() {
    let scene = crate::a_scene();
    let mut log = Log::new();
    for name in ["shop", "billing"] {
        let line = format!("/srv/teams/{name}/.beads: Skipping database (locked by make)");
        log.say(10, &line);
    }
    log.say(11, "/srv/teams/infra/.beads: Starting sync cycle...");
    log.say(
        11,
        "/srv/teams/infra/.beads: Sync cycle failed: the hook pre-commit has failed",
    );
    fs::write(scene.file("several.log"), &log.0).unwrap();
    let page = scene
        .run(&["log", "--html", "several.log"])
        .expect(0, &[])
        .out;
    for title in ["shop", "billing"] {
        let title = format!(
            "title=\"/srv/teams/{title}/.beads\">{title}</h2><span class=\"verdict skipped\">Skipping<"
        );
        assert!(page.contains(&title), "{title}: {page}");
    }
    assert!(
        page.contains(">infra</h2><span class=\"verdict bad\">"),
        "{page}"
    );
}
