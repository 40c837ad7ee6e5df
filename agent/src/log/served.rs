//! What the agent and the worker of its log both know: which databases are served, and how lines are written.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Settings;

/// The databases by their numbers, and the settings. A number keeps its directory when it is no longer served, for the
/// lines still in flight.
#[derive(Debug)]
pub(super) struct Served {
    known: RwLock<Known>,
}

#[derive(Debug)]
struct Known {
    databases: Vec<Option<Database>>,
    settings: Settings,
}

#[derive(Debug)]
struct Database {
    dir: PathBuf,
    is_served: bool,
}

impl Served {
    pub(super) fn new(settings: Settings) -> Self {
        Self { known: RwLock::new(Known { databases: Vec::new(), settings }) }
    }

    /// The database with this number is served, and lies there.
    pub(super) fn serve(&self, number: u32, dir: &Path) {
        let at = number as usize;
        let databases = &mut self.write().databases;
        if databases.len() <= at {
            databases.resize_with(at + 1, || None);
        }
        databases[at] = Some(Database { dir: dir.to_owned(), is_served: true });
    }

    pub(super) fn unserve(&self, number: u32) {
        if let Some(Some(database)) = self.write().databases.get_mut(number as usize) {
            database.is_served = false;
        }
    }

    pub(super) fn configure(&self, settings: Settings) {
        self.write().settings = settings;
    }

    pub(super) fn settings(&self) -> Settings {
        self.read().settings.clone()
    }

    /// The numbers of those that are served at this moment.
    pub(super) fn now(&self) -> Vec<u32> {
        let known = self.read();
        let served = |(number, database): (usize, &Option<Database>)| {
            database.as_ref().filter(|database| database.is_served)?;
            u32::try_from(number).ok()
        };
        known.databases.iter().enumerate().filter_map(served).collect()
    }

    pub(super) fn is_served(&self, number: u32) -> bool {
        self.of(number, |database| database.is_served).unwrap_or(false)
    }

    /// Where a database lies, or did.
    pub(super) fn dir(&self, number: u32) -> Option<PathBuf> {
        self.of(number, |database| database.dir.clone())
    }

    /// More than one database is or was served: in a stream that they share each line has to say whose it is.
    pub(super) fn are_several(&self) -> bool {
        self.read().databases.iter().flatten().nth(1).is_some()
    }

    fn of<T>(&self, number: u32, get: impl FnOnce(&Database) -> T) -> Option<T> {
        self.read().databases.get(number as usize)?.as_ref().map(get)
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_has_gone_is_still_known() {
        let served = Served::new(Settings::default());
        served.unserve(7);
        served.serve(2, Path::new("/b"));
        assert!(!served.are_several());
        served.serve(0, Path::new("/a"));
        assert_eq!((served.now(), served.are_several()), (vec![0, 2], true));
        served.unserve(2);
        assert_eq!((served.now(), served.is_served(2), served.are_several()), (vec![0], false, true));
        assert_eq!(served.dir(2), Some(PathBuf::from("/b")));
        assert_eq!((served.dir(1), served.dir(9)), (None, None));
        served.serve(2, Path::new("/c"));
        assert_eq!((served.now(), served.dir(2)), (vec![0, 2], Some(PathBuf::from("/c"))));
    }
}
