//! The fate of each key: its lines in the merged file, or a conflict.

use crate::held::{IdCount, created_at, held};
use crate::id::Id;
use crate::json::{Object, Value};
use crate::keys::{LineKey, LineKeys, VERSIONS, Version};
use crate::members::{self, MergedRecord, SideRecord, Three};
use crate::outcome::{Conflict, ConflictKind, Note, Side};

/// Lines of a key in the merged file, or the conflict about them.
pub enum Fate<'a> {
    Gone,
    /// This line alone.
    Line(&'a [u8]),
    /// All the lines that this side has for the key.
    LinesOf(Side),
    /// A line that neither side has.
    Merged(Vec<u8>),
    /// Both sides' lines, as they are.
    Undecided,
    /// The line of each side, with everything merged in it that could be.
    UndecidedMembers(Box<[Vec<u8>; 2]>),
}

/// The fate of each key, and what is to be said about it.
pub struct Fates<'k, 'a> {
    keys: &'k LineKeys<'a>,
    pub fates: Vec<Fate<'a>>,
    pub conflicts: Vec<(u32, Conflict)>,
    pub notes: Vec<(u32, Note)>,
    pub merged: usize,
}

impl<'k, 'a> Fates<'k, 'a> {
    pub fn of(keys: &'k LineKeys<'a>) -> Self {
        let mut all = Self {
            keys,
            fates: Vec::with_capacity(keys.count()),
            conflicts: Vec::new(),
            notes: Vec::new(),
            merged: 0,
        };
        for key in 0..keys.count() as u32 {
            let fate = all.fate(key);
            all.fates.push(fate);
        }
        all
    }

