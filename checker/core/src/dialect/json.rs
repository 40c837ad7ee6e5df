//! Reading JSON member by member: the last duplicate wins, unknown keys may hold anything, nothing nests deeper than
//! 128. Which keys there are, and what they may hold, is each dialect's.

use std::{borrow::Cow, fmt, ops::Range};

use serde::{Serialize, de::Deserializer, de::Error, de::MapAccess, de::Visitor};
use serde_json::value::RawValue;

use crate::verdict::Reason;
use beadlock_base::escape::escaped;

const NESTING: usize = 128;

const SHOWN: usize = 40;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    pub(super) fn of(value: &str) -> Self {
        match value.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'"') => Self::String,
            Some(b'[') => Self::Array,
            Some(b'{') => Self::Object,
            _ => Self::Number,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        })
    }
}

/// Shows `set` the members of the object that the text is, as [`members`]. `null` is an object without any. Errors:
/// [`Rejected::Malformed`] for anything but JSON, or but these; else what `set` has rejected.
pub(super) fn object<'t>(
    text: &'t str,
    set: impl FnMut(&str, &'t str) -> Result<(), Rejected>,
) -> Result<(), Rejected> {
    if nests_too_deeply(text) {
        return Err(malformed("nested too deeply"));
    }
    let kind = Kind::of(text.trim_ascii_start());
    let read = match kind {
        Kind::Object => members(text, set),
        _ => syntax_of(text).map(|_| Ok(())),
    };
    // Text that is not JSON at all is called so, whatever is wrong before that.
    match (read.map_err(|error| no_json(text, &error))?, kind) {
        (Err(rejected), _) => Err(rejected),
        (Ok(()), Kind::Object | Kind::Null) => Ok(()),
        (Ok(()), kind) => Err(malformed(format!("must be an object, not {kind}"))),
    }
}

/// Every byte that is not part of a UTF-8 character becomes one U+FFFD, as in Go.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(text)
}

/// Names the encoding of a file that is not UTF-8 alone, as PowerShell and editors write them.
pub(super) fn foreign_encoding(bytes: &[u8]) -> Result<(), Rejected> {
    let encoding = match bytes {
        [0xEF, 0xBB, 0xBF, ..] => "it begins with a byte order mark (BOM)",
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] | [b'{', 0, ..] | [0, b'{', ..] => "it is UTF-16",
        _ => return Ok(()),
    };
    Err(malformed(format!(
        "{encoding}; a lock is UTF-8 without a byte order mark"
    )))
}

pub(super) fn nests_too_deeply(text: &str) -> bool {
    // A lock has one or two of them. In steps whose count fits into a byte, which a processor takes many at once.
    let opened = |part: &[u8]| {
        part.iter().fold(0_u8, |sum, byte| {
            sum + u8::from(matches!(byte, b'[' | b'{'))
        })
    };
    if text
        .as_bytes()
        .chunks(255)
        .map(|part| usize::from(opened(part)))
        .sum::<usize>()
        <= NESTING
    {
        return false;
    }
    let (mut depth, mut in_string, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING {
            return true;
        }
    }
    false
}

/// The one value that the text is, its syntax checked to the last character.
fn syntax_of(text: &str) -> serde_json::Result<&RawValue> {
    serde_json::from_str(text)
}

fn no_json(text: &str, error: &serde_json::Error) -> Rejected {
    // Once more as a whole: where the fault lies does not depend on what was wanted of it.
    let whole = syntax_of(text).err();
    let error = whole.as_ref().unwrap_or(error);
    // serde_json takes the end of the text after `-`, `1.` or `1e` for a wrong character: the end it is when one more
    // digit makes another end of it.
    let with_digit = || syntax_of(&format!("{text}0")).err();
    let is_cut_off = error.is_eof() || with_digit().is_none_or(|error| error.is_eof());
    if is_cut_off {
        malformed("unexpected EOF")
    } else {
        malformed(format!("not JSON: {error}"))
    }
}

/// Shows `set` the members of the object that the text is, in order, keys decoded, up to the first that it rejects.
/// The syntax is checked to the last character all the same.
fn members<'t>(
    text: &'t str,
    set: impl FnMut(&str, &'t str) -> Result<(), Rejected>,
) -> serde_json::Result<Result<(), Rejected>> {
    struct Each<F>(F);

    impl<'de, F: FnMut(&str, &'de str) -> Result<(), Rejected>> Visitor<'de> for Each<F> {
        type Value = Result<(), Rejected>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Ok(());
            while let Some((key, value)) = map.next_entry::<&RawValue, &'de RawValue>()? {
                if all.is_ok() {
                    all = unquoted(key.get()).and_then(|key| (self.0)(&key, value.get()));
                }
            }
            Ok(all)
        }
    }

    let mut json = serde_json::Deserializer::from_str(text);
    let all = json.deserialize_map(Each(set))?;
    json.end()?;
    Ok(all)
}

