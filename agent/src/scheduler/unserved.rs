//! What lies below the roots and is not served: databases that are refused, and those that have gone. Each is in the
//! state `not_serving` for those who ask from outside.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use beadlock_core::facts;
use beadlock_core::record::beads::StartedAt;
use tokio::time::Instant;

use crate::http::DatabaseSnapshot;
use crate::roots::RootSearch;
use crate::state::DatabaseState;

/// How long a database that has gone is shown.
const SHOWN: Duration = Duration::from_secs(60 * 60);

/// The databases that are not served, by their paths.
#[derive(Debug, Default)]
pub(super) struct UnservedDatabases {
    refused: BTreeMap<PathBuf, UnservedDatabase>,
    gone: BTreeMap<PathBuf, UnservedDatabase>,
}

#[derive(Debug)]
struct UnservedDatabase {
    state: Arc<DatabaseState>,
    since: (Instant, StartedAt),
}

impl UnservedDatabase {
    fn new(reason: &'static str, why: &str) -> Self {
        Self {
            state: Arc::new(DatabaseState::not_serving(Cow::Borrowed(reason), why)),
            since: (Instant::now(), facts::now()),
        }
    }

    fn seen(&self, dir: &Path) -> DatabaseSnapshot {
        DatabaseSnapshot::not_serving(dir, Arc::clone(&self.state), self.since)
    }
}

impl UnservedDatabases {
    /// A look below the roots has ended: what it has refused is refused now.
    pub(super) fn looked(&mut self, search: &RootSearch, is_served: impl Fn(&Path) -> bool) {
        let mut before = std::mem::take(&mut self.refused);
        for (at, why) in search.refused().filter(|(at, _)| !is_served(at)) {
            let known = before
                .remove(at)
                .filter(|known| known.state.why() == Some(why));
            let refused = known.unwrap_or_else(|| UnservedDatabase::new("refused", why));
            self.refused.insert(at.to_owned(), refused);
        }
        let refused = &self.refused;
        self.gone.retain(|dir, gone| {
            gone.since.0.elapsed() < SHOWN && !is_served(dir) && !refused.contains_key(dir)
        });
    }

    /// The database in this directory is not there any more.
    pub(super) fn has_gone(&mut self, dir: PathBuf) {
        let gone = UnservedDatabase::new("gone", "its directory is not there any more");
        self.gone.insert(dir, gone);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.gone.is_empty()
    }

    /// All of them at this moment.
    pub(super) fn seen(&self) -> impl Iterator<Item = DatabaseSnapshot> {
        let gone = self.gone.iter();
        let gone = gone.filter(|(_, gone)| gone.since.0.elapsed() < SHOWN);
        self.refused
            .iter()
            .chain(gone)
            .map(|(dir, unserved)| unserved.seen(dir))
    }
}
