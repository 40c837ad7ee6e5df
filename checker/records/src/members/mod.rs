//! The merge of one record that both sides changed, member by member.

mod layout;

use std::cmp::Ordering;

use crate::json::{Object, Value};
use crate::outcome::{MemberConflict, Side};
use crate::time::{self, Time};

use layout::{Layout, Writer, in_order};

/// Members that are taken from the same side as `status`, where both sides changed that.
const STATUS_MEMBERS: [&[u8]; 7] = [
    b"closed_at",
    b"close_reason",
    b"closed_by_session",
    b"deleted_at",
    b"deleted_by",
    b"delete_reason",
    b"original_type",
];

/// One record, as base and both sides have it.
pub struct Three<'v, 'a> {
    /// `None` where both sides added the record.
    pub base: Option<&'v Object<'a>>,
    pub ours: SideRecord<'v, 'a>,
    pub theirs: SideRecord<'v, 'a>,
}

/// A record on one side.
#[derive(Clone, Copy)]
pub struct SideRecord<'v, 'a> {
    pub line: &'a [u8],
    /// The object in the line.
    pub value: &'v Value<'a>,
}

/// A record that was merged.
pub enum MergedRecord {
    Decided(Vec<u8>),
    /// The line of each side, with everything merged in it that could be.
    Undecided {
        ours: Vec<u8>,
        theirs: Vec<u8>,
        members: Vec<MemberConflict>,
    },
}

/// Decision by time alone: the side of the newer record, and the members that were taken from it.
pub struct ByTime {
    pub time: &'static str,
    pub newer: Side,
    pub members: Vec<String>,
}

/// Merges a record that both sides have changed to different content.
pub fn merge(record: &Three<'_, '_>) -> (MergedRecord, Option<ByTime>) {
    let (ours, theirs) = (record.ours, record.theirs);
    let newer = newer(ours.value, theirs.value);
    let leading = newer.unwrap_or(match ours.line.cmp(theirs.line) {
        Ordering::Less => Side::Theirs,
        _ => Side::Ours,
    });
    let line = |undecided| {
        let mut merger = Merger::new(newer, leading, undecided, record);
        let line = merger.line(record);
        (line, merger)
    };
    let (line_of_ours, merger) = line(Side::Ours);
    let by_time = newer
        .filter(|_| !merger.by_time.is_empty())
        .map(|newer| ByTime {
            time: time_name(pick(newer, ours, theirs).value),
            newer,
            members: merger.by_time,
        });
    let merged = match merger.undecided {
        members if members.is_empty() => MergedRecord::Decided(line_of_ours),
        members => MergedRecord::Undecided {
            ours: line_of_ours,
            theirs: line(Side::Theirs).0,
            members,
        },
    };
    (merged, by_time)
}

fn pick<T>(side: Side, ours: T, theirs: T) -> T {
    match side {
        Side::Ours => ours,
        Side::Theirs => theirs,
    }
}

fn newer(ours: &Value<'_>, theirs: &Value<'_>) -> Option<Side> {
    match Time::of(ours.object()?)?.compare(&Time::of(theirs.object()?)?)? {
        Ordering::Greater => Some(Side::Ours),
        Ordering::Less => Some(Side::Theirs),
        Ordering::Equal => None,
    }
}

fn time_name(record: &Value<'_>) -> &'static str {
    record
        .object()
        .and_then(time::of_record)
        .and_then(|(name, _)| str::from_utf8(name).ok())
        .unwrap_or_default()
}

fn are_equal(one: Option<&Value<'_>>, two: Option<&Value<'_>>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => one.equals(two),
        (None, None) => true,
        _ => false,
    }
}

/// True when two objects are equal but for the time of each. A run that renews all times has not changed such a record.
pub fn differ_in_time_alone(one: &Object<'_>, two: &Object<'_>) -> bool {
    let time = |record| time::of_record(record).map(|(name, _)| name);
    let (time_of_one, time_of_two) = (time(one), time(two));
    let mut ones = one
        .sorted()
        .filter(|member| Some(&*member.name) != time_of_one);
    let mut twos = two
        .sorted()
        .filter(|member| Some(&*member.name) != time_of_two);
    loop {
        match (ones.next(), twos.next()) {
            (None, None) => return true,
            (Some(one), Some(two)) if one.name == two.name && one.value.equals(&two.value) => {}
            _ => return false,
        }
    }
}

/// Where a member of the merged object comes from.
#[derive(Clone, Copy)]
enum Decision {
    /// The value that this side has, or its absence.
    Take(Side),
    /// Both sides, with the members of both merged.
    MergeObjects,
    MergeLists,
}

/// An object of both sides. `base` is its value in BASE, whatever that is.
#[derive(Clone, Copy)]
struct Objects<'v, 'a> {
    base: Option<&'v Object<'a>>,
    ours: &'v Value<'a>,
    theirs: &'v Value<'a>,
}

