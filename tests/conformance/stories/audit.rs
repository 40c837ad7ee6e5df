//! `--audit` gets a line for every event, in order, with the protocol's fields.

use std::fs;

use beadlock_tests::this_host;
use jiff::Timestamp;
use serde_json::Value;

use crate::envelope::keys;
use crate::protocol::{EVENT, Unwritable};
use crate::site::Site;

const AUDIT: [&str; 2] = ["--audit", "audit"];

pub fn tell(site: &Site) {
    a_hold_is_two_events_of_one_request(site);
    a_refusal_is_an_event(site);
    a_loss_is_an_event(site);
    a_stale_lock_that_is_taken_is_an_event(site);
    an_audit_file_that_cannot_be_opened_does_what_its_protocol_says(site);
}

/// The events since the last look.
#[track_caller]
fn new_events(site: &Site) -> Vec<Value> {
    let events = site.events();
    let _ = fs::remove_file(site.scene.file("audit"));
    events
}

fn names(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect()
}

fn a_hold_is_two_events_of_one_request(site: &Site) {
    let audit = &site.protocol.audit;
    for (script, code, result) in [("true", 0, "success"), ("exit 3", 3, "failure")] {
        let options = [&AUDIT[..], &["--report", "report"]].concat();
        assert_eq!(site.hold(&options, script).code, code);
        let report: Value = serde_json::from_str(&site.scene.read("report")).expect("a report");
        let id = report["data"]["id"].as_str().expect("an id");
        let events = new_events(site);
        assert_eq!(names(&events), ["lock_acquired", "lock_released"]);
        assert_eq!(keys(&events[0]), audit.acquired);
        assert_eq!(keys(&events[1])[..audit.released.len()], *audit.released);
        assert_eq!(events[0]["request_id"], events[1]["request_id"]);
        assert_eq!(events[0]["lock_path"], site.lock_path());
        assert_eq!(events[1]["result"], result);
        assert!(
            events[1]["held_duration_seconds"]
                .as_u64()
                .is_some_and(|held| held < 60)
        );
        for event in &events {
            is_of_now(site, event);
            assert!(
                event.to_string().contains(&format!("\"{id}\"")),
                "it names the claim {id}: {event}"
            );
        }
    }
}

#[track_caller]
fn is_of_now(site: &Site, event: &Value) {
    assert_eq!(event["lock_name"], site.protocol.audit.lock_name);
    let time = event["timestamp"].as_str().expect("a time");
    assert!(
        time.len() == 20 && time.ends_with('Z'),
        "UTC, in whole seconds: {time}"
    );
    let age = Timestamp::now().as_second() - time.parse::<Timestamp>().expect("a time").as_second();
    assert!((0..60).contains(&age), "{age} s");
    if keys(event) == EVENT {
        assert_eq!(
            keys(&event["by"]),
            [
                "holder", "program", "version", "pid", "uid", "user", "hostname"
            ]
        );
        assert_eq!(
            event["by"]["holder"].is_null(),
            site.protocol.holder_key.is_none(),
            "{event}"
        );
        assert_eq!(event["by"]["hostname"], this_host());
        assert_eq!(event["truncated"], false);
    }
}

fn a_refusal_is_an_event(site: &Site) {
    let neighbour = site.neighbour();
    let code = site.hold(&["--no-wait", "--audit", "audit"], "true").code;
    assert_eq!(code, site.protocol.refusal.exit_code);
    let events = new_events(site);
    assert_eq!(names(&events), Vec::from_iter(site.protocol.audit.blocked));
    for event in &events {
        assert_eq!(keys(event), EVENT);
        assert_eq!(event["reason"], site.protocol.refusal.reason);
        assert!(
            event["error"]
                .as_str()
                .is_some_and(|error| !error.is_empty()),
            "{event}"
        );
        is_of_now(site, event);
    }
    drop(neighbour);
    let _ = fs::remove_file(site.lock());
}

fn a_loss_is_an_event(site: &Site) {
    let holding = site.holding(&AUDIT, "exec sleep 600");
    fs::remove_file(site.lock()).expect("it is there");
    assert_eq!(holding.beadlock.end().code, 9);
    let events = new_events(site);
    assert_eq!(
        names(&events),
        ["lock_acquired", "lock_lost"],
        "no event of a release"
    );
    let lost = &events[1];
    assert_eq!(
        (keys(lost), &lost["reason"]),
        (site.protocol.audit.lost.to_vec(), &"vanished".into())
    );
    is_of_now(site, lost);
}

fn a_stale_lock_that_is_taken_is_an_event(site: &Site) {
    let taken = site.protocol.audit.taken;
    assert_eq!(
        taken.is_none(),
        site.protocol.dead.is_empty(),
        "the event is there for locks that can be stale"
    );
    for dead in site.protocol.dead {
        let pid = site.gone();
        site.put(&(dead.text)(pid));
        let options = [&AUDIT[..], &site.protocol.takeover.options()].concat();
        assert_eq!(site.hold(&options, "true").code, 0);
        let events = new_events(site);
        let expected: Vec<&str> = taken
            .into_iter()
            .chain(["lock_acquired", "lock_released"])
            .collect();
        assert_eq!(names(&events), expected, "{}", dead.what);
        assert_eq!(
            events[0]["previous_lock"]["pid"], pid,
            "it names whose lock it was: {}",
            events[0]
        );
        assert_eq!(events[0]["request_id"], events[1]["request_id"]);
        is_of_now(site, &events[0]);
    }
}

fn an_audit_file_that_cannot_be_opened_does_what_its_protocol_says(site: &Site) {
    let ended = site.hold(&["--audit", "nowhere/audit"], "echo ran");
    let expected = match site.protocol.audit.unwritable {
        Unwritable::RefusesTheClaim => (1, ""),
        Unwritable::IsAWarning => (0, "ran\n"),
    };
    assert_eq!((ended.code, ended.out.as_str()), expected, "{ended:?}");
    assert!(
        ended.err.contains("nowhere/audit cannot be opened"),
        "{ended:?}"
    );
    site.assert_free();
}
