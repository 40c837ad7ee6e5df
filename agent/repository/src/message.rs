//! The messages of a sync to its agent: one JSON object a line, on stdout. Output of git comes inside a message of its
//! own, so it is never taken for a message.

use std::io::{self, Write};
use std::time::Duration;

use beadlock_base::secrets::masked;
use serde::{Deserialize, Serialize};

use crate::{EventLine, Hindrance, HostRefusal, LookedIndex, RepositoryFacts, SyncReport};

/// The kind of a request to a host. Each kind has a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asking {
    /// A fetch, or the question which commit a branch has.
    Fetch,
    /// A push of commits to the host.
    Push,
}

/// A summary of the files in one commit of a sync.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedFiles {
    /// The first of the files, from the top, as it is shown.
    pub shown: String,
    /// How many files there are, with those that are gone.
    pub count: u64,
    /// When the first and the last of them were written, since 1970; for a file that is gone, the time of its
    /// directory. `None` where one of these times is not known.
    pub written: Option<(Duration, Duration)>,
    /// The id of the commit's tree.
    pub tree: String,
    /// The largest of the files, and its size in bytes.
    pub largest: (String, u64),
    /// How many loose objects the commit has made, and about how many bytes they have.
    pub loose: (u64, u64),
}

/// A hook that ran in a sync, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRun {
    /// The name of the hook, such as `post-commit`.
    pub name: String,
    /// When it began and when it ended, since 1970.
    pub ran: (Duration, Duration),
}

/// An event of a sync, with its text for the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMessage {
    /// A line that git has printed, or any other line that is not a message.
    Output(String),
    /// Changes of the database were committed.
    Committed(EventLine),
    /// The files of a commit: they show whether the database talks to itself.
    CommittedFiles(Box<CommittedFiles>),
    /// A hook has run.
    HookRan(HookRun),
    /// Commits of the upstream were pulled.
    Pulled(EventLine),
    /// Commits were pushed.
    Pushed(EventLine),
    /// Why something is not done; logged once for as long as it stays so.
    Notice(EventLine),
    /// Why something is not done; logged once by an agent, also when it is so only now and then.
    NoticeOnce(EventLine),
    /// The files that are left out, as they are shown. A look at the changes begins: what the one before has found is
    /// no longer so.
    LeftOut {
        /// Their paths from the top, or the first of many and how many more there are.
        shown: Vec<String>,
        /// How many files and directories are left out.
        count: u64,
    },
    /// Record files are held back: why, and what to type.
    Held(Box<Hindrance>),
    /// Files that are being written just now, as they are shown.
    Writing(String),
    /// In this index no tracked file of the database is one that must not be: the next sync need not look again.
    Looked(LookedIndex),
    /// The remote is being asked.
    Asks(Asking),
    /// The host refuses to be asked, or asks for less.
    HostRefuses(HostRefusal),
    /// The committers of commits that the remote has, as hashes.
    Committers(Vec<u32>),
    /// The remote has answered.
    Reached,
    /// The remote does not answer, or refuses what it is given: to be tried again later.
    Unreachable(EventLine),
    /// A call of git has ended; for the diagnostics alone.
    Step {
        /// The call, as git's subcommand.
        name: String,
        /// How long it took, in milliseconds.
        millis: u64,
    },
    /// The sync must not, or could not, go on.
    Refused(String),
    /// The repository that the sync has found. This is valid for as long as nothing changes in it.
    Found(Box<RepositoryFacts>),
    /// The result of the sync, also of one that has failed.
    Report(SyncReport),
    /// The last message. Without it the sync was killed, or has a fault.
    Done,
}

/// The longest text of a message, in characters: its line must stay in one piece (`command::read_lines` of the agent).
const LONGEST: usize = 1000;

/// The longest line that comes in one piece (`command::read_lines` of the agent).
const LONGEST_LINE: usize = 8000;

/// Sends a message: long output in pieces, other long texts cut, the secrets in URLs masked. It does not fail: a sync
/// goes on when its agent is gone.
pub fn say(message: &SyncMessage) {
    use SyncMessage::{
        Committed, Notice, NoticeOnce, Pulled, Pushed, Refused, Unreachable, Writing,
    };
    if let SyncMessage::Output(text) = message {
        let characters: Vec<char> = masked(text).chars().collect();
        let pieces = characters
            .chunks(LONGEST)
            .map(|piece| SyncMessage::Output(piece.iter().collect()));
        return pieces.for_each(|piece| put(&piece));
    }
    let mut message = message.clone();
    match &mut message {
        Committed(line) | Pulled(line) | Pushed(line) | Notice(line) | NoticeOnce(line)
        | Unreachable(line) => cut(&mut line.text),
        Refused(text) | Writing(text) => cut(text),
        _ => {}
    }
    let hindrance = match &mut message {
        SyncMessage::Report(report) => report.hindrance.as_mut(),
        SyncMessage::Held(hindrance) => Some(hindrance.as_mut()),
        _ => None,
    };
    if let Some(hindrance) = hindrance {
        cut(&mut hindrance.why);
        // A part of a command must not be typed.
        hindrance.next = hindrance
            .next
            .take()
            .map(|next| masked(&next))
            .filter(|next| next.len() <= LONGEST);
    }
    put(&message);
}

fn cut(text: &mut String) {
    *text = masked(text);
    if let Some((at, _)) = text.char_indices().nth(LONGEST) {
        text.replace_range(at.., "…");
    }
}

fn put(message: &SyncMessage) {
    if let Ok(mut line) = serde_json::to_vec(message) {
        // Of longer paths the agent knows nothing, and lets the next cycle look.
        if matches!(message, SyncMessage::Found(_)) && line.len() >= LONGEST_LINE {
            return;
        }
        line.push(b'\n');
        let _ = io::stdout().write_all(&line);
    }
}

impl SyncMessage {
    /// Reads a line. A line that is not a message is output.
    pub fn parse(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or_else(|_| Self::Output(line.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GitReason, HindranceKind, Unpushed};

    #[test]
    fn a_word_survives_the_way_and_output_is_never_another() {
        let hostile = "{\"pushed\":\"x\"}\n\"reached\"".to_owned();
        let hindrance = Hindrance {
            kind: HindranceKind::NotPulling,
            reason: GitReason::InTheWay,
            why: hostile.clone(),
            next: Some(hostile.clone()),
        };
        let unpushed = Unpushed {
            commits: 2,
            oldest: Some(-1),
        };
        let report = SyncReport {
            unpushed,
            behind: 1,
            has_pushed: true,
            hindrance: Some(hindrance.clone()),
            ..SyncReport::default()
        };
        for word in [
            SyncMessage::Output(hostile.clone()),
            SyncMessage::Reached,
            SyncMessage::LeftOut {
                shown: vec![hostile.clone()],
                count: 1,
            },
            SyncMessage::Held(Box::new(hindrance)),
            SyncMessage::Refused(hostile),
            SyncMessage::Report(report),
            SyncMessage::Report(SyncReport::default()),
        ] {
            let line = serde_json::to_string(&word).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(SyncMessage::parse(&line), word);
        }
        assert_eq!(
            SyncMessage::parse("thread 'main' panicked"),
            SyncMessage::Output("thread 'main' panicked".to_owned())
        );
    }
}