/// The characters of a string literal. Half a surrogate pair becomes one U+FFFD, as in Go; serde_json refuses it
/// in a string, and hands it on in three bytes when asked for bytes.
pub(super) fn unquoted(literal: &str) -> Result<Cow<'_, str>, Rejected> {
    struct Lenient;

    impl Visitor<'_> for Lenient {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                let first_of_three = chunk.invalid().iter().filter(|byte| **byte == 0xED);
                text.extend(first_of_three.map(|_| char::REPLACEMENT_CHARACTER));
            }
            Ok(text)
        }
    }

    // Its syntax is checked: without a backslash it stands for itself.
    if let Some(plain) = literal
        .get(1..literal.len() - 1)
        .filter(|inner| !inner.contains('\\'))
    {
        return Ok(Cow::Borrowed(plain));
    }
    let text = serde_json::Deserializer::from_str(literal).deserialize_bytes(Lenient);
    text.map(Cow::Owned)
        .map_err(|error| malformed(format!("not JSON: {error}")))
}

pub(super) fn malformed(words: impl Into<String>) -> Rejected {
    Rejected::Malformed(words.into())
}

/// The JSON of a lock file: indented by two spaces, a newline at the end.
#[expect(
    clippy::expect_used,
    reason = "strings, integers and JSON values under fixed names always serialize"
)]
pub(super) fn pretty(record: &impl Serialize) -> String {
    serde_json::to_string_pretty(record)
        .expect("strings, integers and JSON values under fixed names")
        + "\n"
}

pub(super) fn shown(value: &str) -> String {
    let short: String = value.chars().take(SHOWN).collect();
    let more = if short.len() < value.len() { "…" } else { "" };
    format!("{}{more}", escaped(&short))
}

/// Why bytes are not a record. `Display` is what the log line says after `lock check failed: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejected {
    /// Not JSON, or of the wrong types; what was found, in words.
    Malformed(String),
    /// JSON of the right types without a needed value; which, in words.
    Invalid(String),
}

impl Rejected {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Malformed(_) => Reason::Malformed,
            Self::Invalid(_) => Reason::Invalid,
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(words) => write!(f, "malformed lock file: {words}"),
            Self::Invalid(words) => write!(f, "invalid lock file: {words}"),
        }
    }
}

impl std::error::Error for Rejected {}

/// How a lock file is brought to say another time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewrite {
    /// By these bytes at this place: they are as many as there are.
    InPlace {
        /// Where, from the start of the file.
        offset: usize,
        /// The text from the first time to the last.
        text: String,
    },
    /// By this whole content: a time there is written at another length.
    Whole(String),
}

/// Another text for a part of a file.
pub(super) struct Edit {
    at: Range<usize>,
    to: String,
}

impl Rewrite {
    /// What makes the object in `bytes` say `time` under `key`; `None` when it says no time there.
    pub(super) fn of(bytes: &[u8], key: &str, time: String) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        Self::of_edits(text, vec![string(text, key, time)?])
    }

    /// What makes these edits, of which there is one at least.
    pub(super) fn of_edits(text: &str, mut edits: Vec<Edit>) -> Option<Self> {
        edits.sort_by_key(|edit| edit.at.start);
        let (first, last) = (edits.first()?.at.start, edits.last()?.at.end);
        let is_in_place = edits.iter().all(|edit| edit.at.len() == edit.to.len());
        let (mut new, mut from) = (String::new(), first);
        for Edit { at, to } in &edits {
            new += text.get(from..at.start)?;
            new += to;
            from = at.end;
        }
        Some(match is_in_place {
            true => Self::InPlace {
                offset: first,
                text: new,
            },
            false => Self::Whole([text.get(..first)?, &new, text.get(last..)?].concat()),
        })
    }
}

/// Another string under this key, where there is one.
pub(super) fn string(text: &str, key: &str, to: String) -> Option<Edit> {
    let value = value(text, key).filter(|value| value.starts_with('"'))?;
    edit(text, value.get(1..value.len().checked_sub(1)?)?, to)
}

/// Another number under a key of the object that stands under the key `of`, where there is one.
pub(super) fn number(text: &str, of: &str, key: &str, to: String) -> Option<Edit> {
    let object = value(text, of).filter(|value| Kind::of(value) == Kind::Object)?;
    let is_whole = |value: &&str| value.bytes().all(|byte| byte.is_ascii_digit());
    let value = value(object, key).filter(is_whole)?;
    edit(text, value, to)
}

/// The value as it is written. Of several the last one counts, as it does for readers.
fn value<'t>(text: &'t str, wanted: &str) -> Option<&'t str> {
    let mut found = None;
    let read = object(text, |key, value| {
        if key == wanted {
            found = Some(value);
        }
        Ok(())
    });
    found.filter(|_| read.is_ok())
}

/// `part` is a part of the text.
fn edit(text: &str, part: &str, to: String) -> Option<Edit> {
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let at = start..start + part.len();
    text.get(at.clone()).is_some().then_some(Edit { at, to })
}
