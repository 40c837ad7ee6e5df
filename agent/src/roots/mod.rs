//! The databases below the roots (docs/design.md#the-agent): every `.beads`, searched again and again while the agent
//! runs.
//!
//! ```text
//! mod.rs    when to scan, and what of the result is new
//! look.rs   one scan: redirects, owners, duplicates
//! walk.rs   the directories below a root, read again where they have changed
//! ```

mod look;
mod walk;

use std::collections::BTreeSet;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use beadlock_trust::Owners;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

pub(crate) use self::look::{FoundDatabase, RootScan, ScanProblem, look};
use self::walk::RootWalk;

/// After a scan the search rests for this many times as long as the scan took: it costs at most 2 % of a core.
const REST: u32 = 50;

/// How many new problems of one scan are logged.
const SAID: usize = 10;

/// Where to search, and for whose databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchScope {
    pub(crate) roots: Vec<PathBuf>,
    /// The directories of the named databases, which are left out.
    pub(crate) named: Vec<PathBuf>,
    pub(crate) owners: Owners,
}

/// The search while the agent runs: one scan at a time, in a thread of its own.
pub(crate) struct RootSearch {
    scope: Arc<SearchScope>,
    /// A scan begins at most this often.
    interval: Duration,
    found: Arc<Vec<Arc<FoundDatabase>>>,
    /// The directories of each root as the last scan read them.
    walks: Vec<RootWalk>,
    job: Option<ScanJob>,
    /// The next scan; `None`: never.
    due: Option<Instant>,
    /// Another scan was requested during the running one.
    again: bool,
    /// Since the last scan began, a cycle has failed: the next scan asks each `.beads`.
    is_doubted: bool,
    has_looked: bool,
    /// The problems of the last scan.
    said: BTreeSet<ScanProblem>,
}

/// A scan under way. Dropped, it ends soon and without result.
struct ScanJob {
    look: JoinHandle<Option<(RootScan, Duration)>>,
    stop: Arc<AtomicBool>,
}

impl Drop for ScanJob {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The result of a scan.
#[derive(Debug)]
pub(crate) struct SearchUpdate {
    pub(crate) is_first: bool,
    /// There are other databases than before.
    pub(crate) are_others: bool,
    /// Problems that the scan before did not have.
    pub(crate) problems: Vec<ScanProblem>,
    /// The directories of databases that are not there any more.
    pub(crate) gone: Vec<PathBuf>,
}

impl RootSearch {
    /// The first scan is due at once.
    pub(crate) fn new(scope: SearchScope, interval: Duration) -> Self {
        Self {
            due: (!scope.roots.is_empty()).then(Instant::now),
            scope: Arc::new(scope),
            interval,
            found: Arc::default(),
            walks: Vec::new(),
            job: None,
            again: false,
            is_doubted: true,
            has_looked: false,
            said: BTreeSet::new(),
        }
    }

    /// Scans at once, and from now on in this scope. Databases outside it are forgotten.
    pub(crate) fn begin_again(&mut self, scope: SearchScope, interval: Duration) {
        if *self.scope != scope {
            self.job = None;
            // Other databases may be served there, or named.
            self.walks = Vec::new();
            let is_left = |found: &&Arc<FoundDatabase>| found.is_in(&scope);
            self.found = Arc::new(self.found.iter().filter(is_left).cloned().collect());
        }
        self.again = self.job.is_some();
        self.is_doubted = true;
        self.due = (!scope.roots.is_empty()).then(Instant::now);
        self.interval = interval;
        self.scope = Arc::new(scope);
    }

    /// A cycle has failed, perhaps at a database that may not be served any more: the next scan asks each.
    pub(crate) fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// The result of the last scan, each database once.
    pub(crate) fn found(&self) -> &[Arc<FoundDatabase>] {
        &self.found
    }

    /// The paths that the last scan refused to serve, each with the reason.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.said
            .iter()
            .filter_map(|problem| problem.refused(&self.scope.roots))
    }

    /// The first scan has not ended yet.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.has_looked && !self.scope.roots.is_empty()
    }

    /// Returns when a scan has ended: [`Self::found`] is new. Never returns without roots. Cancel safe.
    pub(crate) async fn news(&mut self) -> SearchUpdate {
        loop {
            if let Some(job) = &mut self.job {
                // `None`: it has panicked. The next one may not.
                let ended = (&mut job.look).await.ok().flatten();
                self.job = None;
                let took = ended.as_ref().map_or(Duration::ZERO, |(_, took)| *took);
                let is_at_once = std::mem::take(&mut self.again);
                let rest = self.interval.max(took.saturating_mul(REST));
                self.due = Some(Instant::now() + if is_at_once { Duration::ZERO } else { rest });
                if let Some((scan, _)) = ended {
                    return self.heard(scan);
                }
            }
            match self.due {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            }
            self.job = Some(self.begin());
        }
    }

    fn begin(&mut self) -> ScanJob {
        let stop = Arc::<AtomicBool>::default();
        let (scope, before, stopped) = (
            Arc::clone(&self.scope),
            Arc::clone(&self.found),
            Arc::clone(&stop),
        );
        let mut walks = std::mem::take(&mut self.walks);
        let are_asked = !std::mem::take(&mut self.is_doubted);
        walks.iter_mut().for_each(|walk| walk.are_asked = are_asked);
        let look = spawn_blocking(move || {
            let begun = Instant::now();
            look(&scope, &before, walks, &stopped).map(|scan| (scan, begun.elapsed()))
        });
        ScanJob { look, stop }
    }

    fn heard(&mut self, scan: RootScan) -> SearchUpdate {
        let are_others = *self.found != scan.found;
        self.found = Arc::new(scan.found);
        self.walks = scan.walks;
        let problems = scan
            .problems
            .difference(&self.said)
            .take(SAID)
            .cloned()
            .collect();
        self.said = scan.problems;
        SearchUpdate {
            is_first: !std::mem::replace(&mut self.has_looked, true),
            are_others,
            problems,
            gone: scan.gone,
        }
    }
}
