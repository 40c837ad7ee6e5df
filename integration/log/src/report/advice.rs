//! Next commands for a reader who has only the log. Every command can be pasted.

use std::path::Path;

use beadlock_base::escape::{escaped, is_harmless};
use beadlock_core::decision::LoggedDoubt;

use super::{SuggestedCommand, answer::AnswerContext};
use crate::here::LockHere;
use crate::parse::line::LogWriter;
use crate::timeline::agents::AgentRun;
use crate::timeline::{
    state::ReportedState,
    streak::{SkipCause, SkipStreak},
};
use beadlock_claim::words::{Part, to_type};
use beadlock_explain::explained::{in_container, see_on};

impl AnswerContext<'_> {
    /// A command about the database. Its place in the template stays empty where the database is unknown.
    fn on_target(&self, template: &'static str, why: &'static str) -> SuggestedCommand {
        let target = self.target().unwrap_or(Part::Words(Vec::new()));
        SuggestedCommand {
            command: to_type(template, &[target]),
            why: why.into(),
        }
    }

    fn target(&self) -> Option<Part<'static>> {
        let name = self
            .timeline
            .name
            .as_ref()
            .map(|name| Part::of_path(Path::new(name)));
        name.or_else(|| self.report.target.clone())
    }

    fn is_of_original(&self) -> bool {
        self.report.log.writer == Some(LogWriter::Original)
    }

    pub fn for_busy(&self) -> Vec<SuggestedCommand> {
        vec![self.on_target("beadlock status {}", "names who has the gate")]
    }

    pub fn for_failing(&self) -> Vec<SuggestedCommand> {
        let tail = |file| to_type("tail -n 50 {}", &[Part::Path(file)]);
        let path = self.report.path.as_deref();
        path.map(|file| SuggestedCommand {
            command: tail(file),
            why: "what the cycles' command says".into(),
        })
        .into_iter()
        .collect()
    }

    /// The command that the agent says to type. A command that would not be shown as it is cannot be pasted.
    pub fn for_reported(&self, reported: &ReportedState) -> Vec<SuggestedCommand> {
        let command = reported
            .next
            .clone()
            .filter(|next| next.chars().all(is_harmless));
        command
            .map(|command| SuggestedCommand {
                command,
                why: "what the daemon says to type".into(),
            })
            .into_iter()
            .collect()
    }

    /// Starts the daemon that writes this log.
    pub fn start(&self, why: &'static str) -> SuggestedCommand {
        let command = match self.target() {
            _ if self.is_of_original() => "bd daemon --start".to_owned(),
            None => "beadlock-agent".to_owned(),
            Some(target) => to_type("beadlock-agent --db {}", &[target]),
        };
        let why = why.into();
        SuggestedCommand { command, why }
    }

    /// Continues a daemon that was stopped by a signal.
    pub fn go_on(&self, pid: i64) -> SuggestedCommand {
        SuggestedCommand {
            command: to_type("kill -CONT {}", &[Part::Pid(pid)]),
            why: "it goes on".into(),
        }
    }

    pub fn for_silence(&self) -> Vec<SuggestedCommand> {
        // A daemon that is known to be elsewhere has another process's number here.
        let run = self.agent;
        let pid = run.and_then(|run| run.id.pid);
        let look = match pid {
            Some(_) if run.is_some_and(AgentRun::is_elsewhere) => None,
            Some(pid) => Some(show_process(pid, "whether the daemon lives")),
            None if self.is_of_original() => {
                Some(bd("bd daemon --status", "whether the daemon lives"))
            }
            None => None,
        };
        look.into_iter()
            .chain([self.start("once it is gone: starts it again")])
            .collect()
    }

    /// One daemon is enough: bd's own is stopped, else the one that came last.
    pub fn for_both(&self, daemons: &[&AgentRun]) -> Option<SuggestedCommand> {
        let why = "so that one daemon syncs";
        // The number of one that is elsewhere is another process's here.
        if daemons.iter().all(|run| run.id.pid.is_none())
            || daemons.iter().any(|run| run.is_elsewhere())
        {
            return None;
        }
        match daemons.iter().map(|run| run.id.pid).next_back().flatten() {
            Some(pid) if daemons.iter().all(|run| run.id.pid.is_some()) => Some(SuggestedCommand {
                command: to_type("kill {}", &[Part::Pid(pid)]),
                why: why.into(),
            }),
            _ => Some(bd("bd daemon --stop", why)),
        }
    }

    /// The lock that is there now, where the streak is about it.
    pub fn lock_of(&self, streak: &SkipStreak) -> Option<&LockHere> {
        let SkipCause::Held(name) = &streak.cause else {
            return None;
        };
        let lock = self.lock?;
        (lock.holder.as_deref() == Some(name)).then_some(lock)
    }

    pub fn for_held(&self, streak: &SkipStreak) -> Vec<SuggestedCommand> {
        let status = self.on_target(
            "beadlock status {}",
            "whether the lock is still there, and its holder alive",
        );
        let mut next = vec![status];
        if self.timeline.is_event_driven() {
            next.push(bd(
                "bd sync",
                "once the lock is free: syncs at once, as any edit does",
            ));
        }
        let process = streak.lock.pid.zip(streak.lock.host.as_deref());
        let is_here = process.is_some_and(|(_, host)| is_same(self.report.host.as_deref(), host));
        let is_alive = matches!(
            streak.lock.reason.as_deref(),
            Some("pid_alive" | "pid_not_permitted")
        );
        if let Some(LockHere { next: there, .. }) = self.lock_of(streak) {
            let (command, why) = there.clone();
            let why = why.into();
            next.push(SuggestedCommand { command, why });
        }
        match process {
            Some((pid, _)) if is_here && is_alive => {
                if self.lock_of(streak).is_none() {
                    next.push(self.on_target("beadlock wait {}", "returns when it is free"));
                    next.push(show_process(pid, "what it is doing"));
                }
                next.push(SuggestedCommand {
                    command: to_type("kill {}", &[Part::Pid(pid)]),
                    why: "ends it, and the lock goes with it".into(),
                });
            }
            Some((pid, host)) if self.lock_of(streak).is_none() => {
                next.extend(self.for_process(pid, host, streak.lock.reason.as_deref()));
            }
            _ => {}
        }
        next
    }

    /// Where the holder can be looked at; nowhere by its number, where that is another process here.
    fn for_process(&self, pid: i64, host: &str, reason: Option<&str>) -> Option<SuggestedCommand> {
        if reason == Some("other_pid_namespace") {
            let command = in_container(host, pid);
            let why = "on the daemon's machine, with the name of its container".into();
            return Some(SuggestedCommand { command, why });
        }
        let daemons = self
            .agent
            .and_then(|run| run.id.host.as_deref())
            .or(self.report.host.as_deref());
        let why = "whether it lives: nobody else can tell".into();
        Some(match is_same(daemons, host) {
            true => show_process(pid, "what it is doing"),
            false => SuggestedCommand {
                command: see_on(host, pid),
                why,
            },
        })
    }

    pub fn for_unreadable(&self, doubt: LoggedDoubt) -> Vec<SuggestedCommand> {
        let look = || self.on_target("beadlock status {}", "what is wrong with it");
        match doubt {
            LoggedDoubt::NotRemoved => vec![self.on_target(
                "beadlock check {} --explain",
                "tries again, and says what stops it",
            )],
            LoggedDoubt::MayBeAlive => vec![look()],
            LoggedDoubt::Other => vec![
                look(),
                self.on_target(
                    "beadlock break {} --malformed",
                    "when nobody needs it; keeps a copy",
                ),
            ],
        }
    }
}

