//! The one way in which a file gets new content: all of it, or none.
//!
//! 1. The content is written to a stage that has no name, and checked on the way.
//! 2. With the lock held: what a crash has left is removed (`PATH.tmp`, `PATH.1.tmp`) or finished (`PATH.tmp1`); the
//!    stage gets mode, ACL and owner of the file, is synced, and gets the name `PATH.tmp`.
//! 3. The file gets a second name, `PATH.tmp1`.
//! 4. `PATH.tmp` is renamed over the file. Where that fails, `PATH.tmp1` is removed, and no backup has moved.
//! 5. The backups are moved by one, `PATH.tmp1` becomes `PATH.1`, and the directory is synced.
//!
//! Killed before 4, the file is as it was; after it, it is new, and the next operation moves the backups. Content that
//! is what it was before is written like any other.
//!
//! # Limits
//! The file is a new one each time. Of the old one it has mode, ACL and owner, and no other extended attribute. A
//! process that has the old one open, or another hard link to it, has the old content; a warning says so of links.

use std::path::{Path, PathBuf};
use std::{fmt, io::Read};

use beadlock_base::escape::escaped_path;

use super::error::{Error, Hint};
use super::{
    Schema, backups, entry::Beside, entry::NamedFile, json::Check, json::Format, stage::Stage,
};
use crate::WriteLock;
use beadlock_base::words::counted;

/// The name in messages for content that no command line has named.
pub const CONTENT: &str = "the content";

/// Rules of a write: how its content is checked, and how many backups are kept.
#[derive(Debug, Default)]
pub struct Rules {
    format: Option<Format>,
    schema: Option<Schema>,
    backups: Option<u32>,
}

impl Rules {
    /// Sets the format that the content must have; [`Format::of`] the file's name unless told otherwise.
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self {
            format: Some(format),
            ..self
        }
    }

    /// A schema that each value has to conform to. [`Format::Any`] is not checked by it. Needs the cargo feature
    /// `validate-schema`.
    #[cfg(feature = "validate-schema")]
    #[must_use]
    pub fn schema(self, schema: Schema) -> Self {
        self.conforming_to(schema)
    }

    /// Checks each value by `schema`. [`Format::Any`] is not checked by it.
    #[doc(hidden)]
    pub fn conforming_to(self, schema: Schema) -> Self {
        Self {
            schema: Some(schema),
            ..self
        }
    }

    /// How many backups are kept, 5 unless told otherwise; 0 makes none. Those that are there beyond it are left alone.
    #[must_use]
    pub fn backups(self, count: u32) -> Self {
        Self {
            backups: Some(count),
            ..self
        }
    }

    /// How many backups are kept.
    #[doc(hidden)]
    pub fn kept(&self) -> u32 {
        self.backups.unwrap_or(backups::DEFAULT)
    }

    /// The check for content of the file at `path`.
    #[doc(hidden)]
    pub fn check(&self, path: &Path) -> Check<'_> {
        let format = self.format.unwrap_or_else(|| Format::of(path));
        Check {
            format,
            schema: self.schema.as_ref(),
        }
    }
}

/// A write that has been done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The file, where symbolic links have led to.
    pub path: PathBuf,
    /// Size of the new content in bytes.
    pub bytes: u64,
    /// True when there was no such file before.
    pub created: bool,
    /// The newest backup, which has the old content; `None`: none was made.
    pub backup: Option<PathBuf>,
    /// Number of other hard links to the old file: they still have the old content.
    pub other_links: u64,
}

impl fmt::Display for Written {
    /// `wrote PATH (12 bytes; what it was before is in PATH.1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            bytes,
            created,
            backup,
            ..
        } = self;
        let verb = if *created { "created" } else { "wrote" };
        write!(
            f,
            "{verb} {} ({}",
            escaped_path(path),
            counted(*bytes, "byte", "bytes")
        )?;
        match backup {
            Some(backup) => write!(f, "; what it was before is in {})", escaped_path(backup)),
            None => f.write_str(")"),
        }
    }
}

