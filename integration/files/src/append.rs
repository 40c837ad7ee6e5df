//! Whole lines at the end of a file: read and checked before the lock, added under it with one write, and synced. Where
//! there is no room for all of them, none of them stays.
//!
//! # Limits
//! A kill in the middle of the one write may cut it, for the kernel copies by the page and looks for a kill in between.
//! The next append finds that the last line has no end, says so, and keeps it apart: it is never merged with another.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::{fmt, fs::File, os::unix::fs::FileExt};

use beadlock_base::escape::escaped_path;
use nix::sys::stat::FileStat;

use super::error::{Error, Remains};
use super::{backups, entry::Beside, entry::NamedFile, json::Check, json::Spilled, write::tidy};
use crate::WriteLock;
use beadlock_base::words::counted;

const LIMIT: u64 = 1 << 30;

/// Whole lines that were read and checked, to be added to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeLines {
    bytes: Vec<u8>,
    count: u64,
}

impl WholeLines {
    /// Reads all of `from`, called `source` in messages, before any lock. A last line without an end gets one.
    pub fn read(
        from: impl Read,
        source: &str,
        path: &Path,
        check: &Check<'_>,
    ) -> Result<Self, Error> {
        let mut bytes = Vec::new();
        let read = from
            .take(LIMIT + 1)
            .read_to_end(&mut bytes)
            .map_err(Spilled::Read);
        let checked = read.and_then(|length| match length as u64 > LIMIT {
            true => Err(Spilled::Invalid(
                "longer than 1 GiB, which one write cannot be".to_owned(),
            )),
            false => check.whole_lines(&mut bytes),
        });
        let count = checked.map_err(|spilled| spilled.error(path, source))?;
        Ok(Self { bytes, count })
    }
}

/// A last line that has no end: its writer was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
}

/// Lines that have been added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The file, where symbolic links have led to.
    pub path: PathBuf,
    /// How many lines were added.
    pub lines: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// Where in the file the first of them begins, in bytes.
    pub offset: u64,
    /// There was no such file before.
    pub created: bool,
    /// The last line before them had no end, and got one.
    pub torn: Option<Torn>,
}

impl fmt::Display for Torn {
    /// `the last line (34 bytes from 1024) had no end: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, length } = self;
        write!(
            f,
            "the last line, {length} bytes from offset {offset}, had no end: whoever wrote it was cut off; "
        )?;
        f.write_str("it is kept, and the new lines begin after it")
    }
}

impl fmt::Display for Appended {
    /// `added 2 lines to PATH (57 bytes at 1024)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            lines,
            bytes,
            offset,
            ..
        } = self;
        let (lines, path) = (counted(*lines, "line", "lines"), escaped_path(path));
        write!(f, "added {lines} to {path} ({bytes} bytes at {offset})")
    }
}

/// Adds the lines to the file of `entry`. Only under its lock. On an error the file is as it was, or the words say so.
pub fn append(
    entry: &NamedFile,
    lock: &impl WriteLock,
    lines: &WholeLines,
) -> Result<Appended, Error> {
    tidy(entry, backups::DEFAULT)?;
    lock.guards(entry)?;
    let (path, count, length) = (
        entry.path().to_owned(),
        lines.count,
        lines.bytes.len() as u64,
    );
    if lines.bytes.is_empty() {
        let offset = entry.look(Beside::Itself)?.as_ref().map_or(0, size);
        return Ok(Appended {
            path,
            lines: 0,
            bytes: 0,
            offset,
            created: false,
            torn: None,
        });
    }
    let (file, created) = entry.open_to_append()?;
    let before = size(&entry.stat(&file)?);
    let torn =
        torn_end(&file, before).map_err(|error| entry.failed("read", Beside::Itself, error))?;
    let added = match torn {
        Some(_) => add(&file, &[b"\n", lines.bytes.as_slice()].concat()),
        None => add(&file, &lines.bytes),
    };
    added.map_err(|short| short.undone(entry, &file, before, created))?;
    if created {
        entry
            .sync()
            .map_err(|error| entry.failed("sync the directory of", Beside::Itself, error))?;
    }
    let offset = before + u64::from(torn.is_some());
    Ok(Appended {
        path,
        lines: count,
        bytes: length,
        offset,
        created,
        torn,
    })
}

