//! A lock without a record that is held or stale, which every protocol sees alike: which situation it is in, why it
//! counts as what it counts as, and what to type next.
//!
//! A command can be pasted, and a `#` and what it is for come after it. What cannot be undone comes after the `#`, so
//! that nobody types it by accident.

use std::time::Duration;

use beadlock_base::{duration::shown, filesystem::FileKind, permission};
use beadlock_core::{Reason, Verdict};
use beadlock_core::{look::Look, obstacle::Obstacle, record::StartedAt};

use super::gate::Shut;
use crate::explained::{Explained, NextCommand};
use beadlock_claim::protocol::rules::{LONGEST_LOCK_FILE, NotALock};
use beadlock_claim::words::{Part, kind_words, to_type};
use beadlock_claim::{target::Target, writer_grace::WRITING};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    Free,
    /// There is no lock but one that was set aside: by a removal that goes on, or that has crashed.
    SetAside,
    Empty {
        /// Written a moment ago: the rest may come.
        fresh: bool,
    },
    /// The file is not JSON, or has values of the wrong types.
    Malformed {
        /// Written a moment ago: the rest may come.
        fresh: bool,
    },
    /// JSON in which a value that is needed is missing or wrong.
    Invalid,
    /// No lock at all, but somebody's data.
    Data,
    NotAFile(FileKind),
    TooLarge,
    /// A regular file that the system does not let us read.
    Unread,
    /// A lock file that could not be opened just now.
    NotOpened(Obstacle),
}

impl Situation {
    /// The situation of a look that has found no record; `data`: somebody's data lies there.
    pub fn of(look: &Look, data: Option<&NotALock>, now: StartedAt) -> Self {
        let reason = match look.verdict {
            Verdict::Free if look.side_file => return Self::SetAside,
            Verdict::Free => return Self::Free,
            Verdict::Unreadable(reason) => reason,
            Verdict::Held(_) | Verdict::Stale(_) => return Self::Unread,
        };
        let age = look
            .on_disk
            .and_then(|on_disk| Duration::try_from(on_disk.modified.age(now)).ok());
        let fresh = age.is_some_and(|age| age < WRITING);
        match (reason, look.on_disk) {
            (Reason::Malformed | Reason::Invalid, _) if data.is_some() => Self::Data,
            (Reason::Malformed, Some(on_disk)) if on_disk.size == 0 => Self::Empty { fresh },
            (Reason::Malformed, _) => Self::Malformed { fresh },
            (Reason::Invalid, _) => Self::Invalid,
            (_, Some(on_disk)) if on_disk.kind != FileKind::File => Self::NotAFile(on_disk.kind),
            (_, Some(on_disk)) if on_disk.size > LONGEST_LOCK_FILE => Self::TooLarge,
            _ => look.obstacle().map_or(Self::Unread, Self::NotOpened),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::SetAside => "set_aside",
            Self::Empty { .. } => "empty",
            Self::Malformed { .. } => "malformed",
            Self::Invalid => "invalid",
            Self::Data => "not_a_lock",
            Self::NotAFile(_) => "not_a_file",
            Self::TooLarge => "too_large",
            Self::Unread | Self::NotOpened(_) => "unread",
        }
    }
}

/// The explanation of a lock without a record: why it has its verdict, and what to type.
pub fn explain(
    situation: Situation,
    (look, target, now): (&Look, &Target, StartedAt),
    data: Option<NotALock>,
    gate: &Shut,
) -> Explained {
    let (why, next) = match (situation, data) {
        (Situation::Free, _) => of_free(target, gate),
        (Situation::SetAside, _) => {
            let by = match gate.is_shut() {
                true => "somebody is removing one at this moment",
                false => "a crash has left it there",
            };
            let check = to_type("beadlock check {}", &[target.part()]);
            (
                format!("no lock, but one is aside: {by}"),
                (check, "puts right what a crash has left".to_owned()),
            )
        }
        (Situation::Data | Situation::TooLarge, Some(data)) => of_data(data, target),
        (Situation::Empty { .. } | Situation::Malformed { .. } | Situation::Invalid, _) => {
            of_content(situation, (look, target, now))
        }
        _ => of_unread(situation, target),
    };
    Explained {
        situation: situation.as_str(),
        why,
        next,
        facts: Vec::new(),
        holder_is: "",
    }
}

