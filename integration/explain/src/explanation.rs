//! Everything that a verdict rests on, what it amounts to for a reader, and what to type next
//! (docs/design.md#looking): one list of facts, which is rendered as text and as JSON.

use std::time::Duration;

use beadlock_base::{
    duration::shown,
    escape::{escaped, escaped_path},
    filesystem::FileKind,
};
use beadlock_core::dialect::{Record, StartedAt};
use beadlock_core::{Options, Verdict};
use beadlock_core::{facts, look::Look, on_disk::OnDisk};
use serde_json::{Map, Value, json};

use super::by_protocol;
use super::gate::{GateSeen, Shut};
use super::situation::{self, Situation};
use crate::explained::{Explained, Inspected, Machine, NextCommand, millis};
use beadlock_base::words::counted;
use beadlock_claim::words::{self, kind_words, with_comment};
use beadlock_claim::{fact::Fact, target::Target};

/// What is known about one lock and its gate.
#[derive(Debug)]
pub struct Explanation {
    facts: Vec<Fact>,
    gate: GateSeen,
    pub(crate) next: String,
    /// The same: the command, and what it is for.
    pub command: NextCommand,
    /// Why it counts as what it counts as.
    pub why: String,
    /// What stands before the holder's name: `a zombie, `.
    pub(crate) holder_is: &'static str,
}

impl Explanation {
    /// Of a look at `target` by these rules.
    pub fn of(look: &Look, target: &Target, options: &Options) -> Self {
        Self::on(&Machine::default(), look, target, options)
    }

    /// One of many, on a machine that is the same for all of them.
    pub fn on(machine: &Machine, look: &Look, target: &Target, options: &Options) -> Self {
        let now = facts::now();
        let gate = Shut::of(machine.gates(), target.dir());
        let explained =
            look.record
                .as_ref()
                .zip(look.facts.as_ref())
                .and_then(|(record, facts)| {
                    let is_gate_shut = gate.is_shut();
                    by_protocol::explain(&Inspected {
                        look,
                        record,
                        facts,
                        target,
                        machine,
                        options,
                        now,
                        is_gate_shut,
                    })
                });
        let Explained {
            situation,
            why,
            next,
            facts,
            holder_is,
        } = explained.unwrap_or_else(|| {
            let data = target.not_a_lock(look);
            let situation = Situation::of(look, data.as_ref(), now);
            situation::explain(situation, (look, target, now), data, &gate)
        });
        let (command, comment) = &next;
        let typed = next.clone();
        let next = with_comment(command, comment);
        let (gate_for_programs, gate_for_people) = gate.facts(target.has_cycles());
        let mut all = vec![Fact::json("situation", situation)];
        all.extend(gate_for_programs);
        all.push(Fact::json("side_file", look.side_file));
        all.push(Fact::json(
            "file",
            look.on_disk.map(|file| file_json(&file, now)),
        ));
        all.push(Fact::text("why", why.clone()));
        all.extend(look.record.as_ref().and_then(about));
        all.extend(facts);
        if let Some(other) = target.not_in() {
            let dir = escaped_path(target.dir());
            all.push(Fact::text(
                "directory",
                format!("{dir}; a lock of this name elsewhere, as in {other}, is another"),
            ));
        }
        all.extend(
            look.on_disk
                .map(|file| Fact::text("file", file_text(&file, now))),
        );
        if look.side_file {
            let name = escaped(&target.place.names().aside().to_string_lossy()).to_string();
            all.push(Fact::text(
                "side file",
                format!("{name} is there; the next check sees to it"),
            ));
        }
        all.extend(gate_for_people);
        Self {
            facts: all,
            gate: gate.seen(),
            next,
            command: typed,
            why,
            holder_is,
        }
    }

    /// One fact a line, for people; what they amount to first.
    pub fn lines(&self) -> Vec<String> {
        lines(&self.facts)
    }

