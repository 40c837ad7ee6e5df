//! The requests of the helper processes: one JSON value on the command line.

use std::{ffi::OsString, time::Duration};

use beadlock_base::beside::{HELPER, request_of};
use beadlock_base::deadline::WorkDeadline;
use beadlock_core::dialect::LockMode;
use serde::{Deserialize, Serialize};

use crate::{claim::known_process::KnownProcess, claim::tree::KnownCommand, words::in_title};

pub use crate::settings::remote::Lookup;

/// What a helper process is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HelperRequest {
    /// To keep a claim that spans several commands.
    LeaseKeeper(LeaseKeeperRequest),
    Watchdog(WatchdogRequest),
    /// To look first at a file system that may not answer.
    Lookup(Lookup),
    /// To answer the trials of `doctor` as a second process.
    DoctorTrials,
}

/// A claim that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseKeeperRequest {
    pub lease: KeptLease,
    /// The target, absolute.
    pub target: OsString,
    pub given: String,
    pub max_hold: Duration,
    /// When `max_hold` is over, by the clock, in UTC and whole seconds: for people alone. `None`: it has no end.
    pub until: Option<String>,
    /// The process whose end ends the claim.
    pub subject: Option<KnownProcess>,
    /// The id of the command that has made the claim, for the audit file.
    pub request_id: String,
    /// Absolute.
    pub audit: Option<OsString>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeptLease {
    /// The record with this id.
    Record { id: String, holder: String },
    /// A lock of the kernel, on the open file that the keeper inherits as its stderr.
    Kernel { mode: LockMode },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogRequest {
    pub parent: i32,
    pub command: KnownCommand,
    pub at_end: AtEnd,
    /// The descriptors that stay open: the files whose flock ends with the work, beyond the first one.
    #[serde(default)]
    pub kept: Vec<i32>,
}

/// What a watchdog does when its parent has ended first. The checker reads this, too: it tells a gate keeper by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AtEnd {
    /// It ends the command's tree.
    EndTree {
        /// What marks the command's descendants.
        token: String,
        /// The time between TERM and KILL. It is shorter than the lock stays valid without a heartbeat.
        grace: Duration,
        /// After this time without a heartbeat the tree is stopped; `None`: never.
        silence: Option<Duration>,
        /// When the work is killed in any case: the deadline of each session in a fleet.
        #[serde(default)]
        deadlines: Vec<WorkDeadline>,
    },
    /// It waits for the end of the command and its group, and opens the gate.
    OpenGate,
}

impl HelperRequest {
    /// What these words of a command line ask for, where they are a helper's; the inner `None`: they cannot be decoded.
    pub fn of(words: &[OsString]) -> Option<Option<Self>> {
        let (_, [first, request @ ..]) = words.split_first()? else {
            return None;
        };
        (first == HELPER).then(|| match request {
            [request] => serde_json::from_str(request.to_str()?)
                .ok()
                .filter(Self::is_sound),
            _ => None,
        })
    }

    /// The request of the helper process `pid`, where it is one.
    pub fn of_process(pid: i32) -> Option<Self> {
        request_of(pid)
    }

    /// Numbers below 1 are not of a process, and an empty token is in many environments.
    fn is_sound(&self) -> bool {
        let has_token =
            |at_end: &AtEnd| !matches!(at_end, AtEnd::EndTree { token, .. } if token.is_empty());
        match self {
            Self::Watchdog(request) => {
                request.command.process.pid > 0 && has_token(&request.at_end)
            }
            Self::LeaseKeeper(request) => request.subject.is_none_or(|subject| subject.pid > 0),
            Self::Lookup(_) | Self::DoctorTrials => true,
        }
    }
}

impl LeaseKeeperRequest {
    /// What a lease keeper does, for `ps`.
    pub fn title(&self) -> String {
        let given = in_title(&self.given);
        let keeps = match &self.lease {
            KeptLease::Record { holder, .. } => {
                format!("beadlock: keeps {given} for {}", in_title(holder))
            }
            KeptLease::Kernel { .. } => format!("beadlock: keeps {given}"),
        };
        match (self.subject, &self.until) {
            (Some(subject), _) => format!("{keeps} while PID {} lives", subject.pid),
            (None, Some(until)) => format!("{keeps} until {}", in_title(until)),
            (None, None) => keeps,
        }
    }
}

impl WatchdogRequest {
    /// What a watchdog of `command` does under a claim of `target`, for `ps`.
    pub fn title(&self, command: &str, target: &str) -> String {
        let (command, target) = (in_title(command), in_title(target));
        match self.at_end {
            AtEnd::EndTree { .. } => format!("beadlock: watches {command} for {target}"),
            AtEnd::OpenGate => format!("beadlock: keeps the gate of {target} for {command}"),
        }
    }
}

#[cfg(test)]
mod tests;
