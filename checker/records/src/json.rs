//! JSON as a merge needs it: the bytes of each member, and equality of content.
//!
//! `serde_json` does not fit. It refuses lone surrogates, which other writers produce; it stops at 128 levels or recurses
//! without a bound; it does not tell where a member and its spaces lie; and a member name that comes twice is lost in it.
//! So this is a scanner of its own: [`members`] proves a text to be JSON without recursion, at any depth, and
//! [`Value::read`] takes it apart down to [`LEVELS`].

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Levels of nesting that are taken apart. A value further down is equal only to the same bytes.
pub const LEVELS: usize = 256;

/// Bytes of the longest line that is taken apart; a longer one is equal only to the same bytes. The parts of a line take
/// some forty times its bytes.
pub const LONGEST: usize = 16 << 20;

/// Whether a byte may stand in a text as it is: no quote, no backslash, no control character.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut control = 0;
    while control < 0x20 {
        plain[control] = false;
        control += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'\\' as usize] = false;
    plain
};

/// What a line is as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outer {
    Object,
    OtherJson,
    /// Not JSON, or not UTF-8.
    Bad,
}

/// Reads one JSON text (RFC 8259, UTF-8, nothing behind it) and shows each member of its outermost object: the name
/// as it is written, without quotes, and the value.
pub fn members<'a>(
    text: &'a [u8],
    is_utf8: bool,
    mut member: impl FnMut(&'a [u8], &'a [u8]),
) -> Outer {
    if !is_utf8 && str::from_utf8(text).is_err() {
        return Outer::Bad;
    }
    let mut scanner = Scanner::new(text);
    let mut read = |scanner: &mut Scanner<'a>| {
        scanner.space();
        let is_object = scanner.peek() == Some(b'{');
        if is_object {
            scanner.elements(b'{', b'}', |scanner| {
                let name = scanner.string()?;
                scanner.colon()?;
                member(name, scanner.value()?);
                Some(())
            })?;
        } else {
            scanner.skip()?;
        }
        scanner.space();
        let is_whole = scanner.at == text.len();
        is_whole.then_some(is_object)
    };
    match read(&mut scanner) {
        Some(true) => Outer::Object,
        Some(false) => Outer::OtherJson,
        None => Outer::Bad,
    }
}

/// A text as it is written between its quotes, as bytes of UTF-8. Half of a surrogate pair becomes the three bytes that
/// UTF-8 would have for it: no two different texts are equal.
pub fn decoded(written: &[u8]) -> Cow<'_, [u8]> {
    if !written.contains(&b'\\') {
        return Cow::Borrowed(written);
    }
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            break;
        };
        rest = after;
        match escape {
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'u' => {
                let (unit, after) = utf16_unit(rest);
                rest = after;
                rest = push_code_point(&mut bytes, unit, rest);
            }
            other => bytes.push(other),
        }
    }
    Cow::Owned(bytes)
}

/// Adds what `unit` stands for, with the second half of its pair where there is one, and returns what follows.
fn push_code_point<'a>(bytes: &mut Vec<u8>, unit: u32, rest: &'a [u8]) -> &'a [u8] {
    if let (0xd800..=0xdbff, Some(pair)) = (unit, rest.strip_prefix(b"\\u")) {
        let (low, after) = utf16_unit(pair);
        if let 0xdc00..=0xdfff = low {
            push_utf8(bytes, 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
            return after;
        }
    }
    push_utf8(bytes, unit);
    rest
}

/// The value of four hex digits, and what follows them.
fn utf16_unit(text: &[u8]) -> (u32, &[u8]) {
    let (digits, rest) = text.split_at(text.len().min(4));
    let unit = digits.iter().fold(0, |unit, &digit| {
        unit << 4 | char::from(digit).to_digit(16).unwrap_or(0)
    });
    (unit, rest)
}

