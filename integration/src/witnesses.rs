//! Every witness that a verdict rests on, for people and in JSON (DESIGN 4 and 8).

use std::path::Path;
use std::time::Duration;

use beadlock_checker::dialect::beads::Record;
use beadlock_checker::escape::escaped;
use beadlock_checker::facts::{Facts, Liveness};
use beadlock_checker::{Gate, GateHolder, Look};
use serde_json::{Value, json};

use crate::words;
use beadlock_checker::duration::shown;

/// What is known about one lock and its gate.
#[derive(Debug)]
pub struct Witnesses<'a> {
    look: &'a Look,
    gate: Vec<GateHolder>,
    gate_waiters: Vec<GateHolder>,
}

impl<'a> Witnesses<'a> {
    /// Of a look at the database in `dir`.
    pub fn gather(look: &'a Look, dir: &Path) -> Self {
        Self { look, gate: Gate::holders(dir), gate_waiters: Gate::waiters(dir) }
    }

    /// The `witnesses` of the JSON contract. What is not known is null.
    pub fn json(&self) -> Value {
        let each = |GateHolder { pid, command }: &GateHolder| json!({ "pid": pid, "command": command });
        let all = |those: &[GateHolder]| those.iter().map(each).collect::<Vec<Value>>();
        let (gate, waiters) = (all(&self.gate), all(&self.gate_waiters));
        let mut witnesses =
            json!({ "gate": gate, "gate_waiters": waiters, "side_file": self.look.side_file });
        if let (Some(record), Some(facts), Some(fields)) =
            (&self.look.record, &self.look.facts, witnesses.as_object_mut())
        {
            let mark = record.beadlock.as_ref();
            let proof = facts.proof.as_ref();
            let more = json!({
                "kill": kill_word(facts.liveness),
                "host": { "record": record.hostname, "here": facts.hostname, "same": facts.is_same_host(record) },
                "machine": sameness(facts.other_machine(record)),
                "boot": sameness(facts.other_boot(record)),
                "pid_namespace": { "record": mark.and_then(|mark| mark.pid_ns.as_ref()), "here": facts.ids.pid_ns },
                "time_namespace": { "record": mark.and_then(|mark| mark.time_ns.as_ref()), "here": facts.ids.time_ns },
                "start_ticks": {
                    "record": mark.and_then(|mark| mark.start_ticks),
                    "process": proof.and_then(|proof| proof.start_ticks),
                },
                "zombie": proof.map(|proof| proof.zombie),
                "namespace_gone": proof.map(|proof| proof.namespace_gone),
                "local_file_system": proof.map(|proof| proof.local_file_system),
            });
            if let Value::Object(more) = more {
                fields.extend(more);
            }
        }
        witnesses
    }

    /// One line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let (Some(record), Some(facts)) = (&self.look.record, &self.look.facts) {
            lines.extend(of_record(record, facts));
        }
        if self.look.side_file {
            lines.push("side file: .exclusive-lock.aside is there; the next check sees to it".to_owned());
        }
        lines.push(match self.gate.as_slice() {
            [] => "gate: open, as far as /proc shows".to_owned(),
            holders => format!("gate: shut by {} (a sync cycle or a claim)", words::names(holders)),
        });
        if !self.gate_waiters.is_empty() {
            lines.push(format!("waiting for the gate: {}", words::names(&self.gate_waiters)));
        }
        lines
    }
}

fn of_record(record: &Record, facts: &Facts) -> Vec<String> {
    let age = Duration::try_from(record.started_at.age(facts.now))
        .map_or("in the future".to_owned(), |age| shown(age) + " ago");
    let here = facts.hostname.as_deref().unwrap_or("unknown");
    let host = if facts.is_same_host(record) { "this one" } else { "not this one" };
    let mut lines = vec![
        format!("acquired: {}, {age}", record.started_at),
        format!("process: kill({}, 0) {}", record.pid, kill_words(facts.liveness)),
        format!("host: {}, {host} ({})", escaped(&record.hostname), escaped(here)),
    ];
    let Some(mark) = &record.beadlock else {
        lines.push("machine, boot, namespaces, start: not recorded (not written by beadlock)".to_owned());
        return lines;
    };
    lines.push(format!("machine: {}", sameness(facts.other_machine(record)).unwrap_or("unknown")));
    lines.push(format!("boot: {}", sameness(facts.other_boot(record)).unwrap_or("unknown")));
    let spaces = [("PID", &mark.pid_ns, &facts.ids.pid_ns), ("time", &mark.time_ns, &facts.ids.time_ns)];
    for (name, recorded, ours) in spaces {
        let word = |space: &Option<String>| {
            space.as_ref().map_or("unknown".to_owned(), |space| escaped(space).to_string())
        };
        lines.push(format!("{name} namespace: recorded {}, here {}", word(recorded), word(ours)));
    }
    let proof = facts.proof.as_ref();
    let ticks = |ticks: Option<u64>| ticks.map_or("unknown".to_owned(), |ticks| ticks.to_string());
    let process = proof.and_then(|proof| proof.start_ticks);
    lines.push(format!("start: recorded tick {}, that PID now {}", ticks(mark.start_ticks), ticks(process)));
    if proof.is_some_and(|proof| proof.zombie) {
        lines.push("that PID is a zombie: it has ended, and its parent has not asked how".to_owned());
    }
    lines
}

fn sameness(other: Option<bool>) -> Option<&'static str> {
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

fn kill_words(liveness: Liveness) -> &'static str {
    match liveness {
        Liveness::Alive => "succeeds: it lives",
        Liveness::NotPermitted => "says EPERM: it lives, and belongs to another user",
        Liveness::Gone => "says ESRCH: it is gone",
        Liveness::Unknown => "gives no answer that can be trusted: counts as alive",
        Liveness::NotAsked => "was not asked: it is not a process of this place",
    }
}
