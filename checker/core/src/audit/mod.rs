//! The audit trail (docs/design.md#the-audit-trail): what happened to which lock, who did it and why, one JSON object a
//! line.
//!
//! # A line
//! Every line has all of these fields, in this order; what is not known, or does not apply, is null.
//!
//! | field | |
//! |---|---|
//! | `event` | a word of the closed list [`Event`] |
//! | `request_id` | the request that did it: `meta.request_id` of the envelope; the agent makes one for every cycle |
//! | `timestamp` | RFC 3339, UTC, whole seconds; lines of one second are in the order in which they were written |
//! | `lock_name` | the target with its scheme, as typed or found: `beads:.beads` |
//! | `lock_path` | the lock file |
//! | `by` | the doer: `holder` (the name claimed under), `program`, `version`, `pid`, `uid`, `user`, `hostname` |
//! | `reason` | why, in one word: a [`Reason`](crate::Reason) for what was blocked or removed |
//! | `detail` | why, in a sentence: what a check says of a lock that it cannot read, `break --reason TEXT` |
//! | `watched` | `lease` or `comparison`: how it was made sure that nobody was taking over a lock that was removed |
//! | `held_duration_seconds` | whole seconds from the claim to its end |
//! | `result` | `success` or `failure` of the work that the lock was held for |
//! | `error` | what went wrong, in a sentence |
//! | `lock` | the record that is, or was, in the lock file: of a claim its own, of a block the one in the way |
//! | `previous_lock` | the record that was removed or broken |
//! | `truncated` | true when anything in this line was cut or left out to keep it short |
//!
//! The words are those of the tower audit events where the thing is the same, so that one reader reads both. Strings
//! are as they were read, with JSON's escapes. One of more than 1024 characters out of a lock file, or in `reason`,
//! `detail` or `error`, is cut and ends in `…`; a line that would be longer than 128 KiB leaves out the records.
//!
//! # Promises
//! - One `write(2)` a line, in append mode: lines of many processes never mix on a local file system.
//! - A new file has mode 0600. A symbolic link is never followed (the last name of the path), and nothing but a
//!   regular file is ever written: not `/dev/stderr`, not `/dev/null`, not a FIFO; none of these blocks.
//! - The file is opened by its name for every line: a rotation renames it, and tells nobody.
//! - A line that a full disk cut short does not swallow the next one, which begins with a line break of its own. For
//!   that, each writer has a flock on the file for the moment of its line; a writer that waits longer than 500 ms
//!   for it, or may not read the file, appends without looking.
//!
//! # Limits
//! A disk that hangs makes a write hang. On NFS appending is not atomic. Lines are not synced to the disk.

mod entry;
mod file;

pub use entry::{AuditEntry, Event, WorkOutcome, cut};
pub use file::{Audit, Failed, LineFile};

use serde::Serialize;

use crate::facts;

/// The writer of this process's lines: `by` of a line, the fields in the order of the document.
#[derive(Debug, Clone, Serialize)]
pub struct Author {
    holder: Option<String>,
    program: &'static str,
    version: &'static str,
    pid: u32,
    uid: u32,
    user: Option<String>,
    hostname: Option<String>,
}

impl Author {
    /// This process: the name of the program and its version. Looks up the user's name, once.
    pub fn new(program: &'static str, version: &'static str) -> Self {
        let uid = nix::unistd::getuid();
        let user = nix::unistd::User::from_uid(uid)
            .ok()
            .flatten()
            .map(|user| user.name);
        let hostname = facts::hostname().map(|name| name.to_string());
        Self {
            holder: None,
            program,
            version,
            pid: std::process::id(),
            uid: uid.as_raw(),
            user,
            hostname,
        }
    }

    /// The name that this process claims under.
    #[must_use]
    pub fn holder(self, name: &str) -> Self {
        Self {
            holder: Some(name.to_owned()),
            ..self
        }
    }

    /// The PID is asked for now: a lease keeper is a fork of the process that made this.
    fn by(&self) -> Self {
        Self {
            pid: std::process::id(),
            ..self.clone()
        }
    }
}
