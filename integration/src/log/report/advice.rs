//! What to type next for a reader who has only the log. Every command can be pasted.

use std::ffi::OsStr;
use std::path::Path;

use beadlock_checker::internal::escape::{escaped, is_harmless};
use beadlock_checker::internal::obstacle::Obstacle;

use super::answer::{AnswerContext, NextCommand};
use crate::log::parse::line::LogWriter;
use crate::log::timeline::streak::SkipStreak;
use crate::words::{Part, to_type};

impl AnswerContext<'_> {
    /// The database in a command.
    fn target(&self) -> Option<Part<'static>> {
        let name = self.timeline.name.as_ref().map(|name| Part::of_path(Path::new(name)));
        name.or_else(|| self.report.target.clone())
    }

    /// A command about the database. Its place in the template stays empty where the database is unknown.
    fn on_target(&self, template: &'static str, why: &'static str) -> NextCommand {
        let target = self.target().unwrap_or(Part::Words(Vec::new()));
        NextCommand { command: to_type(template, &[target]), why }
    }

    /// Cycles are skipped because another process has the gate.
    pub fn for_busy(&self) -> Vec<NextCommand> {
        vec![self.on_target("beadlock status {}", "names who has the gate")]
    }

    /// Cycles fail.
    pub fn for_failing(&self) -> Vec<NextCommand> {
        let Some(file) = &self.report.path else { return Vec::new() };
        let command = to_type("tail -n 50 {}", &[Part::Path(file)]);
        vec![NextCommand { command, why: "what the cycles' command says" }]
    }

    /// Starts the daemon that writes this log.
    pub fn start(&self, why: &'static str) -> NextCommand {
        let command = match (self.report.log.writer, self.target()) {
            (Some(LogWriter::Original), _) => "bd daemon start".to_owned(),
            (_, None) => "beadlock-agent".to_owned(),
            (_, Some(target)) => to_type("beadlock-agent --db {}", &[target]),
        };
        NextCommand { command, why }
    }

    /// The log went silent.
    pub fn for_silence(&self) -> Vec<NextCommand> {
        let pid = self.agent.and_then(|run| run.id.pid);
        let look = pid.map(|pid| show_process(pid, "whether the daemon lives"));
        look.into_iter().chain([self.start("when it does not")]).collect()
    }

    /// `name` holds the lock.
    pub fn for_held(&self, name: &str, streak: &SkipStreak) -> Vec<NextCommand> {
        let why = "whether the lock is still there, and its holder alive";
        let status = self.on_target("beadlock status {}", why);
        let process = streak.lock.pid.zip(streak.lock.host.as_deref());
        let process = process.map(|(pid, host)| self.for_process(pid, host));
        [Some(status), process, Some(self.for_break(name))].into_iter().flatten().collect()
    }

    /// Shows a process of `host`.
    fn for_process(&self, pid: i64, host: &str) -> NextCommand {
        let daemons = self.agent.and_then(|run| run.id.host.as_deref()).or(self.report.host.as_deref());
        if daemons.is_some_and(|daemons| daemons.eq_ignore_ascii_case(host)) {
            return show_process(pid, "what it is doing");
        }
        let command = to_type("ssh -- {} ps -fp {}", &[Part::Word(OsStr::new(host)), Part::Pid(pid)]);
        NextCommand { command, why: "whether it lives: nobody else can tell" }
    }

    fn for_break(&self, name: &str) -> NextCommand {
        // A name that the log has escaped or cut differs from the name in the lock file.
        let is_whole = name.chars().all(|c| is_harmless(c) && c != '\\') && !name.ends_with('…');
        let (which, why) = match is_whole {
            true => (Part::Value("--holder", OsStr::new(name)), "once you know that it is gone"),
            false => (Part::Words(vec!["--id".into(), "ID".into()]), "with the id that status shows, once it is gone"),
        };
        let target = self.target().unwrap_or(Part::Words(Vec::new()));
        NextCommand { command: to_type("beadlock break {} {} --even-if-live", &[target, which]), why }
    }

    /// The lock cannot be checked.
    pub fn for_unreadable(&self, why: &str) -> Vec<NextCommand> {
        if why.starts_with("failed to remove stale lock") {
            let why = "tries again, and says what stops it";
            return vec![self.on_target("beadlock check {} --explain", why)];
        }
        let mut next = vec![self.on_target("beadlock status {}", "what is wrong with it")];
        // A lock file that could not be read may be alive. Older daemons have their own words for the first obstacle.
        if !why.contains("too many open files") && Obstacle::of(why).is_none() {
            let why = "when nobody needs it; keeps a copy";
            next.push(self.on_target("beadlock break {} --malformed", why));
        }
        next
    }
}

fn show_process(pid: i64, why: &'static str) -> NextCommand {
    NextCommand { command: to_type("ps -fp {}", &[Part::Pid(pid)]), why }
}

/// What the reasons of the closed list mean.
const REASONS: [(&str, &str); 7] = [
    ("pid_alive", "its process lives; the lock goes when it ends"),
    ("pid_not_permitted", "its process lives and is another user's; the lock goes when it ends"),
    ("pid_unknown", "the system could not say whether its process lives, so it counts as alive"),
    ("other_host", "only that host can tell whether it lives; no daemon here ever removes it"),
    ("host_unknown", "this machine has no host name, so no lock is ever removed"),
    ("other_machine", "another machine of the same name; no daemon here ever removes it"),
    ("other_pid_namespace", "its PID is one of another container; no daemon here ever removes it"),
];

/// A reason, with its meaning where it is known.
pub fn explained(reason: &str) -> String {
    match REASONS.iter().find(|(known, _)| *known == reason) {
        Some((_, meaning)) => format!("{reason}: {meaning}"),
        None => escaped(reason).to_string(),
    }
}
