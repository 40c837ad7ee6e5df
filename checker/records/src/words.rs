//! Sentences about conflicts, notes, blemishes and limits: one line each, for people.

use std::fmt;

use crate::blemish::{Blemish, BlemishKind};
use crate::escape::escaped;
use crate::merge::{MAX_BYTES, MAX_LINES, TooLarge};
use crate::outcome::{Conflict, ConflictKind, Note, Side};
use crate::record_file::Ahead;
use crate::time;

/// Names of the two sides in a sentence, each after a verb: "changed here", "deleted at origin".
#[derive(Debug, Clone, Copy)]
pub struct SideNames<'a> {
    /// "here", for example.
    pub ours: &'a str,
    /// "at origin", for example.
    pub theirs: &'a str,
}

impl Default for SideNames<'_> {
    fn default() -> Self {
        Self {
            ours: "at ours",
            theirs: "at theirs",
        }
    }
}

impl<'a> SideNames<'a> {
    fn of(&self, side: Side) -> &'a str {
        match side {
            Side::Ours => self.ours,
            Side::Theirs => self.theirs,
        }
    }
}

/// A sentence; made by [`Conflict::told`] and [`Note::told`].
#[derive(Debug, Clone, Copy)]
pub struct Sentence<'a, T> {
    what: &'a T,
    names: SideNames<'a>,
}

impl Conflict {
    /// The sentence about this conflict, with these names of the sides.
    pub fn told<'a>(&'a self, names: SideNames<'a>) -> Sentence<'a, Self> {
        Sentence { what: self, names }
    }
}

impl Note {
    /// The sentence about this note, with these names of the sides.
    pub fn told<'a>(&'a self, names: SideNames<'a>) -> Sentence<'a, Self> {
        Sentence { what: self, names }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told(SideNames::default()).fmt(f)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told(SideNames::default()).fmt(f)
    }
}

impl fmt::Display for Sentence<'_, Conflict> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.what.id, &self.what.kind) {
            (Some(id), ConflictKind::AddedTwice | ConflictKind::SharedId) => {
                return write!(
                    f,
                    "{id} was made twice, for two things; give one another id"
                );
            }
            (Some(id), _) => write!(f, "{id}: ")?,
            (None, _) => {}
        }
        match &self.what.kind {
            ConflictKind::Members(members) => {
                f.write_str("both sides changed ")?;
                // A time that cannot be compared is why another member is in conflict, and seldom what a person changed.
                let is_time = |name: &str| time::NAMES.contains(&name.as_bytes());
                let all = members.iter().all(|member| is_time(&member.name));
                let names = members.iter().map(|member| member.name.as_str());
                list(f, names.filter(|name| all || !is_time(name)))
            }
            ConflictKind::AddedTwice | ConflictKind::SharedId => f.write_str("made twice"),
            ConflictKind::Indivisible => f.write_str(
                "both sides changed it, and it cannot be merged by member (a name comes twice in it)",
            ),
            ConflictKind::BadLine { side, line } => {
                write!(f, "line {line} is not JSON, added {}", self.names.of(*side))
            }
            ConflictKind::Emptied { side, lines } => {
                let side = self.names.of(*side);
                write!(f, "all {lines} records are gone {side}: nothing was removed")
            }
        }
    }
}

impl fmt::Display for Sentence<'_, Note> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Note::KeptChanged { id, changed } => {
                let (changed, deleted) = (self.names.of(*changed), self.names.of(changed.other()));
                write!(f, "{id}: changed {changed}, deleted {deleted}: kept")
            }
            Note::ByTime {
                id, time, members, ..
            } => {
                write!(f, "by {time}: {id} ")?;
                list(f, members.iter().map(String::as_str))
            }
        }
    }
}

fn list<'n>(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = &'n str>) -> fmt::Result {
    for (index, name) in names.enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(f, "{comma}{}", escaped(name.as_bytes()))?;
    }
    Ok(())
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes > MAX_BYTES {
            true => write!(
                f,
                "{} MiB are too much to merge (at most {} MiB)",
                self.bytes >> 20,
                MAX_BYTES >> 20
            ),
            false => write!(
                f,
                "{} lines are too many to merge (at most {MAX_LINES})",
                self.lines
            ),
        }
    }
}

impl fmt::Display for Blemish<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            BlemishKind::Marker => "is a conflict marker",
            BlemishKind::Nul => "has a NUL byte",
            BlemishKind::Torn => "is not JSON (cut off?)",
            BlemishKind::NotJson => "is not JSON",
        };
        write!(f, "line {} {what}", self.line)
    }
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, time) = (&self.id, escaped(self.time.as_bytes()));
        let ahead = match self.seconds {
            seconds @ 0..7_200 => format!("{} minutes", seconds / 60),
            seconds @ 7_200..172_800 => format!("{} hours", seconds / 3_600),
            seconds => format!("{} days", seconds / 86_400),
        };
        write!(f, "{id} has the time {time}, {ahead} ahead of this clock")
    }
}
