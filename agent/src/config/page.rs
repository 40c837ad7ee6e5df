//! The text of a file, and where in it something is.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use beadlock_checker::internal::escape::{escaped, escaped_path};
use beadlock_checker::internal::system_words;
use nix::fcntl::OFlag;

use super::failure::Failure;

/// No configuration is longer.
const LARGEST: usize = 1024 * 1024;

/// A file that was read, and how it is called.
#[derive(Debug, Default)]
pub(super) struct Page {
    name: String,
    pub(super) text: String,
}

impl Page {
    /// Reads a regular file of at most 1 MiB; never waits for one that is something else.
    ///
    /// # Errors
    /// 1 when it cannot be read; 2 when it is too long or no UTF-8.
    pub(super) fn read(cwd: &Path, path: &Path) -> Result<Self, Failure> {
        let name = escaped_path(path);
        let unread = |why: &str| Failure::new(1, format!("cannot read {name}: {why}; name a TOML file"));
        let bytes = match read(&cwd.join(path)) {
            Ok(bytes) => bytes,
            Err(error) => return Err(unread(&system_words(&error))),
        };
        if bytes.len() > LARGEST {
            return Err(Failure::new(2, format!("{name} is longer than 1 MiB; name a TOML file")));
        }
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
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    /// A mistake at a place: file, line, column (in characters, from 1) and what is wrong; then the line itself.
    pub(super) fn wrong(&self, code: u8, at: &Range<usize>, what: &str) -> Failure {
        let mut start = at.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let (before, after) = self.text.split_at(start);
        let (before, line) = (before.rsplit('\n').next().unwrap_or_default(), self.line(start));
        let after = after.lines().next().unwrap_or_default();
        let column = before.chars().count() + 1;
        // Escaped, so that the mark stands below what it marks; and a long line is cut to what is near.
        let near: String = before.chars().skip(column.saturating_sub(80)).collect();
        let (near, rest) = (escaped(&near).to_string(), escaped(after).to_string());
        let rest: String = rest.chars().take(80).collect();
        let (number, blank) = (line.to_string(), " ".repeat(near.chars().count()));
        let mut excerpt = String::new();
        let _ = write!(excerpt, "\n  {number} | {near}{rest}\n  {:1$} | {blank}^", "", number.len());
        let message = format!("{}:{line}:{column}: {}", self.name, escaped_path(Path::new(what)));
        Failure::new(code, message).with_excerpt(excerpt)
    }

    #[cfg(test)]
    pub(super) fn of(text: &str) -> Self {
        Self { name: "conf.toml".to_owned(), text: text.to_owned() }
    }
}

/// A little more than there may be, when there is.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    if !kind.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
