//! The request of the helper processes that outlive `beadlock` for the work of a command: the watchdog and the gate
//! keeper. `beadlock` writes it, and the checker reads it on the command lines of others (Linux), where it is untrusted.
//!
//! Both have the same kind, [`KIND`], and differ in what they do when their parent ends first: [`EndTree`] or
//! [`OpenGate`]. Each is an enum of one variant, whose name is what JSON has of it.

use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use beadlock_base::deadline::WorkDeadline;
use beadlock_base::{helper, process::ProcessRef};

/// The kind of both helpers on their command lines.
pub const KIND: &str = "Watchdog";

/// A command, as a process is told of it that has not started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRef {
    /// The process of the command.
    #[serde(flatten)]
    pub process: ProcessRef,
    /// Whether the command leads a process group of its own.
    pub leads: bool,
}

impl CommandRef {
    /// The command whose process is `pid`, a child that has not been reaped.
    pub fn of(pid: i32, leads: bool) -> Self {
        Self {
            process: ProcessRef::of(pid),
            leads,
        }
    }
}

/// The request of a helper that watches over a command, and over the process that has started both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogRequest<A> {
    /// PID of the process that has started the helper.
    pub parent: i32,
    /// The command that the helper watches over.
    pub command: CommandRef,
    /// The task, once the parent has ended first: [`EndTree`] of a watchdog, [`OpenGate`] of a gate keeper.
    pub at_end: A,
    /// The descriptors that stay open: the files whose flock ends with the work, beyond the first one.
    #[serde(default)]
    pub kept: Vec<i32>,
}

impl<A: DeserializeOwned> WatchdogRequest<A> {
    /// The request of the process `pid`. `None`: it is not a helper with this task.
    pub fn of_process(pid: i32) -> Option<Self> {
        helper::request_of(pid, KIND)
    }
}

impl<A> WatchdogRequest<A> {
    /// False when the PID of the command is not positive, and so not that of a process.
    pub fn is_of_a_process(&self) -> bool {
        self.command.process.pid > 0
    }
}

/// The task of a watchdog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndTree {
    /// The watchdog ends the command's tree.
    EndTree {
        /// The mark of the command's descendants.
        token: String,
        /// The time between TERM and KILL. It is shorter than the lock stays valid without a heartbeat.
        grace: Duration,
        /// After this time without a heartbeat the tree is stopped; `None`: never.
        silence: Option<Duration>,
        /// When the work is killed in any case: the deadline of each session in a fleet.
        #[serde(default)]
        deadlines: Vec<WorkDeadline>,
    },
}

/// The task of a gate keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenGate {
    /// The gate keeper waits for the end of the command and its group, and opens the gate.
    OpenGate,
}
