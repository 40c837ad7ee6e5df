//! Which process waits for which, as `/proc/locks` says: what a test waits for before it goes on.

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::libc;
use nix::sys::stat::{major, minor};

/// How many are blocked in flock(2) on this directory.
pub fn waiters(dir: &Path) -> usize {
    name_in_locks(dir).map_or(0, |name| lines(&["->", "FLOCK", &name]))
}

/// Somebody is blocked in open(2) for writing on the file that is called this there, by a lease.
pub fn is_being_broken(name: &str) -> bool {
    lines(&["LEASE", "BREAKING", name]) > 0
}

/// What `/proc/locks` calls the file that has this path: `MAJOR:MINOR:INODE`.
pub fn name_in_locks(path: &Path) -> Option<String> {
    // An open for more than the path would break a lease.
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path);
    let file = file.ok()?;
    let meta = file.metadata().ok()?;
    let by_stat = || (major(meta.dev()), minor(meta.dev()));
    let (major, minor) = device_of_mount(&file).unwrap_or_else(by_stat);
    Some(format!("{major:02x}:{minor:02x}:{}", meta.ino()))
}

/// The device of the mount that a file is on: on some file systems, such as btrfs, `stat` tells another one.
fn device_of_mount(file: &fs::File) -> Option<(u64, u64)> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let mount = info
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?
        .trim();
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts
        .lines()
        .find(|line| line.split(' ').next() == Some(mount))?;
    let (major, minor) = line.split(' ').nth(2)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The lines with all these words.
fn lines(words: &[&str]) -> usize {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let is_one = |line: &&str| {
        let found: Vec<_> = line.split_ascii_whitespace().collect();
        words.iter().all(|word| found.contains(word))
    };
    locks.lines().filter(is_one).count()
}