fn size(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

struct Short {
    added: usize,
    error: io::Error,
}

/// In one write, and on the disk. After a short write the rest is tried, to hear why it was short.
fn add(mut file: &File, bytes: &[u8]) -> Result<(), Short> {
    let mut added = 0;
    while let Some(rest) = bytes.get(added..).filter(|rest| !rest.is_empty()) {
        match file.write(rest) {
            Ok(0) => {
                return Err(Short {
                    added,
                    error: io::ErrorKind::WriteZero.into(),
                });
            }
            Ok(count) => added += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Short { added, error }),
        }
    }
    file.sync_data().map_err(|error| Short { added, error })
}

fn torn_end(file: &File, size: u64) -> io::Result<Option<Torn>> {
    let (mut piece, mut end) = (Vec::new(), size);
    while end > 0 {
        // The last byte alone tells it mostly.
        let length = if end == size { 1 } else { end.min(64 * 1024) };
        piece.resize(length as usize, 0);
        file.read_exact_at(&mut piece, end - length)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            let offset = end - length + at as u64 + 1;
            return Ok((offset < size).then_some(Torn {
                offset,
                length: size - offset,
            }));
        }
        end -= length;
    }
    Ok((size > 0).then_some(Torn {
        offset: 0,
        length: size,
    }))
}

impl Short {
    /// Cuts off again what was added of the lines, and says why.
    fn undone(self, entry: &NamedFile, file: &File, before: u64, created: bool) -> Error {
        let is_ours_alone = entry
            .stat(file)
            .is_ok_and(|now| size(&now) == before + self.added as u64);
        let remains = if !is_ours_alone {
            Remains::Part { added: self.added }
        } else if let Err(why) = file.set_len(before) {
            Remains::NotCut { size: before, why }
        } else if created && entry.remove(Beside::Itself).is_ok() {
            Remains::NoFile
        } else {
            Remains::AsItWas
        };
        Error::NotAdded {
            path: entry.path().to_owned(),
            source: self.error,
            remains,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Format;
    use super::*;
    use std::fs;

    const LINES: Check<'_> = Check {
        format: Format::JsonLines,
        schema: None,
    };

    fn lines(text: &str) -> WholeLines {
        WholeLines::read(text.as_bytes(), "the lines", Path::new("x"), &LINES).unwrap()
    }

    /// A lock that always protects the file.
    struct Unshared;

    impl WriteLock for Unshared {
        fn guards(&self, _: &NamedFile) -> Result<(), Error> {
            Ok(())
        }
    }

    struct Log {
        _dir: tempfile::TempDir,
        entry: NamedFile,
    }

    impl Log {
        fn append(&self, text: &str) -> Appended {
            append(&self.entry, &Unshared, &lines(text)).unwrap()
        }
    }

    fn log(text: &str) -> Log {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        fs::write(&path, text).unwrap();
        let entry = NamedFile::open(&path).unwrap();
        Log { _dir: dir, entry }
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn lines_come_after_lines() {
        let log = log("1\n");
        let added = log.append("2\n{\"three\":3}");
        assert_eq!(text(log.entry.path()), "1\n2\n{\"three\":3}\n");
        assert_eq!(
            (added.lines, added.bytes, added.offset, added.torn),
            (2, 14, 2, None)
        );
        assert!(!added.created);
    }

    #[test]
    fn a_torn_line_is_kept_apart_and_told() {
        let long = "x".repeat(200_000);
        for (before, offset) in [
            ("1\n{\"half", 2),
            ("half", 0),
            (&format!("1\n22\n{long}"), 5),
            ("1\n\0\0", 2),
        ] {
            let log = log(before);
            let added = log.append("3\n");
            let length = before.len() as u64 - offset;
            assert_eq!(added.torn, Some(Torn { offset, length }));
            assert_eq!(added.offset, before.len() as u64 + 1);
            assert_eq!(text(log.entry.path()), format!("{before}\n3\n"));
            assert_eq!(log.append("4\n").torn, None, "said once");
        }
    }

    #[test]
    fn no_lines_at_all_change_nothing() {
        let log = log("1\n");
        let added = log.append("");
        assert_eq!(
            (added.lines, added.bytes, text(log.entry.path()).as_str()),
            (0, 0, "1\n")
        );
    }
}
