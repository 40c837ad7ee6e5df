//! A version of a record file, split into its lines.

use std::borrow::Cow;

use crate::id::LineId;
use crate::json::{self, Outer, decoded, is_integer};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Kind of a line, by its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineKind<'a> {
    /// A JSON object with an id.
    Record(LineId<'a>),
    /// Other JSON.
    Other,
    /// Not JSON, or not UTF-8.
    Bad,
}

/// A line that is more than spaces.
#[derive(Debug, Clone, Copy)]
pub struct RecordLine<'a> {
    /// Bytes of the line, without its end.
    pub text: &'a [u8],
    /// Offset of these bytes in the file.
    pub begin: usize,
    /// Number of the line in the file, from 1.
    pub number: u32,
    /// Whether an LF ends it: only the last line may have none.
    pub has_end: bool,
}

/// Properties of a file that belong to none of its lines.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    pub has_byte_order_mark: bool,
    /// Whether every line that ends does so in CRLF; `None` where no line ends.
    pub has_crlf: Option<bool>,
}

/// Splits a file at LF and calls `line` for each line that is more than spaces, tabs and CR, with its kind.
///
/// A CR before an LF, and one at the end of a last line without LF, belongs to the end of its line. (In the second case
/// too: else a merge would add the LF, and the next one would find another line.)
pub fn read<'a>(bytes: &'a [u8], mut line: impl FnMut(RecordLine<'a>, LineKind<'a>)) -> Frame {
    let (has_byte_order_mark, rest) = match bytes.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (true, rest),
        None => (false, bytes),
    };
    let is_utf8 = str::from_utf8(rest).is_ok();
    let mut has_crlf = None;
    let mut number = 0;
    let mut rest = Some(rest).filter(|rest| !rest.is_empty());
    while let Some(here) = rest {
        let end = here.iter().position(|&byte| byte == b'\n');
        let begin = bytes.len() - here.len();
        let (text, after) = here.split_at(end.unwrap_or(here.len()));
        rest = after.get(1..).filter(|after| !after.is_empty());
        number += 1;
        let ends_in_cr = text.last() == Some(&b'\r');
        let text = &text[..text.len() - usize::from(ends_in_cr)];
        if text.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            continue;
        }
        if end.is_some() {
            has_crlf = Some(ends_in_cr && has_crlf.unwrap_or(true));
        }
        let has_end = end.is_some();
        let this = RecordLine {
            text,
            begin,
            number,
            has_end,
        };
        line(this, kind(text, is_utf8));
    }
    Frame {
        has_byte_order_mark,
        has_crlf,
    }
}

/// The kind of a line. Where an object has `id` twice, the later one counts, as it does for most readers.
pub fn kind(line: &[u8], is_utf8: bool) -> LineKind<'_> {
    let mut id = None;
    let outer = json::members(line, is_utf8, |name, value| {
        // A name with an escape is longer than `id` itself.
        if name == b"id" || (name.len() > 2 && name.contains(&b'\\') && *decoded(name) == *b"id") {
            id = id_of(value);
        }
    });
    match (outer, id) {
        (Outer::Bad, _) => LineKind::Bad,
        (Outer::Object, Some(id)) => LineKind::Record(id),
        _ => LineKind::Other,
    }
}

fn id_of(value: &[u8]) -> Option<LineId<'_>> {
    let text = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    let (is_integer, bytes) = match text {
        Some(text) => (false, decoded(text)),
        None if is_integer(value) => (true, Cow::Borrowed(value)),
        None => return None,
    };
    (!bytes.is_empty()).then_some(LineId { is_integer, bytes })
}
