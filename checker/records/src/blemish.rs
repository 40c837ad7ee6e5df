//! Lines that a record file should not have.

use std::collections::HashMap;

use crate::lines::{self, LineKind, RecordLine};

/// A line that a record file should not have. `Display` says it in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blemish<'a> {
    /// Kind of defect in the line.
    pub kind: BlemishKind,
    /// Number of the line in its file, from 1.
    pub line: usize,
    /// Bytes of the line, without its end.
    pub text: &'a [u8],
}

/// Kinds of defect in a line; where a line has several, the first in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlemishKind {
    /// The line begins with `<<<<<<< ` or `>>>>>>> `, or is `=======`.
    Marker,
    /// The line has a NUL byte.
    Nul,
    /// The last line, without a newline and not JSON: a writer was cut off, or is still at work.
    Torn,
    /// The line is not JSON.
    NotJson,
}

/// The blemishes of a file, in its order.
pub fn blemishes(file: &[u8]) -> Vec<Blemish<'_>> {
    let mut found = Vec::new();
    lines::read(file, |line, kind| {
        // Each of them keeps a line from being JSON.
        if kind == LineKind::Bad {
            found.push(Blemish {
                kind: blemish(line),
                line: line.number as usize,
                text: line.text,
            });
        }
    });
    found
}

fn blemish(line: RecordLine<'_>) -> BlemishKind {
    let text = line.text;
    if text.starts_with(b"<<<<<<< ") || text.starts_with(b">>>>>>> ") || text == b"=======" {
        BlemishKind::Marker
    } else if text.contains(&0) {
        BlemishKind::Nul
    } else if !line.has_end {
        BlemishKind::Torn
    } else {
        BlemishKind::NotJson
    }
}

/// The blemishes of `now` that `before` does not have, line by line: one that `before` has once may come once.
pub fn new_blemishes<'a>(before: &[u8], now: &'a [u8]) -> Vec<Blemish<'a>> {
    let mut old: HashMap<(BlemishKind, &[u8]), usize> = HashMap::new();
    for blemish in blemishes(before) {
        *old.entry((blemish.kind, blemish.text)).or_default() += 1;
    }
    let mut new = blemishes(now);
    new.retain(|blemish| match old.get_mut(&(blemish.kind, blemish.text)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    });
    new
}
