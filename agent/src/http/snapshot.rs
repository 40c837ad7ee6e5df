//! The state of each database at one moment, as the scheduler knows it, and its form for `/status`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use beadlock_base::duration;
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::Decision;
use beadlock_core::facts;
use beadlock_core::record::beads::StartedAt;
use beadlock_git::Unpushed;
use jiff::SignedDuration;
use serde::Serialize;
use tokio::time::Instant;

use crate::fleet::FleetStatus;
use crate::outcome::CycleOutcome;
use crate::state::{DatabaseState, FailureCounts, StateWord};

/// How many databases are listed at most; those that are skipped for longest come first.
pub(super) const LISTED: usize = 10_000;
/// The longest text of a lock file that is shown, in characters.
const LONGEST: usize = 200;
/// How many databases `/readyz` lists.
const STALE_LISTED: usize = 100;
/// The phases of a database in the scheduler, as `/status` shows them.
pub(super) const PHASES: [&str; 4] = ["waiting", "ready", "running", NOT_SERVING];
/// The phase of a database that the agent leaves alone.
pub(crate) const NOT_SERVING: &str = "not_serving";

#[derive(Debug)]
pub(crate) struct StatusSnapshot {
    /// The agent was told to end.
    pub(crate) is_ending: bool,
    pub(crate) databases: Vec<DatabaseSnapshot>,
    /// How the agent fares in its fleet; `None`: no database has joined one.
    pub(crate) fleet: Option<FleetStatus>,
    /// For how long a database may be in trouble before the agent is not ready (`--stale-after`).
    pub(crate) stale_after: Duration,
}

#[derive(Debug)]
pub(crate) struct DatabaseSnapshot {
    pub(crate) dir: PathBuf,
    /// The database's phase in the scheduler: one of [`PHASES`].
    pub(crate) phase: &'static str,
    pub(crate) state: Arc<DatabaseState>,
    /// Since when it is in that state.
    pub(crate) since: (Instant, StartedAt),
    /// When the agent has last pushed, in Unix seconds.
    pub(crate) last_push: Option<i64>,
    /// When the remote has last told where it is, in Unix seconds.
    pub(crate) as_of: Option<i64>,
    pub(crate) failures: Option<Arc<FailureCounts>>,
    /// When its next cycle is due; `None`: it has none to come.
    pub(crate) due: Option<Instant>,
    pub(crate) last: Option<Arc<EndedCycle>>,
}

/// The last cycle of a database that has ended.
#[derive(Debug)]
pub(crate) struct EndedCycle {
    pub(crate) outcome: CycleOutcome,
    pub(crate) at: StartedAt,
    /// Since when it is being skipped, and how often.
    pub(crate) streak: Option<(Instant, u64)>,
}

impl StatusSnapshot {
    /// The worst state comes first; of those in one state, the one that is in it for longest.
    pub(super) fn sort(&mut self) {
        self.databases
            .sort_by_key(|seen| (seen.state.word, seen.since.0));
    }

    /// How many databases are in each state.
    pub(super) fn counts(&self) -> [(StateWord, usize); 8] {
        StateWord::ALL.map(|word| {
            (
                word,
                self.databases
                    .iter()
                    .filter(|seen| seen.state.word == word)
                    .count(),
            )
        })
    }

    /// The databases that have been in trouble for too long, and their lines.
    pub(super) fn stale(&self, now: Instant) -> Vec<String> {
        let age = |seen: &DatabaseSnapshot| now.saturating_duration_since(seen.since.0);
        let is_stale = |seen: &&DatabaseSnapshot| {
            seen.state.word.can_be_stale() && age(seen) > self.stale_after
        };
        let line = |seen: &DatabaseSnapshot| {
            let (dir, word, age) = (
                escaped_path(&seen.dir),
                seen.state.word.as_str(),
                duration::shown(age(seen)),
            );
            let why = seen
                .state
                .details
                .as_ref()
                .map(|details| format!(": {}", escaped(&details.why)));
            format!("{dir}: {word} for {age}{}\n", why.unwrap_or_default())
        };
        self.databases
            .iter()
            .filter(is_stale)
            .take(STALE_LISTED)
            .map(line)
            .collect()
    }

    pub(super) fn skipping(&self) -> usize {
        self.databases
            .iter()
            .filter(|seen| seen.streak().is_some())
            .count()
    }
}

impl DatabaseSnapshot {
    /// The snapshot of a database that is not served, in this state `since` then.
    pub(crate) fn not_serving(
        dir: &Path,
        state: Arc<DatabaseState>,
        since: (Instant, StartedAt),
    ) -> Self {
        Self {
            dir: dir.to_owned(),
            phase: NOT_SERVING,
            state,
            since,
            last_push: None,
            as_of: None,
            failures: None,
            due: None,
            last: None,
        }
    }

