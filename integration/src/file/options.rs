//! What `hold` and `acquire` take for a file, and what they do not: whoever types an option believes that it does
//! something.

use clap::Args;

use crate::error::Error;
use beadlock_checker::internal::dialect::file::Mode;

/// Where `--help` puts them.
pub const HEADING: &str = "Files (file:PATH)";

/// Why `--reap-proven-dead` does nothing for a file.
pub const NOTHING_TO_REAP: &str = "an flock ends with its process: none is ever left behind";

/// What a claim of a file takes besides.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct Typed {
    /// Share the file with others who do, and keep out who wants it alone: for readers
    #[arg(long, help_heading = HEADING)]
    pub shared: bool,
}

impl Typed {
    /// How the file is to be locked.
    pub fn mode(&self) -> Mode {
        if self.shared { Mode::Shared } else { Mode::Exclusive }
    }

    /// With a target of another kind.
    ///
    /// # Errors
    /// Exit 2 for an option of these.
    pub fn refuse(&self) -> Result<(), Error> {
        if self.shared {
            Err(Error::usage("--shared is for files (file:PATH): other locks have one holder"))
        } else {
            Ok(())
        }
    }
}

/// An option that does nothing for a file, and why.
pub fn means_nothing(option: &str, why: &str) -> Error {
    Error::usage(format!("{option} means nothing to a file (file:PATH); {why}"))
}
