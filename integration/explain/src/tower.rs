//! What `status` explains of a named lock: its holder's heartbeats. Host and PID are told to people: neither is asked.

use beadlock_base::escape::escaped;
use beadlock_core::Reason;
use beadlock_core::record::tower::{Record, silence};
use serde_json::json;

use crate::explained::{Explained, Inspected, millis, since};
use beadlock_claim::fact::Fact;
use beadlock_claim::protocol::tower::options_of_claim;
use beadlock_claim::words::{Part, to_type};

pub fn explain(seen: &Inspected<'_>, record: &Record) -> Explained {
    let (ttl, silent) = (
        record.ttl_seconds,
        silence(record, seen.facts.now).as_secs(),
    );
    let (situation, why, next) = match seen.look.verdict.reason() {
        Reason::HeartbeatFresh => (
            "beating",
            // The document's difference of whole seconds may be a second more than has gone by.
            format!(
                "its holder said {}s ago that it lives, and may be silent for {ttl}s",
                seen.age_of(record.last_heartbeat_at).as_secs()
            ),
            seen.wait("waits until it is free"),
        ),
        Reason::HeartbeatInFuture => {
            let host = Part::Word(record.host_id.as_ref());
            (
                "beating_in_future",
                format!(
                    "its last heartbeat lies in the future: a clock is wrong, here or on {}; it counts as held",
                    escaped(&record.host_id)
                ),
                (
                    to_type("ssh -- {} date -u; date -u", &[host]),
                    format!("compares the two clocks; {}", seen.once_gone()),
                ),
            )
        }
        _ => {
            let claim = Part::Words(options_of_claim(Some(seen.record)));
            let by_hand = to_type("beadlock break {} {}", &[seen.target.part(), seen.id()]);
            (
                "silent",
                format!("its holder has said nothing for {silent}s, and may be silent for {ttl}s"),
                (
                    to_type(
                        "beadlock hold {} --force-lock {} -- CMD",
                        &[seen.target.part(), claim],
                    ),
                    format!("takes it, and writes that down; without a command: {by_hand}"),
                ),
            )
        }
    };
    Explained {
        situation,
        why,
        next,
        facts: facts(seen, record),
        holder_is: "",
    }
}

fn facts(seen: &Inspected<'_>, record: &Record) -> Vec<Fact> {
    let (ttl, beat) = (record.ttl_seconds, record.last_heartbeat_at);
    let (acquired, silent) = (seen.age_of(record.created_at), seen.age_of(beat));
    let (intent, version) = (escaped(&record.intent), escaped(&record.intent_version));
    vec![
        Fact::text(
            "acquired",
            format!("{}, {}", record.created_at, since(acquired)),
        ),
        Fact::new(
            "heartbeat",
            format!("{beat}, {}; stale after {ttl}s without one", since(silent)),
            json!({ "at": beat.to_string(), "age_ms": millis(silent), "ttl_seconds": ttl }),
        ),
        Fact::text("intent", format!("{intent}, version {version}")),
        Fact::new(
            "host",
            format!(
                "{}, PID {} there (for people: neither is asked)",
                escaped(&record.host_id),
                record.pid
            ),
            json!({ "record": record.host_id, "here": seen.facts.hostname.as_deref() }),
        ),
        Fact::json("pid", record.pid),
    ]
}