fn is_same(host: Option<&str>, other: &str) -> bool {
    host.is_some_and(|host| host.eq_ignore_ascii_case(other))
}

fn bd(command: &str, why: &'static str) -> SuggestedCommand {
    SuggestedCommand {
        command: command.to_owned(),
        why: why.into(),
    }
}

fn show_process(pid: i64, why: &'static str) -> SuggestedCommand {
    SuggestedCommand {
        command: to_type("ps -fp {}", &[Part::Pid(pid)]),
        why: why.into(),
    }
}

/// Meanings of the reasons of the closed list.
const REASONS: [(&str, &str); 7] = [
    ("pid_alive", "its process lives; the lock goes when it ends"),
    (
        "pid_not_permitted",
        "its process lives and is another user's; the lock goes when it ends",
    ),
    (
        "pid_unknown",
        "the system could not say whether its process lives, so it counts as alive",
    ),
    (
        "other_host",
        "only that host can tell whether it lives; no daemon here ever removes it",
    ),
    (
        "host_unknown",
        "this machine has no host name, so no lock is ever removed",
    ),
    (
        "other_machine",
        "another machine of the same name; no daemon here ever removes it",
    ),
    (
        "other_pid_namespace",
        "its PID is one of another container; no daemon here ever removes it",
    ),
];

/// A reason, with its meaning where it is known.
pub fn explained(reason: &str) -> String {
    match REASONS.iter().find(|(known, _)| *known == reason) {
        Some((_, meaning)) => format!("{reason}: {meaning}"),
        None => escaped(reason).to_string(),
    }
}