/// A member in BASE and on both sides, where they have it.
#[derive(Clone, Copy)]
struct Values<'v, 'a> {
    base: Option<&'v Value<'a>>,
    ours: Option<&'v Value<'a>>,
    theirs: Option<&'v Value<'a>>,
}

impl<'v, 'a> Objects<'v, 'a> {
    fn get(&self, name: &[u8]) -> Values<'v, 'a> {
        let in_side = |side: &'v Value<'a>| side.object().and_then(|object| object.get(name));
        Values {
            base: self.base.and_then(|base| base.get(name)),
            ours: in_side(self.ours),
            theirs: in_side(self.theirs),
        }
    }
}

impl Values<'_, '_> {
    fn both_changed_it(&self) -> bool {
        !are_equal(self.ours, self.theirs)
            && !are_equal(self.ours, self.base)
            && !are_equal(self.theirs, self.base)
    }
}

/// Writes one merged line.
struct Merger<'m> {
    /// The record whose time is newer.
    newer: Option<Side>,
    /// The side whose order and spaces the result has.
    leading: Side,
    /// The side that is taken where nothing decides.
    on_conflict: Side,
    /// Bytes between two parts, where the leading side does not have two of them.
    separator: &'m [u8],
    undecided: Vec<MemberConflict>,
    by_time: Vec<String>,
    /// The names of the objects around, each with a point.
    path: Vec<u8>,
}

impl<'m> Merger<'m> {
    fn new(newer: Option<Side>, leading: Side, on_conflict: Side, record: &Three<'_, 'm>) -> Self {
        let separator = |side: Side| {
            let side = pick(side, record.ours, record.theirs);
            Layout::of(side.value).separator()
        };
        Self {
            newer,
            leading,
            on_conflict,
            separator: separator(leading)
                .or_else(|| separator(leading.other()))
                .unwrap_or(b","),
            undecided: Vec::new(),
            by_time: Vec::new(),
            path: Vec::new(),
        }
    }

    /// The merged line; where its content is equal to that of a side, the line of that side.
    fn line(&mut self, record: &Three<'_, '_>) -> Vec<u8> {
        let leading = pick(self.leading, record.ours, record.theirs);
        let mut line = leading.line[..leading.value.at].to_vec();
        let objects = Objects {
            base: record.base,
            ours: record.ours.value,
            theirs: record.theirs.value,
        };
        self.object(objects, &mut line);
        line.extend_from_slice(&leading.line[leading.value.end()..]);

        let merged = Value::read(&line);
        let other = pick(self.leading.other(), record.ours, record.theirs);
        let is_it = |side: &SideRecord<'_, '_>| {
            let merged = merged.as_ref();
            merged.is_some_and(|merged| merged.equals(side.value))
        };
        match [leading, other].into_iter().find(is_it) {
            Some(side) => side.line.to_vec(),
            None => line,
        }
    }

    /// Writes the object that both sides have.
    fn object(&mut self, objects: Objects<'_, '_>, out: &mut Vec<u8>) {
        let leading = pick(self.leading, objects.ours, objects.theirs);
        let other = pick(self.leading.other(), objects.ours, objects.theirs);
        let (Some(leading_object), Some(other_object)) = (leading.object(), other.object()) else {
            return;
        };
        let status = self.status(objects);
        let separator = self.separator;
        let (leading, other) = (Layout::of(leading), Layout::of(other));
        let mut writer = Writer::new(out, &leading, &other, separator);
        for (place, member) in in_order(leading_object, other_object) {
            let name = &*member.name;
            let values = objects.get(name);
            let decision = match status {
                Some(side) if name == b"status" || STATUS_MEMBERS.contains(&name) => {
                    Decision::Take(side)
                }
                _ => self.decide(name, values),
            };
            match decision {
                Decision::Take(side) => {
                    let side = pick(side, objects.ours, objects.theirs).object();
                    if let Some(taken) = side.and_then(|side| side.member(name)) {
                        writer.next(place);
                        writer.out.extend_from_slice(taken.head);
                        writer.out.extend_from_slice(taken.value.raw);
                    }
                }
                Decision::MergeObjects => {
                    writer.next(place);
                    writer.out.extend_from_slice(member.head);
                    self.inner_object(name, values, writer.out);
                }
                Decision::MergeLists => {
                    writer.next(place);
                    writer.out.extend_from_slice(member.head);
                    self.list(values, writer.out);
                }
            }
        }
        writer.end();
    }

    fn inner_object(&mut self, name: &[u8], values: Values<'_, '_>, out: &mut Vec<u8>) {
        let (Some(ours), Some(theirs)) = (values.ours, values.theirs) else {
            return;
        };
        let length = self.path.len();
        self.path.extend_from_slice(name);
        self.path.push(b'.');
        let base = values.base.and_then(Value::object);
        self.object(Objects { base, ours, theirs }, out);
        self.path.truncate(length);
    }