    pub(super) fn streak(&self) -> Option<(Instant, u64)> {
        self.last.as_ref()?.streak
    }

    /// The database's name in labels and in `/status`: its directory.
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
    /// How many databases are in each state.
    states: BTreeMap<&'static str, usize>,
    left_out: usize,
    databases: Vec<StatusRow>,
}

#[derive(Debug, Serialize)]
struct StatusRow {
    dir: String,
    /// The database's state: one of eight words.
    state: &'static str,
    phase: &'static str,
    /// Since when it is in that state.
    since: String,
    age_ms: u64,
    /// One word for the cause of the state.
    reason: Option<String>,
    /// The cause in one sentence.
    why: Option<String>,
    /// The command to type.
    next: Option<String>,
    unpushed: Option<UnpushedRow>,
    /// Files that are not synced because of what they are: secrets, live state, databases.
    left_out: Vec<String>,
    last_push: Option<String>,
    /// When the remote has last told where it is: `synced` is of that time.
    as_of: Option<String>,
    as_of_age_ms: Option<u64>,
    last: Option<LastRow>,
    streak: Option<StreakRow>,
    lock: Option<LockRow>,
    /// `None` while its cycle runs.
    next_due_ms: Option<u64>,
}

/// Commits that wait to be pushed.
#[derive(Debug, Serialize)]
struct UnpushedRow {
    commits: u64,
    oldest: Option<String>,
    oldest_age_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct LastRow {
    /// `complete`, `incomplete`, `failed` or `skipped`.
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
    pub(super) fn of(mut snapshot: StatusSnapshot, since: StartedAt, now: Instant) -> Self {
        snapshot.sort();
        let all = snapshot.databases.len();
        let counts = snapshot.counts();
        let not_served = counts[0].1;
        Self {
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            host: facts::hostname().map(|name| name.to_string()),
            since: shown(since),
            ending: snapshot.is_ending,
            served: all - not_served,
            not_served,
            skipping: snapshot.skipping(),
            states: counts
                .into_iter()
                .map(|(word, count)| (word.as_str(), count))
                .collect(),
            left_out: all.saturating_sub(LISTED),
            databases: snapshot
                .databases
                .iter()
                .take(LISTED)
                .map(|seen| StatusRow::of(seen, now))
                .collect(),
        }
    }
}

impl StatusRow {
    fn of(seen: &DatabaseSnapshot, now: Instant) -> Self {
        let due = seen.due.filter(|_| seen.phase != "running");
        let details = seen.state.details.as_deref();
        let unpushed = details
            .map(|details| details.unpushed)
            .filter(|unpushed| unpushed.commits > 0);
        let unix = |seconds| shown(StartedAt::from_unix(seconds, 0));
        let age = |seconds: i64| {
            u64::try_from(facts::now().0.as_millis() - i128::from(seconds) * 1000).unwrap_or(0)
        };
        let decision = match seen.last.as_deref() {
            Some(EndedCycle {
                outcome: CycleOutcome::Skipped(decision),
                ..
            }) => Some(decision),
            _ => None,
        };
        Self {
            dir: seen.dir(),
            state: seen.state.word.as_str(),
            phase: seen.phase,
            since: shown(seen.since.1),
            age_ms: millis(now.saturating_duration_since(seen.since.0)),
            reason: details
                .map(|details| details.reason.to_string())
                .filter(|reason| !reason.is_empty()),
            why: details.map(|details| details.why.clone()),
            next: details.and_then(|details| details.next.clone()),
            unpushed: unpushed.map(|Unpushed { commits, oldest }| UnpushedRow {
                commits,
                oldest: oldest.map(unix),
                oldest_age_ms: oldest.map(age),
            }),
            left_out: details
                .map(|details| details.left_out.clone())
                .unwrap_or_default(),
            last_push: seen.last_push.map(unix),
            as_of: seen.as_of.map(unix),
            as_of_age_ms: seen.as_of.map(age),
            last: seen.last.as_ref().map(|last| LastRow {
                outcome: last.outcome.as_str(),
                at: shown(last.at),
                reason: decision.map(|decision| decision.reason().as_str()),
                message: decision.map(Decision::to_string),
            }),
            streak: seen.streak().map(|(since, skips)| StreakRow {
                skips,
                age_ms: millis(now.saturating_duration_since(since)),
            }),
            lock: decision.and_then(Decision::record).map(|record| LockRow {
                holder: cut(record.holder()),
                pid: record.pid(),
                host: cut(record.hostname()),
                since: record
                    .started_at()
                    .map(|time| time.to_string())
                    .unwrap_or_default(),
            }),
            next_due_ms: due.map(|due| millis(due.saturating_duration_since(now))),
        }
    }
}

/// RFC 3339, in whole seconds.
fn shown(at: StartedAt) -> String {
    StartedAt(SignedDuration::from_secs(at.0.as_secs())).to_string()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