fn of_free(target: &Target, gate: &Shut) -> (String, NextCommand) {
    let claim = Part::Words(target.options_of_claim(None));
    let hold = to_type("beadlock hold {} {} -- CMD", &[target.part(), claim]);
    match gate.orphaned() {
        Some(orphaned) => {
            let daemon = orphaned.daemon();
            let why = format!(
                "no lock; a claim waits for the gate, which a cycle of {daemon} keeps shut"
            );
            let pids: Vec<String> = orphaned
                .work
                .iter()
                .map(|work| work.pid.to_string())
                .collect();
            let end = orphaned.to_end_it();
            let comment = format!("what is left running; a claim waits for it; to end it: {end}");
            (
                why,
                (
                    to_type("ps -fp {}", &[Part::Word(pids.join(",").as_ref())]),
                    comment,
                ),
            )
        }
        None if gate.is_shut() => (
            "no lock; a claim waits for the gate".to_owned(),
            (hold, "waits until the gate is open".to_owned()),
        ),
        None => ("no lock".to_owned(), (hold, String::new())),
    }
}

fn of_data(data: NotALock, target: &Target) -> (String, NextCommand) {
    let [file, lock] = data.meant.map(|name| Part::Words(vec![name]));
    let comment = format!(
        "locks the file itself; for a lock file beside it: {}",
        to_type("{}", &[lock])
    );
    let claim = Part::Words(target.options_of_claim(None));
    (
        data.words,
        (
            to_type("beadlock hold {} {} -- CMD", &[file, claim]),
            comment,
        ),
    )
}

fn of_content(
    situation: Situation,
    (look, target, now): (&Look, &Target, StartedAt),
) -> (String, NextCommand) {
    let of_target = |template| to_type(template, &[target.part()]);
    let malformed = of_target("beadlock break {} --malformed");
    let age = look
        .on_disk
        .and_then(|file| Duration::try_from(file.modified.age(now)).ok());
    let being_written = |what: &str| {
        let why = format!(
            "{what}, and {} old: somebody may be writing it",
            shown(age.unwrap_or_default())
        );
        let again = of_target("sleep 2; beadlock status {}");
        (why, (again, "somebody may be writing it".to_owned()))
    };
    let raw = || {
        let comment = format!("shows it; when nobody needs it: {malformed}");
        (of_target("beadlock status --raw {}"), comment)
    };
    match situation {
        Situation::Empty { fresh: true } => being_written("the file is empty"),
        Situation::Malformed { fresh: true } => being_written("it is no lock record"),
        Situation::Empty { fresh: false } => match target.why_empty(look) {
            Some(why) => (
                format!("the file is empty: {why}"),
                (malformed, "if nobody uses it".to_owned()),
            ),
            None => (
                "the file is empty: who made it died before the first byte, or the disk is full"
                    .to_owned(),
                (
                    malformed,
                    "there is nothing in it; was the disk full? df -h".to_owned(),
                ),
            ),
        },
        Situation::Malformed { fresh: false } => (
            "it is no lock record, so nobody can tell whose it is".to_owned(),
            raw(),
        ),
        _ => {
            let why = "it is a record in which a value that is needed is missing or wrong";
            (format!("{why}, so nobody can tell whose it is"), raw())
        }
    }
}

fn of_unread(situation: Situation, target: &Target) -> (String, NextCommand) {
    let path = target.path();
    let of_target = |template| to_type(template, &[target.part()]);
    let of_lock = |template| to_type(template, &[Part::Path(&path)]);
    let malformed = || {
        format!(
            "when nobody needs it: {}",
            of_target("beadlock break {} --malformed")
        )
    };
    let again = || of_target("sleep 2; beadlock status {}");
    match situation {
        Situation::NotAFile(kind) => {
            let list = if kind == FileKind::Directory {
                "ls -la {}"
            } else {
                "ls -ld {}"
            };
            let there = kind_words(kind);
            let why = format!(
                "there is {there} where a lock is a regular file; it is neither opened nor followed"
            );
            (why, (of_lock(list), malformed()))
        }
        Situation::TooLarge => (
            "no lock is that large; it is not read".to_owned(),
            (of_lock("ls -ld {}"), malformed()),
        ),
        Situation::NotOpened(obstacle) => {
            let next = match obstacle {
                Obstacle::Descriptors => (
                    format!(
                        "ulimit -n \"$(ulimit -Hn)\"; {}",
                        of_target("beadlock status {}")
                    ),
                    "this process may open too few files",
                ),
                Obstacle::FileTable => {
                    (again(), "this machine has too many open files: fs.file-max")
                }
                Obstacle::Lease => (
                    again(),
                    "a process has it under a write lease; to see those that have leases: grep LEASE /proc/locks",
                ),
            };
            (obstacle.advice().to_owned(), (next.0, next.1.to_owned()))
        }
        _ => {
            let next = match permission::directory_above(&path) {
                Some(why) => (of_lock("namei -l {}"), why),
                None => (
                    of_lock("ls -ld {}"),
                    "as a user who may read it: beadlock status".to_owned(),
                ),
            };
            (
                "it could not be read, so nobody can tell whose it is".to_owned(),
                next,
            )
        }
    }
}

#[cfg(test)]
mod tests;
