//! Why a sync ends early, and how its lines count and name things.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use beadlock_base::error::system_words;

use crate::{
    Event, EventLine, GitReason, Hindrance, HindranceKind, Part, SyncMessage, as_path,
    escaped_path, say,
};

/// Why a sync ends early: for the log as a line, for the state of the database as a hindrance.
#[derive(Debug, PartialEq)]
pub struct SyncStop {
    ending: StopKind,
    line: String,
    /// The event of the line; `None`: the line says why the cycle ends.
    event: Option<Event>,
    hindrance: Hindrance,
    /// The call of git that has failed, where it is one.
    call: Option<Box<FailedCall>>,
    /// The directory of the other database whose sync is in the way, where that one gives way to this one.
    neighbour: Option<PathBuf>,
}

/// A call of git that has failed.
#[derive(Debug, Default, PartialEq)]
struct FailedCall {
    /// The failure, as the beginning of the sentence: `git merge-tree failed`.
    what: String,
    /// The text of git's stderr.
    said: String,
}

/// How the agent takes the end of a sync.
#[derive(Debug, Clone, Copy, PartialEq)]
enum StopKind {
    /// There is nothing more to do. The line is logged once.
    Notice,
    /// The remote does not answer, or refuses: to be tried again later.
    Unreachable,
    /// The sync must not, or could not, go on.
    Refused,
    /// Somebody else has moved the branch meanwhile: once more from the start.
    Moved,
    /// The times of files have hidden a change: once more, with a look at the contents.
    Unseen,
}

impl SyncStop {
    fn new(ending: StopKind, kind: HindranceKind, reason: GitReason, why: String) -> Self {
        let hindrance = Hindrance {
            kind,
            reason,
            why: why.clone(),
            next: None,
        };
        Self {
            ending,
            line: why,
            event: None,
            hindrance,
            call: None,
            neighbour: None,
        }
    }

    /// The cycle has failed.
    pub fn failed(reason: GitReason, why: impl Into<String>) -> Self {
        Self::refused(HindranceKind::Failed, reason, why.into())
    }

    /// The sync must not go on.
    pub fn refused(kind: HindranceKind, reason: GitReason, why: String) -> Self {
        Self::new(StopKind::Refused, kind, reason, why)
    }

    /// There is nothing more to do: the line of `event` says why.
    pub fn notice(event: Event, kind: HindranceKind, reason: GitReason, why: impl Display) -> Self {
        let why = why.to_string();
        Self {
            line: event.line(&why).text,
            event: Some(event),
            ..Self::new(StopKind::Notice, kind, reason, why)
        }
    }

    /// Nothing is pulled: the line says why, once.
    pub fn not_pulling(reason: GitReason, why: impl Display) -> Self {
        Self::notice(Event::NotPulling, HindranceKind::NotPulling, reason, why)
    }

    /// The remote cannot be used now; `said` is how the line of `event` ends.
    pub fn unreachable(
        event: Event,
        kind: HindranceKind,
        reason: GitReason,
        said: impl Display,
        why: String,
    ) -> Self {
        Self {
            line: event.line(said).text,
            event: Some(event),
            ..Self::new(StopKind::Unreachable, kind, reason, why)
        }
    }

    /// Somebody else has moved the branch meanwhile.
    pub fn moved(why: String) -> Self {
        Self::new(
            StopKind::Moved,
            HindranceKind::Failed,
            GitReason::Raced,
            why,
        )
    }

