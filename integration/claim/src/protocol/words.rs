//! Messages about the lock of a target, in the words of its protocol.

use std::time::Duration;

use beadlock_base::escape::escaped;
use beadlock_core::Removed;
use beadlock_core::{look::Look, record::Record, target::Scheme};
use serde_json::Value;

use super::{file, lock, memory, tower};
use crate::error::Error;
use crate::words::{shown_age, to_type};
use crate::{protocol::rules::WaitOver, target::Target};

impl Target {
    /// The message of a claim whose wait for the holder ran out.
    pub(crate) fn timed_out(&self, waited: &WaitOver<'_>) -> String {
        match self.scheme {
            Scheme::Beads | Scheme::Dir => timed_out(waited),
            Scheme::Lock => lock::timed_out(waited),
            Scheme::Tower => tower::timed_out(waited),
            Scheme::Memory => memory::timed_out(waited),
            Scheme::File | Scheme::Flock => file::timed_out(waited),
        }
    }

    /// The message about a lock that was not released: what becomes of it, and what to type.
    pub fn not_released(&self, record: &Record, error: &Error) -> String {
        match self.scheme {
            Scheme::Beads | Scheme::Dir | Scheme::Lock => not_released(self, error),
            Scheme::Tower => tower::not_released(self, record, error),
            Scheme::Memory => memory::not_released(self, record, error),
            Scheme::File | Scheme::Flock => error.to_string(),
        }
    }

    /// The holder of a lock: `make (PID 77: make release, on ci-3)`; `command` is of a process of this machine.
    pub fn holder_of(&self, record: &Record, command: Option<&str>) -> String {
        match self.scheme {
            Scheme::Memory => memory::holder(record, command),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Tower
            | Scheme::File
            | Scheme::Flock => holder(record, command),
        }
    }

    /// The message about a stale lock that was removed; `None`: the removed file was not a lock.
    pub fn removed(&self, removed: &Removed) -> Option<String> {
        match self.scheme {
            Scheme::Memory => memory::removed(removed),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Tower
            | Scheme::File
            | Scheme::Flock => {
                let Removed { record, reason, .. } = removed;
                let name = escaped(record.holder());
                Some(format!(
                    "removed stale lock of {name} (PID {}, {reason})",
                    record.pid()
                ))
            }
        }
    }

    /// The document's words for `break` about a lock that it has broken; `None`: it has none.
    pub fn broken(&self, record: &Record) -> Option<String> {
        match self.scheme {
            Scheme::Memory => memory::broken(record),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Tower
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// The JSON answer of the protocol's document where the lock is held; `None`: it has none.
    pub fn answer_held(&self, record: &Record) -> Option<Value> {
        match self.scheme {
            Scheme::Tower => tower::answer_held(record),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// The JSON answer of the protocol's document where the lock is stale, `age` after its last heartbeat; `None`: it
    /// has none.
    pub fn answer_stale(&self, record: &Record, age: Duration) -> Option<Value> {
        match self.scheme {
            Scheme::Tower => tower::answer_stale(record, age),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => None,
        }
    }

    /// Time since the last heartbeat of the lock's holder; `None`: it sends no heartbeats.
    pub fn silence(&self, look: &Look) -> Option<Duration> {
        match self.scheme {
            Scheme::Tower => tower::silence(look),
            Scheme::Beads
            | Scheme::Dir
            | Scheme::Lock
            | Scheme::Memory
            | Scheme::File
            | Scheme::Flock => None,
        }
    }
}

fn timed_out(waited: &WaitOver<'_>) -> String {
    let WaitOver {
        path,
        holder,
        age,
        wait,
        zombie,
        status,
        ..
    } = waited;
    let age = shown_age(*age);
    format!("{path} is held by {holder} for {age}; {wait}{zombie}; who and why: {status}")
}

fn not_released(target: &Target, error: &Error) -> String {
    let check = to_type("beadlock check {}", &[target.part()]);
    format!("{error}; once this has ended, type: {check}")
}

fn holder(record: &Record, command: Option<&str>) -> String {
    let (name, host) = (escaped(record.holder()), escaped(record.hostname()));
    let command = command
        .map(|command| format!(": {command}"))
        .unwrap_or_default();
    format!("{name} (PID {}{command}, on {host})", record.pid())
}
