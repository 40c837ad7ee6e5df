//! Looking at a lock file without changing anything: its bytes, its record, the verdict.

use std::{collections::HashSet, os::fd::AsFd, time::Duration, time::Instant};

use crate::{
    decision::{NotChecked, Skip},
    facts::{Depth, Facts, sha256},
    obstacle::Obstacle,
    record::{ContentKind, Record},
};
use crate::{
    lock_file_stat::LockFileStat, options::Options, place::Names, place::Place, read,
    read::LockFile, read::Sight,
};
use crate::{
    renewal_watch::RenewalMark, renewal_watch::RenewalWatch, unread::NoRecord, unread::Unread,
    verdict::Reason, verdict::Verdict,
};
use beadlock_base::namespace;

/// Result of one look at a lock.
#[derive(Debug, Clone)]
pub struct Look {
    /// Whether the lock is free, held, stale or unreadable, and why.
    pub verdict: Verdict,
    /// The record, when it could be read and is valid.
    pub record: Option<Record>,
    /// Why there is no record of a lock; `None` where there is one, or nothing lies at the path.
    pub no_record: Option<NoRecord>,
    /// Kind of content of a file without a valid record; `None` where the record is valid, or nothing was read.
    pub content: Option<ContentKind>,
    /// `beadlock.id`, the request id, or `sha256:` and 12 digits of the bytes; `None` when nothing could be read.
    pub id: Option<String>,
    /// The facts that the verdict rests on.
    pub facts: Option<Facts>,
    /// A lock is set aside beside it: a removal is going on, or one crashed and the next check will see to it.
    pub side_file: bool,
    /// Entry at the lock's path; `None` when there is nothing.
    pub on_disk: Option<LockFileStat>,
}

impl Look {
    /// Text of the log line about an unreadable lock, after `lock check failed: `; else empty.
    pub fn detail(&self) -> String {
        let why = self.no_record.clone().map(NotChecked::from);
        why.map(|why| why.to_string()).unwrap_or_default()
    }

    /// The passing condition by which the lock file could not be read, if that is why nothing is known of it.
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.no_record.as_ref().and_then(NoRecord::obstacle)
    }
}

impl RenewalWatch {
    /// Takes note of a look. Another lock, a refresh, no lock of this kind, or a long pause begins anew.
    pub fn see(&mut self, look: &Look) {
        let mark = look.record.as_ref().zip(look.on_disk);
        let mark = mark.and_then(|(record, file)| RenewalMark::of(record, file));
        self.see_at(mark, Instant::now());
    }
}

/// Looks at a lock, with every witness there is. Changes nothing.
///
/// A lock may be aside for a moment while somebody removes another: what `verdict` says of an absent one is
/// certain only when `side_file` is false, which is why nothing but a check decides.
pub fn look(place: &Place, options: &Options) -> Look {
    look_with(place, options, Depth::Proof)
}

/// Looks at many locks, with every witness there is: every process is asked once for all of them. Changes nothing.
pub fn look_all<'a>(places: impl IntoIterator<Item = &'a Place>, options: &Options) -> Vec<Look> {
    let looks = places
        .into_iter()
        .map(|place| look_with(place, options, Depth::Witnesses));
    let mut looks: Vec<Look> = looks.collect();
    let namespace = |look: &Look| {
        look.record
            .as_ref()?
            .reapable()?
            .pid_ns()
            .map(str::to_owned)
    };
    // After the records: a claim from a new container must find its process alive there.
    let namespaces: HashSet<String> = looks.iter().filter_map(namespace).collect();
    let gone = namespace::those_gone(namespaces.iter().map(String::as_str));
    for look in &mut looks {
        let is_gone = namespace(look).is_some_and(|name| gone.contains(name.as_str()));
        let Look {
            record: Some(record),
            facts: Some(facts),
            verdict,
            ..
        } = look
        else {
            continue;
        };
        if let Some(proof) = &mut facts.proof {
            proof.namespace_gone = is_gone;
            *verdict = record.judge(facts, &options.rules());
        }
    }
    looks
}

