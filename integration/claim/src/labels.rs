//! Labels of a claim's holder beside the name: a version, and the address of its work.

use crate::error::Problem;
use beadlock_base::escape::escaped;
use beadlock_core::record::holder_name_is_fit;

use super::environment::Environment;
use crate::error::Error;
use crate::words::{LONGEST_ADDRESS, is_address};

/// Refuses a holder's name, with exit 2, that is not 1 to 128 printable characters.
pub fn check_holder(name: &str) -> Result<(), Error> {
    if holder_name_is_fit(name) {
        return Ok(());
    }
    let (shown, count) = (escaped(name), name.chars().count());
    Err(Error::usage(format!(
        "a holder's name is 1 to 128 printable characters; this one has {count}: \"{shown}\""
    )))
}

/// Labels for the record of a claim. Each may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The holder's version.
    pub version: Option<String>,
    /// The address of what the lock is held for, such as a CI run.
    pub about: Option<String>,
    /// True for a claim that `beadlock acquire` makes, which another command may end by its holder's name.
    pub acquired: bool,
}

impl Labels {
    /// The labels that were typed, each else as its variable says. An error has exit 2, and names the option or the
    /// variable.
    pub fn or_of(self, environment: &Environment) -> Result<Self, Error> {
        self.check()?;
        Ok(Self {
            version: environment.unless(self.version, "BEADLOCK_HOLDER_VERSION", version)?,
            about: environment.unless(self.about, "BEADLOCK_ABOUT", about)?,
            acquired: self.acquired,
        })
    }

    /// Refuses, with exit 2, what is not fit for a record.
    pub fn check(&self) -> Result<(), Error> {
        let fit = |text: Option<&String>, fit: fn(&str) -> Result<String, String>| {
            text.map_or(Ok(()), |text| fit(text).map(drop))
        };
        fit(self.version.as_ref(), version)
            .map_err(|why| Error::usage(format!("--holder-version: {why}")))?;
        fit(self.about.as_ref(), about).map_err(|why| Error::usage(format!("--about: {why}")))
    }
}

fn version(text: &str) -> Result<String, String> {
    if holder_name_is_fit(text) {
        return Ok(text.to_owned());
    }
    let (shown, count) = (escaped(text), text.chars().count());
    Err(format!(
        "a holder's version is 1 to 128 printable characters; this one has {count}: \"{shown}\""
    ))
}

fn about(text: &str) -> Result<String, String> {
    if is_address(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "wanted is an address of at most {LONGEST_ADDRESS} characters that begins with http:// or https:// and has \
         neither spaces nor a user's name in it, not \"{}\"",
        escaped(text)
    ))
}
