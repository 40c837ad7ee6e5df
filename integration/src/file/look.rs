//! Whether somebody has a file locked, and who: what `check`, `status`, `list` and `break` say of one. Nothing is
//! changed, and no lock file is made.

use beadlock_checker::internal::dialect::file::{LockId, Mode, held};
use beadlock_checker::internal::{GateHolder, Gates, flock_of};
use beadlock_checker::{Reason, Verdict};
use serde_json::{Value, json};

use super::open::{LockFile, Patience, failed};
use super::refused::{as_they_are_known, names};
use super::target::FileTarget;
use crate::error::{Error, Exit};
use crate::output::talk::Talk;
use crate::words::{self, Part, to_type};

/// A file's lock, as it was to be seen.
#[derive(Debug)]
pub struct Look {
    pub target: FileTarget,
    /// Free, held, or unreadable.
    pub verdict: Verdict,
    /// Who has it, as far as `/proc` shows.
    pub holders: Vec<GateHolder>,
    /// Who waits for it, blocked in flock(2).
    waiters: Vec<GateHolder>,
    /// How they have it; `None` where that is not to be seen.
    mode: Option<Mode>,
    id: Option<LockId>,
    /// Why it is unreadable.
    detail: String,
}

impl Look {
    /// At the lock of `target`, among all flocks of this machine.
    pub fn at(target: FileTarget, gates: &Gates) -> Self {
        let holders = as_they_are_known(gates.holders(target.lock()));
        let waiters = gates.waiters(target.lock());
        let (verdict, detail) = match holders.is_empty() {
            false => (Verdict::Held(Reason::FlockHeld), String::new()),
            true => match try_it(&target) {
                Ok(verdict) => (verdict, String::new()),
                Err(error) => (Verdict::Unreadable(Reason::Unreadable), error.to_string()),
            },
        };
        let inode = super::open::named_inode(&target);
        let first = holders.first().zip(inode).map(|(holder, inode)| (holder.pid, inode));
        let mode = first.and_then(|(pid, inode)| flock_of(pid, target.lock(), inode));
        let id = first.map(|(pid, (device, inode))| LockId { device, inode, pid });
        Self { target, verdict, holders, waiters, mode, id, detail }
    }

    /// Somebody has it.
    pub fn is_held(&self) -> bool {
        matches!(self.verdict, Verdict::Held(_))
    }

    /// Why it is unreadable; empty where it is not.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// How a check ends.
    pub fn exit(&self) -> Exit {
        match self.verdict {
            Verdict::Free | Verdict::Stale(_) => Exit::Done,
            Verdict::Held(_) => Exit::Conflict,
            Verdict::Unreadable(_) => Exit::Unreadable,
        }
    }

    /// What a daemon says who leaves the file alone; empty where nobody has it.
    pub fn message(&self) -> String {
        match self.verdict {
            Verdict::Held(_) => held(&self.target.shown()),
            _ => self.detail.clone(),
        }
    }

    /// One element of `data` of a `check`.
    pub fn checked(&self, explain: bool) -> Value {
        let mut data = json!({
            "target": self.target.given(),
            "path": self.target.lock().to_string_lossy(),
            "decision": if self.verdict == Verdict::Free { "proceed" } else { "skip" },
            "verdict": self.verdict.as_str(),
            "removed": false,
            "holder": null,
            "id": self.id.map(|id| id.to_string()),
            "reason": self.verdict.reason().as_str(),
            "message": self.message(),
        });
        if explain && let Some(fields) = data.as_object_mut() {
            fields.insert("witnesses".to_owned(), self.witnesses());
            fields.insert("next".to_owned(), self.next().into());
        }
        data
    }

    /// One element of `data` of `status` and `list`.
    pub fn json(&self) -> Value {
        json!({
            "target": self.target.given(),
            "path": self.target.lock().to_string_lossy(),
            "verdict": self.verdict.as_str(),
            "holder": null,
            "id": self.id.map(|id| id.to_string()),
            "reason": self.verdict.reason().as_str(),
            "message": self.message(),
            "record": null,
            "age_ms": null,
            "witnesses": self.witnesses(),
            "next": self.next(),
        })
    }

    fn witnesses(&self) -> Value {
        let all = |processes: &[GateHolder]| {
            let one = |GateHolder { pid, command }: &GateHolder| json!({ "pid": pid, "command": command });
            processes.iter().map(one).collect::<Vec<_>>()
        };
        json!({
            "mode": self.mode.map(Mode::as_str),
            "flock": all(&self.holders),
            "flock_waiters": all(&self.waiters),
        })
    }

    /// All that `status` says of it.
    pub fn text(&self, talk: &Talk) -> String {
        let (reason, given) = (self.verdict.reason(), self.target.given());
        let word = |code: &str| talk.painted_data(self.verdict.as_str(), code);
        let what = match self.verdict {
            Verdict::Held(_) => {
                let mode = self.mode.map(|mode| format!(", {mode}")).unwrap_or_default();
                format!("{} by {}{mode} ({reason})", word("33"), names(&self.holders))
            }
            Verdict::Unreadable(_) => format!("{}: {} ({reason})", word("31"), self.detail),
            _ => format!("{} ({reason})", word("32")),
        };
        format!("{given}: {what}\n{}", self.below())
    }

    /// The witnesses, and what to type, one line each.
    pub fn below(&self) -> String {
        let mut lines = Vec::new();
        if !self.waiters.is_empty() {
            lines.push(format!("waiting for it: {}", words::names(&self.waiters)));
        }
        lines.extend(self.id.map(|id| format!("id: {id}")));
        lines.push(format!("next: {}", self.next()));
        lines.iter().map(|line| format!("  {line}\n")).collect()
    }

    fn next(&self) -> String {
        let command = |template| to_type(template, &[self.target.part()]);
        match (self.verdict, self.holders.first()) {
            (Verdict::Held(_), Some(holder)) => format!(
                "{}   # waits until it is free; to see its process: {}",
                command("beadlock wait --wait 10m {}"),
                to_type("ps -fp {}", &[Part::Pid(holder.pid.into())])
            ),
            (Verdict::Held(_), None) => {
                format!("{}   # root sees all processes", command("sudo beadlock status {}"))
            }
            (Verdict::Unreadable(_), _) => to_type("ls -ld {}", &[Part::Path(self.target.lock())]),
            _ => command("beadlock hold {} -- CMD"),
        }
    }
}

/// Where `/proc` shows nobody there may be somebody of another namespace or machine: the lock is tried, and let go at
/// once.
fn try_it(target: &FileTarget) -> Result<Verdict, Error> {
    let Some(file) = LockFile::find(target)? else { return Ok(Verdict::Free) };
    let taken = file.flock(Mode::Exclusive, Patience::Try).map_err(|error| failed(target, &error))?;
    Ok(if taken.is_ok() { Verdict::Free } else { Verdict::Held(Reason::FlockHeld) })
}
