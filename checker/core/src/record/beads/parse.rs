//! Reading a record as Go's `encoding/json` does, because Go tools write these files (docs/design.md#reading).
//!
//! Keys may have any case. The last duplicate wins, `null` keeps the earlier value, and unknown keys may have any
//! value. Invalid UTF-8 reads as U+FFFD. The nesting ends at 128 levels, where Go's limit is higher.

use super::super::json::{JsonKind, foreign_encoding, malformed, object, shown, text, unquoted};
use super::{BeadlockKey, Record, Rejected, StartedAt};

impl Record {
    /// Reads and validates the record in the bytes of a lock file.
    ///
    /// Errors: [`Rejected::Malformed`] if the bytes are not a JSON object, or a known key has another type in any of
    /// its occurrences. Else those of [`Record::validate`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Rejected> {
        foreign_encoding(bytes)?;
        let text = text(bytes);
        let mut record = Self {
            holder: String::new(),
            pid: 0,
            hostname: String::new(),
            started_at: StartedAt::NEVER,
            version: String::new(),
            beadlock: None,
        };
        object(&text, |key, value| record.set(key, value))?;
        record.validate()?;
        Ok(record)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Rejected> {
        if key == "beadlock" {
            self.beadlock = mark(value);
            return Ok(());
        }
        let Some(field) = field(key) else {
            return Ok(());
        };
        match (field, JsonKind::of(value)) {
            (_, JsonKind::Null) => {}
            ("holder", JsonKind::String) => self.holder = unquoted(value)?.into_owned(),
            ("hostname", JsonKind::String) => self.hostname = unquoted(value)?.into_owned(),
            ("version", JsonKind::String) => self.version = unquoted(value)?.into_owned(),
            ("pid", JsonKind::Number) => {
                let no_integer =
                    |_| malformed(format!("pid must be an integer, not {}", shown(value)));
                self.pid = value.parse().map_err(no_integer)?;
            }
            ("started_at", JsonKind::String) => {
                let literal = value.get(1..value.len() - 1).unwrap_or_default();
                let no_time = || {
                    malformed(format!(
                        "started_at must be an RFC 3339 time, not {}",
                        shown(value)
                    ))
                };
                self.started_at = StartedAt::parse(literal).ok_or_else(no_time)?;
            }
            ("pid", kind) => return Err(malformed(format!("pid must be an integer, not {kind}"))),
            (field, kind) => {
                return Err(malformed(format!("{field} must be a string, not {kind}")));
            }
        }
        Ok(())
    }
}

/// Field of the document that a key names. Go compares keys by simple case folding, which takes two characters beyond
/// ASCII for `s` and `k`.
fn field(key: &str) -> Option<&'static str> {
    const FIELDS: [&str; 5] = ["holder", "pid", "hostname", "started_at", "version"];
    let folded = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    FIELDS
        .into_iter()
        .find(|field| key.chars().map(folded).eq(field.chars()))
}

/// True for a key that hardly any file but a lock has: every field but `version`, and `beadlock`.
pub(super) fn is_field(key: &str) -> bool {
    key == "beadlock" || field(key).is_some_and(|field| field != "version")
}

/// Reads the key `beadlock`. `None`: it has another form, which is not an error, since by default a mark only makes a
/// check more careful (docs/design.md#the-record).
pub(in crate::record) fn mark(value: &str) -> Option<BeadlockKey> {
    let mark: BeadlockKey = serde_json::from_str(value)
        .ok()
        .filter(|_| matches!(JsonKind::of(value), JsonKind::Object))?;
    Some(mark).filter(|mark| !mark.id.is_empty())
}

#[cfg(test)]
mod tests;
