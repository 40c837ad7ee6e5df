//! JSON as a merge needs it: the bytes of each member, and equality of content.
//!
//! `serde_json` does not fit. It refuses lone surrogates, which other writers produce; it stops at 128 levels or recurses
//! without a bound; it does not tell where a member and its spaces lie; and a member name that comes twice is lost in it.
//! So this is a scanner of its own: [`members`] proves a text to be JSON without recursion, at any depth, and
//! [`Value::read`] takes it apart down to [`LEVELS`].

mod scan;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

pub use scan::{Outer, is_integer, members};
pub use text::decoded;

use scan::Scanner;

/// Levels of nesting that are taken apart. A value further down is equal only to the same bytes.
pub const LEVELS: usize = 256;

/// Bytes of the longest line that is taken apart; a longer one is equal only to the same bytes. The parts of a line take
/// some forty times its bytes.
pub const LONGEST: usize = 16 << 20;

/// A value, taken apart.
#[derive(Debug)]
pub struct Value<'a> {
    /// Bytes of the value, as they are written.
    pub raw: &'a [u8],
    /// Offset of these bytes in the object, the list or the line that holds the value.
    pub at: usize,
    pub content: ValueContent<'a>,
    /// Equal for equal content. Without it, values that differ deep inside would be compared anew at each level around.
    hash: u64,
}

/// Parts of a value, by its kind.
#[derive(Debug)]
pub enum ValueContent<'a> {
    /// A number by its digits, `true`, `false` or `null`.
    Scalar,
    /// A text, decoded.
    Text(Cow<'a, [u8]>),
    List(Vec<Value<'a>>),
    /// In a box: most values are not objects, and there may be millions in a line.
    Object(Box<Object<'a>>),
    /// Equal only to the same bytes: an object with a member name twice, or something deeper than [`LEVELS`].
    Whole,
}

/// An object in which each name comes once.
#[derive(Debug)]
pub struct Object<'a> {
    /// The members, in the order of the text.
    pub members: Vec<Member<'a>>,
    /// Indices of `members`, by name.
    by_name: Vec<u32>,
}

#[derive(Debug)]
pub struct Member<'a> {
    /// Name of the member, decoded.
    pub name: Cow<'a, [u8]>,
    /// Offset of the name in the object.
    pub at: usize,
    /// Bytes of the name and the colon, up to the value.
    pub head: &'a [u8],
    pub value: Value<'a>,
}

