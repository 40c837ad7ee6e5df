//! `status` says who holds the lock and why, and what to type next; it changes nothing.

use crate::envelope::shown;
use crate::protocol::HOLDER;
use crate::site::{Site, UNTIL_GO};

pub fn tell(site: &Site) {
    a_free_lock(site);
    a_held_lock(site);
    another_tools_lock(site);
}

fn a_free_lock(site: &Site) {
    let (code, envelope) = site.json("status", &[]);
    let lock = shown(&envelope);
    let words = (code, &lock["target"], &lock["verdict"], &lock["reason"]);
    assert_eq!(
        words,
        (
            0,
            &site.protocol.shown.into(),
            &"free".into(),
            &"no_lock".into()
        )
    );
    assert!(
        lock["holder"].is_null() && lock["id"].is_null() && lock["record"].is_null(),
        "{lock}"
    );
    assert_eq!(lock["path"], site.lock_path());
    assert!(
        lock["next"]
            .as_str()
            .is_some_and(|next| next.starts_with("beadlock hold ")),
        "{lock}"
    );
    for command in ["check", "status", "wait"] {
        assert_eq!(site.run(command, &[]).code, 0, "{command}");
        assert_eq!(
            site.names(),
            Vec::<String>::new(),
            "{command} makes no file"
        );
    }
}

fn a_held_lock(site: &Site) {
    let holding = site.holding(&[], UNTIL_GO);
    let (before, record) = (site.names(), site.record());
    let (code, envelope) = site.json("status", &[]);
    let lock = shown(&envelope);
    assert_eq!((code, &lock["verdict"]), (0, &"held".into()));
    assert_eq!(lock["reason"], site.protocol.refusal.reason);
    let holder = site.protocol.holder_key.map(|_| HOLDER);
    assert_eq!(lock["holder"].as_str(), holder, "{lock}");
    for key in site.protocol.record.iter().filter(|key| !is_renewed(key)) {
        assert_eq!(
            lock["record"][key], record[key],
            "{key}: the record is shown as it was read"
        );
    }
    assert_eq!(lock["age_ms"].is_null(), record.is_null(), "{lock}");
    assert!(
        lock["next"]
            .as_str()
            .is_some_and(|next| next.starts_with("beadlock wait ")),
        "{lock}"
    );

    let ended = site.run("status", &[]);
    let first = ended.out.lines().next().expect("a line");
    let named = if record.is_null() {
        holding.beadlock.pid()
    } else {
        holding.command
    };
    assert!(
        first.contains(site.protocol.target) && first.contains("held"),
        "{ended:?}"
    );
    assert!(first.contains(&format!("PID {named}")), "{ended:?}");
    assert!(first.contains(holder.unwrap_or_default()), "{ended:?}");
    assert!(
        first.ends_with(&format!("({})", site.protocol.refusal.reason)),
        "{ended:?}"
    );
    assert!(ended.out.contains("\n  next: beadlock wait "), "{ended:?}");
    assert_eq!(site.names(), before, "a look changes nothing");
    site.go();
    assert_eq!(holding.beadlock.end().code, 0);
}

/// A field by which a holder says that it lives.
fn is_renewed(key: &str) -> bool {
    ["last_heartbeat_at", "acquired_at"].contains(&key)
}

fn another_tools_lock(site: &Site) {
    let neighbour = site.neighbour();
    let before = site.bytes();
    let (code, envelope) = site.json("status", &[]);
    let lock = shown(&envelope);
    assert_eq!((code, &lock["verdict"]), (0, &"held".into()));
    assert!(
        lock["id"].as_str().is_some_and(|id| !id.is_empty()),
        "every lock has an id: {lock}"
    );
    let text = site.run("status", &[]).out;
    assert!(text.contains(&format!("PID {}", neighbour.pid())), "{text}");
    assert_eq!(site.bytes(), before, "a look changes nothing");
}
