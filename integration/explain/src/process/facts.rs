//! The facts behind the verdict about a lock whose process is judged.

use beadlock_base::{escape::escaped, process::Liveness};
use serde_json::{Value, json};

use super::situation::{Here, ProcessSituation};
use crate::explained::{kill_words, millis};
use crate::process::Inquiry;
use beadlock_base::words::counted;
use beadlock_claim::fact::Fact;

impl Inquiry<'_> {
    /// The facts in the order in which they are shown, for people and for programs.
    pub fn to_facts(&self) -> Vec<Fact> {
        let mut facts = self.of_process();
        facts.extend(self.of_machine());
        let proof = self.facts.proof.as_ref();
        let age = self.record.started_at.age(self.seen.now);
        facts.extend([
            Fact::json("starts_in_ms", age.is_negative().then(|| millis(-age))),
            Fact::json("zombie", proof.map(|proof| proof.zombie)),
            Fact::json("namespace_gone", proof.map(|proof| proof.namespace_gone)),
            Fact::json(
                "local_file_system",
                proof.map(|proof| proof.local_file_system),
            ),
        ]);
        facts
    }

    fn of_process(&self) -> Vec<Fact> {
        let Self { record, facts, .. } = self;
        let (pid, liveness) = (record.pid, self.asked.liveness);
        let age = record.started_at.age(self.seen.now);
        let host = escaped(&record.hostname);
        let wrong = age
            .is_negative()
            .then(|| format!(": a clock is wrong, here or on {host}"));
        let wrong = wrong.unwrap_or_default();
        let is_zombie = facts.proof.as_ref().is_some_and(|proof| proof.zombie);
        let answer = match facts.liveness {
            Liveness::Alive if is_zombie => "succeeds: a zombie answers, too",
            liveness => kill_words(liveness).1,
        };
        let mut lines = vec![
            Fact::text(
                "acquired",
                format!(
                    "{}, {}{wrong}",
                    record.started_at,
                    self.seen.since_claimed()
                ),
            ),
            Fact::text("process", format!("kill({pid}, 0) {answer}")),
            Fact::json("kill", kill_words(facts.liveness).0),
            Fact::json("kill_here", kill_words(liveness).0),
            Fact::json("command_now", self.command_now.as_deref()),
        ];
        if is_zombie {
            let ended = "it has ended, and its parent has not collected it";
            lines.push(Fact::text("that PID is a zombie", ended));
        }
        if liveness != Liveness::NotAsked {
            lines.push(Fact::text(
                "that PID here",
                format!("kill({pid}, 0) {}", kill_words(liveness).1),
            ));
        }
        if let ProcessSituation::Recycled
        | ProcessSituation::Rebooted { .. }
        | ProcessSituation::Renamed(Here::Recycled) = self.situation
            && let Some(command) = &self.command_now
        {
            lines.push(Fact::text("that PID now", escaped(command).to_string()));
        }
        let (here, is_same) = (facts.hostname.as_deref(), facts.is_same_host(record));
        let place = if is_same { "this one" } else { "not this one" };
        let json = json!({ "record": record.hostname, "here": here, "same": is_same });
        let text = format!("{host}, {place} ({})", escaped(here.unwrap_or("unknown")));
        lines.push(Fact::new("host", text, json));
        lines
    }

    fn of_machine(&self) -> Vec<Fact> {
        let Self { record, facts, .. } = self;
        let other = |other: Option<bool>| other.map(|other| if other { "other" } else { "same" });
        let (machine, boot) = (
            other(facts.other_machine(record)),
            other(facts.other_boot(record)),
        );
        let mark = record.beadlock.as_ref();
        let (pid_ns, time_ns) = (
            record.pid_ns(),
            mark.and_then(|mark| mark.time_ns.as_deref()),
        );
        let ours = (facts.ids.pid_ns.as_deref(), facts.ids.time_ns.as_deref());
        let (start, now) = (
            mark.and_then(|mark| mark.start_ticks),
            facts.proof.as_ref().and_then(|proof| proof.start_ticks),
        );
        let members = self.asked.members.iter();
        let members: Value = members
            .map(|member| json!({ "pid": member.pid, "pid_there": member.pid_there }))
            .collect();
        let mut lines = vec![
            Fact::json("machine", machine),
            Fact::json("boot", boot),
            Fact::json(
                "pid_namespace",
                json!({ "record": pid_ns, "here": ours.0, "processes": members }),
            ),
            Fact::json(
                "time_namespace",
                json!({ "record": time_ns, "here": ours.1 }),
            ),
            Fact::json("start_ticks", json!({ "record": start, "process": now })),
        ];
        if mark.is_none() {
            let what = "machine, boot, namespaces, start";
            lines.push(Fact::text(what, "not recorded (not written by beadlock)"));
            return lines;
        }
        let space = |space: Option<&str>| escaped(space.unwrap_or("unknown")).to_string();
        let spaces = |then, now| format!("recorded {}, here {}", space(then), space(now));
        let ticks =
            |ticks: Option<u64>| ticks.map_or("unknown".to_owned(), |ticks| ticks.to_string());
        lines.extend([
            Fact::text("machine", machine.unwrap_or("unknown")),
            Fact::text("boot", boot.unwrap_or("unknown")),
            Fact::text("PID namespace", spaces(pid_ns, ours.0)),
            Fact::text("time namespace", spaces(time_ns, ours.1)),
        ]);
        lines.extend(self.of_members());
        let start = format!(
            "recorded tick {}, that PID now {}",
            ticks(start),
            ticks(now)
        );
        lines.push(Fact::text("start", start));
        if facts.other_boot(record) == Some(true) {
            let writers = match self.is_local() {
                true => "only this machine writes it",
                false => "other machines may write it, or that is not known",
            };
            lines.push(Fact::text("file system", writers));
        }
        lines
    }

    fn of_members(&self) -> Option<Fact> {
        let (ProcessSituation::Container(_) | ProcessSituation::ContainerGone { .. }) =
            self.situation
        else {
            return None;
        };
        let is_gone = self
            .facts
            .proof
            .as_ref()
            .is_some_and(|proof| proof.namespace_gone);
        let pid = self.record.pid;
        let there = match (self.asked.members, self.member()) {
            ([], _) if is_gone => "nobody, seen twice".to_owned(),
            ([], _) => "nobody that we can see".to_owned(),
            (members, it) => {
                let it = match it {
                    Some(it) => format!("its PID {pid} is PID {} here", it.pid),
                    None => format!("none of them is its PID {pid}"),
                };
                format!(
                    "{} that we can see; {it}",
                    counted(members.len(), "process", "processes")
                )
            }
        };
        Some(Fact::text("in that namespace", there))
    }
}
