//! The witnesses for people: one fact a line.

use std::time::Duration;

use beadlock_checker::internal::dialect::beads::Record;
use beadlock_checker::internal::dialect::{memory, tower};
use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::facts::{Facts, Liveness};
use beadlock_checker::internal::{FileKind, OnDisk};

use super::Witnesses;
use super::json::sameness;
use crate::explain::situation::{Here, Situation};

impl Witnesses<'_> {
    /// One line each, what they amount to first.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("why: {}", self.why())];
        if let Some((record, facts)) = self.record() {
            lines.extend(self.of_record(record, facts));
        }
        if let Some((record, facts)) = self.named() {
            lines.extend(self.of_named(record, facts));
        }
        if let Some((record, facts)) = self.aged() {
            lines.extend(of_aged(record, facts));
        }
        lines.extend(self.look.on_disk.map(|file| self.of_file(&file)));
        if self.look.side_file {
            let name = escaped(&self.target.place.names().aside().to_string_lossy()).to_string();
            lines.push(format!("side file: {name} is there; the next check sees to it"));
        }
        lines.extend(self.gate.lines(self.target.has_cycles()));
        lines
    }

    /// Host and PID are told to people: nothing is asked of them.
    fn of_named(&self, record: &tower::Record, facts: &Facts) -> [String; 4] {
        let ago = |time: tower::StartedAt| match Duration::try_from(time.age(facts.now)) {
            Ok(age) => format!("{time}, {} ago", shown(age)),
            Err(_) => format!("{time}, {} in the future", shown(time.age(facts.now).unsigned_abs())),
        };
        [
            format!("acquired: {}", ago(record.created_at)),
            format!(
                "heartbeat: {}; stale after {}s without one",
                ago(record.last_heartbeat_at),
                record.ttl_seconds
            ),
            format!("intent: {}, version {}", escaped(&record.intent), escaped(&record.intent_version)),
            format!(
                "host: {}, PID {} there (for people: neither is asked)",
                escaped(&record.host_id),
                record.pid
            ),
        ]
    }

    fn of_record(&self, record: &Record, facts: &Facts) -> Vec<String> {
        let age = record.started_at.age(self.now);
        let age = match Duration::try_from(age) {
            Ok(age) => format!("{} ago", shown(age)),
            Err(_) => format!(
                "{} in the future: a clock is wrong, here or on {}",
                shown(age.unsigned_abs()),
                escaped(&record.hostname)
            ),
        };
        let here = facts.hostname.as_deref().unwrap_or("unknown");
        let host = if facts.is_same_host(record) { "this one" } else { "not this one" };
        let proof = facts.proof.as_ref();
        let answer = match facts.liveness {
            Liveness::Alive if proof.is_some_and(|proof| proof.zombie) => "succeeds: a zombie answers, too",
            liveness => kill_words(liveness),
        };
        let mut lines = vec![
            format!("acquired: {}, {age}", record.started_at),
            format!("process: kill({}, 0) {answer}", record.pid),
        ];
        if proof.is_some_and(|proof| proof.zombie) {
            lines.push("that PID is a zombie: it has ended, and its parent has not collected it".to_owned());
        }
        if self.asked != Liveness::NotAsked {
            lines.push(format!("that PID here: kill({}, 0) {}", record.pid, kill_words(self.asked)));
        }
        if let Situation::Recycled | Situation::Rebooted { .. } | Situation::Renamed(Here::Recycled) =
            self.situation
            && let Some(command) = self.command_now()
        {
            lines.push(format!("that PID now: {}", escaped(&command)));
        }
        lines.push(format!("host: {}, {host} ({})", escaped(&record.hostname), escaped(here)));
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
        lines.extend(self.of_members(record, proof.is_some_and(|proof| proof.namespace_gone)));
        let ticks = |ticks: Option<u64>| ticks.map_or("unknown".to_owned(), |ticks| ticks.to_string());
        let process = proof.and_then(|proof| proof.start_ticks);
        lines.push(format!(
            "start: recorded tick {}, that PID now {}",
            ticks(mark.start_ticks),
            ticks(process)
        ));
        if facts.other_boot(record) == Some(true) {
            let local = proof.is_some_and(|proof| proof.local_file_system);
            lines.push(format!(
                "file system: {}",
                if local {
                    "only this machine writes it"
                } else {
                    "other machines may write it, or that is not known"
                }
            ));
        }
        lines
    }

    /// Who lives in the recorded container.
    fn of_members(&self, record: &Record, is_gone: bool) -> Option<String> {
        let (Situation::Container(_) | Situation::ContainerGone { .. }) = self.situation else { return None };
        let there = match self.members.as_slice() {
            [] if is_gone => "nobody, seen twice".to_owned(),
            [] => "nobody that we can see".to_owned(),
            members => {
                let it = members.iter().find(|member| i64::from(member.pid_there) == record.pid);
                let it = match it {
                    Some(it) => format!("its PID {} is PID {} here", record.pid, it.pid),
                    None => format!("none of them is its PID {}", record.pid),
                };
                format!("{} that we can see; {it}", counted(members.len(), "process", "processes"))
            }
        };
        Some(format!("in that namespace: {there}"))
    }

    fn of_file(&self, file: &OnDisk) -> String {
        let age = match Duration::try_from(file.modified.age(self.now)) {
            Ok(age) => format!("last written {} ago", shown(age)),
            Err(_) => "last written in the future, by its file system's clock".to_owned(),
        };
        match file.kind {
            FileKind::File => format!("file: {}, {age}", counted(file.size, "byte", "bytes")),
            kind => format!("file: {}, of user {}", kind_words(kind), file.owner),
        }
    }
}

/// What is missing is no evidence, and said to be so.
fn of_aged(record: &memory::Record, facts: &Facts) -> [String; 4] {
    let acquired = match record.acquired_at {
        None => "unknown: never too old".to_owned(),
        Some(time) => match Duration::try_from(time.age(facts.now)) {
            Ok(age) => format!("{time}, {} ago, or refreshed then", shown(age)),
            Err(_) => format!("{time}, {} in the future", shown(time.age(facts.now).unsigned_abs())),
        },
    };
    let process = match (record.pid, facts.liveness) {
        (None, _) => "unknown".to_owned(),
        (Some(pid), Liveness::NotAsked) => {
            format!("PID {pid}, which was not asked: it is not known to be of this place")
        }
        (Some(pid), liveness) => format!("kill({pid}, 0) {}", kill_words(liveness)),
    };
    let here = facts.hostname.as_deref().unwrap_or("unknown");
    let host = match &record.hostname {
        None => "unknown".to_owned(),
        Some(host) => {
            let is_same = if host.eq_ignore_ascii_case(here) { "this one" } else { "not this one" };
            format!("{}, {is_same} ({})", escaped(host), escaped(here))
        }
    };
    [
        format!("acquired: {acquired}"),
        format!("process: {process}"),
        format!("host: {host}"),
        format!("operation: {}", escaped(record.operation())),
    ]
}

/// `1 byte`, `2 bytes`.
pub fn counted(count: impl TryInto<u64>, one: &str, many: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `a symbolic link`.
pub fn kind_words(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "a file",
        FileKind::Directory => "a directory",
        FileKind::Symlink => "a symbolic link",
        FileKind::Fifo => "a FIFO",
        FileKind::Socket => "a socket",
        FileKind::Device => "a device",
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
