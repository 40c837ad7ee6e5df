//! Reading JSON member by member. The last duplicate wins, unknown keys may have any value, and the nesting ends at 128
//! levels (docs/design.md#reading). Each protocol has its own keys and types.

use std::{borrow::Cow, fmt, ops::Range};

use serde::{Serialize, de::Deserializer, de::Error, de::MapAccess, de::Visitor};
use serde_json::value::RawValue;

use crate::verdict::Reason;
use beadlock_base::escape::escaped;

/// Deepest nesting that is read, so that no input can exhaust the stack.
const NESTING: usize = 128;

/// Number of characters of a value that a message shows.
const SHOWN: usize = 40;

/// Kind of a JSON value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonKind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

impl JsonKind {
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

impl fmt::Display for JsonKind {
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

/// Calls `set` with each member of the object in `text`, as [`members`] does. `null` counts as an empty object. Errors:
/// [`Rejected::Malformed`] if the text is not JSON or another kind of value; else the first error of `set`.
pub(super) fn object<'t>(
    text: &'t str,
    set: impl FnMut(&str, &'t str) -> Result<(), Rejected>,
) -> Result<(), Rejected> {
    if nests_too_deeply(text) {
        return Err(malformed("nested too deeply"));
    }
    let kind = JsonKind::of(text.trim_ascii_start());
    let read = match kind {
        JsonKind::Object => members(text, set),
        _ => syntax_of(text).map(|_| Ok(())),
    };
    // A text that is not JSON is reported as that first, also when `set` has rejected a member before the fault.
    match (read.map_err(|error| no_json(text, &error))?, kind) {
        (Err(rejected), _) => Err(rejected),
        (Ok(()), JsonKind::Object | JsonKind::Null) => Ok(()),
        (Ok(()), kind) => Err(malformed(format!("must be an object, not {kind}"))),
    }
}

/// Decodes UTF-8. Each byte that is not part of a UTF-8 character becomes one U+FFFD, as in Go.
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

/// Rejects UTF-16 and a byte order mark, as PowerShell and some editors write them. Errors: [`Rejected::Malformed`]
/// with the name of the encoding.
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

/// True if the text is nested deeper than `NESTING`. Brackets inside of strings do not count.
pub(super) fn nests_too_deeply(text: &str) -> bool {
    // A lock has one or two brackets, so a count of all of them is the fast path. In chunks of 255 the count fits into
    // a byte, and the compiler can count many bytes at once.
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

/// Reads the text as one JSON value, and checks the syntax to its last character.
fn syntax_of(text: &str) -> serde_json::Result<&RawValue> {
    serde_json::from_str(text)
}

/// Describes the fault of a text that is not JSON. A text that only ends too soon is `unexpected EOF`, as in Go.
fn no_json(text: &str, error: &serde_json::Error) -> Rejected {
    // The text is read once more as any value, so that the reported fault does not depend on the kind that was wanted.
    let whole = syntax_of(text).err();
    let error = whole.as_ref().unwrap_or(error);
    // After `-`, `1.` or `1e`, serde_json reports the end of the text as a wrong character. The text is cut off if one
    // more digit makes it valid, or moves the fault to its new end.
    let with_digit = || syntax_of(&format!("{text}0")).err();
    let is_cut_off = error.is_eof() || with_digit().is_none_or(|error| error.is_eof());
    if is_cut_off {
        malformed("unexpected EOF")
    } else {
        malformed(format!("not JSON: {error}"))
    }
}

/// Calls `set` with each member of the object in `text`, in order and with the key decoded, until `set` rejects one.
/// The syntax is checked to the last character in any case.
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

/// Decodes a string literal. Half a surrogate pair becomes one U+FFFD, as in Go. serde_json refuses it in a string, and
/// returns it as three bytes when it is asked for bytes.
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

    // The syntax of the literal was checked before. Without a backslash, the text between the quotes needs no decoding.
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

/// Returns a record as the JSON of a lock file: indented by two spaces, with a newline at the end.
#[expect(
    clippy::expect_used,
    reason = "strings, integers and JSON values under fixed names always serialize"
)]
pub(super) fn pretty(record: &impl Serialize) -> String {
    serde_json::to_string_pretty(record)
        .expect("strings, integers and JSON values under fixed names")
        + "\n"
}

/// Returns the first `SHOWN` characters of a value, escaped, for a message.
pub(super) fn shown(value: &str) -> String {
    let short: String = value.chars().take(SHOWN).collect();
    let more = if short.len() < value.len() { "…" } else { "" };
    format!("{}{more}", escaped(&short))
}

/// Reason why the bytes of a file are not a record. `Display` is the text of the log line after `lock check failed: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejected {
    /// The bytes are not JSON, or a field has a wrong type: the fault, in words.
    Malformed(String),
    /// The JSON has the right types, and a needed value is missing or not allowed: which one, in words.
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

/// Edit that writes another time into a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewrite {
    /// The new times are as long as the old ones, so one write in place is enough.
    InPlace {
        /// Position of the write, in bytes from the start of the file.
        offset: usize,
        /// New text from the beginning of the first time to the end of the last.
        text: String,
    },
    /// A new time has another length than the old one: the new content of the whole file.
    Whole(String),
}

/// Replacement of one part of a file's text.
pub(super) struct Edit {
    at: Range<usize>,
    to: String,
}

impl Rewrite {
    /// Makes the edit that writes `time` under `key` into the object in `bytes`. `None`: the key has no string there.
    pub(super) fn of(bytes: &[u8], key: &str, time: String) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        Self::of_edits(text, vec![string(text, key, time)?])
    }

    /// Combines edits of one text, which must not overlap. `None`: there are no edits.
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

/// Makes the edit that puts the string `to` under `key`. `None`: the key has no string.
pub(super) fn string(text: &str, key: &str, to: String) -> Option<Edit> {
    let value = value(text, key).filter(|value| value.starts_with('"'))?;
    edit(text, value.get(1..value.len().checked_sub(1)?)?, to)
}

/// Makes the edit that puts the number `to` under `key` of the object under `of`. `None`: there is no whole number.
pub(super) fn number(text: &str, of: &str, key: &str, to: String) -> Option<Edit> {
    let object = value(text, of).filter(|value| JsonKind::of(value) == JsonKind::Object)?;
    let is_whole = |value: &&str| value.bytes().all(|byte| byte.is_ascii_digit());
    let value = value(object, key).filter(is_whole)?;
    edit(text, value, to)
}

/// Finds the value under the key `wanted`, as it is written. The last duplicate counts, as it does for readers.
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

/// Makes the edit that replaces `part`, a slice of `text`, by `to`.
fn edit(text: &str, part: &str, to: String) -> Option<Edit> {
    let start = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let at = start..start + part.len();
    text.get(at.clone()).is_some().then_some(Edit { at, to })
}
