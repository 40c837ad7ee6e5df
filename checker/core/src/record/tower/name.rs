//! [`LockName`]: 1 to 128 characters of `[a-z0-9_-]`, without `-` or `_` at either end (section 2.2 in
//! docs/protocols/tower.md). Such a name cannot lead out of the lock directory, or be that of a side file.

use std::fmt;

use serde::Serialize;

use beadlock_base::escape::escaped;

/// Length of the longest name, in characters.
const LIMIT: usize = 128;

/// Name of a named lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct LockName(Box<str>);

impl LockName {
    /// Checks a name. The error is a sentence with the rule that the text breaks, and the offending character.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_edge = |c: &char| matches!(c, '-' | '_');
        let is_known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || is_edge(&c);
        if let Some(unknown) = text.chars().find(|c| !is_known(*c)) {
            let unknown = unknown.to_string();
            return Err(format!(
                "a lock's name has only a-z, 0-9, '_' and '-', not '{}'",
                escaped(&unknown)
            ));
        }
        // All characters are ASCII here, so the number of bytes is that of characters.
        let length = text.len();
        match (text.chars().next(), text.chars().next_back()) {
            (None, _) => Err("a lock's name must not be empty".to_owned()),
            _ if length > LIMIT => Err(format!(
                "a lock's name has at most {LIMIT} characters, this one has {length}"
            )),
            (Some(first), _) if is_edge(&first) => {
                Err(format!("a lock's name must not start with '{first}'"))
            }
            (_, Some(last)) if is_edge(&last) => {
                Err(format!("a lock's name must not end with '{last}'"))
            }
            _ => Ok(Self(text.into())),
        }
    }

    /// Name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_may_be() {
        let longest = "x".repeat(128);
        for name in [
            "a",
            "0",
            "money-tracker-production",
            "a_b",
            "a--_b",
            &longest,
        ] {
            assert_eq!(LockName::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn the_offending_character_is_named() {
        let long = "x".repeat(129);
        let rows = [
            ("", "must not be empty"),
            (long.as_str(), "at most 128 characters, this one has 129"),
            ("A", "not 'A'"),
            ("a b", "not ' '"),
            ("../a", "not '.'"),
            ("a/b", "not '/'"),
            ("a.lock", "not '.'"),
            ("é", "not 'é'"),
            ("a\nb", "not '\\n'"),
            ("a\0", "not '\\u{0}'"),
            ("-a", "start with '-'"),
            ("_a", "start with '_'"),
            ("a-", "end with '-'"),
            ("a_", "end with '_'"),
            ("-", "start with '-'"),
        ];
        for (name, expected) in rows {
            let words = LockName::parse(name).unwrap_err().to_string();
            assert!(words.ends_with(expected), "{name:?}: {words}");
        }
    }
}
