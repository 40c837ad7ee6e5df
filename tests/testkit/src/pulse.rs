//! What a process holds: its memory, descriptors, threads and watches, as `/proc` has them.

use std::fs;
use std::time::{Duration, Instant};

/// All of it at one moment; nothing for a process that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Resident, in KiB.
    pub rss: u64,
    /// Resident and its own, in KiB: without pages of files, such as those of its code.
    pub own: u64,
    /// Open descriptors.
    pub fds: usize,
    /// Threads.
    pub threads: usize,
    /// inotify watches, of all its descriptors.
    pub watches: usize,
}

impl Pulse {
    /// Now.
    pub fn of(pid: i32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let [rss, own] = ["VmRSS:", "RssAnon:"].map(|name| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            value
                .and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
                .unwrap_or_default()
        });
        let entries = |of: &str| {
            fs::read_dir(format!("/proc/{pid}/{of}"))
                .into_iter()
                .flatten()
                .flatten()
        };
        let watches = |entry: fs::DirEntry| {
            let info = fs::read_to_string(entry.path()).unwrap_or_default();
            info.lines()
                .filter(|line| line.starts_with("inotify wd:"))
                .count()
        };
        let [fds, threads] = ["fd", "task"].map(|of| entries(of).count());
        Self {
            rss,
            own,
            fds,
            threads,
            watches: entries("fdinfo").map(watches).sum(),
        }
    }

    /// Between two cycles: the fewest descriptors until there are so few, or the time is over, with the
    /// memory and watches of then.
    pub fn at_rest(pid: i32, few: usize, bound: Duration) -> Self {
        let begun = Instant::now();
        let mut rest = Self::of(pid);
        while rest.fds > few && begun.elapsed() < bound {
            std::thread::sleep(Duration::from_millis(5));
            let now = Self::of(pid);
            if now.fds < rest.fds {
                rest = now;
            }
        }
        rest
    }
}
