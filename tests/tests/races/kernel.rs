//! Who waits for whom, as `/proc/locks` says: what a test waits for before it goes on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How many are blocked in flock(2) on this directory.
pub fn waiters(dir: &Path) -> usize {
    number(dir).map_or(0, |inode| lines(&["->", "FLOCK"], inode))
}

/// Somebody is blocked in open(2) for writing on this file, by a lease.
pub fn is_being_broken(inode: u64) -> bool {
    lines(&["LEASE", "BREAKING"], inode) > 0
}

/// The number of what has this name.
pub fn number(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|there| there.ino())
}

/// The lines with all these words that are about this file.
fn lines(words: &[&str], inode: u64) -> usize {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let inode = format!(":{inode}");
    let is_one = |line: &&str| {
        let found: Vec<_> = line.split_ascii_whitespace().collect();
        words.iter().all(|word| found.contains(word)) && found.iter().any(|word| word.ends_with(&inode))
    };
    locks.lines().filter(is_one).count()
}
