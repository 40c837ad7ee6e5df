//! `list` shows every lock that is there, and nothing that is not.

use beadlock_tests::{Ended, Running};
use serde_json::Value;

use crate::envelope::{self, is_answer};
use crate::site::{Site, UNTIL_GO};

pub fn tell(site: &Site) {
    assert_eq!(listed(site), Vec::<Value>::new(), "there is no lock");
    let holding = site.holding(&[], UNTIL_GO);
    is_listed(site, "held", site.protocol.refusal.reason);
    site.go();
    assert_eq!(holding.beadlock.end().code, 0);
    assert_eq!(
        listed(site),
        Vec::<Value>::new(),
        "what a release leaves is no lock"
    );
    for dead in site.protocol.dead {
        site.put(&(dead.text)(site.gone()));
        is_listed(site, "stale", dead.reason);
        is_listed(site, "stale", dead.reason);
    }
}

/// It is listed as `status` shows it, where the protocol's locks can be found.
#[track_caller]
fn is_listed(site: &Site, verdict: &str, reason: &str) {
    let list = listed(site);
    if site.protocol.listed_below.is_none() {
        assert_eq!(list, Vec::<Value>::new());
        return;
    }
    let (_, envelope) = site.json("status", &[]);
    let lock = envelope::shown(&envelope);
    assert_eq!(list.len(), 1, "{list:?}");
    for key in ["path", "verdict", "holder", "id", "reason"] {
        assert_eq!(list[0][key], lock[key], "{key}");
    }
    // A directory (`dir:`) is listed as the database that it could be: it is the same lock.
    let shown = match site.protocol.target.strip_prefix("dir:") {
        Some(dir) => dir,
        None => {
            assert_eq!(list[0]["target"], lock["target"]);
            assert_eq!(list[0]["next"], lock["next"]);
            site.protocol.target
        }
    };
    assert_eq!(
        (&list[0]["verdict"], &list[0]["reason"]),
        (&verdict.into(), &reason.into())
    );
    let ended = list_of(site, &[]);
    let line = ended.out.lines().find(|line| line.contains(shown));
    let line = line.unwrap_or_else(|| panic!("no line in {ended:?}"));
    assert!(
        line.contains(&format!("  {verdict}  ")) && line.ends_with(reason),
        "{ended:?}"
    );
    assert!(ended.err.contains("1 lock in "), "{ended:?}");
}

/// The locks that `list --json` names, of any protocol.
#[track_caller]
fn listed(site: &Site) -> Vec<Value> {
    let envelope = list_of(site, &["--json"]).json();
    is_answer(&envelope);
    envelope["data"].as_array().expect("a list").clone()
}

#[track_caller]
fn list_of(site: &Site, options: &[&str]) -> Ended {
    let root = site.protocol.listed_below.unwrap_or(".");
    let ended = Running::apart(site.plain(&[&["list", root], options].concat())).end();
    assert_eq!(ended.code, 0, "{ended:?}");
    ended
}
