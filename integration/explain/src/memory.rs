//! What `status` explains of the lock of a directory: its process and its age. A missing field is not evidence.

use beadlock_base::{duration::shown, escape::escaped};
use beadlock_core::Reason;
use beadlock_core::record::facts::Liveness;
use beadlock_core::record::memory::{self, Record, UNREFRESHED};
use serde_json::json;

use crate::explained::{Explained, Inspected, NextCommand, kill_words, millis, since};
use beadlock_claim::fact::Fact;

pub fn explain(seen: &Inspected<'_>, record: &Record) -> Explained {
    let why = || why(seen, record);
    let (situation, why, next) = match seen.look.verdict.reason() {
        Reason::PidGone => (
            "gone",
            "its process is gone".to_owned(),
            seen.removed_by_check(),
        ),
        Reason::AgeExceeded => (
            "old",
            why(),
            (seen.of_target("beadlock check {}"), "removes it".to_owned()),
        ),
        Reason::AgeFresh => (
            "recent",
            why(),
            seen.wait("waits until it is free, or too old"),
        ),
        reason if record.acquired_at.is_some() => {
            ("old_by_the_clock", why(), wait_for_refresh(seen, reason))
        }
        reason => ("ageless", why(), ask_holder(seen, reason)),
    };
    Explained {
        situation,
        why,
        next,
        facts: facts(seen, record),
        holder_is: "",
    }
}

fn wait_for_refresh(seen: &Inspected<'_>, reason: Reason) -> NextCommand {
    let process = match reason {
        Reason::OtherPidNamespace => String::new(),
        _ => format!("; to see its process: {}", seen.see_process()),
    };
    let look = format!(
        "looks at it for {} and removes it if it is not refreshed",
        shown(UNREFRESHED)
    );
    (seen.of_target("beadlock wait {}"), look + &process)
}

fn ask_holder(seen: &Inspected<'_>, reason: Reason) -> NextCommand {
    if seen.record.pid() <= 0 {
        let raw = seen.of_target("beadlock status --raw {}");
        return (
            raw,
            format!("shows it; when nobody works: {}", seen.by_hand()),
        );
    }
    let see = if reason == Reason::OtherHost {
        seen.see_on_its_host()
    } else {
        seen.see_process()
    };
    (see, seen.once_gone())
}

fn why(seen: &Inspected<'_>, record: &Record) -> String {
    let (facts, limits) = (seen.facts, &seen.options.limits);
    if let Some((_, words)) = memory::evidence(record, facts, limits) {
        return escaped(&words).to_string();
    }
    let process = match (facts.liveness, memory::watchdog(record, facts)) {
        (Liveness::Alive | Liveness::NotPermitted, _) => "its process lives".to_owned(),
        (_, Some(pid)) => {
            format!("its process is gone, but PID {pid} has still to end what that had started")
        }
        _ => "its process is not known to be gone".to_owned(),
    };
    let age = record.acquired_at.map(|time| time.age(facts.now));
    if memory::is_old(record, facts, limits) {
        return format!(
            "{process}, and by the clock the lock is {:.1}s old (>{}s); a clock that was set makes a refreshed lock \
             old, so it is stale only when it stays unrefreshed for {}",
            age.unwrap_or_default().as_secs_f64(),
            limits.age.as_secs_f64(),
            shown(UNREFRESHED)
        );
    }
    match (age, memory::fresh_for(record, facts, limits)) {
        (Some(age), _) if age.is_negative() => {
            format!("{process}, and its time lies in the future: a clock is wrong, here or there")
        }
        (Some(_), Some(left)) => {
            format!(
                "{process}, and it is stale by its age in {} if nobody refreshes it",
                shown(left)
            )
        }
        _ => format!("{process}; when it was acquired it does not say, so it is never too old"),
    }
}

fn facts(seen: &Inspected<'_>, record: &Record) -> Vec<Fact> {
    let facts = seen.facts;
    let age = record.acquired_at.map(|time| time.age(facts.now));
    let acquired = match record.acquired_at.zip(age) {
        None => "unknown: never too old".to_owned(),
        Some((time, age)) => {
            let or_refreshed = if age.is_negative() {
                ""
            } else {
                ", or refreshed then"
            };
            format!("{time}, {}{or_refreshed}", since(age))
        }
    };
    let process = match (record.pid, facts.liveness) {
        (None, _) => "unknown".to_owned(),
        (Some(pid), Liveness::NotAsked) => {
            format!("PID {pid}, which was not asked: it is not known to be of this place")
        }
        (Some(pid), liveness) => format!("kill({pid}, 0) {}", kill_words(liveness).1),
    };
    let here = facts.hostname.as_deref().unwrap_or("unknown");
    let host = match &record.hostname {
        None => "unknown".to_owned(),
        Some(host) => {
            let is_same = if host.eq_ignore_ascii_case(here) {
                "this one"
            } else {
                "not this one"
            };
            format!("{}, {is_same} ({})", escaped(host), escaped(here))
        }
    };
    vec![
        Fact::json("kill", kill_words(facts.liveness).0),
        Fact::text("acquired", acquired),
        Fact::text("process", process),
        Fact::new(
            "host",
            host,
            json!({ "record": record.hostname, "here": facts.hostname.as_deref() }),
        ),
        Fact::text("operation", escaped(record.operation()).to_string()),
        Fact::json("acquired", json!({ "age_ms": age.map(millis) })),
    ]
}
