//! A redirect that comes, changes or goes while the agent runs: claims follow it at once, and so does the agent.

use std::fs;
use std::path::Path;

use crate::scene::{Scene, count_in, log_of, read, wait_until};

const EXEC: &str = "echo $BEADS_DIR >> $BEADS_DIR/ran";

fn ran(dir: &Path) -> usize {
    read(&dir.join("ran")).lines().count()
}

fn redirect(dir: &Path, to: &str) {
    fs::write(dir.join("redirect"), to).unwrap();
}

fn line(named: &Path, to: &Path, before: &Path) -> String {
    format!(
        "Database redirected: {} leads to {} now, and led to {} before",
        named.display(),
        to.display(),
        before.display()
    )
}

/// A lock of a process that lives, in this directory.
fn claim(dir: &Path) {
    let host = beadlock_checker::internal::facts::hostname().unwrap();
    let pid = std::process::id();
    let text =
        format!(r#"{{"holder":"vc","pid":{pid},"hostname":"{host}","started_at":"2026-01-02T03:04:05Z"}}"#);
    fs::write(dir.join(".exclusive-lock"), text).unwrap();
}

#[test]
fn a_claim_where_a_new_redirect_leads_is_kept_from_the_next_cycle_on() {
    let scene = Scene::new();
    let other = scene.database("other");
    let agent = scene.start(&["--db", ".beads", "--exec", EXEC, "--interval", "20ms"]);
    wait_until("cycles", || ran(&scene.dir) > 2);
    claim(&other);
    redirect(&scene.dir, "other/.beads");
    let moved = line(&scene.dir, &other, &scene.dir);
    wait_until("the redirect in both logs", || {
        count_in(&scene.dir, &moved) == 1 && count_in(&other, &moved) == 1
    });
    let before = ran(&scene.dir);
    let skipped = || count_in(&other, "Skipping database (locked by vc)");
    wait_until("skips", || skipped() > 10);
    assert_eq!((ran(&scene.dir), ran(&other)), (before, 0), "it works beside the claim");
    #[expect(clippy::disallowed_methods, reason = "the test is the holder of the lock")]
    fs::remove_file(other.join(".exclusive-lock")).unwrap();
    wait_until("cycles there", || ran(&other) > 2);
    assert_eq!(ran(&scene.dir), before);
    #[expect(clippy::disallowed_methods, reason = "the test takes back the redirect")]
    fs::remove_file(scene.dir.join("redirect")).unwrap();
    wait_until("cycles in its own directory", || ran(&scene.dir) > before + 2);
    assert_eq!(count_in(&scene.dir, &line(&scene.dir, &scene.dir, &other)), 1);
    let there = ran(&other);
    wait_until("more cycles", || ran(&scene.dir) > before + 5);
    assert_eq!(ran(&other), there);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_redirect_that_leads_nowhere_stops_the_cycles_and_is_said_once() {
    let scene = Scene::new();
    let agent = scene.start(&["--db", ".beads", "--exec", EXEC, "--interval", "20ms"]);
    wait_until("cycles", || ran(&scene.dir) > 2);
    redirect(&scene.dir, "nowhere/.beads");
    let refused = format!("Not serving {}: cannot follow ", scene.dir.display());
    let said = || log_of(&scene.dir).iter().filter(|line| line.starts_with(&refused)).count();
    wait_until("why", || said() == 1);
    let before = ran(&scene.dir);
    scene.database("nowhere");
    let there = scene.file("nowhere/.beads");
    wait_until("cycles there", || ran(&there) > 2);
    assert_eq!((ran(&scene.dir), said()), (before, 1));
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn two_names_that_lead_to_one_directory_are_one_database() {
    let scene = Scene::new();
    let other = scene.database("other");
    let args = ["--db", ".beads", "--db", "other/.beads", "--exec", EXEC, "--interval", "20ms"];
    let agent = scene.start(&[&args[..], &["--listen", "unix:agent.sock"]].concat());
    wait_until("cycles of both", || ran(&scene.dir) > 2 && ran(&other) > 2);
    redirect(&scene.dir, "other/.beads");
    wait_until("the redirect", || count_in(&scene.dir, &line(&scene.dir, &other, &scene.dir)) == 1);
    let before = (ran(&scene.dir), ran(&other));
    wait_until("cycles there", || ran(&other) > before.1 + 5);
    assert_eq!(ran(&scene.dir), before.0);
    let status = crate::outside::get(&scene, "/status").1;
    assert!(status.contains(r#""served":1,"#), "{status}");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_database_below_a_root_is_followed_too() {
    let scene = Scene::new();
    fs::create_dir_all(scene.file("elsewhere/db")).unwrap();
    let other = scene.file("elsewhere/db");
    let agent = scene.start(&["--root", ".", "--exec", EXEC, "--interval", "20ms"]);
    wait_until("cycles", || ran(&scene.dir) > 2);
    claim(&other);
    redirect(&scene.dir, "elsewhere/db");
    wait_until("skips there", || count_in(&other, "Skipping database (locked by vc)") > 3);
    let before = ran(&scene.dir);
    wait_until("more skips", || count_in(&other, "Skipping database (locked by vc)") > 10);
    assert_eq!((ran(&scene.dir), ran(&other)), (before, 0), "it works beside the claim");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn what_a_named_database_no_longer_leads_to_is_found_below_the_root() {
    let scene = Scene::new();
    let (one, other) = (scene.database("tree/one"), scene.database("tree/other"));
    redirect(&scene.dir, "tree/one/.beads");
    let agent = scene.start(&["--root", "tree", "--db", ".beads", "--exec", EXEC, "--interval", "20ms"]);
    wait_until("cycles of both", || ran(&one) > 2 && ran(&other) > 2);
    redirect(&scene.dir, "tree/other/.beads");
    wait_until("the redirect", || count_in(&one, &line(&scene.dir, &other, &one)) == 1);
    let before = (ran(&one), ran(&other));
    wait_until("more cycles of both", || ran(&one) > before.0 + 3 && ran(&other) > before.1 + 3);
    assert_eq!(agent.stop(), Some(0));
}
