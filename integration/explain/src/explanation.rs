//! Everything that a verdict rests on, what it amounts to for a reader, and what to type next
//! (docs/design.md#looking): one list of facts, which a report shows as text and as JSON.

use std::time::Duration;

use beadlock_base::{
    duration::shown,
    escape::{escaped, escaped_path},
    filesystem::FileKind,
};
use beadlock_core::Options;
use beadlock_core::record::{Record, StartedAt};
use beadlock_core::{facts, lock_file_stat::LockFileStat, look::Look};
use serde_json::{Value, json};

use super::by_protocol;
use super::gate::Shut;
use super::situation::{self, Situation};
use crate::explained::{Explained, HostProcesses, Inspected, NextCommand, millis};
use beadlock_base::words::counted;
use beadlock_claim::words::{self, kind_words, with_comment};
use beadlock_claim::{fact::Fact, report::Report, target::Target};

/// The explanation of one lock's verdict, and of its gate.
#[derive(Debug)]
pub struct Explanation {
    facts: Vec<Fact>,
    is_gate_shut: bool,
    pub(crate) next: String,
    /// The next command and its reason, which `next` has in one line.
    pub command: NextCommand,
    /// Why the lock has this verdict.
    pub why: String,
    /// The words before the holder's name, such as `a zombie, `; empty for most holders.
    pub(crate) holder_is: &'static str,
}

impl Explanation {
    /// Explains a look at `target`; `options` are the rules of the look.
    pub fn of(look: &Look, target: &Target, options: &Options) -> Self {
        Self::on(&HostProcesses::default(), look, target, options)
    }

    /// Explains one of many looks, which share the processes that `machine` has found.
    pub fn on(machine: &HostProcesses, look: &Look, target: &Target, options: &Options) -> Self {
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
            is_gate_shut: gate.is_shut(),
            next,
            command: typed,
            why,
            holder_is,
        }
    }

    /// The report with this explanation added.
    pub(crate) fn added_to(self, report: Report) -> Report {
        Report {
            witnesses: Some(self.facts),
            is_gate_shut: self.is_gate_shut,
            holder_is: self.holder_is,
            next: Some(self.next),
            ..report
        }
    }
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

fn file_json(file: &LockFileStat, now: StartedAt) -> Value {
    json!({
        "kind": file.kind.as_str(),
        "size": file.size,
        "modified": file.modified.to_string(),
        "age_ms": millis(file.modified.age(now)),
        "owner": file.owner,
    })
}

fn file_text(file: &LockFileStat, now: StartedAt) -> String {
    let age = match Duration::try_from(file.modified.age(now)) {
        Ok(age) => format!("last written {} ago", shown(age)),
        Err(_) => "last written in the future, by its file system's clock".to_owned(),
    };
    match file.kind {
        FileKind::File => format!("{}, {age}", counted(file.size, "byte", "bytes")),
        kind => format!("{}, of user {}", kind_words(kind), file.owner),
    }
}
