//! The id of a record.

use std::borrow::Cow;
use std::fmt;

use crate::escape::escaped;

/// The id of a record: a text that is not empty, or an integer. `1` and `"1"` are two ids.
///
/// Texts come before integers, each by its bytes. `Display` is for people: control characters, line separators and
/// marks of writing direction are escaped, and it is cut at 200 characters.
///
/// ```
/// use beadlock_records::Id;
///
/// assert_eq!(Id::text("bd-7").to_string(), "bd-7");
/// assert!(Id::text("7") < Id::integer(7));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub(crate) is_integer: bool,
    pub(crate) bytes: Box<[u8]>,
}

impl Id {
    /// The id that a text is.
    pub fn text(text: &str) -> Self {
        Self {
            is_integer: false,
            bytes: text.as_bytes().into(),
        }
    }

    /// The id that an integer is.
    pub fn integer(number: i64) -> Self {
        Self {
            is_integer: true,
            bytes: number.to_string().into_bytes().into(),
        }
    }

    /// The text, decoded, in UTF-8 (half of a surrogate pair as three bytes); or the digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True for an integer.
    pub fn is_integer(&self) -> bool {
        self.is_integer
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(&self.bytes).fmt(f)
    }
}

/// An id as a line of a file has it: borrowed where nothing is escaped in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId<'a> {
    pub is_integer: bool,
    pub bytes: Cow<'a, [u8]>,
}

impl LineId<'_> {
    pub fn to_id(&self) -> Id {
        Id {
            is_integer: self.is_integer,
            bytes: self.bytes.as_ref().into(),
        }
    }
}

impl<'a> From<&'a Id> for LineId<'a> {
    fn from(id: &'a Id) -> Self {
        Self {
            is_integer: id.is_integer,
            bytes: Cow::Borrowed(&id.bytes),
        }
    }
}
