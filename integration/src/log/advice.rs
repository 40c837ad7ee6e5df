//! What to type next, for whoever has only the log; words that can be pasted.

use std::ffi::OsStr;
use std::path::PathBuf;

use beadlock_checker::internal::escape::is_harmless;
use beadlock_checker::internal::obstacle::Obstacle;

use super::agents::Run;
use super::answer::Around;
use super::line::Writer;
use super::spell::Spell;
use crate::words::{Part, to_type};

/// A command to type, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    pub command: String,
    pub why: &'static str,
}

/// What the advice goes by.
#[derive(Debug, Clone, Copy)]
pub struct Advice<'a> {
    /// The daemon that wrote last.
    pub agent: Option<&'a Run>,
    pub around: &'a Around,
}

impl Advice<'_> {
    /// `template` has a place for the target.
    fn beadlock(&self, template: &'static str, why: &'static str) -> Next {
        Next { command: to_type(template, &[self.target()]), why }
    }

    /// Names who has the gate.
    pub fn for_busy(&self) -> Vec<Next> {
        vec![self.beadlock("beadlock status {}", "names who has the gate")]
    }

    /// Cycles fail.
    pub fn for_failing(&self) -> Vec<Next> {
        let tail = |file: &PathBuf| Next {
            command: to_type("tail -n 50 {}", &[Part::Path(file)]),
            why: "what the cycles' command says",
        };
        self.around.file.iter().map(tail).collect()
    }

    /// The database; no word at all where it is not known.
    fn target(&self) -> Part<'static> {
        self.around.target.clone().unwrap_or(Part::Words(Vec::new()))
    }

    /// Starts the daemon that writes this log.
    pub fn start(&self, why: &'static str) -> Next {
        let command = match (self.around.writer, &self.around.target) {
            (Some(Writer::Original), _) => "bd daemon start".to_owned(),
            (_, None) => "beadlock-agent".to_owned(),
            (_, Some(target)) => to_type("beadlock-agent --db {}", std::slice::from_ref(target)),
        };
        Next { command, why }
    }

    /// Nothing is written any more.
    pub fn for_silence(&self) -> Vec<Next> {
        let pid = self.agent.and_then(|run| run.pid);
        let look = pid.map(|pid| Next { command: see(pid), why: "whether the daemon lives" });
        look.into_iter().chain([self.start("when it does not")]).collect()
    }

    /// The lock of `name`.
    pub fn for_held(&self, name: &str, spell: &Spell) -> Vec<Next> {
        let mut next = vec![
            self.beadlock("beadlock status {}", "whether the lock is still there, and its holder alive"),
        ];
        if let (Some(pid), Some(host)) = (spell.extra.pid, &spell.extra.host) {
            let daemons = self.agent.and_then(|run| run.host.as_deref()).or(self.around.host.as_deref());
            let is_local = daemons.is_some_and(|daemons| daemons.eq_ignore_ascii_case(host));
            next.push(match is_local {
                true => Next { command: see(pid), why: "what it is doing" },
                false => Next {
                    command: to_type("ssh -- {} ps -fp {}", &[Part::Word(OsStr::new(host)), Part::Pid(pid)]),
                    why: "whether it lives: nobody else can tell",
                },
            });
        }
        // What the log has escaped or cut is not the name that is in the lock file.
        let is_itself = name.chars().all(|c| is_harmless(c) && c != '\\') && !name.ends_with('…');
        let which = match is_itself {
            true => Part::Value("--holder", OsStr::new(name)),
            false => Part::Words(vec!["--id".into(), "ID".into()]),
        };
        let why = if is_itself {
            "once you know that it is gone"
        } else {
            "with the id that status shows, once it is gone"
        };
        let command = to_type("beadlock break {} {} --even-if-live", &[self.target(), which]);
        next.push(Next { command, why });
        next
    }

    /// The lock cannot be checked.
    pub fn for_unreadable(&self, why: &str) -> Vec<Next> {
        if why.starts_with("failed to remove stale lock") {
            return vec![self.beadlock("beadlock check {} --explain", "tries again, and says what stops it")];
        }
        let status = self.beadlock("beadlock status {}", "what is wrong with it");
        if is_obstacle(why) {
            return vec![status];
        }
        vec![status, self.beadlock("beadlock break {} --malformed", "when nobody needs it; keeps a copy")]
    }
}

/// The lock file was not read, and may be alive. An older daemon has other words for it.
fn is_obstacle(why: &str) -> bool {
    why.contains("too many open files") || Obstacle::of(why).is_some()
}

/// Shows a process.
fn see(pid: i64) -> String {
    to_type("ps -fp {}", &[Part::Pid(pid)])
}

/// What a reason of the closed list means for whoever waits.
pub fn meaning(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "pid_alive" => "pid_alive: its process lives; the lock goes when it ends",
        "pid_not_permitted" => {
            "pid_not_permitted: its process lives and is another user's; the lock goes when it ends"
        }
        "pid_unknown" => {
            "pid_unknown: the system could not say whether its process lives, so it counts as alive"
        }
        "other_host" => {
            "other_host: only that host can tell whether it lives; no daemon here ever removes it"
        }
        "host_unknown" => "host_unknown: this machine has no host name, so no lock is ever removed",
        "other_machine" => "other_machine: another machine of the same name; no daemon here ever removes it",
        "other_pid_namespace" => {
            "other_pid_namespace: its PID is one of another container; no daemon here ever removes it"
        }
        _ => return None,
    })
}
