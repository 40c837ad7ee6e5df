//! The text of the configuration file, where in it a mistake is, and why there are no settings.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::regular::{self, Links, NotRead};
use beadlock_core::database::{NoDatabase, Program};

/// No configuration is longer, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Why there are no settings. `Display` is the message, and for a mistake in the file two more lines that show its place.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigFailure {
    /// The exit code: 2 when the command line or the file is wrong, else 1.
    pub code: u8,
    /// One line: what is wrong, where, and what to do.
    pub message: String,
    excerpt: String,
}

impl ConfigFailure {
    pub(crate) fn new(code: u8, message: String) -> Self {
        Self {
            code,
            message,
            excerpt: String::new(),
        }
    }
}

impl From<NoDatabase> for ConfigFailure {
    fn from(error: NoDatabase) -> Self {
        Self::new(error.exit_code(), error.shown(Program::Agent))
    }
}

impl std::error::Error for ConfigFailure {}

impl fmt::Display for ConfigFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.message, self.excerpt)
    }
}

/// A file that was read, with its name for messages.
#[derive(Debug, Default)]
pub(super) struct ConfigPage {
    name: String,
    pub(super) text: String,
}

impl ConfigPage {
    /// Reads a regular file of at most 1 MiB; never waits for one of another kind.
    ///
    /// # Errors
    /// 1 when it cannot be read; 2 when it is too long or not UTF-8.
    pub(super) fn read(cwd: &Path, path: &Path) -> Result<Self, ConfigFailure> {
        let name = escaped_path(path);
        let read = regular::read(&cwd.join(path), Links::Followed, LARGEST);
        let bytes = read.map_err(|why| match why {
            NotRead::TooLarge(_) => {
                ConfigFailure::new(2, format!("{name} is longer than 1 MiB; name a TOML file"))
            }
            why => ConfigFailure::new(1, format!("cannot read {name}: {why}; name a TOML file")),
        })?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { name, text }),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Err(Self { name, text }.wrong(2, &(valid..valid), "not UTF-8; save it as UTF-8"))
            }
        }
    }

    /// The line of a place in the text, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.text
            .bytes()
            .take(at)
            .filter(|byte| *byte == b'\n')
            .count()
            + 1
    }

    /// A mistake at a place: file, line, column (in characters, from 1) and what is wrong; then the line itself.
    pub(super) fn wrong(&self, code: u8, at: &Range<usize>, what: &str) -> ConfigFailure {
        let mut start = at.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let (before, after) = self.text.split_at(start);
        let (before, line) = (
            before.rsplit('\n').next().unwrap_or_default(),
            self.line(start),
        );
        let after = after.lines().next().unwrap_or_default();
        let column = before.chars().count() + 1;
        // Escaped first, so that the mark stands below its place. A long line is cut on both sides.
        let near: String = before.chars().skip(column.saturating_sub(80)).collect();
        let near = escaped(&near).to_string();
        let rest: String = escaped(after).to_string().chars().take(80).collect();
        let (number, blank) = (line.to_string(), " ".repeat(near.chars().count()));
        let excerpt = format!(
            "\n  {number} | {near}{rest}\n  {:1$} | {blank}^",
            "",
            number.len()
        );
        let message = format!(
            "{}:{line}:{column}: {}",
            self.name,
            escaped_path(Path::new(what))
        );
        ConfigFailure {
            code,
            message,
            excerpt,
        }
    }

    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Self {
            name: "conf.toml".to_owned(),
            text: text.to_owned(),
        }
    }
}
