//! Reading a record: every JSON object is one. A byte order mark, as PowerShell may write it, is skipped. Invalid UTF-8
//! reads as U+FFFD, and the last duplicate wins. `NaN` and the infinities of Python's JSON read as `null`, because the
//! document's program takes such a file for a lock.

use serde_json::Value;

use super::super::beads::parse_mark;
use super::super::json::{JsonKind, malformed, nests_too_deeply, object, text, unquoted};
use super::{Record, Rejected, StartedAt};

impl Record {
    /// Reads the record in the bytes of a lock file.
    ///
    /// Errors: [`Rejected::Malformed`] if the bytes are not a JSON object, which is not a lock by the document.
    /// [`Rejected::Invalid`] if the object is nested too deeply.
    pub fn parse(bytes: &[u8]) -> Result<Self, Rejected> {
        let text = text(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes));
        if nests_too_deeply(&text) {
            return Err(Rejected::Invalid("nested too deeply".to_owned()));
        }
        Self::of_object(&text).or_else(|rejected| match without_infinities(&text) {
            Some(text) => Self::of_object(&text).map_err(|_| rejected),
            None => Err(rejected),
        })
    }

    fn of_object(text: &str) -> Result<Self, Rejected> {
        if text.trim_ascii() == "null" {
            return Err(malformed("must be an object, not null"));
        }
        let mut record = Self::of_nobody();
        object(text, |key, value| {
            record.set(key, value);
            Ok(())
        })?;
        Ok(record)
    }

    pub(super) fn set(&mut self, key: &str, value: &str) {
        match key {
            "pid" => self.pid = process(value),
            "session_id" => self.session_id = string(value),
            "acquired_at" => {
                self.acquired_at = string(value).and_then(|time| StartedAt::parse(&time))
            }
            "hostname" => self.hostname = string(value).filter(|name| !name.is_empty()),
            "operation" => self.operation = string(value),
            "beadlock" => self.beadlock = parse_mark(value),
            _ => {}
        }
        // A number that no type can represent is kept as text, as it is written.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        self.fields.insert(key.to_owned(), value);
    }
}

/// Replaces numbers that JSON does not have by `null`, outside of strings. `None`: the text has no such numbers.
fn without_infinities(text: &str) -> Option<String> {
    const THEIRS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !THEIRS.iter().any(|number| text.contains(number)) {
        return None;
    }
    let mut in_string = false;
    let part = |part: &str| {
        let is_escaped = part.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
        let was_in_string = in_string;
        in_string = !was_in_string || is_escaped;
        match was_in_string {
            true => part.to_owned(),
            false => THEIRS
                .iter()
                .fold(part.to_owned(), |text, number| text.replace(number, "null")),
        }
    };
    Some(text.split('"').map(part).collect::<Vec<_>>().join("\""))
}

fn string(value: &str) -> Option<String> {
    Some(value)
        .filter(|value| JsonKind::of(value) == JsonKind::String)
        .and_then(|value| unquoted(value).ok())
        .map(Into::into)
}

fn process(value: &str) -> Option<i64> {
    value.parse().ok().filter(|pid| *pid > 0)
}
