//! The `witnesses` of the JSON contract.

use beadlock_checker::internal::facts::Liveness;
use serde_json::{Value, json};

use super::Witnesses;

impl Witnesses<'_> {
    /// The `witnesses` of the JSON contract. What is not known is null; what only a record has is there only with a
    /// record.
    pub fn json(&self) -> Value {
        let (gate, waiters) = self.gate.json();
        let file = self.look.on_disk.map(|file| {
            json!({
                "kind": file.kind.as_str(),
                "size": file.size,
                "modified": file.modified.to_string(),
                "age_ms": millis(file.modified.age(self.now)),
                "owner": file.owner,
            })
        });
        let mut witnesses = json!({
            "situation": self.situation.as_str(),
            "gate": gate,
            "gate_waiters": waiters,
            "side_file": self.look.side_file,
            "file": file,
        });
        if let (Some((record, facts)), Some(fields)) = (self.named(), witnesses.as_object_mut()) {
            let heartbeat = json!({
                "at": record.last_heartbeat_at.to_string(),
                "age_ms": millis(record.last_heartbeat_at.age(facts.now)),
                "ttl_seconds": record.ttl_seconds,
            });
            fields.insert("heartbeat".to_owned(), heartbeat);
            fields.insert(
                "host".to_owned(),
                json!({ "record": record.host_id, "here": facts.hostname.as_deref() }),
            );
            fields.insert("pid".to_owned(), record.pid.into());
        }
        if let (Some((record, facts)), Some(fields)) = (self.aged(), witnesses.as_object_mut()) {
            fields.insert("kill".to_owned(), kill_word(facts.liveness).into());
            fields.insert(
                "host".to_owned(),
                json!({ "record": record.hostname, "here": facts.hostname.as_deref() }),
            );
            let age = record.acquired_at.map(|time| millis(time.age(facts.now)));
            fields.insert("acquired".to_owned(), json!({ "age_ms": age }));
        }
        let (Some((record, facts)), Some(fields)) = (self.record(), witnesses.as_object_mut()) else {
            return witnesses;
        };
        let mark = record.beadlock.as_ref();
        let proof = facts.proof.as_ref();
        let members = self.members.iter();
        let members: Vec<Value> =
            members.map(|member| json!({ "pid": member.pid, "pid_there": member.pid_there })).collect();
        let age = record.started_at.age(self.now);
        let more = json!({
            "kill": kill_word(facts.liveness),
            "kill_here": kill_word(self.asked),
            "command_now": self.command_now(),
            "host": { "record": record.hostname, "here": facts.hostname.as_deref(), "same": facts.is_same_host(record) },
            "machine": sameness(facts.other_machine(record)),
            "boot": sameness(facts.other_boot(record)),
            "pid_namespace": { "record": record.pid_ns(), "here": facts.ids.pid_ns, "processes": members },
            "time_namespace": { "record": mark.and_then(|mark| mark.time_ns.as_ref()), "here": facts.ids.time_ns },
            "start_ticks": {
                "record": mark.and_then(|mark| mark.start_ticks),
                "process": proof.and_then(|proof| proof.start_ticks),
            },
            "starts_in_ms": age.is_negative().then(|| millis(-age)),
            "zombie": proof.map(|proof| proof.zombie),
            "namespace_gone": proof.map(|proof| proof.namespace_gone),
            "local_file_system": proof.map(|proof| proof.local_file_system),
        });
        if let Value::Object(more) = more {
            fields.extend(more);
        }
        witnesses
    }
}

fn millis(age: jiff::SignedDuration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}

/// `same`, `other` or unknown.
pub fn sameness(other: Option<bool>) -> Option<&'static str> {
    other.map(|other| if other { "other" } else { "same" })
}

fn kill_word(liveness: Liveness) -> &'static str {
    match liveness {
        Liveness::Alive => "ok",
        Liveness::NotPermitted => "EPERM",
        Liveness::Gone => "ESRCH",
        Liveness::Unknown => "unknown",
        Liveness::NotAsked => "not_asked",
    }
}
