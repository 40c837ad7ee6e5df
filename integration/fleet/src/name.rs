//! Names of databases in a fleet: what they look like, and how keys contain them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// The name of a database in its fleet: 1 to 200 of `[a-z0-9._/-]`, no empty part. In byte order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    const LONGEST: usize = 200;

    /// Reads a name. The error says what a name looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_fit =
            |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'/' | b'-');
        let is_name = text.len() <= Self::LONGEST
            && text.bytes().all(is_fit)
            && text.split('/').all(|part| !part.is_empty());
        if is_name {
            return Ok(Self(text.to_owned()));
        }
        let why = if text.len() > Self::LONGEST {
            "is too long"
        } else {
            "is not a name"
        };
        let shown = beadlock_base::escape::escaped(text);
        Err(format!(
            "\"{shown}\" {why}: 1 to 200 of a-z 0-9 . _ - and / between two parts, such as acme/tracker"
        ))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as one part of a key: `/` is written `:`, so that nothing of `acme/tracker` lies below `acme/`.
    pub(crate) fn in_key(&self) -> String {
        self.0.replace('/', ":")
    }

    /// The name that is written as this part of a key; `None`: no name is written so.
    pub(crate) fn of_key(part: &str) -> Option<Self> {
        (!part.contains('/'))
            .then(|| Self::parse(&part.replace(':', "/")).ok())
            .flatten()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_name_and_what_is_not() {
        for name in [
            "a",
            "acme/tracker",
            "a.b-c_d/0",
            &"x".repeat(200),
            "..",
            "a/./b",
        ] {
            let parsed = Name::parse(name).unwrap();
            assert_eq!(Name::of_key(&parsed.in_key()), Some(parsed), "{name}");
        }
        for name in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "A",
            "é",
            "a b",
            "a:b",
            "a\n",
            "a\0",
            &"x".repeat(201),
        ] {
            let why = Name::parse(name).unwrap_err();
            assert!(why.contains("acme/tracker") && why.len() < 400, "{why}");
        }
        assert_eq!(Name::of_key("a/b"), None);
    }

    /// Nothing of one database may lie below the keys of another.
    #[test]
    fn no_name_in_a_key_begins_another_with_a_slash() {
        let (short, long) = (
            Name::parse("acme").unwrap(),
            Name::parse("acme/tracker").unwrap(),
        );
        assert!(!long.in_key().starts_with(&format!("{}/", short.in_key())));
    }
}
