//! The commands' own log, read at the end: which was at work when.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::kills::Killed;

/// What it says.
#[derive(Debug, Default)]
pub struct Log {
    /// Commands that have begun.
    pub begun: usize,
    /// Holders that were killed before theirs had.
    pub killed_before: usize,
    /// Lines that must not be: each with the one before.
    pub overlaps: Vec<String>,
}

impl Log {
    /// Reads it. Before a command begins the last one has said its end, or was killed; nobody who was killed says
    /// anything after that, and no command found another one, or a child of it, alive.
    pub fn read(path: &Path, killed: &[Killed]) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let killed: HashSet<&str> = killed.iter().map(|kill| kill.id.as_str()).collect();
        let mut log = Self::default();
        let mut begun = HashSet::new();
        // The command that is at work.
        let mut open: Option<&str> = None;
        let mut last = "";
        for line in text.lines() {
            let mut words = line.split(' ');
            let (what, id) = (
                words.next().unwrap_or_default(),
                words.next().unwrap_or_default(),
            );
            let is_right = match what {
                "begin" => {
                    begun.insert(id) && open.replace(id).is_none_or(|open| killed.contains(open))
                }
                "end" => open.take() == Some(id),
                _ => false,
            };
            if !is_right {
                log.overlaps.push(format!("{last} | {line}"));
            }
            last = line;
        }
        log.begun = begun.len();
        log.killed_before = killed.iter().filter(|id| !begun.contains(*id)).count();
        log
    }
}