impl<'a> Value<'a> {
    /// Takes a line apart that [`members`] knows to be JSON; `None` where it is not.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        let mut scanner = Scanner::new(line);
        scanner.space();
        let at = scanner.at;
        if line.len() > LONGEST {
            let raw = scanner.value()?;
            return Some(Self::new(raw, at, ValueContent::Whole));
        }
        Self::next_in(&mut scanner, LEVELS, 0)
    }

    /// The value here; `container` is where the object or list begins that it is in.
    fn next_in(scanner: &mut Scanner<'a>, levels: usize, container: usize) -> Option<Self> {
        let begin = scanner.at;
        let content = match scanner.peek()? {
            b'"' => ValueContent::Text(decoded(scanner.string()?)),
            b'{' | b'[' if levels == 0 => {
                scanner.skip()?;
                ValueContent::Whole
            }
            b'{' => Self::object_in(scanner, levels)?,
            b'[' => Self::list_in(scanner, levels)?,
            _ => {
                scanner.skip()?;
                ValueContent::Scalar
            }
        };
        let raw = scanner.text.get(begin..scanner.at)?;
        Some(Self::new(raw, begin - container, content))
    }

    fn new(raw: &'a [u8], at: usize, content: ValueContent<'a>) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(content.rank());
        match &content {
            ValueContent::Scalar | ValueContent::Whole => hasher.write(raw),
            ValueContent::Text(text) => hasher.write(text),
            ValueContent::List(elements) => {
                elements
                    .iter()
                    .for_each(|element| hasher.write_u64(element.hash));
            }
            ValueContent::Object(object) => {
                for member in object.sorted() {
                    member.name.hash(&mut hasher);
                    hasher.write_u64(member.value.hash);
                }
            }
        }
        let hash = hasher.finish();
        Self {
            raw,
            at,
            content,
            hash,
        }
    }

    fn object_in(scanner: &mut Scanner<'a>, levels: usize) -> Option<ValueContent<'a>> {
        let container = scanner.at;
        let mut members = Vec::new();
        scanner.elements(b'{', b'}', |scanner| {
            let begin = scanner.at;
            let name = decoded(scanner.string()?);
            scanner.colon()?;
            let head = scanner.text.get(begin..scanner.at)?;
            let at = begin - container;
            let value = Self::next_in(scanner, levels - 1, container)?;
            members.push(Member {
                name,
                at,
                head,
                value,
            });
            Some(())
        })?;
        let object = Object::new(members).map(Box::new);
        Some(object.map_or(ValueContent::Whole, ValueContent::Object))
    }

    fn list_in(scanner: &mut Scanner<'a>, levels: usize) -> Option<ValueContent<'a>> {
        let container = scanner.at;
        let mut elements = Vec::new();
        scanner.elements(b'[', b']', |scanner| {
            elements.push(Self::next_in(scanner, levels - 1, container)?);
            Some(())
        })?;
        Some(ValueContent::List(elements))
    }

    /// Where its bytes end in what holds it.
    pub fn end(&self) -> usize {
        self.at + self.raw.len()
    }

    pub fn object(&self) -> Option<&Object<'a>> {
        match &self.content {
            ValueContent::Object(object) => Some(object),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Value<'a>]> {
        match &self.content {
            ValueContent::List(elements) => Some(elements),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&[u8]> {
        match &self.content {
            ValueContent::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Equal content: texts decoded, members in any order, numbers by their digits.
    pub fn equals(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }

    /// An order in which equal content is equal; it means nothing else.
    pub fn compare(&self, other: &Self) -> Ordering {
        if self.hash != other.hash {
            return self.hash.cmp(&other.hash);
        }
        if self.raw == other.raw {
            return Ordering::Equal;
        }
        match (&self.content, &other.content) {
            (ValueContent::Text(one), ValueContent::Text(two)) => one.cmp(two),
            (ValueContent::List(one), ValueContent::List(two)) => {
                compare_each(one.iter(), two.iter())
            }
            (ValueContent::Object(one), ValueContent::Object(two)) => one.compare(two),
            (ValueContent::Scalar, ValueContent::Scalar)
            | (ValueContent::Whole, ValueContent::Whole) => self.raw.cmp(other.raw),
            (one, two) => one.rank().cmp(&two.rank()),
        }
    }
}

impl ValueContent<'_> {
    fn rank(&self) -> u8 {
        match self {
            Self::Scalar => 0,
            Self::Text(_) => 1,
            Self::List(_) => 2,
            Self::Object(_) => 3,
            Self::Whole => 4,
        }
    }
}

fn compare_each<'v, 'a: 'v>(
    mut one: impl ExactSizeIterator<Item = &'v Value<'a>>,
    mut two: impl ExactSizeIterator<Item = &'v Value<'a>>,
) -> Ordering {
    one.len().cmp(&two.len()).then_with(|| {
        std::iter::from_fn(|| Some(one.next()?.compare(two.next()?)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    })
}

impl<'a> Object<'a> {
    /// `None` where a name comes twice.
    fn new(members: Vec<Member<'a>>) -> Option<Self> {
        let mut by_name: Vec<u32> = (0..u32::try_from(members.len()).ok()?).collect();
        let name = |index: u32| members.get(index as usize).map(|member| &member.name);
        by_name.sort_unstable_by(|&one, &two| name(one).cmp(&name(two)));
        let is_twice = by_name.windows(2).any(|pair| match pair {
            [one, two] => name(*one) == name(*two),
            _ => false,
        });
        (!is_twice).then_some(Self { members, by_name })
    }

    /// Members of the object, ordered by name.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = &Member<'a>> + DoubleEndedIterator {
        self.by_name
            .iter()
            .map(|&index| &self.members[index as usize])
    }

    /// Where in `members` this name is.
    pub fn position(&self, name: &[u8]) -> Option<usize> {
        let found = self
            .by_name
            .binary_search_by(|&index| (*self.members[index as usize].name).cmp(name));
        found.ok().map(|place| self.by_name[place] as usize)
    }

    pub fn member(&self, name: &[u8]) -> Option<&Member<'a>> {
        self.position(name).map(|index| &self.members[index])
    }

    pub fn get(&self, name: &[u8]) -> Option<&Value<'a>> {
        self.member(name).map(|member| &member.value)
    }

    pub fn has_names_of(&self, other: &Self) -> bool {
        let names = self.sorted().map(|member| &*member.name);
        names.eq(other.sorted().map(|member| &*member.name))
    }

    fn compare(&self, other: &Self) -> Ordering {
        let names = self.sorted().map(|member| &*member.name);
        let other_names = other.sorted().map(|member| &*member.name);
        names.cmp(other_names).then_with(|| {
            compare_each(
                self.sorted().map(|member| &member.value),
                other.sorted().map(|member| &member.value),
            )
        })
    }
}