    /// A system call on this path has failed; `what` could not be done.
    pub fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(
            GitReason::Io,
            format!("{what} {}: {}", escaped_path(path), system_words(error)),
        )
    }

    /// Adds the command to type: at the end of the line, and apart from the reason.
    pub fn next(self, command: String) -> Self {
        self.next_at("; type: ", command)
    }

    /// Adds the command as [`Self::next`] does, with other words before it in the line.
    pub fn next_at(mut self, before: &str, command: String) -> Self {
        self.line = format!("{}{before}{command}", self.line);
        self.hindrance.next = Some(command);
        self
    }

    /// Adds the directory of the other database whose sync gives way to this one.
    pub fn before(mut self, neighbour: Option<PathBuf>) -> Self {
        self.neighbour = neighbour;
        self
    }

    /// The directory of the other database whose sync gives way to this one: once that has ended, this one goes on.
    pub fn neighbour(&self) -> Option<&Path> {
        self.neighbour.as_deref()
    }

    /// Adds the text of git's stderr.
    pub fn with_words(mut self, said: String) -> Self {
        self.call.get_or_insert_default().said = said;
        self
    }

    /// Adds the failure, as the beginning of the sentence: `git merge-tree failed`.
    pub(crate) fn doing(mut self, what: &str) -> Self {
        self.call.get_or_insert_default().what = what.to_owned();
        self
    }

    /// The failure, as the beginning of the sentence; empty where it was not a call of git that has failed.
    pub(crate) fn what(&self) -> &str {
        self.call.as_ref().map_or("", |call| &call.what)
    }

    pub(crate) fn said(&self) -> &str {
        self.call.as_ref().map_or("", |call| &call.said)
    }

    /// The sentence that says why, for people.
    pub(crate) fn why(&self) -> &str {
        &self.hindrance.why
    }

    pub(crate) fn reason(&self) -> GitReason {
        self.hindrance.reason
    }

    /// This stop, but with another sync to follow that looks at the contents: the times of files may have hidden a
    /// change from the commit.
    pub fn unseen(self) -> Self {
        Self {
            ending: StopKind::Unseen,
            ..self
        }
    }

    /// The sync is to be tried again with a look at the contents ([`SyncStop::unseen`]).
    pub fn is_unseen(&self) -> bool {
        self.ending == StopKind::Unseen
    }

    /// Somebody else has moved the branch ([`SyncStop::moved`]).
    pub fn is_moved(&self) -> bool {
        self.ending == StopKind::Moved
    }

    /// There is no repository around the database.
    pub fn is_without_repository(&self) -> bool {
        self.hindrance.reason == GitReason::NoRepository
    }

    /// Tells the agent. Returns the hindrance for the report.
    pub fn say(self) -> Hindrance {
        let about = EventLine {
            event: self.event.unwrap_or(Event::Notice),
            text: self.line.clone(),
        };
        say(&match self.ending {
            StopKind::Notice | StopKind::Unseen => SyncMessage::Notice(about),
            StopKind::Unreachable => SyncMessage::Unreachable(about),
            StopKind::Refused | StopKind::Moved => SyncMessage::Refused(self.line),
        });
        self.hindrance
    }
}

/// `1 file`, `2 files`.
pub fn counted(count: impl TryInto<u64>, what: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The words of a program, without how many milliseconds it has tried: so they are the same each time.
pub(crate) fn steady(words: &str) -> String {
    let mut kept: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let end = |unit: &str| {
        let units = ["milliseconds", "seconds", "ms"];
        let end = units.iter().find_map(|name| unit.strip_prefix(name))?;
        end.bytes()
            .all(|byte| byte.is_ascii_punctuation())
            .then(|| end.to_owned())
    };
    let is_time = |part: &[String]| {
        let is_number = part[1].parse::<u64>().is_ok();
        part[0] == "after" && is_number && end(&part[2]).is_some()
    };
    while let Some(at) = kept.windows(3).position(is_time) {
        let end = end(&kept[at + 2]).unwrap_or_default();
        kept.drain(at..at + 3);
        if let Some(before) = at.checked_sub(1).and_then(|before| kept.get_mut(before)) {
            before.push_str(&end);
        }
    }
    kept.join(" ")
}

/// The first eight paths, as they are typed; the next refusal names the rest.
pub fn typed_all(paths: &[impl AsRef<[u8]>]) -> Part<'_> {
    Part::Paths(
        paths
            .iter()
            .take(8)
            .map(|path| as_path(path.as_ref()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_a_program_has_tried_is_not_news() {
        for (said, steadied) in [
            (
                "Failed to connect to h port 1 after 13 ms: Couldn't connect to server",
                "Failed to connect to h port 1: Couldn't connect to server",
            ),
            (
                "timed out after 15001 milliseconds with 0 bytes",
                "timed out with 0 bytes",
            ),
            ("Could not resolve host: h", "Could not resolve host: h"),
            ("after x ms", "after x ms"),
        ] {
            assert_eq!(steady(said), steadied);
        }
    }
}
