//! Why a sync ends early, and how its lines count and name things.

use std::fmt::Display;
use std::io;
use std::path::Path;

use beadlock_checker::internal::system_words;

use crate::{
    Event, GitReason, Hindrance, HindranceKind, Part, SyncMessage, as_path, escaped_path, say,
};

/// Why a sync ends early: for the log as a line, for the state of the database as a hindrance.
#[derive(Debug, PartialEq)]
pub(crate) struct Stop {
    ending: Ending,
    line: String,
    hindrance: Hindrance,
    /// What git has said on stderr, where a call of it has failed.
    said: String,
}

/// How the agent takes the end of a sync.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
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

impl Stop {
    fn new(ending: Ending, kind: HindranceKind, reason: GitReason, why: String) -> Self {
        let hindrance = Hindrance {
            kind,
            reason,
            why: why.clone(),
            next: None,
        };
        Self {
            ending,
            line: why,
            hindrance,
            said: String::new(),
        }
    }

    /// The cycle has failed.
    pub(crate) fn failed(reason: GitReason, why: impl Into<String>) -> Self {
        Self::refused(HindranceKind::Failed, reason, why.into())
    }

    /// The sync must not go on.
    pub(crate) fn refused(kind: HindranceKind, reason: GitReason, why: String) -> Self {
        Self::new(Ending::Refused, kind, reason, why)
    }

    /// There is nothing more to do: the line of `event` says why.
    pub(crate) fn notice(
        event: Event,
        kind: HindranceKind,
        reason: GitReason,
        why: impl Display,
    ) -> Self {
        let why = why.to_string();
        Self {
            line: event.line(&why),
            ..Self::new(Ending::Notice, kind, reason, why)
        }
    }

    /// Nothing is pulled: the line says why, once.
    pub(crate) fn not_pulling(reason: GitReason, why: impl Display) -> Self {
        Self::notice(Event::NotPulling, HindranceKind::NotPulling, reason, why)
    }

    /// The remote cannot be used now; `said` is how the line of `event` ends.
    pub(crate) fn unreachable(
        event: Event,
        kind: HindranceKind,
        reason: GitReason,
        said: impl Display,
        why: String,
    ) -> Self {
        Self {
            line: event.line(said),
            ..Self::new(Ending::Unreachable, kind, reason, why)
        }
    }

    /// Somebody else has moved the branch meanwhile.
    pub(crate) fn moved(why: String) -> Self {
        Self::new(Ending::Moved, HindranceKind::Failed, GitReason::Raced, why)
    }

    pub(crate) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::failed(
            GitReason::Io,
            format!("{what} {}: {}", escaped_path(path), system_words(error)),
        )
    }

    /// The command to type: at the end of the line, and apart from the reason.
    pub(crate) fn next(self, command: String) -> Self {
        self.next_at("; type: ", command)
    }

    /// As [`Self::next`], with other words in the line before the command.
    pub(crate) fn next_at(mut self, before: &str, command: String) -> Self {
        self.line = format!("{}{before}{command}", self.line);
        self.hindrance.next = Some(command);
        self
    }

    /// With what git has said on stderr.
    pub(crate) fn with_words(self, said: String) -> Self {
        Self { said, ..self }
    }

    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    pub(crate) fn reason(&self) -> GitReason {
        self.hindrance.reason
    }

    /// The times of files may have hidden that from the commit: once more, with a look at the contents.
    pub(crate) fn unseen(self) -> Self {
        Self {
            ending: Ending::Unseen,
            ..self
        }
    }

    pub(crate) fn is_unseen(&self) -> bool {
        self.ending == Ending::Unseen
    }

    pub(crate) fn is_moved(&self) -> bool {
        self.ending == Ending::Moved
    }

    pub(crate) fn is_without_repository(&self) -> bool {
        self.hindrance.reason == GitReason::NoRepository
    }

    /// Tells the agent. Returns what the report says.
    pub(crate) fn say(self) -> Hindrance {
        say(&match self.ending {
            Ending::Notice | Ending::Unseen => SyncMessage::Notice(self.line),
            Ending::Unreachable => SyncMessage::Unreachable(self.line),
            Ending::Refused | Ending::Moved => SyncMessage::Refused(self.line),
        });
        self.hindrance
    }
}

/// `1 file`, `2 files`.
pub(crate) fn counted(count: impl TryInto<u64>, what: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The first eight paths, as they are typed; the next refusal names the rest.
pub(crate) fn typed_all(paths: &[impl AsRef<[u8]>]) -> Part<'_> {
    Part::Paths(
        paths
            .iter()
            .take(8)
            .map(|path| as_path(path.as_ref()))
            .collect(),
    )
}
