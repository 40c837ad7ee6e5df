//! A redirect that comes, changes or goes while the agent runs: claims follow it at once, and so does the agent.

use std::fs;
use std::path::Path;

use crate::agent::{count_in, fresh_scene, log_of};
use beadlock_testkit::{read, shell_lock_text, this_host, until};

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
    let text = shell_lock_text("vc", std::process::id().into(), &this_host());
    fs::write(dir.join(".exclusive-lock"), text).unwrap();
}

#[test]
fn a_claim_where_a_new_redirect_leads_is_kept_from_the_next_cycle_on() {
    let scene = fresh_scene();
    let other = scene.database("other");
    let agent = scene.start(&["--db", ".beads", "--exec", EXEC, "--interval", "20ms"]);
    until("cycles", || ran(&scene.beads()) > 2);
    claim(&other);
    redirect(&scene.beads(), "other/.beads");
    let moved = line(&scene.beads(), &other, &scene.beads());
    until("the redirect in both logs", || {
        count_in(&scene.beads(), &moved) == 1 && count_in(&other, &moved) == 1
    });
    let before = ran(&scene.beads());
    let skipped = || count_in(&other, "Skipping database (locked by vc)");
    until("skips", || skipped() > 10);
    assert_eq!(
        (ran(&scene.beads()), ran(&other)),
        (before, 0),
        "it works beside the claim"
    );
    #[expect(
        clippy::disallowed_methods,
        reason = "the test is the holder of the lock"
    )]
    fs::remove_file(other.join(".exclusive-lock")).unwrap();
    until("cycles there", || ran(&other) > 2);
    assert_eq!(ran(&scene.beads()), before);
    #[expect(
        clippy::disallowed_methods,
        reason = "the test takes back the redirect"
    )]
    fs::remove_file(scene.beads().join("redirect")).unwrap();
    until("cycles in its own directory", || {
        ran(&scene.beads()) > before + 2
    });
    assert_eq!(
        count_in(
            &scene.beads(),
            &line(&scene.beads(), &scene.beads(), &other)
        ),
        1
    );
    let there = ran(&other);
    until("more cycles", || ran(&scene.beads()) > before + 5);
    assert_eq!(ran(&other), there);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_redirect_that_leads_nowhere_stops_the_cycles_and_is_said_once() {
    let scene = fresh_scene();
    let agent = scene.start(&["--db", ".beads", "--exec", EXEC, "--interval", "20ms"]);
    until("cycles", || ran(&scene.beads()) > 2);
    redirect(&scene.beads(), "nowhere/.beads");
    let refused = format!("Not serving {}: cannot follow ", scene.beads().display());
    let said = || {
        log_of(&scene.beads())
            .iter()
            .filter(|line| line.starts_with(&refused))
            .count()
    };
    until("why", || said() == 1);
    let before = ran(&scene.beads());
    scene.database("nowhere");
    let there = scene.file("nowhere/.beads");
    until("cycles there", || ran(&there) > 2);
    assert_eq!((ran(&scene.beads()), said()), (before, 1));
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn two_names_that_lead_to_one_directory_are_one_database() {
    let scene = fresh_scene();
    let other = scene.database("other");
    let args = [
        "--db",
        ".beads",
        "--db",
        "other/.beads",
        "--exec",
        EXEC,
        "--interval",
        "20ms",
    ];
    let agent = scene.start(&[&args[..], &["--listen", "unix:agent.sock"]].concat());
    until("cycles of both", || {
        ran(&scene.beads()) > 2 && ran(&other) > 2
    });
    redirect(&scene.beads(), "other/.beads");
    until("the redirect", || {
        count_in(
            &scene.beads(),
            &line(&scene.beads(), &other, &scene.beads()),
        ) == 1
    });
    let before = (ran(&scene.beads()), ran(&other));
    until("cycles there", || ran(&other) > before.1 + 5);
    assert_eq!(ran(&scene.beads()), before.0);
    let status = crate::outside::get(&scene, "/status").1;
    assert!(status.contains(r#""served":1,"#), "{status}");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_database_below_a_root_is_followed_too() {
    let scene = fresh_scene();
    fs::create_dir_all(scene.file("elsewhere/db")).unwrap();
    let other = scene.file("elsewhere/db");
    let agent = scene.start(&["--root", ".", "--exec", EXEC, "--interval", "20ms"]);
    until("cycles", || ran(&scene.beads()) > 2);
    claim(&other);
    redirect(&scene.beads(), "elsewhere/db");
    until("skips there", || {
        count_in(&other, "Skipping database (locked by vc)") > 3
    });
    let before = ran(&scene.beads());
    until("more skips", || {
        count_in(&other, "Skipping database (locked by vc)") > 10
    });
    assert_eq!(
        (ran(&scene.beads()), ran(&other)),
        (before, 0),
        "it works beside the claim"
    );
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn what_a_named_database_no_longer_leads_to_is_found_below_the_root() {
    let scene = fresh_scene();
    let (one, other) = (scene.database("tree/one"), scene.database("tree/other"));
    redirect(&scene.beads(), "tree/one/.beads");
    let agent = scene.start(&[
        "--root",
        "tree",
        "--db",
        ".beads",
        "--exec",
        EXEC,
        "--interval",
        "20ms",
    ]);
    until("cycles of both", || ran(&one) > 2 && ran(&other) > 2);
    redirect(&scene.beads(), "tree/other/.beads");
    until("the redirect", || {
        count_in(&one, &line(&scene.beads(), &other, &one)) == 1
    });
    let before = (ran(&one), ran(&other));
    until("more cycles of both", || {
        ran(&one) > before.0 + 3 && ran(&other) > before.1 + 3
    });
    assert_eq!(agent.stop(), Some(0));
}
