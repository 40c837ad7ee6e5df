//! The state of a target's gate: the processes that shut it, and whether a killed daemon has left them behind.

use std::{ffi::OsString, path::Path};

use beadlock_base::escape::process_name;
use beadlock_base::process::Stat;
use beadlock_core::gate_holders::{GateHolder, GateHolders, GateRole};
use serde_json::{Value, json};

use beadlock_claim::fact::Fact;
use beadlock_claim::words::{self, Part, to_type};

/// The processes that have a gate or wait for it, as far as `/proc` shows.
#[derive(Debug)]
pub struct Shut {
    holders: Vec<(GateHolder, GateRole)>,
    /// The holders that keep the gate shut after every process of beadlock that held it was killed.
    left: Vec<GateHolder>,
    waiters: Vec<GateHolder>,
}

#[derive(Debug, Clone, Copy)]
pub struct Orphaned<'a> {
    pub daemon: Option<i32>,
    /// The command that still runs; for the moment before it starts and after it ends the runner itself.
    pub work: &'a [GateHolder],
}

impl Orphaned<'_> {
    pub fn daemon(self) -> String {
        self.daemon.map_or_else(
            || "a daemon that was killed".to_owned(),
            |pid| format!("PID {pid}, which is gone,"),
        )
    }

    /// The command that ends this work: with its whole process group where it leads one.
    pub fn to_end_it(self) -> String {
        let group = |pid: i32| Stat::read(pid).map_or(pid, |stat| stat.pgrp);
        let groups: Vec<i32> = self
            .work
            .iter()
            .map(|work| work.pid)
            .filter(|pid| group(*pid) == *pid)
            .collect();
        let others = self
            .work
            .iter()
            .map(|work| work.pid)
            .filter(|pid| !groups.contains(&group(*pid)));
        let words = groups
            .iter()
            .map(|pid| format!("-{pid}"))
            .chain(others.map(|pid| pid.to_string()));
        to_type(
            "kill -- {}",
            &[Part::Words(words.map(OsString::from).collect())],
        )
    }
}

impl Shut {
    pub fn of(gates: &GateHolders, dir: &Path) -> Self {
        let left = gates.left(dir);
        let with_role = |holder: GateHolder| {
            // By its number: one that is ending has lost its command line since.
            let role = if left.iter().any(|left| left.pid == holder.pid) {
                GateRole::Left
            } else {
                holder.role()
            };
            (holder, role)
        };
        let holders = gates.holders(dir).into_iter().map(with_role).collect();
        Self {
            holders,
            left,
            waiters: gates.waiters(dir),
        }
    }

    pub fn is_shut(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The work of a killed daemon that keeps the gate shut; `None`: there is none.
    pub fn orphaned(&self) -> Option<Orphaned<'_>> {
        self.holders.iter().find_map(|(holder, role)| match role {
            GateRole::Orphan { daemon, work } if work.is_empty() => Some(Orphaned {
                daemon: Some(*daemon),
                work: std::slice::from_ref(holder),
            }),
            GateRole::Orphan { daemon, work } => Some(Orphaned {
                daemon: Some(*daemon),
                work,
            }),
            GateRole::Left => Some(Orphaned {
                daemon: None,
                work: &self.left,
            }),
            GateRole::Runner { .. } | GateRole::Other => None,
        })
    }

    /// The processes that have the gate: `PID 33 (beadlock-agent), PID 34 (for PID 33)`.
    pub fn names(&self) -> String {
        let name = |(holder, role): &(GateHolder, GateRole)| match role {
            GateRole::Runner { daemon } => {
                format!("PID {} (for PID {daemon})", holder.pid)
            }
            GateRole::Orphan { .. } | GateRole::Left | GateRole::Other => {
                process_name(holder.pid, &holder.command)
            }
        };
        self.holders.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// The facts `gate` and `gate_waiters` for programs, and the facts for people, which are read after everything
    /// else.
    pub fn facts(&self, has_cycles: bool) -> ([Fact; 2], Vec<Fact>) {
        let process =
            |GateHolder { pid, command }: &GateHolder| json!({ "pid": pid, "command": command });
        let holder = |(holder, role): &(GateHolder, GateRole)| {
            let (role, daemon, work) = match role {
                GateRole::Runner { daemon } => ("runner", Some(daemon), None),
                GateRole::Orphan { daemon, work } => ("orphan", Some(daemon), Some(work)),
                GateRole::Left => ("left", None, None),
                GateRole::Other => ("other", None, None),
            };
            let work: Option<Vec<Value>> = work.map(|work| work.iter().map(process).collect());
            json!({
                "pid": holder.pid,
                "command": holder.command,
                "role": role,
                "daemon": daemon,
                "work": work,
            })
        };
        let holders: Value = self.holders.iter().map(holder).collect();
        let waiters: Value = self.waiters.iter().map(process).collect();
        let mut people = vec![Fact::text("gate", self.state(has_cycles))];
        if !self.waiters.is_empty() {
            people.push(Fact::text(
                "waiting for the gate",
                words::names(&self.waiters),
            ));
        }
        (
            [
                Fact::json("gate", holders),
                Fact::json("gate_waiters", waiters),
            ],
            people,
        )
    }

    fn state(&self, has_cycles: bool) -> String {
        match self.orphaned() {
            Some(orphaned) => format!(
                "shut by what {} has left running: {}; it opens when that has ended",
                orphaned.daemon(),
                words::names(orphaned.work)
            ),
            None if !self.is_shut() => "open, as far as /proc shows".to_owned(),
            None if has_cycles => format!("shut by {} (a sync cycle or a claim)", self.names()),
            None => format!("shut by {} (a lock there is being changed)", self.names()),
        }
    }
}