    fn fate(&mut self, key: u32) -> Fate<'a> {
        let held = VERSIONS.map(|version| {
            let lines = self.keys.lines(key, version);
            held(lines.map(|line| line.text))
        });
        let ours = match held[Version::Ours as usize] {
            IdCount::Line(line) => Some(line),
            _ => None,
        };
        let fate = match held {
            [_, IdCount::Nothing, IdCount::Nothing] => return Fate::Gone,
            [IdCount::TwoThings, _, _]
            | [_, IdCount::TwoThings, _]
            | [_, _, IdCount::TwoThings] => {
                return self.two_things(key);
            }
            [
                IdCount::Line(base),
                IdCount::Line(ours),
                IdCount::Line(theirs),
            ] => self.changed(key, base, ours, theirs),
            [IdCount::Nothing, IdCount::Line(ours), IdCount::Line(theirs)] => {
                self.added_twice(key, ours, theirs)
            }
            [IdCount::Line(base), IdCount::Line(line), IdCount::Nothing] => {
                self.removed(key, base, line, Side::Ours)
            }
            [IdCount::Line(base), IdCount::Nothing, IdCount::Line(line)] => {
                self.removed(key, base, line, Side::Theirs)
            }
            [IdCount::Nothing, IdCount::Line(line), IdCount::Nothing] => {
                self.added(key, line, Side::Ours)
            }
            [IdCount::Nothing, IdCount::Nothing, IdCount::Line(line)] => {
                self.added(key, line, Side::Theirs)
            }
        };
        self.merged += usize::from(match &fate {
            Fate::Gone => ours.is_some(),
            Fate::Line(line) => ours != Some(*line),
            Fate::Merged(_) => true,
            Fate::LinesOf(_) | Fate::Undecided | Fate::UndecidedMembers(_) => false,
        });
        fate
    }

    /// Both sides have a record that BASE has.
    fn changed(&mut self, key: u32, base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Fate<'a> {
        // Most lines end here, without being taken apart.
        if ours == theirs || theirs == base {
            return Fate::Line(ours);
        }
        if ours == base {
            return Fate::Line(theirs);
        }
        let [Some(base), Some(in_ours), Some(in_theirs)] = [base, ours, theirs].map(Value::read)
        else {
            return self.undecided(key, ConflictKind::Indivisible);
        };
        if in_ours.equals(&in_theirs) {
            return Fate::Line(ours.min(theirs));
        }
        if base.equals(&in_ours) {
            return Fate::Line(theirs);
        }
        if base.equals(&in_theirs) {
            return Fate::Line(ours);
        }
        match [base.object(), in_ours.object(), in_theirs.object()] {
            [Some(base), Some(_), Some(_)] => {
                self.by_members(key, Some(base), (ours, &in_ours), (theirs, &in_theirs))
            }
            _ => self.undecided(key, ConflictKind::Indivisible),
        }
    }

    /// Both sides have a key that BASE does not have.
    fn added_twice(&mut self, key: u32, ours: &'a [u8], theirs: &'a [u8]) -> Fate<'a> {
        if ours == theirs {
            return Fate::Line(ours);
        }
        let [Some(in_ours), Some(in_theirs)] = [ours, theirs].map(Value::read) else {
            return self.undecided(key, ConflictKind::AddedTwice);
        };
        if in_ours.equals(&in_theirs) {
            return Fate::Line(ours.min(theirs));
        }
        match [&in_ours, &in_theirs].map(created_at) {
            [Some(one), Some(two)] if one.equals(two) => {
                self.by_members(key, None, (ours, &in_ours), (theirs, &in_theirs))
            }
            _ => self.undecided(key, ConflictKind::AddedTwice),
        }
    }

    /// One side removed a key that BASE has; `side` still has it.
    fn removed(&mut self, key: u32, base: &'a [u8], line: &'a [u8], side: Side) -> Fate<'a> {
        if base == line {
            return Fate::Gone;
        }
        let [in_base, now] = [base, line].map(Value::read);
        if let (Some(in_base), Some(now)) = (&in_base, &now) {
            let is_only_stamped = match (in_base.object(), now.object()) {
                (Some(in_base), Some(now)) => members::differ_in_time_alone(in_base, now),
                _ => false,
            };
            if is_only_stamped || in_base.equals(now) {
                return Fate::Gone;
            }
        }
        if let Some(id) = self.id(key) {
            let changed = side;
            self.notes.push((key, Note::KeptChanged { id, changed }));
        }
        Fate::Line(line)
    }

    /// One side alone has the key, and BASE does not have it.
    fn added(&mut self, key: u32, line: &'a [u8], side: Side) -> Fate<'a> {
        let LineKey::Bad(..) = self.keys.key(key) else {
            return Fate::Line(line);
        };
        let version = match side {
            Side::Ours => Version::Ours,
            Side::Theirs => Version::Theirs,
        };
        let first = self.keys.lines(key, version).next();
        let line = first.map_or(0, |line| line.number as usize);
        self.undecided(key, ConflictKind::BadLine { side, line })
    }

    /// A version has several things under this id: only whole lists of lines are compared.
    fn two_things(&mut self, key: u32) -> Fate<'a> {
        let [base, ours, theirs] = VERSIONS.map(|version| Lines::read(self.keys, key, version));
        let all_of = |side: Side, lines: &Lines<'_>| match lines.raw.is_empty() {
            true => Fate::Gone,
            false => Fate::LinesOf(side),
        };
        let is_as_in_base = |side: &Lines<'_>| !base.raw.is_empty() && side.equals(&base);
        if ours.equals(&theirs) {
            let takes_theirs =
                ours.raw == base.raw || (theirs.raw != base.raw && theirs.raw < ours.raw);
            let side = if takes_theirs {
                Side::Theirs
            } else {
                Side::Ours
            };
            return all_of(side, &ours);
        }
        if is_as_in_base(&ours) {
            return all_of(Side::Theirs, &theirs);
        }
        if is_as_in_base(&theirs) {
            return all_of(Side::Ours, &ours);
        }
        self.undecided(key, ConflictKind::SharedId)
    }

    fn by_members(
        &mut self,
        key: u32,
        base: Option<&Object<'a>>,
        ours: (&'a [u8], &Value<'a>),
        theirs: (&'a [u8], &Value<'a>),
    ) -> Fate<'a> {
        let side = |(line, value)| SideRecord { line, value };
        let three = Three {
            base,
            ours: side(ours),
            theirs: side(theirs),
        };
        let (merged, by_time) = members::merge(&three);
        if let (Some(by_time), Some(id)) = (by_time, self.id(key)) {
            let members::ByTime {
                time,
                newer,
                members,
            } = by_time;
            self.notes.push((
                key,
                Note::ByTime {
                    id,
                    time,
                    newer,
                    members,
                },
            ));
        }
        match merged {
            MergedRecord::Decided(line) => Fate::Merged(line),
            MergedRecord::Undecided {
                ours,
                theirs,
                members,
            } => {
                self.undecided(key, ConflictKind::Members(members));
                Fate::UndecidedMembers(Box::new([ours, theirs]))
            }
        }
    }

    fn undecided(&mut self, key: u32, kind: ConflictKind) -> Fate<'a> {
        let id = self.id(key);
        self.conflicts.push((key, Conflict { id, kind }));
        Fate::Undecided
    }

    fn id(&self, key: u32) -> Option<Id> {
        match self.keys.key(key) {
            LineKey::Record(id) => Some(id.to_id()),
            _ => None,
        }
    }
}

/// The lines of a version for one id, in an order that their content gives.
struct Lines<'a> {
    raw: Vec<&'a [u8]>,
    values: Vec<Value<'a>>,
}

impl<'a> Lines<'a> {
    fn read(keys: &LineKeys<'a>, key: u32, version: Version) -> Self {
        let raw: Vec<&[u8]> = keys.lines(key, version).map(|line| line.text).collect();
        let mut values: Vec<Value<'_>> = raw.iter().filter_map(|line| Value::read(line)).collect();
        values.sort_by(Value::compare);
        Self { raw, values }
    }

    fn equals(&self, other: &Self) -> bool {
        self.values.len() == other.values.len()
            && std::iter::zip(&self.values, &other.values).all(|(one, two)| one.equals(two))
    }
}
