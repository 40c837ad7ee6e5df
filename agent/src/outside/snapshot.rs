//! The state of each database at one moment, as the scheduler knows it, and its form for `/status`.

use std::path::PathBuf;
use std::sync::Arc;

use beadlock_checker::Decision;
use beadlock_checker::internal::dialect::beads::StartedAt;
use jiff::SignedDuration;
use serde::Serialize;
use tokio::time::Instant;

use crate::outcome::Outcome;

/// How many databases are listed at most; those that are skipped for longest come first.
pub(super) const LISTED: usize = 10_000;
/// The longest text of a lock file that is shown, in characters.
const LONGEST: usize = 200;

#[derive(Debug)]
pub(crate) struct Snapshot {
    /// It was told to end.
    pub(crate) is_ending: bool,
    pub(crate) databases: Vec<DatabaseSnapshot>,
}

#[derive(Debug)]
pub(crate) struct DatabaseSnapshot {
    pub(crate) dir: PathBuf,
    /// `waiting`, `ready`, `running` or `not_serving`.
    pub(crate) state: &'static str,
    /// When its next cycle is due; `None`: it has none to come.
    pub(crate) due: Option<Instant>,
    pub(crate) last: Option<Arc<EndedCycle>>,
    /// Why it is not served.
    pub(crate) why: Option<String>,
}

/// The last cycle of a database that has ended.
#[derive(Debug)]
pub(crate) struct EndedCycle {
    pub(crate) outcome: Outcome,
    pub(crate) at: StartedAt,
    /// Since when it is being skipped, and how often.
    pub(crate) streak: Option<(Instant, u64)>,
}

impl Snapshot {
    /// Those that are not served come first, then those that are being skipped, the longest first.
    pub(super) fn sort(&mut self) {
        self.databases.sort_by_key(|seen| match seen.streak() {
            _ if seen.why.is_some() => (0, None),
            Some((since, _)) => (1, Some(since)),
            None => (2, None),
        });
    }

    pub(super) fn skipping(&self) -> usize {
        self.databases.iter().filter(|seen| seen.streak().is_some()).count()
    }
}

impl DatabaseSnapshot {
    pub(super) fn streak(&self) -> Option<(Instant, u64)> {
        self.last.as_ref()?.streak
    }

    /// Its name in labels and in `/status`.
    pub(super) fn dir(&self) -> String {
        self.dir.to_string_lossy().into_owned()
    }
}

/// `/status`. Texts of a lock file are untrusted; JSON escapes them.
#[derive(Debug, Serialize)]
pub(super) struct StatusPage {
    version: &'static str,
    pid: u32,
    host: Option<String>,
    since: String,
    ending: bool,
    served: usize,
    not_served: usize,
    skipping: usize,
    left_out: usize,
    databases: Vec<StatusRow>,
}

#[derive(Debug, Serialize)]
struct StatusRow {
    dir: String,
    state: &'static str,
    /// Why it is not served, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    last: Option<LastRow>,
    streak: Option<StreakRow>,
    lock: Option<LockRow>,
    /// `None` while its cycle runs.
    next_due_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct LastRow {
    /// `complete`, `failed` or `skipped`.
    outcome: &'static str,
    at: String,
    /// Why it was skipped: a word of the closed list, and the line of the log.
    reason: Option<&'static str>,
    message: Option<String>,
}

#[derive(Debug, Serialize)]
struct StreakRow {
    skips: u64,
    age_ms: u64,
}

/// The lock that it was skipped for.
#[derive(Debug, Serialize)]
struct LockRow {
    holder: String,
    pid: i64,
    host: String,
    since: String,
}

impl StatusPage {
    /// The status of an agent that has started at `since`, at the moment `now`.
    pub(super) fn of(mut snapshot: Snapshot, since: StartedAt, now: Instant) -> Self {
        snapshot.sort();
        let all = snapshot.databases.len();
        let not_served = snapshot.databases.iter().filter(|seen| seen.why.is_some()).count();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            host: beadlock_checker::internal::facts::hostname().map(|name| name.to_string()),
            since: shown(since),
            ending: snapshot.is_ending,
            served: all - not_served,
            not_served,
            skipping: snapshot.skipping(),
            left_out: all.saturating_sub(LISTED),
            databases: snapshot.databases.iter().take(LISTED).map(|seen| StatusRow::of(seen, now)).collect(),
        }
    }
}

impl StatusRow {
    fn of(seen: &DatabaseSnapshot, now: Instant) -> Self {
        let due = seen.due.filter(|_| seen.state != "running");
        let decision = match seen.last.as_deref() {
            Some(EndedCycle { outcome: Outcome::Skipped(decision), .. }) => Some(decision),
            _ => None,
        };
        Self {
            dir: seen.dir(),
            state: seen.state,
            why: seen.why.clone(),
            last: seen.last.as_ref().map(|last| LastRow {
                outcome: last.outcome.as_str(),
                at: shown(last.at),
                reason: decision.map(|decision| decision.reason().as_str()),
                message: decision.map(Decision::to_string),
            }),
            streak: seen
                .streak()
                .map(|(since, skips)| StreakRow { skips, age_ms: millis(now.saturating_duration_since(since)) }),
            lock: decision.and_then(Decision::record).map(|record| LockRow {
                holder: cut(record.holder()),
                pid: record.pid(),
                host: cut(record.hostname()),
                since: record.started_at().map(|time| time.to_string()).unwrap_or_default(),
            }),
            next_due_ms: due.map(|due| millis(due.saturating_duration_since(now))),
        }
    }
}

/// RFC 3339, in whole seconds.
fn shown(at: StartedAt) -> String {
    StartedAt(SignedDuration::from_secs(at.0.as_secs())).to_string()
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
