//! What the agent and the worker of its log both know: which databases are served, and how lines are written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use beadlock_base::address::Address;

use super::LogSettings;

/// The databases by their numbers, and the settings.
#[derive(Debug)]
pub(super) struct Served {
    known: RwLock<KnownDatabases>,
    /// Where the agent can be asked how it fares.
    listening_at: Option<Address>,
}

#[derive(Debug)]
struct KnownDatabases {
    /// Where each lies, and whether it is served. One that has gone stays, for the lines still in flight.
    databases: BTreeMap<usize, (PathBuf, bool)>,
    settings: LogSettings,
}

impl Served {
    pub(super) fn new(settings: LogSettings, listening_at: Option<Address>) -> Self {
        Self {
            known: RwLock::new(KnownDatabases {
                databases: BTreeMap::new(),
                settings,
            }),
            listening_at,
        }
    }

    pub(super) fn listening_at(&self) -> Option<&Address> {
        self.listening_at.as_ref()
    }

    pub(super) fn serve(&self, number: usize, dir: &Path) {
        self.write()
            .databases
            .insert(number, (dir.to_owned(), true));
    }

    pub(super) fn unserve(&self, number: usize) {
        if let Some((_, is_served)) = self.write().databases.get_mut(&number) {
            *is_served = false;
        }
    }

    pub(super) fn configure(&self, settings: LogSettings) {
        self.write().settings = settings;
    }

    pub(super) fn settings(&self) -> LogSettings {
        self.read().settings.clone()
    }

    pub(super) fn now(&self) -> Vec<usize> {
        let known = self.read();
        known
            .databases
            .iter()
            .filter(|(_, (_, is_served))| *is_served)
            .map(|(number, _)| *number)
            .collect()
    }

    pub(super) fn is_served(&self, number: usize) -> bool {
        self.read()
            .databases
            .get(&number)
            .is_some_and(|(_, is_served)| *is_served)
    }

    pub(super) fn dir(&self, number: usize) -> Option<PathBuf> {
        self.read()
            .databases
            .get(&number)
            .map(|(dir, _)| dir.clone())
    }

    /// More than one database is or was served, so each line in a shared stream has to say whose it is.
    pub(super) fn are_several(&self) -> bool {
        self.read().databases.len() > 1
    }

    fn read(&self) -> RwLockReadGuard<'_, KnownDatabases> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, KnownDatabases> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_gone_is_still_known() {
        let served = Served::new(LogSettings::default(), None);
        served.unserve(7);
        served.serve(2, Path::new("/b"));
        assert!(!served.are_several());
        served.serve(0, Path::new("/a"));
        assert_eq!((served.now(), served.are_several()), (vec![0, 2], true));
        served.unserve(2);
        assert_eq!(
            (served.now(), served.is_served(2), served.are_several()),
            (vec![0], false, true)
        );
        assert_eq!(served.dir(2), Some(PathBuf::from("/b")));
        assert_eq!((served.dir(1), served.dir(9)), (None, None));
        served.serve(2, Path::new("/c"));
        assert_eq!(
            (served.now(), served.dir(2)),
            (vec![0, 2], Some(PathBuf::from("/c")))
        );
    }
}
