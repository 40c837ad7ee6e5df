//! What this process has locked, or waits to lock: by device and inode of the lock file, so that no other spelling of a
//! path leads around it. A second lock of the same file would wait for the first for ever.

use super::{open::Inode, own::Own};

/// A few at a time, and what was taken last is mostly the first to go.
static TAKEN: Own<Vec<Inode>> = Own::new(Vec::new());

/// A lock file that is this one's in this process until this is dropped. The lock file must stay open for as long: that
/// keeps its number taken.
#[derive(Debug)]
pub struct Registered(Inode);

impl Registered {
    /// `None`: another has it.
    pub fn enter(inode: Inode) -> Option<Self> {
        TAKEN.with(|taken| {
            let is_new = !taken.contains(&inode);
            is_new.then(|| {
                taken.push(inode);
                Self(inode)
            })
        })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        TAKEN.with(|taken| {
            if let Some(at) = taken.iter().rposition(|inode| *inode == self.0) {
                taken.swap_remove(at);
            }
        });
    }
}
