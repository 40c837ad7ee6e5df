//! How an object or a list is written: the order of its parts, and the bytes between them.

use crate::json::{Member, Object, Value};

/// The parts of an object or a list, and where they lie in it.
pub struct Layout<'v> {
    /// Bytes of the object or list, with both brackets.
    raw: &'v [u8],
    /// Where each part begins and ends.
    parts: Vec<(usize, usize)>,
}

impl<'v> Layout<'v> {
    pub fn of(value: &Value<'v>) -> Self {
        let object = value.object().map(|object| object.members.as_slice());
        let members = object.unwrap_or_default().iter();
        let elements = value.list().unwrap_or_default().iter();
        let parts = members
            .map(|member| (member.at, member.value.end()))
            .chain(elements.map(|element| (element.at, element.end())))
            .collect();
        let raw = value.raw;
        Self { raw, parts }
    }

    /// The bytes between a part and the one before it.
    pub fn gap_before(&self, part: usize) -> Option<&'v [u8]> {
        let (_, begin) = self.parts.get(part.checked_sub(1)?)?;
        let (end, _) = self.parts.get(part)?;
        self.raw.get(*begin..*end)
    }

    /// The bytes between the first two parts.
    pub fn separator(&self) -> Option<&'v [u8]> {
        self.gap_before(1)
    }

    fn opening(&self) -> &'v [u8] {
        let first = self.parts.first();
        first
            .and_then(|(begin, _)| self.raw.get(..*begin))
            .unwrap_or_default()
    }

    fn closing(&self) -> &'v [u8] {
        let last = self.parts.last();
        last.and_then(|(_, end)| self.raw.get(*end..))
            .unwrap_or_default()
    }
}

/// Writes an object or a list as the leading side does.
pub struct Writer<'o, 'v> {
    pub out: &'o mut Vec<u8>,
    leading: &'o Layout<'v>,
    /// The leading layout, or the other one where the leading has no parts.
    style: &'o Layout<'v>,
    separator: &'o [u8],
    is_empty: bool,
}

impl<'o, 'v> Writer<'o, 'v> {
    /// `separator` is for a leading layout that has no two parts.
    pub fn new(
        out: &'o mut Vec<u8>,
        leading: &'o Layout<'v>,
        other: &'o Layout<'v>,
        separator: &'o [u8],
    ) -> Self {
        Self {
            out,
            leading,
            style: if leading.parts.is_empty() {
                other
            } else {
                leading
            },
            separator: leading.separator().unwrap_or(separator),
            is_empty: true,
        }
    }

    /// Writes what stands before the next part; `place` is its number in the leading layout, if it is there.
    pub fn next(&mut self, place: Option<usize>) {
        let gap = match self.is_empty {
            true => self.style.opening(),
            false => place
                .and_then(|place| self.leading.gap_before(place))
                .unwrap_or(self.separator),
        };
        self.out.extend_from_slice(gap);
        self.is_empty = false;
    }

    /// Closes it.
    pub fn end(self) {
        match (self.is_empty, self.leading.raw) {
            (true, [open, .., close]) => self.out.extend([open, close]),
            _ => self.out.extend_from_slice(self.style.closing()),
        }
    }
}

/// The members of both, with their number in `leading`: these in their order, and each that only `other` has after the one
/// that it follows there.
pub fn in_order<'v, 'a>(
    leading: &'v Object<'a>,
    other: &'v Object<'a>,
) -> Vec<(Option<usize>, &'v Member<'a>)> {
    // A stable sort does it: each of the other's own members stands behind the last one before it that both have.
    let mut members: Vec<(usize, Option<usize>, &Member<'a>)> = leading
        .members
        .iter()
        .enumerate()
        .map(|(index, member)| (index + 1, Some(index), member))
        .collect();
    let mut behind = 0;
    for member in &other.members {
        match leading.position(&member.name) {
            Some(index) => behind = index + 1,
            None => members.push((behind, None, member)),
        }
    }
    members.sort_by_key(|(behind, ..)| *behind);
    members
        .into_iter()
        .map(|(_, place, member)| (place, member))
        .collect()
}
