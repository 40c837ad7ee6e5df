//! Which directories are watched, and for which database: bookkeeping alone.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Whose a directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) number: usize,
    /// The database's own directory.
    pub(super) database: Arc<Path>,
}

/// Every directory that is watched, in the order of their paths: those below another come right after it.
#[derive(Debug, Default)]
pub(super) struct WatchedPaths {
    /// Which watcher's directories these are. Earlier ones may still tell something.
    pub(super) watcher: u64,
    directories: BTreeMap<Arc<Path>, Owner>,
    /// The own directory of each.
    databases: BTreeMap<usize, Arc<Path>>,
}

/// What there is to do for a directory that somebody wants to watch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// To watch it.
    New,
    /// To watch it anew: what the path leads to may be another directory than before.
    Again,
    /// Nothing: it is also in a database that lies in this one, and so the inner one's.
    Inner,
    /// Nothing: its database is watched no longer, and so it is not either.
    Nobodys,
}

impl WatchedPaths {
    /// From now on directories of this database may be entered.
    pub(super) fn begin(&mut self, owner: &Owner) {
        self.databases.insert(owner.number, Arc::clone(&owner.database));
    }

    /// A directory in a database, or its own.
    pub(super) fn enter(&mut self, dir: &Arc<Path>, owner: &Owner) -> Entered {
        if self.databases.get(&owner.number) != Some(&owner.database) {
            return Entered::Nobodys;
        }
        if self.owner(dir).is_some_and(|before| is_in(&before.database, &owner.database)) {
            return Entered::Inner;
        }
        match self.directories.insert(Arc::clone(dir), owner.clone()) {
            Some(_) => Entered::Again,
            None => Entered::New,
        }
    }

    /// Whose a directory is, when it is watched.
    pub(super) fn owner(&self, dir: &Path) -> Option<&Owner> {
        self.directories.get(dir)
    }

    /// How many are watched.
    pub(super) fn count(&self) -> usize {
        self.directories.len()
    }

    /// A directory is watched no longer.
    pub(super) fn forget(&mut self, dir: &Path) {
        self.directories.remove(dir);
    }

    /// A directory and all below it are watched no longer. The databases whose own directories are among them.
    pub(super) fn forget_all_below(&mut self, dir: &Path) -> Vec<Owner> {
        let below = self.below(dir, |_| true);
        let gone = below.iter().filter_map(|dir| Some((dir, self.directories.remove(dir)?)));
        gone.filter(|(dir, owner)| **dir == owner.database).map(|(_, owner)| owner).collect()
    }

    /// A database is watched no longer: its directories.
    pub(super) fn end(&mut self, number: usize) -> Vec<Arc<Path>> {
        let Some(database) = self.databases.remove(&number) else { return Vec::new() };
        let directories = self.below(&database, |owner| owner.number == number);
        for dir in &directories {
            self.directories.remove(dir);
        }
        directories
    }

    /// A directory and those below it that are watched.
    fn below(&self, dir: &Path, is_wanted: impl Fn(&Owner) -> bool) -> Vec<Arc<Path>> {
        let from = (Bound::Included(dir), Bound::Unbounded);
        let below = self.directories.range::<Path, _>(from).take_while(|(path, _)| path.starts_with(dir));
        below.filter(|(_, owner)| is_wanted(owner)).map(|(path, _)| Arc::clone(path)).collect()
    }

    /// Nothing is watched any more; what is entered from now on is another watcher's.
    pub(super) fn begin_anew(&mut self) {
        *self = Self { watcher: self.watcher + 1, ..Self::default() };
    }
}

/// Whether a database lies in another one.
fn is_in(inner: &Path, outer: &Path) -> bool {
    inner != outer && inner.starts_with(outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(number: usize, database: &str) -> Owner {
        Owner { number, database: Path::new(database).into() }
    }

    #[test]
    fn a_directory_is_the_inner_databases_and_else_the_last_ones() {
        let mut known = WatchedPaths::default();
        let (outer, inner) = (owner(0, "/x/.beads"), owner(1, "/x/.beads/sub/.beads"));
        assert_eq!(known.enter(&outer.database, &outer), Entered::Nobodys);
        for database in [&outer, &inner] {
            known.begin(database);
            assert_eq!(known.enter(&database.database, database), Entered::New);
        }
        assert_eq!(known.enter(&inner.database, &outer), Entered::Inner);
        let again = owner(7, "/x/.beads");
        known.begin(&again);
        assert_eq!(known.enter(&again.database, &again), Entered::Again);
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
        for dir in ["/x/.beads", "/x/.beads/sub", "/x/.beads/sub-", "/x/.beads/sub/dir"] {
            known.enter(&Path::new(dir).into(), &outer);
        }
        known.enter(&inner.database, &inner);
        assert_eq!(known.forget_all_below("/x/.beads/sub".as_ref()), [inner]);
        assert_eq!(known.end(0), ["/x/.beads", "/x/.beads/sub-"].map(|dir| Path::new(dir).into()));
        assert!(known.end(1).is_empty());
    }
}
