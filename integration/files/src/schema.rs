//! A JSON Schema that content is checked by, read from a file once, before any lock.

use std::{fmt, fs::File, io::Read, path::Path};

use beadlock_base::escape::{escaped, escaped_path};
use jsonschema::Validator;
use serde_json::Value;

use super::{Error, SchemaError};

const LIMIT: u64 = 16 << 20;

/// A JSON Schema for [`Rules::schema`](super::write::Rules::schema). Needs the cargo feature `validate-schema`.
pub struct Schema {
    name: String,
    validator: Validator,
}

impl Schema {
    /// Reads the schema in a file of at most 16 MiB, which may be a pipe, and is waited for then. What it refers to
    /// elsewhere is never fetched. Fails when the file cannot be read, or is not a schema.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = escaped_path(path);
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes));
        let read = read.map_err(|error| Error::io("read the schema", path, error))?;
        let no_schema = |why: &str| {
            let (name, why) = (name.to_string(), escaped(why).to_string());
            Error::Schema(SchemaError::NotOne { name, why })
        };
        if read as u64 > LIMIT {
            return Err(no_schema("it has more than 16 MiB"));
        }
        let schema: Value =
            serde_json::from_slice(&bytes).map_err(|error| no_schema(&error.to_string()))?;
        let validator =
            jsonschema::validator_for(&schema).map_err(|error| no_schema(&error.to_string()))?;
        Ok(Self { name, validator })
    }

    /// Whether the value conforms. The error says what does not, and where.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let Some(error) = self.validator.iter_errors(value).next() else {
            return Ok(());
        };
        let place = error.instance_path().to_string();
        let place = if place.is_empty() {
            "its top".to_owned()
        } else {
            escaped(&place).to_string()
        };
        Err(format!(
            "not what {} asks for: {} at {place}",
            self.name,
            escaped(&error.to_string())
        ))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
