//! Looking at a lock file without changing anything: its bytes, its record, the verdict.

use std::os::fd::AsFd;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::Options;
use crate::dialect::beads::{self, Record, Rejected};
use crate::facts::{Depth, Facts, hex};
use crate::read::{self, LockFile, Sight};
use crate::take::{ASIDE, LOCK};
use crate::verdict::{Decision, Reason, Skip, Verdict};

/// What a look at a lock has shown.
#[derive(Debug, Clone)]
pub struct Look {
    /// What it amounts to.
    pub verdict: Verdict,
    /// The record, when it could be read and is valid.
    pub record: Option<Record>,
    /// For an unreadable lock, what a log line says of it after `lock check failed: `; else empty.
    pub detail: String,
    /// `beadlock.id` of the record, else `sha256:` and 12 digits of the bytes; `None` when nothing could be read.
    pub id: Option<String>,
    /// The facts that the verdict rests on.
    pub facts: Option<Facts>,
    /// A lock is set aside beside it: a removal is going on, or one crashed and the next check will see to it.
    pub side_file: bool,
}

/// Looks at the lock of the database in `dir`, with every witness there is. Changes nothing.
///
/// A lock may be aside for a moment while somebody removes another: what `verdict` says of an absent one is
/// certain only when `side_file` is false, which is why nothing but [`check`](crate::check) decides.
pub fn look(dir: &Path, options: &Options) -> Look {
    let lock = read::open_path(&read::join(dir, LOCK));
    // After the lock: one that was moved aside meanwhile must not look like none.
    let side_file = read::exists_at(nix::fcntl::AT_FDCWD, &read::join(dir, ASIDE)).unwrap_or(false);
    let judged = match lock {
        Sight::Absent => None,
        Sight::Unreadable(words) => Some(Judged::unreadable(words)),
        Sight::File(file) => {
            // The directory for statfs; a file of the same file system serves as well.
            Some(Judged::of(&file, file.as_fd(), Depth::Proof, options.reap_proven_dead))
        }
    };
    match judged {
        None => Look {
            verdict: Verdict::Free,
            record: None,
            detail: String::new(),
            id: None,
            facts: None,
            side_file,
        },
        Some(Judged { verdict, record, detail, id, facts }) => {
            Look { verdict, record, detail, id, facts, side_file }
        }
    }
}

/// A lock file that has been read and judged.
#[derive(Debug)]
pub(crate) struct Judged {
    pub verdict: Verdict,
    pub record: Option<Record>,
    pub detail: String,
    pub id: Option<String>,
    pub facts: Option<Facts>,
}

impl Judged {
    /// Reads and judges an open lock file that lies on the same file system as `dir`.
    pub(crate) fn of(file: &LockFile, dir: impl AsFd, depth: Depth, reap_proven_dead: bool) -> Self {
        match file.read() {
            Ok(bytes) => Self::of_bytes(&bytes, dir, depth, reap_proven_dead),
            Err(words) => Self::unreadable(words),
        }
    }

    /// Judges the content of a lock file.
    pub(crate) fn of_bytes(bytes: &[u8], dir: impl AsFd, depth: Depth, reap_proven_dead: bool) -> Self {
        match Record::parse(bytes) {
            Ok(record) => {
                let facts = Facts::about(&record, dir, depth);
                let verdict = beads::judge(&record, &facts, reap_proven_dead);
                let id = record.beadlock.as_ref().map(|mark| mark.id.clone());
                let id = id.or_else(|| (depth == Depth::Proof).then(|| digest_id(bytes)));
                Self { verdict, record: Some(record), detail: String::new(), id, facts: Some(facts) }
            }
            Err(rejected) => {
                let reason = match rejected {
                    Rejected::Malformed(_) => Reason::Malformed,
                    Rejected::Invalid(_) => Reason::Invalid,
                };
                Self {
                    verdict: Verdict::Unreadable(reason),
                    record: None,
                    detail: rejected.to_string(),
                    id: (depth == Depth::Proof).then(|| digest_id(bytes)),
                    facts: None,
                }
            }
        }
    }

    /// Something that could not be read at all.
    pub(crate) fn unreadable(words: impl std::fmt::Display) -> Self {
        Self {
            verdict: Verdict::Unreadable(Reason::Unreadable),
            record: None,
            detail: format!("failed to read lock file: {words}"),
            id: None,
            facts: None,
        }
    }

    /// A stale record and the proof of its death, or what a daemon does about a lock that is not stale.
    pub(crate) fn stale(self) -> Result<(Box<Record>, Reason), Skip> {
        let Self { verdict, record, detail, .. } = self;
        match (verdict, record) {
            (Verdict::Stale(reason), Some(record)) => Ok((Box::new(record), reason)),
            (Verdict::Held(reason), Some(record)) => Err(Skip::Locked(Box::new(record), reason)),
            (verdict, _) => Err(Skip::CheckFailed { reason: verdict.reason(), detail, record: None }),
        }
    }
}

/// A name for a lock file that has no id of its own.
fn digest_id(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)[..6]))
}

impl From<Skip> for Decision {
    fn from(skip: Skip) -> Self {
        Self::Skip(skip)
    }
}
