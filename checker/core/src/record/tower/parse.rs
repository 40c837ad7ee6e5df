//! Reading a record: twelve fields with the document's names and types, checked one by one (section 12.2 in
//! docs/protocols/tower.md). Keys are compared exactly. The last duplicate wins, as in `jq`. Unknown keys may have any
//! value.

use serde_json::{Map, Value};

use super::super::json::{JsonKind, foreign_encoding, malformed, object, shown, unquoted};
use super::{LockName, Record, Rejected, StartedAt, VERSION, request_id_is_fit};
use beadlock_base::escape::escaped;

/// Fields of the document, in its order.
const FIELDS: [&str; 12] = [
    "lock_version",
    "lock_name",
    "request_id",
    "actor",
    "intent",
    "intent_version",
    "host_id",
    "pid",
    "created_at",
    "last_heartbeat_at",
    "ttl_seconds",
    "metadata",
];

impl Record {
    /// Reads the record in the bytes of the lock file `NAME.lock`, and checks every field.
    ///
    /// Errors: [`Rejected::Malformed`] if the bytes are not a JSON object, or a known key has another type.
    /// [`Rejected::Invalid`] if a field is missing, or has a value that is not allowed.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Self, Rejected> {
        foreign_encoding(bytes)?;
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("not UTF-8"))?;
        let mut found = RawFields {
            known: [None; FIELDS.len()],
            others: Map::new(),
        };
        object(text, |key, value| found.set(key, value))?;
        let lock_version = found.string("lock_version")?;
        if lock_version != VERSION {
            return Err(invalid(format!(
                "lock_version must be {VERSION} (got {})",
                shown(&lock_version)
            )));
        }
        let lock_name = found.string("lock_name")?;
        if lock_name != name {
            return Err(invalid(format!(
                "lock_name must be {} (got {})",
                escaped(name),
                shown(&lock_name)
            )));
        }
        let lock_name = LockName::parse(&lock_name).map_err(invalid)?;
        let request_id = found.string("request_id")?;
        if !request_id_is_fit(&request_id) {
            let rule = "request_id must be 1 to 128 characters of A-Z, a-z, 0-9, '.', '_' and '-'";
            return Err(invalid(format!("{rule} (got {})", shown(&request_id))));
        }
        Ok(Self {
            lock_name,
            request_id,
            actor: found.string("actor")?,
            intent: found.string("intent")?,
            intent_version: found.string("intent_version")?,
            host_id: found.string("host_id")?,
            pid: found.positive("pid")?,
            created_at: found.time("created_at")?,
            last_heartbeat_at: found.time("last_heartbeat_at")?,
            ttl_seconds: found.positive("ttl_seconds")?.unsigned_abs(),
            metadata: found.metadata()?,
            others: found.others,
        })
    }
}

/// Fields of a record that is being read. Those of the document are not decoded yet.
struct RawFields<'t> {
    known: [Option<&'t str>; FIELDS.len()],
    others: Map<String, Value>,
}

impl<'t> RawFields<'t> {
    fn set(&mut self, key: &str, value: &'t str) -> Result<(), Rejected> {
        match FIELDS.iter().position(|field| *field == key) {
            Some(at) => self.known[at] = Some(value),
            None => {
                // A number that no type can represent is kept as text, as it is written.
                let value =
                    serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
                self.others.insert(key.to_owned(), value);
            }
        }
        Ok(())
    }

    fn optional(&self, name: &str) -> Option<&'t str> {
        FIELDS
            .iter()
            .zip(self.known)
            .find(|(field, _)| **field == name)?
            .1
    }

    fn required(&self, name: &str) -> Result<&'t str, Rejected> {
        self.optional(name)
            .ok_or_else(|| invalid(format!("{name} must be set")))
    }

    fn string(&self, name: &str) -> Result<String, Rejected> {
        let value = self.required(name)?;
        match JsonKind::of(value) {
            JsonKind::String => Ok(unquoted(value)?.into_owned()),
            kind => Err(malformed(format!("{name} must be a string, not {kind}"))),
        }
    }

    fn positive(&self, name: &str) -> Result<i64, Rejected> {
        let value = self.required(name)?;
        let no_integer = |what: String| malformed(format!("{name} must be an integer, not {what}"));
        let number: i64 = match JsonKind::of(value) {
            JsonKind::Number => value.parse().map_err(|_| no_integer(shown(value)))?,
            kind => return Err(no_integer(kind.to_string())),
        };
        if number > 0 {
            Ok(number)
        } else {
            Err(invalid(format!("{name} must be positive (got {number})")))
        }
    }

    fn time(&self, name: &str) -> Result<StartedAt, Rejected> {
        let value = self.string(name)?;
        let no_time = || {
            invalid(format!(
                "{name} must be an ISO 8601 time in UTC (got {})",
                shown(&value)
            ))
        };
        StartedAt::parse(&value).ok_or_else(no_time)
    }

    fn metadata(&self) -> Result<Option<Map<String, Value>>, Rejected> {
        let Some(value) = self.optional("metadata") else {
            return Ok(None);
        };
        match JsonKind::of(value) {
            JsonKind::Null => Ok(None),
            JsonKind::Object => {
                let object = serde_json::from_str(value);
                object
                    .map(Some)
                    .map_err(|error| malformed(format!("metadata cannot be read: {error}")))
            }
            kind => Err(malformed(format!("metadata must be an object, not {kind}"))),
        }
    }
}

fn invalid(words: String) -> Rejected {
    Rejected::Invalid(words)
}

#[cfg(test)]
mod tests;
