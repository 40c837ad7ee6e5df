//! An operator can take a lock away where the protocol lets him, and only the lock that he has named.

use std::fs;
use std::path::PathBuf;

use beadlock_tests::lives;
use serde_json::Value;

use crate::protocol::{Breaking, Dead};
use crate::site::{Site, UNTIL_GO};

pub fn tell(site: &Site) {
    let ended = site.run("break", &[]);
    match site.protocol.breaking {
        Breaking::Impossible => {
            assert_eq!(ended.code, 0, "there is nothing to break: {ended:?}");
            an_flock_stays_with_its_process(site);
        }
        Breaking::ById => {
            assert_eq!(ended.code, 2, "no lock was named: {ended:?}");
            let ended = site.run("break", &["--id", "anything"]);
            assert!(ended.err.contains("nothing to break"), "{ended:?}");
            locks_are_broken_by_id(site);
        }
        Breaking::ByIdOrUnnamed => {
            assert_eq!(ended.code, 0, "there is nothing to break: {ended:?}");
            assert!(ended.err.contains("No lock to break"), "{ended:?}");
            locks_are_broken_by_id(site);
        }
    }
}

fn an_flock_stays_with_its_process(site: &Site) {
    let holding = site.holding(&[], UNTIL_GO);
    let ended = site.run("break", &[]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(
        ended
            .err
            .contains(&format!("kill {}", holding.beadlock.pid())),
        "what to type: {ended:?}"
    );
    for option in [
        &["--even-if-live"][..],
        &["--id", "1:2:3"],
        &["--holder", "x"],
        &["--malformed"],
    ] {
        let ended = site.run("break", option);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(option[0]), "{ended:?}");
    }
    site.assert_held();
    site.go();
    assert_eq!(holding.beadlock.end().code, 0);
}

fn locks_are_broken_by_id(site: &Site) {
    let ended = site.run("break", &["--id", "anything"]);
    assert_eq!(ended.code, 0, "there is nothing to break: {ended:?}");
    a_live_lock_is_broken_only_with_even_if_live(site);
    for dead in site.protocol.dead {
        a_dead_lock_is_broken_by_its_id(site, dead);
    }
}

fn a_live_lock_is_broken_only_with_even_if_live(site: &Site) {
    let holding = site.holding(&[], UNTIL_GO);
    let (id, before) = (site.id(), site.record());
    let ended = site.run("break", &["--id", &id]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(
        ended.err.contains("--even-if-live"),
        "what to type: {ended:?}"
    );
    let ended = site.run("break", &["--id", "another", "--even-if-live"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert_eq!(pid(&site.record()), pid(&before), "it is untouched");
    assert!(lives(holding.command));

    let (code, envelope) = site.json(
        "break",
        &["--id", &id, "--even-if-live", "--reason", "it hangs"],
    );
    assert_eq!(code, 0, "{envelope}");
    assert_eq!(
        pid(&kept(site, &envelope)),
        pid(&before),
        "the record is kept"
    );
    let ended = holding.beadlock.end();
    assert_eq!(ended.code, 9, "its holder has lost it: {ended:?}");
    assert!(ended.err.contains("was broken by somebody"), "{ended:?}");
    assert!(!lives(holding.command));
    site.assert_free();
    clear(site);
}

fn a_dead_lock_is_broken_by_its_id(site: &Site, dead: &Dead) {
    let text = (dead.text)(site.gone());
    site.put(&text);
    let id = site.id();
    let ended = site.run("break", &["--id", "another"]);
    assert_eq!(ended.code, 1, "{}: {ended:?}", dead.what);
    assert_eq!(
        site.bytes(),
        Some(text.clone().into_bytes()),
        "{}: it is untouched",
        dead.what
    );
    let (code, envelope) = site.json("break", &["--id", &id]);
    assert_eq!(code, 0, "{}: {envelope}", dead.what);
    assert_eq!(
        kept(site, &envelope),
        serde_json::from_str::<Value>(&text).expect("a lock is JSON")
    );
    site.assert_free();
    clear(site);
}

fn pid(record: &Value) -> &Value {
    &record["pid"]
}

/// The record of a broken lock, as it is kept beside the lock's place.
#[track_caller]
fn kept(site: &Site, envelope: &Value) -> Value {
    crate::envelope::is_answer(envelope);
    let kept = PathBuf::from(envelope["data"]["kept"].as_str().expect("a path"));
    assert_eq!(
        kept.parent(),
        fs::canonicalize(site.directory()).ok().as_deref()
    );
    let name = kept
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(
        name.starts_with(&format!("{}.broken-", site.protocol.lock_file)),
        "{name}"
    );
    serde_json::from_str(&fs::read_to_string(kept).expect("it is there")).expect("a record is JSON")
}

/// Takes away what is kept of broken locks.
fn clear(site: &Site) {
    for name in site.names() {
        fs::remove_file(site.directory().join(name)).expect("it is there");
    }
}
