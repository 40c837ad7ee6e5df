//! Which directories are watched, and for which database: bookkeeping alone.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// The database that a directory is watched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WatchOwner {
    pub(super) number: usize,
    /// The database's own directory.
    pub(super) database: Arc<Path>,
}

/// Every directory that is watched, in the order of their paths: those below another come right after it.
#[derive(Debug, Default)]
pub(super) struct WatchedPaths {
    /// The number of the watcher that has these directories. An earlier one may still report something.
    pub(super) watcher: u64,
    directories: BTreeMap<Arc<Path>, WatchOwner>,
    /// The own directory of each database.
    databases: BTreeMap<usize, Arc<Path>>,
}

/// The action for a directory that is to be watched.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathEntry {
    /// Watch it.
    New,
    /// Watch it anew: the path may lead to another directory than before.
    Again,
    /// Nothing: it is also in a database inside this one, and belongs to that.
    Inner,
    /// Nothing: its database is not watched any more.
    Unwanted,
}

impl WatchedPaths {
    /// From now on directories of this database may be entered.
    pub(super) fn begin(&mut self, owner: &WatchOwner) {
        self.databases
            .insert(owner.number, Arc::clone(&owner.database));
    }

    /// Enters a directory of a database, or the database itself.
    pub(super) fn enter(&mut self, dir: &Arc<Path>, owner: &WatchOwner) -> PathEntry {
        if self.databases.get(&owner.number) != Some(&owner.database) {
            return PathEntry::Unwanted;
        }
        let is_inner =
            |inner: &Path| inner != &*owner.database && inner.starts_with(&owner.database);
        if self
            .owner(dir)
            .is_some_and(|before| is_inner(&before.database))
        {
            return PathEntry::Inner;
        }
        match self.directories.insert(Arc::clone(dir), owner.clone()) {
            Some(_) => PathEntry::Again,
            None => PathEntry::New,
        }
    }

    /// The owner of a directory that is watched.
    pub(super) fn owner(&self, dir: &Path) -> Option<&WatchOwner> {
        self.directories.get(dir)
    }

    pub(super) fn count(&self) -> usize {
        self.directories.len()
    }

    pub(super) fn forget(&mut self, dir: &Path) {
        self.directories.remove(dir);
    }

    /// Forgets a directory and all below it. Returns the databases whose own directories are among them.
    pub(super) fn forget_all_below(&mut self, dir: &Path) -> Vec<WatchOwner> {
        let below = self.below(dir, |_| true);
        let gone = below
            .iter()
            .filter_map(|dir| Some((dir, self.directories.remove(dir)?)));
        gone.filter(|(dir, owner)| **dir == owner.database)
            .map(|(_, owner)| owner)
            .collect()
    }

    /// Forgets a database. Returns its directories.
    pub(super) fn end(&mut self, number: usize) -> Vec<Arc<Path>> {
        let Some(database) = self.databases.remove(&number) else {
            return Vec::new();
        };
        let directories = self.below(&database, |owner| owner.number == number);
        directories.iter().for_each(|dir| self.forget(dir));
        directories
    }

    /// The watched ones among a directory and those below it.
    fn below(&self, dir: &Path, is_wanted: impl Fn(&WatchOwner) -> bool) -> Vec<Arc<Path>> {
        let from = (Bound::Included(dir), Bound::Unbounded);
        let below = self
            .directories
            .range::<Path, _>(from)
            .take_while(|(path, _)| path.starts_with(dir));
        below
            .filter(|(_, owner)| is_wanted(owner))
            .map(|(path, _)| Arc::clone(path))
            .collect()
    }

    /// Forgets everything. What is entered from now on belongs to the next watcher.
    pub(super) fn begin_anew(&mut self) {
        *self = Self {
            watcher: self.watcher + 1,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(number: usize, database: &str) -> WatchOwner {
        WatchOwner {
            number,
            database: Path::new(database).into(),
        }
    }

    #[test]
    fn a_directory_is_the_inner_databases_and_else_the_last_ones() {
        let mut known = WatchedPaths::default();
        let (outer, inner) = (owner(0, "/x/.beads"), owner(1, "/x/.beads/sub/.beads"));
        assert_eq!(known.enter(&outer.database, &outer), PathEntry::Unwanted);
        for database in [&outer, &inner] {
            known.begin(database);
            assert_eq!(known.enter(&database.database, database), PathEntry::New);
        }
        assert_eq!(known.enter(&inner.database, &outer), PathEntry::Inner);
        let again = owner(7, "/x/.beads");
        known.begin(&again);
        assert_eq!(known.enter(&again.database, &again), PathEntry::Again);
        assert!(known.end(0).is_empty(), "it is another number's");
        assert_eq!(known.owner(&again.database), Some(&again));
        assert_eq!(known.end(7), [Arc::clone(&again.database)]);
        assert_eq!(known.owner(&again.database), None);
        assert_eq!(known.owner(&inner.database), Some(&inner));
    }

    #[test]
    fn what_goes_takes_all_below_with_it_and_nothing_beside() {
        let mut known = WatchedPaths::default();
        let (outer, inner) = (owner(0, "/x/.beads"), owner(1, "/x/.beads/sub/.beads"));
        known.begin(&outer);
        known.begin(&inner);
        for dir in [
            "/x/.beads",
            "/x/.beads/sub",
            "/x/.beads/sub-",
            "/x/.beads/sub/dir",
        ] {
            known.enter(&Path::new(dir).into(), &outer);
        }
        known.enter(&inner.database, &inner);
        assert_eq!(known.forget_all_below("/x/.beads/sub".as_ref()), [inner]);
        assert_eq!(
            known.end(0),
            ["/x/.beads", "/x/.beads/sub-"].map(|dir| Path::new(dir).into())
        );
        assert!(known.end(1).is_empty());
    }
}
