//! Saying another time, as an edit of a lock file's bytes: the value of one key changes, every other byte stays.

use std::ops::Range;

use super::json::object;

/// How a lock file is brought to say another time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rewrite {
    /// By these bytes at this place: they are as many as there are.
    InPlace {
        /// Where, from the start of the file.
        offset: usize,
        /// The time, without its quotes.
        time: String,
    },
    /// By this whole content: the time there is written at another length.
    Whole(String),
}

impl Rewrite {
    /// What makes the object in `bytes` say `time` under `key`; `None` when it says no time there.
    pub(super) fn of(bytes: &[u8], key: &str, time: String) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let Range { start, end } = string(text, key)?;
        if end - start == time.len() {
            return Some(Self::InPlace { offset: start, time });
        }
        Some(Self::Whole([&text[..start], &time, &text[end..]].concat()))
    }
}

/// Where the string is written, without its quotes. Of several the last one counts, as it does for readers.
fn string(text: &str, wanted: &str) -> Option<Range<usize>> {
    let mut found = None;
    let read = object(text, |key, value| {
        if key == wanted {
            found = Some(value);
        }
        Ok(())
    });
    let value: &str = found.filter(|value: &&str| read.is_ok() && value.starts_with('"'))?;
    // The value is a part of the text.
    let start = value.as_ptr().addr().checked_sub(text.as_ptr().addr())? + 1;
    let range = start..start + value.len().checked_sub(2)?;
    text.get(range.clone()).is_some().then_some(range)
}
