//! The databases below the roots (docs/design.md#the-agent): every `.beads`, looked for again and again while the agent
//! runs.
//!
//! ```text
//! mod.rs    this page: when to look, and what of it is news
//! look.rs   one look: redirects, owners, duplicates
//! walk.rs   the directories below a root, read again where they have changed
//! ```

mod look;
mod walk;

use std::collections::BTreeSet;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

pub(crate) use self::look::{FoundDatabase, RootScan, ScanProblem, look};
use self::walk::RootWalk;
use crate::owner::Owners;

/// A look takes its time, and then rests for this many times as long: it costs at most 2 % of a core.
const REST: u32 = 50;

/// How many new problems of one look are said.
const SAID: usize = 10;

/// Where to look, and what is not to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchScope {
    pub(crate) roots: Vec<PathBuf>,
    /// The directories of the databases that are named: they are served as such.
    pub(crate) named: Vec<PathBuf>,
    pub(crate) owners: Owners,
}

/// The search while the agent runs: one look at a time, in a thread of its own.
pub(crate) struct Search {
    ground: Arc<SearchScope>,
    /// A look begins at most this often.
    interval: Duration,
    found: Arc<Vec<Arc<FoundDatabase>>>,
    /// What the last look has read.
    walks: Vec<RootWalk>,
    job: Option<Job>,
    /// The next look; `None`: never.
    due: Option<Instant>,
    /// It was asked for another look while one was under way.
    again: bool,
    /// Since the last look began, a cycle has found a database other than it was: each is asked.
    is_doubted: bool,
    has_looked: bool,
    /// The problems that there were at the last look.
    said: BTreeSet<ScanProblem>,
}

/// A look under way. Dropped, it ends soon and is for nothing.
struct Job {
    look: JoinHandle<Option<(RootScan, Duration)>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What a look has brought.
#[derive(Debug)]
pub(crate) struct SearchUpdate {
    pub(crate) is_first: bool,
    /// There are other databases than before.
    pub(crate) are_others: bool,
    /// Troubles that there were not at the look before.
    pub(crate) problems: Vec<ScanProblem>,
}

impl Search {
    /// The first look is due at once.
    pub(crate) fn new(ground: SearchScope, interval: Duration) -> Self {
        Self {
            due: (!ground.roots.is_empty()).then(Instant::now),
            ground: Arc::new(ground),
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

    /// Looks at once, and from now on on this ground. What was found on other ground is forgotten.
    pub(crate) fn begin_again(&mut self, ground: SearchScope, interval: Duration) {
        if *self.ground != ground {
            self.job = None;
            // Who may be served, and what is named, is another question there.
            self.walks = Vec::new();
            let is_left = |found: &Arc<FoundDatabase>| found.is_on(&ground);
            self.found = Arc::new(self.found.iter().filter(|found| is_left(found)).cloned().collect());
        }
        self.again = self.job.is_some();
        self.is_doubted = true;
        self.due = (!ground.roots.is_empty()).then(Instant::now);
        self.interval = interval;
        self.ground = Arc::new(ground);
    }

    /// A cycle has failed, perhaps at a database that may not be served any more: the next look asks each.
    pub(crate) fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// What was found by the last look, each database once.
    pub(crate) fn found(&self) -> &[Arc<FoundDatabase>] {
        &self.found
    }

    /// There is a look to come that nobody has waited for yet.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.has_looked && !self.ground.roots.is_empty()
    }

    /// Returns when a look has ended: [`Self::found`] is new. Never, without roots. Nothing is lost when the call is.
    pub(crate) async fn news(&mut self) -> SearchUpdate {
        loop {
            if let Some(job) = &mut self.job {
                let ended = (&mut job.look).await;
                self.job = None;
                let took =
                    ended.as_ref().ok().and_then(Option::as_ref).map_or(Duration::ZERO, |(_, took)| *took);
                let rest = self.interval.max(took.saturating_mul(REST));
                let now = Instant::now();
                self.due = Some(if std::mem::take(&mut self.again) { now } else { now + rest });
                // Otherwise it has panicked: the next one may not.
                if let Ok(Some((look, _))) = ended {
                    return self.heard(look);
                }
            }
            match self.due {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            }
            self.job = Some(self.begin());
        }
    }

    fn begin(&mut self) -> Job {
        let stop = Arc::<AtomicBool>::default();
        let (ground, before, stopped) =
            (Arc::clone(&self.ground), Arc::clone(&self.found), Arc::clone(&stop));
        let mut walks = std::mem::take(&mut self.walks);
        let are_asked = !std::mem::take(&mut self.is_doubted);
        walks.iter_mut().for_each(|walk| walk.are_asked = are_asked);
        let look = spawn_blocking(move || {
            let begun = Instant::now();
            look(&ground, &before, walks, &stopped).map(|look| (look, begun.elapsed()))
        });
        Job { look, stop }
    }

    fn heard(&mut self, look: RootScan) -> SearchUpdate {
        let are_others = *self.found != look.found;
        self.found = Arc::new(look.found);
        self.walks = look.walks;
        let problems = look.problems.difference(&self.said).take(SAID).cloned().collect();
        self.said = look.problems;
        SearchUpdate { is_first: !std::mem::replace(&mut self.has_looked, true), are_others, problems }
    }
}