/// The first step of an operation under the lock: removes what a crash has left, or makes it one of `count` backups.
pub fn tidy(entry: &NamedFile, count: u32) -> Result<(), Error> {
    entry.remove(Beside::Stage)?;
    entry.remove(Beside::Copy)?;
    backups::finish(entry, count)
}

/// New content on a stage, and how many bytes it has.
#[derive(Debug)]
#[must_use = "nothing is written before `commit`"]
pub struct StagedContent<'e> {
    stage: Stage<'e>,
    bytes: u64,
}

impl<'e> StagedContent<'e> {
    /// A draft of content that is on the stage already, checked and `bytes` long.
    pub fn of(stage: Stage<'e>, bytes: u64) -> Self {
        Self { stage, bytes }
    }

    /// Copies `from`, which is called `source` in what is said of it, to `stage`.
    pub fn fill(
        stage: Stage<'e>,
        from: impl Read,
        source: &str,
        check: &Check<'_>,
    ) -> Result<Self, Error> {
        match check.pour(from, stage.file()) {
            Ok(bytes) => Ok(Self { stage, bytes }),
            Err(spilled) => Err(spilled.error(stage.entry().path(), source)),
        }
    }

    /// Puts the content on the disk, with mode, ACL and owner of the file as it is. The commit looks again, so it needs
    /// no lock.
    pub fn prepare(mut self) -> Result<Self, Error> {
        self.stage
            .seal(self.stage.entry().look(Beside::Itself)?.as_ref())?;
        Ok(self)
    }

    /// Makes the draft the file. Only under its lock, after [`tidy`]. On an error the file is as it was, or the error
    /// says so.
    pub fn commit(self, lock: &impl WriteLock, rules: &Rules) -> Result<Written, Error> {
        let entry = self.stage.entry();
        // Without the lock others are at work here: that is why it failed then.
        self.place(entry, lock, rules)
            .map_err(|error| lock.guards(entry).err().unwrap_or(error))
    }

    fn place(
        mut self,
        entry: &NamedFile,
        lock: &impl WriteLock,
        rules: &Rules,
    ) -> Result<Written, Error> {
        let original = entry.look(Beside::Itself)?;
        self.stage.seal(original.as_ref())?;
        let stage = self.stage.name()?;
        lock.guards(entry)?;
        let kept = backups::keep(entry, original.as_ref(), rules.kept())?;
        stage.become_the_file()?;
        let written = Written {
            path: entry.path().to_owned(),
            bytes: self.bytes,
            created: original.is_none(),
            backup: kept.is_any().then(|| entry.path_of(Beside::Backup(1))),
            other_links: original.as_ref().map_or(0, |original| {
                other_links(original.st_nlink, kept.was_there())
            }),
        };
        let rotated = kept.rotate();
        entry.sync().map_err(|error| {
            let error = entry.failed("sync the directory of", Beside::Itself, error);
            error.with(Hint::MayBeUndone)
        })?;
        rotated.map(|()| written)
    }
}

/// How many of the hard links are neither the file's own name nor its newest backup. Their type differs by platform.
fn other_links(links: impl Into<u64>, has_backup: bool) -> u64 {
    links.into().saturating_sub(if has_backup { 2 } else { 1 })
}

/// Writes `from` to the file of `entry`. Only under its lock.
pub fn write(
    entry: &NamedFile,
    lock: &impl WriteLock,
    from: impl Read,
    rules: &Rules,
) -> Result<Written, Error> {
    tidy(entry, rules.kept())?;
    StagedContent::fill(
        Stage::new(entry)?,
        from,
        CONTENT,
        &rules.check(entry.path()),
    )?
    .commit(lock, rules)
}

/// All of the file's content; `None`: there is no file.
pub fn read(entry: &NamedFile) -> Result<Option<Vec<u8>>, Error> {
    let Some(mut file) = entry.read(Beside::Itself)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| entry.failed("read", Beside::Itself, error))?;
    Ok(Some(bytes))
}
