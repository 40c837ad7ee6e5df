//! Whether a file that cannot be understood may go: it may be somebody's data. On a terminal that is asked; where
//! nobody can be asked, only a lock goes.

use beadlock_checker::internal::{FileKind, Look, escape::escaped, escape::escaped_path, first_bytes};

use super::ask;
use crate::claim::{attendant::Attendant, attendant::Stopped, target::Target};
use crate::error::{Code, Error};
use crate::output::talk::Talk;
use crate::words::{kind_words, to_type};

/// How much of it is shown.
const SHOWN: usize = 200;

/// Who may say yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// It was typed beforehand.
    Given,
    /// Somebody on a terminal.
    Asked,
    /// Nobody.
    Missing,
}

impl Consent {
    /// With `--yes`, and where answers are not for a person.
    pub fn of(yes: bool, json: bool) -> Self {
        match (yes, ask::is_possible(json)) {
            (true, _) => Self::Given,
            (false, true) => Self::Asked,
            (false, false) => Self::Missing,
        }
    }

    /// That what was looked at may go.
    ///
    /// # Errors
    /// It may not, or a signal.
    pub fn to(self, look: &Look, target: &Target, talk: &Talk, attendant: &mut impl Attendant) -> Result<(), Stopped> {
        match self {
            Self::Given => Ok(()),
            Self::Missing if !target.protocol.may_be_data(look) => Ok(()),
            Self::Missing => Err(refused(look, target).into()),
            Self::Asked => {
                talk.ask(&shown(look, target));
                match ask::line("Type yes to move it out of the way: ", talk, attendant)?.as_deref() {
                    Some("yes" | "y" | "YES" | "Yes" | "Y") => Ok(()),
                    _ => Err(Error::new(Code::Io, "nobody said yes; it was not touched").into()),
                }
            }
        }
    }
}

/// What it is, and how it begins.
fn shown(look: &Look, target: &Target) -> String {
    let path = escaped_path(&target.path());
    let what = match target.protocol.not_a_lock(look, target) {
        Some(data) => data.words,
        None => format!("{path} cannot be understood: {}", escaped(&look.detail)),
    };
    let begin = match (look.on_disk, first_bytes(&target.place, SHOWN)) {
        (Some(there), _) if there.kind != FileKind::File => format!("it is {}", kind_words(there.kind)),
        (_, Err(why)) => format!("it cannot be shown: {}", escaped(&why)),
        (_, Ok(bytes)) if bytes.is_empty() => "it is empty".to_owned(),
        (there, Ok(bytes)) => {
            let size = there.map_or(bytes.len() as u64, |there| there.size);
            let text = String::from_utf8_lossy(&bytes);
            format!("its first {} of {size} bytes: {}", bytes.len(), escaped(&text))
        }
    };
    format!("{what}\n{begin}\n")
}

/// Without a question it stays.
fn refused(look: &Look, target: &Target) -> Error {
    let path = escaped_path(&target.path());
    let what = match target.protocol.not_a_lock(look, target) {
        Some(data) => data.words,
        None => format!("{path} is not a lock file ({}).", escaped(&look.detail)),
    };
    let message = format!(
        "{what} It was not touched; to move it out of the way all the same: {}",
        to_type("beadlock break {} --malformed --yes", &[target.part()])
    );
    Error::new(Code::LockUnreadable, message).detailed(format!("lock_file={path}"))
}
