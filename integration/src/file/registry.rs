//! What this process has locked, or waits to lock: by device and inode of the lock file, so that no other spelling of a path
//! leads around it. A second lock of the same file would wait for the first for ever.

use std::collections::BTreeSet;

use super::open::Inode;
use super::own::Own;

static TAKEN: Own<BTreeSet<Inode>> = Own::new(BTreeSet::new());

/// A lock file that is this one's in this process until this is dropped. The lock file must stay open for as long: that
/// keeps its number taken.
#[derive(Debug)]
pub struct Registered(Inode);

impl Registered {
    /// `None`: another has it.
    pub fn enter(inode: Inode) -> Option<Self> {
        let is_new = TAKEN.with(|taken| taken.insert(inode));
        is_new.then(|| Self(inode))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        TAKEN.with(|taken| taken.remove(&self.0));
    }
}
