//! The log that git keeps of each ref: where it was, where it went, who moved it, when and how. It is read where HEAD
//! or a branch is damaged or has gone somewhere else, and only there.
//!
//! # Limits
//! - With `core.logAllRefUpdates=false`, and with refs in tables, there is no such file, and nothing is known.
//! - The last 64 KiB of a log are read.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use beadlock_base::regular::{self, Links};
use beadlock_core::StartedAt;

/// How much of the end of a log is read.
const END: u64 = 64 * 1024;

/// One move of a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The commit before.
    pub old: String,
    /// The commit after.
    pub new: String,
    /// The name and the mail address of the user that moved it.
    pub(crate) who: (String, String),
    /// When it was moved, in Unix seconds.
    pub at: i64,
    /// How it was moved: `reset: moving to HEAD~1`.
    pub(crate) message: String,
}

impl LogEntry {
    fn parse(line: &str) -> Option<Self> {
        let (head, message) = line.split_once('\t').unwrap_or((line, ""));
        let (old, rest) = head.split_once(' ')?;
        let (new, rest) = rest.split_once(' ')?;
        let (name, rest) = rest.split_once('<')?;
        let (mail, rest) = rest.split_once('>')?;
        let is_object = |id: &str| {
            matches!(id.len(), 40 | 64) && id.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        let [old, new, name, mail, message] =
            [old, new, name.trim(), mail, message].map(str::to_owned);
        let at = rest.split_whitespace().next()?.parse().ok()?;
        (is_object(&old) && is_object(&new)).then_some(Self {
            old,
            new,
            who: (name, mail),
            at,
            message,
        })
    }

    /// Whether a sync has made the move.
    pub fn is_ours(&self) -> bool {
        self.message.ends_with("(beadlock-agent)")
    }

    /// The first word of how it was moved, without what git puts behind it: `reset`.
    pub fn verb(&self) -> &str {
        let end = self.message.find([':', ' ']);
        end.map_or(self.message.as_str(), |end| &self.message[..end])
    }
}

/// The entries of a log, the newest first. Lines that a power loss has cut off or overwritten are left out.
pub fn entries(log: &Path) -> Vec<LogEntry> {
    let read = || {
        let mut file = regular::open(log, Links::Followed)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
        let mut bytes = Vec::new();
        file.take(END).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().filter_map(LogEntry::parse).collect()
}

/// Where HEAD was last, by its log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LastHead {
    /// On this branch, without `refs/heads/`.
    Branch(String),
    /// On no branch, at this commit.
    Commit(String),
}

/// Where HEAD was last, by the entries of its log, when it says so; `is_branch` tells whether there is such a branch.
pub(crate) fn last_head(
    entries: &[LogEntry],
    is_branch: impl Fn(&str) -> bool,
) -> Option<LastHead> {
    let newest = entries.first()?;
    let moved = entries.iter().find_map(|entry| went(&entry.message))?;
    let at = || LastHead::Commit(newest.new.clone());
    Some(if is_branch(moved.1) {
        LastHead::Branch(moved.1.to_owned())
    } else {
        at()
    })
}

/// The branch that HEAD has left last.
pub(crate) fn left_branch(
    entries: &[LogEntry],
    is_branch: impl Fn(&str) -> bool,
) -> Option<String> {
    let mut moves = entries.iter().filter_map(|entry| went(&entry.message));
    moves.find_map(|(from, to)| {
        let names = [to, from].into_iter();
        names
            .filter(|name| is_branch(name))
            .map(str::to_owned)
            .next()
    })
}

/// The names that HEAD has gone from and to, by the message of its log; `None` where that tells of no switch.
fn went(message: &str) -> Option<(&str, &str)> {
    if let Some(names) = message.strip_prefix("checkout: moving from ") {
        return names.split_once(" to ");
    }
    let (how, to) = message.split_once(": returning to refs/heads/")?;
    how.starts_with("rebase").then_some(("", to))
}

/// A moment as the agent's log has it: `2026-11-25 15:55:57`, UTC.
pub fn when(seconds: i64) -> String {
    let text = StartedAt::from_unix(seconds, 0).to_string();
    text.replace('T', " ").replace('Z', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "1111111111111111111111111111111111111111";
    const B: &str = "2222222222222222222222222222222222222222";

    fn written(messages: &[&str]) -> Vec<LogEntry> {
        let top = tempfile::tempdir().unwrap();
        let log = top.path().join("HEAD");
        let line = |message: &&str| format!("{A} {B} Ann B <ann@x> 1767225600 +0100\t{message}\n");
        std::fs::write(&log, messages.iter().map(line).collect::<String>()).unwrap();
        entries(&log)
    }

    #[test]
    fn the_newest_entry_comes_first_and_torn_lines_are_left_out() {
        let all = written(&["clone: from x", "commit: two"]);
        assert_eq!(all[0].message, "commit: two");
        assert_eq!(all[0].who, ("Ann B".to_owned(), "ann@x".to_owned()));
        assert_eq!(when(all[0].at), "2026-01-01 00:00:00");
        assert_eq!(all.len(), 2);
        let top = tempfile::tempdir().unwrap();
        let log = top.path().join("HEAD");
        std::fs::write(&log, format!("{A} {B} Ann <a> 1 +0000\tx\n{A} 22\0\0")).unwrap();
        assert_eq!(entries(&log).len(), 1);
        assert!(entries(&top.path().join("none")).is_empty());
    }

    #[test]
    fn how_a_ref_was_moved_is_one_word() {
        let all = written(&[
            "reset: moving to HEAD~1",
            "commit (amend): x",
            "commit (beadlock-agent)",
            "",
        ]);
        let verbs: Vec<_> = all.iter().rev().map(LogEntry::verb).collect();
        assert_eq!(verbs, ["reset", "commit", "commit", ""]);
        assert!(all[1].is_ours() && !all[2].is_ours());
    }

    #[test]
    fn where_head_was_and_which_branch_it_has_left() {
        let is_branch = |name: &str| matches!(name, "main" | "side");
        let table: [(&[&str], Option<LastHead>, Option<&str>); 5] = [
            (&["clone: from x"], None, None),
            (
                &["checkout: moving from main to side", "commit: x"],
                Some(LastHead::Branch("side".to_owned())),
                Some("side"),
            ),
            (
                &["checkout: moving from main to 1111111"],
                Some(LastHead::Commit(B.to_owned())),
                Some("main"),
            ),
            (
                &[
                    "checkout: moving from side to 1111111",
                    "checkout: moving from 1111111 to 2222222",
                ],
                Some(LastHead::Commit(B.to_owned())),
                Some("side"),
            ),
            (
                &["rebase (finish): returning to refs/heads/main"],
                Some(LastHead::Branch("main".to_owned())),
                Some("main"),
            ),
        ];
        for (messages, head, left) in table {
            let all = written(messages);
            assert_eq!(last_head(&all, is_branch), head, "{messages:?}");
            assert_eq!(left_branch(&all, is_branch).as_deref(), left);
        }
    }
}