/// The bytes of the lock file, a regular one of at most 64 KiB; `None`: there is none. The error says why it is unread.
pub fn raw(place: &Place) -> Result<Option<Vec<u8>>, Unread> {
    match read::open_path(&place.path()) {
        Sight::Absent => Ok(None),
        Sight::Unreadable(unread) => Err(unread),
        Sight::File(file) => file.read().map(Some),
    }
}

/// The first bytes of what lies at a lock's path, at most `count`, also of a file that is too large for a lock.
pub fn first_bytes(place: &Place, count: usize) -> Result<Vec<u8>, Unread> {
    match read::open_path(&place.path()) {
        Sight::Absent => Ok(Vec::new()),
        Sight::Unreadable(unread) => Err(unread),
        Sight::File(file) => file.first(count),
    }
}

fn look_with(place: &Place, options: &Options, depth: Depth) -> Look {
    let lock = read::open_path(&place.path());
    // After the lock: one that was moved aside meanwhile must not look like none.
    let side_file = read::exists_at(nix::fcntl::AT_FDCWD, &place.aside()).unwrap_or(false);
    let (judged, on_disk) = match lock {
        Sight::Absent => (None, None),
        Sight::Unreadable(unread) => (
            Some(Judged::unreadable(unread)),
            LockFileStat::at(&place.path()),
        ),
        Sight::File(file) => {
            let on_disk = LockFileStat::of_open(&file);
            // The directory for statfs; a file of the same file system serves as well.
            (
                Some(Judged::of(
                    &file,
                    place.names(),
                    file.as_fd(),
                    depth,
                    options,
                )),
                on_disk,
            )
        }
    };
    let Judged {
        verdict,
        record,
        no_record,
        content,
        id,
        facts,
    } = match judged {
        Some(judged) if !judged.is_no_lock() => judged,
        no_lock => {
            let (no_record, content) = no_lock
                .map(|file| (file.no_record, file.content))
                .unwrap_or_default();
            Judged {
                verdict: Verdict::Free,
                record: None,
                no_record,
                content,
                id: None,
                facts: None,
            }
        }
    };
    Look {
        verdict,
        record,
        no_record,
        content,
        id,
        facts,
        side_file,
        on_disk,
    }
}

pub(crate) struct Dead {
    pub record: Box<Record>,
    pub reason: Reason,
    /// Why the lock is stale, in the words of its protocol; empty where it has none.
    pub why: String,
}

/// A lock file that has been read and judged.
#[derive(Debug)]
pub(crate) struct Judged {
    pub verdict: Verdict,
    pub record: Option<Record>,
    pub no_record: Option<NoRecord>,
    /// Kind of content of a file without a valid record; `None` where there is a record, or nothing was read.
    pub content: Option<ContentKind>,
    /// ID of the lock; `None` also where only the protocol is asked.
    pub id: Option<String>,
    pub facts: Option<Facts>,
}

impl Judged {
    /// Reads and judges an open lock file that lies on the same file system as `dir`.
    pub(crate) fn of(
        file: &LockFile,
        names: &Names,
        dir: impl AsFd,
        depth: Depth,
        options: &Options,
    ) -> Self {
        let judged =
            file.see(|bytes| Self::of_bytes(bytes, Some(file), names, dir, depth, options));
        judged.unwrap_or_else(Self::unreadable)
    }

    /// Judges the content of a lock file; of `file`, where that is at hand.
    pub(crate) fn of_bytes(
        bytes: &[u8],
        file: Option<&LockFile>,
        names: &Names,
        dir: impl AsFd,
        depth: Depth,
        options: &Options,
    ) -> Self {
        match names.parse(bytes) {
            Ok(record) => {
                let mut facts = Facts::about(&record, dir, depth);
                facts.unrefreshed = unrefreshed(&record, file, options);
                if options.refreshes.has_stood_still() {
                    facts.standstill = Duration::MAX;
                }
                let verdict = record.judge(&facts, &options.rules());
                let name = || record.id().map_or_else(|| digest_id(bytes), str::to_owned);
                let id = (depth != Depth::Protocol).then(name);
                Self {
                    verdict,
                    record: Some(record),
                    no_record: None,
                    content: None,
                    id,
                    facts: Some(facts),
                }
            }
            Err(rejected) => {
                let reason = rejected.reason();
                let no_record = Some(NoRecord::from(rejected));
                if let (Reason::Malformed, Some(of_malformed)) =
                    (reason, names.record_kind().properties().of_malformed)
                {
                    let (verdict, record) = (Verdict::Stale(reason), Some(of_malformed()));
                    return Self {
                        verdict,
                        record,
                        no_record,
                        content: None,
                        id: None,
                        facts: None,
                    };
                }
                let (verdict, content) = (Verdict::Unreadable(reason), Some(content(bytes, names)));
                let id = (depth != Depth::Protocol).then(|| digest_id(bytes));
                Self {
                    verdict,
                    record: None,
                    no_record,
                    content,
                    id,
                    facts: None,
                }
            }
        }
    }