    /// What a reader needs first: why, since when, and what stands in the way: at most three lines, and one with the
    /// address of what it is held for.
    pub fn brief(&self) -> Vec<String> {
        brief(&self.facts, self.gate)
    }

    /// The same facts for programs: the `witnesses` of the JSON contract. A fact that is not known is null; what only a
    /// record has is there only with a record.
    pub fn json(&self) -> Value {
        json(&self.facts)
    }
}

pub(crate) fn lines(facts: &[Fact]) -> Vec<String> {
    facts.iter().filter_map(Fact::line).collect()
}

/// As [`Explanation::brief`].
pub(crate) fn brief(facts: &[Fact], gate: GateSeen) -> Vec<String> {
    let text = |name: &str| {
        facts
            .iter()
            .find(|fact| fact.name == name && fact.text.is_some())
    };
    let gate = text("gate").filter(|_| gate == GateSeen::Shut);
    let waiting = text("waiting for the gate").or(text("waiting for it"));
    let in_the_way: Vec<String> = [gate, waiting]
        .into_iter()
        .flatten()
        .filter_map(Fact::line)
        .collect();
    // A lock of this name in another directory is another lock.
    let directory = text("directory").and_then(Fact::line);
    let in_the_way = directory.or_else(|| match in_the_way.is_empty() {
        true => text("side file").and_then(Fact::line),
        false => Some(in_the_way.join("; ")),
    });
    let first = ["why", "acquired", "about"]
        .into_iter()
        .filter_map(|name| text(name)?.line());
    first.chain(in_the_way).collect()
}

pub(crate) fn json(facts: &[Fact]) -> Value {
    let fields = facts
        .iter()
        .filter_map(|fact| Some((fact.name.to_owned(), fact.json.clone()?)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// The address of what the lock is held for. Any other text in its place is shown as a name is: escaped.
fn about(record: &Record) -> Option<Fact> {
    let given = record.about()?;
    let text = match words::about(record) {
        Some(address) => address,
        None => format!("\"{}\", which is not an address of the web", escaped(given)),
    };
    Some(Fact::new("about", text, given))
}

/// What is known, its id, what is known `besides`, and what to type, one line each.
pub(crate) fn below(
    mut lines: Vec<String>,
    id: Option<&str>,
    besides: Option<String>,
    next: &str,
) -> String {
    lines.extend(id.map(|id| format!("id: {}", escaped(id))));
    lines.extend(besides);
    lines.push(format!("next: {next}"));
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// One element of `data` of `status` and `list`; `held` is the record and its age.
pub(crate) fn row(
    target: &Target,
    (verdict, message, id): (Verdict, &str, Option<&str>),
    held: Option<(&Record, Duration)>,
    (witnesses, next): (Value, &str),
) -> Value {
    let record = held.map(|(record, _)| record);
    json!({
        "target": target.name(),
        "path": target.path().to_string_lossy(),
        "verdict": verdict.as_str(),
        "holder": record.map(|record| record.holder()),
        "id": id,
        "reason": verdict.reason().as_str(),
        "message": message,
        "record": record.and_then(|record| serde_json::to_value(record).ok()),
        "age_ms": held.map(|(_, age)| words::millis(age)),
        "witnesses": witnesses,
        "next": next,
    })
}

fn file_json(file: &OnDisk, now: StartedAt) -> Value {
    json!({
        "kind": file.kind.as_str(),
        "size": file.size,
        "modified": file.modified.to_string(),
        "age_ms": millis(file.modified.age(now)),
        "owner": file.owner,
    })
}

fn file_text(file: &OnDisk, now: StartedAt) -> String {
    let age = match Duration::try_from(file.modified.age(now)) {
        Ok(age) => format!("last written {} ago", shown(age)),
        Err(_) => "last written in the future, by its file system's clock".to_owned(),
    };
    match file.kind {
        FileKind::File => format!("{}, {age}", counted(file.size, "byte", "bytes")),
        kind => format!("{}, of user {}", kind_words(kind), file.owner),
    }
}