    /// The side from which `status` and its companions are taken, if both sides changed it to different values.
    fn status(&mut self, objects: Objects<'_, '_>) -> Option<Side> {
        let values = objects.get(b"status");
        let is_tombstone =
            |status: Option<&Value<'_>>| status.and_then(Value::text) == Some(b"tombstone");
        values.both_changed_it().then(|| {
            if is_tombstone(values.ours) {
                Side::Ours
            } else if is_tombstone(values.theirs) {
                Side::Theirs
            } else {
                self.by_time_or_nobody(b"status", values)
            }
        })
    }

    fn decide(&mut self, name: &[u8], values: Values<'_, '_>) -> Decision {
        let Values { base, ours, theirs } = values;
        if are_equal(ours, theirs) {
            return Decision::Take(self.leading);
        }
        if are_equal(ours, base) {
            return Decision::Take(Side::Theirs);
        }
        if are_equal(theirs, base) {
            return Decision::Take(Side::Ours);
        }
        if let (Some(ours), Some(theirs)) = (ours, theirs) {
            if time::NAMES.contains(&name)
                && let Some(side) = newer_time(ours, theirs)
            {
                return Decision::Take(side);
            }
            let are_all = |is_such: fn(&Value<'_>) -> bool| {
                is_such(ours) && is_such(theirs) && base.is_none_or(is_such)
            };
            if are_all(|value| value.object().is_some()) {
                return Decision::MergeObjects;
            }
            if are_all(|value| value.list().is_some()) && Set::is(ours) && Set::is(theirs) {
                return Decision::MergeLists;
            }
        }
        Decision::Take(self.by_time_or_nobody(name, values))
    }

    /// The side of the newer record; where none is newer, the side that this line of the conflict is for.
    fn by_time_or_nobody(&mut self, name: &[u8], values: Values<'_, '_>) -> Side {
        let name = [&self.path, name].concat();
        let name = String::from_utf8_lossy(&name).into_owned();
        if let Some(newer) = self.newer {
            self.by_time.push(name);
            return newer;
        }
        let bytes = |value: Option<&Value<'_>>| value.map(|value| value.raw.to_vec());
        self.undecided.push(MemberConflict {
            name,
            ours: bytes(values.ours),
            theirs: bytes(values.theirs),
        });
        self.on_conflict
    }

    /// Writes two lists as one set: the elements that both have, and those that one side added.
    fn list(&self, values: Values<'_, '_>, out: &mut Vec<u8>) {
        let (Some(ours), Some(theirs)) = (values.ours, values.theirs) else {
            return;
        };
        let leading = pick(self.leading, ours, theirs);
        let other = pick(self.leading.other(), ours, theirs);
        let [in_base, in_leading, in_other] =
            [values.base, Some(leading), Some(other)].map(|list| Set::of(elements(list)));

        let (leading_layout, other_layout) = (Layout::of(leading), Layout::of(other));
        let mut writer = Writer::new(out, &leading_layout, &other_layout, self.separator);
        for (place, element) in elements(Some(leading)).iter().enumerate() {
            if in_other.has(element) || !in_base.has(element) {
                writer.next(Some(place));
                writer.out.extend_from_slice(element.raw);
            }
        }
        for element in elements(Some(other)) {
            if !in_leading.has(element) && !in_base.has(element) {
                writer.next(None);
                writer.out.extend_from_slice(element.raw);
            }
        }
        writer.end();
    }
}

/// The side with the newer time; of equal instants, the side with the smaller bytes. `None` where they cannot be
/// compared.
fn newer_time(ours: &Value<'_>, theirs: &Value<'_>) -> Option<Side> {
    let order = Time::read(ours)?.compare(&Time::read(theirs)?)?;
    Some(match order.then_with(|| theirs.raw.cmp(ours.raw)) {
        Ordering::Less => Side::Theirs,
        _ => Side::Ours,
    })
}

fn elements<'v, 'a>(list: Option<&'v Value<'a>>) -> &'v [Value<'a>] {
    list.and_then(Value::list).unwrap_or_default()
}

/// The elements of a list, to be found by their content.
struct Set<'v, 'a>(Vec<&'v Value<'a>>);

impl<'v, 'a> Set<'v, 'a> {
    fn of(elements: &'v [Value<'a>]) -> Self {
        let mut sorted: Vec<&Value<'a>> = elements.iter().collect();
        sorted.sort_by(|one, two| one.compare(two));
        Self(sorted)
    }

    /// True for a list of texts and objects only, none of them twice.
    fn is(list: &'v Value<'a>) -> bool {
        let elements = elements(Some(list));
        let are_such = elements
            .iter()
            .all(|element| matches!(element.raw.first(), Some(b'"' | b'{')));
        are_such
            && Self::of(elements)
                .0
                .is_sorted_by(|one, two| one.compare(two).is_lt())
    }

    fn has(&self, element: &Value<'_>) -> bool {
        let found = self.0.binary_search_by(|probe| probe.compare(element));
        found.is_ok()
    }
}