/// `char` has no surrogates, so this is not `char::encode_utf8`.
fn push_utf8(bytes: &mut Vec<u8>, code: u32) {
    let tail = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
    match code {
        0..0x80 => bytes.push(code as u8),
        0x80..0x800 => bytes.extend([0xc0 | (code >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => bytes.extend([0xe0 | (code >> 12) as u8, tail(6), tail(0)]),
        _ => bytes.extend([0xf0 | (code >> 18) as u8, tail(12), tail(6), tail(0)]),
    }
}

/// A number that is written without fraction and exponent.
pub fn is_integer(written: &[u8]) -> bool {
    let digits = written.strip_prefix(b"-").unwrap_or(written);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Goes over bytes that may be JSON. Each step returns `None` where they are not.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// The brackets that [`Self::skip`] has open: nesting costs a byte a level, and no stack.
    open: Vec<u8>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a [u8]) -> Self {
        let (at, open) = (0, Vec::new());
        Self { text, at, open }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// What stands between two brackets, separated by commas; `element` reads one.
    fn elements(
        &mut self,
        open: u8,
        close: u8,
        mut element: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        if !self.eat(open) {
            return None;
        }
        self.space();
        if self.eat(close) {
            return Some(());
        }
        loop {
            element(self)?;
            self.space();
            match self.next()? {
                b',' => self.space(),
                end if end == close => return Some(()),
                _ => return None,
            }
        }
    }

    fn colon(&mut self) -> Option<()> {
        self.space();
        let is_there = self.eat(b':');
        self.space();
        is_there.then_some(())
    }

    /// The bytes of the value here.
    fn value(&mut self) -> Option<&'a [u8]> {
        let begin = self.at;
        self.skip()?;
        self.text.get(begin..self.at)
    }

    /// Goes behind the value here, however deep it is.
    fn skip(&mut self) -> Option<()> {
        self.open.clear();
        loop {
            let opened = self.scalar_or_bracket()?;
            if opened {
                continue;
            }
            // A value has ended, and whatever ends with it.
            loop {
                let Some(&bracket) = self.open.last() else {
                    return Some(());
                };
                self.space();
                match (self.next()?, bracket) {
                    (b',', b'{') => {
                        self.space();
                        self.string()?;
                        self.colon()?;
                        break;
                    }
                    (b',', _) => {
                        self.space();
                        break;
                    }
                    (b'}', b'{') | (b']', b'[') => {
                        self.open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    /// Reads a value without parts, or opens a bracket, which is then true: the first element comes next.
    fn scalar_or_bracket(&mut self) -> Option<bool> {
        let byte = self.peek()?;
        match byte {
            b'"' => {
                self.string()?;
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            b'{' | b'[' => {
                self.at += 1;
                self.space();
                let close = if byte == b'{' { b'}' } else { b']' };
                if self.eat(close) {
                    return Some(false);
                }
                self.open.push(byte);
                if byte == b'{' {
                    self.string()?;
                    self.colon()?;
                }
                return Some(true);
            }
            _ => return None,
        }
        Some(false)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_it = self.text.get(self.at..)?.starts_with(word);
        self.at += word.len();
        is_it.then_some(())
    }

    /// A text; what is between its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        if !self.eat(b'"') {
            return None;
        }
        let begin = self.at;
        loop {
            let rest = self.text.get(self.at..)?;
            self.at += rest.iter().position(|&byte| !PLAIN[usize::from(byte)])?;
            match self.next()? {
                b'"' => return self.text.get(begin..self.at - 1),
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4)?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<()> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > begin).then_some(())
    }
}

/// A value, taken apart.
#[derive(Debug)]
pub struct Value<'a> {
    /// Its bytes, as they are written.
    pub raw: &'a [u8],
    /// Where they begin in what holds it: the object, the list or the line.
    pub at: usize,
    pub content: Content<'a>,
    /// Equal for equal content. Without it, values that differ deep inside would be compared anew at each level around.
    hash: u64,
}

/// What a value is made of.
#[derive(Debug)]
pub enum Content<'a> {
    /// A number by its digits, `true`, `false` or `null`.
    Scalar,
    /// Decoded.
    Text(Cow<'a, [u8]>),
    List(Vec<Value<'a>>),
    Object(Object<'a>),
    /// Equal only to the same bytes: an object with a member name twice, or something deeper than [`LEVELS`].
    Whole,
}

/// An object in which each name comes once.
#[derive(Debug)]
pub struct Object<'a> {
    /// In the order of the text.
    pub members: Vec<Member<'a>>,
    /// Indices of `members`, by name.
    by_name: Vec<u32>,
}

#[derive(Debug)]
pub struct Member<'a> {
    /// Decoded.
    pub name: Cow<'a, [u8]>,
    /// Where its name begins in the object.
    pub at: usize,
    /// The bytes of its name and colon, up to the value.
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
            return Some(Self::new(raw, at, Content::Whole));
        }
        Self::next_in(&mut scanner, LEVELS, 0)
    }

    /// The value here; `container` is where the object or list begins that it is in.
    fn next_in(scanner: &mut Scanner<'a>, levels: usize, container: usize) -> Option<Self> {
        let begin = scanner.at;
        let content = match scanner.peek()? {
            b'"' => Content::Text(decoded(scanner.string()?)),
            b'{' | b'[' if levels == 0 => {
                scanner.skip()?;
                Content::Whole
            }
            b'{' => Self::object_in(scanner, levels)?,
            b'[' => Self::list_in(scanner, levels)?,
            _ => {
                scanner.skip()?;
                Content::Scalar
            }
        };
        let raw = scanner.text.get(begin..scanner.at)?;
        Some(Self::new(raw, begin - container, content))
    }

    fn new(raw: &'a [u8], at: usize, content: Content<'a>) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(content.rank());
        match &content {
            Content::Scalar | Content::Whole => hasher.write(raw),
            Content::Text(text) => hasher.write(text),
            Content::List(elements) => {
                elements
                    .iter()
                    .for_each(|element| hasher.write_u64(element.hash));
            }
            Content::Object(object) => {
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

    fn object_in(scanner: &mut Scanner<'a>, levels: usize) -> Option<Content<'a>> {
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
        Some(Object::new(members).map_or(Content::Whole, Content::Object))
    }

    fn list_in(scanner: &mut Scanner<'a>, levels: usize) -> Option<Content<'a>> {
        let container = scanner.at;
        let mut elements = Vec::new();
        scanner.elements(b'[', b']', |scanner| {
            elements.push(Self::next_in(scanner, levels - 1, container)?);
            Some(())
        })?;
        Some(Content::List(elements))
    }

    /// Where its bytes end in what holds it.
    pub fn end(&self) -> usize {
        self.at + self.raw.len()
    }

    pub fn object(&self) -> Option<&Object<'a>> {
        match &self.content {
            Content::Object(object) => Some(object),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Value<'a>]> {
        match &self.content {
            Content::List(elements) => Some(elements),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Text(text) => Some(text),
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
            (Content::Text(one), Content::Text(two)) => one.cmp(two),
            (Content::List(one), Content::List(two)) => compare_each(one.iter(), two.iter()),
            (Content::Object(one), Content::Object(two)) => one.compare(two),
            (Content::Scalar, Content::Scalar) | (Content::Whole, Content::Whole) => {
                self.raw.cmp(other.raw)
            }
            (one, two) => one.rank().cmp(&two.rank()),
        }
    }
}

impl Content<'_> {
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

    /// Its members, by name.
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