    /// True when the lock is stale, and its protocol or `force_lock` lets it be removed.
    pub(crate) fn may_go(&self, options: &Options) -> bool {
        let goes_by_itself = self
            .record
            .as_ref()
            .is_some_and(|record| record.record_kind().properties().stale_goes_by_itself);
        matches!(self.verdict, Verdict::Stale(_)) && (goes_by_itself || options.force_lock)
    }

    pub(crate) fn unreadable(unread: Unread) -> Self {
        let verdict = Verdict::Unreadable(Reason::Unreadable);
        Self {
            verdict,
            record: None,
            no_record: Some(unread.into()),
            content: None,
            id: None,
            facts: None,
        }
    }

    fn is_no_lock(&self) -> bool {
        self.verdict == Verdict::Stale(Reason::Malformed)
    }

    /// A stale record that may go and what shows that it is stale, or what a daemon does about a lock that must stay.
    pub(crate) fn stale(self, options: &Options) -> Result<Dead, Skip> {
        let Self {
            verdict,
            record,
            no_record,
            facts,
            ..
        } = self;
        match (verdict, record) {
            (Verdict::Stale(reason), Some(record)) => {
                let record = Box::new(record);
                match facts {
                    Some(facts)
                        if !record.record_kind().properties().stale_goes_by_itself
                            && !options.force_lock =>
                    {
                        let age = record.lock().silence(facts.now);
                        Err(Skip::Stale {
                            record,
                            reason,
                            age,
                        })
                    }
                    facts => {
                        let words =
                            |facts: Facts| record.lock().removed_words(&facts, &options.limits);
                        let why = facts.map(words).unwrap_or_default();
                        Ok(Dead {
                            record,
                            reason,
                            why,
                        })
                    }
                }
            }
            (Verdict::Held(reason), Some(record)) => Err(Skip::Locked(Box::new(record), reason)),
            // What has no record has a reason for it. Should it have none, it counts as held.
            _ => Err(no_record.map_or(Skip::InProgress, Skip::from)),
        }
    }
}

#[doc(hidden)]
impl From<NoRecord> for Skip {
    fn from(no_record: NoRecord) -> Self {
        NotChecked::from(no_record).into()
    }
}

#[doc(hidden)]
impl From<Unread> for Skip {
    fn from(unread: Unread) -> Self {
        NotChecked::from(unread).into()
    }
}

fn unrefreshed(record: &Record, file: Option<&LockFile>, options: &Options) -> Duration {
    if options.refreshes.is_none() || record.lock().refresh_sign().is_none() {
        return Duration::ZERO;
    }
    let mark = file
        .and_then(LockFileStat::of_open)
        .and_then(|file| RenewalMark::of(record, file));
    mark.map_or(Duration::ZERO, |mark| options.refreshes.unrefreshed(mark))
}

/// Kind of content of a file without a valid record. A file with the name of a lock counts as a record, whatever data
/// it has.
fn content(bytes: &[u8], names: &Names) -> ContentKind {
    match ContentKind::of(bytes) {
        ContentKind::Data if names.is_lock_by_name() => ContentKind::Record,
        content => content,
    }
}

fn digest_id(bytes: &[u8]) -> String {
    let mut id = sha256(bytes);
    id.truncate("sha256:".len() + 12);
    id
}
