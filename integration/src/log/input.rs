//! Which files are read, in which order, and how: line by line, with bounded memory, whatever is in them.
//!
//! A log that is named is read with its older files beside it, the oldest first: `FILE.3`, `FILE.2`, `FILE.1` as the
//! agent numbers them, and `NAME-TIME.log` as the original daemon calls them. An older one that is named itself is
//! read alone.

mod older;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::system_words;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::error::{Code, Error};
use crate::words::{Part, to_type};
use older::{numbered, older};

/// A line is read up to here; what follows is left out.
const LONGEST_LINE: usize = 64 * 1024;

/// One read of a file; also how much of its beginning is looked at to tell who writes it.
const CHUNK: usize = 256 * 1024;

/// A log: one stream of lines out of one or more files.
#[derive(Debug)]
pub struct Source {
    /// As it was named; `None` is standard input.
    pub path: Option<PathBuf>,
    /// The files, oldest first; empty is standard input.
    files: Vec<Opened>,
    /// Older files beside it that are compressed, and so not read.
    pub compressed: Vec<PathBuf>,
}

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    file: File,
    inode: (u64, u64),
}

impl Source {
    /// Standard input.
    pub fn standard_input() -> Self {
        Self { path: None, files: Vec::new(), compressed: Vec::new() }
    }

    /// The logs that `names` mean, in their order: those of one family are one log, each file once.
    pub fn named(names: &[OsString]) -> Vec<Result<Self, Error>> {
        let mut families: Vec<(PathBuf, BTreeMap<u32, PathBuf>)> = Vec::new();
        for name in names {
            let path = PathBuf::from(name);
            let (base, number) = numbered(&path);
            let at = families.iter().position(|(of, _)| *of == base).unwrap_or_else(|| {
                families.push((base, BTreeMap::new()));
                families.len() - 1
            });
            families[at].1.entry(number).or_insert(path);
        }
        families.into_iter().map(|(base, members)| Self::family(&base, &members)).collect()
    }

    fn family(base: &Path, members: &BTreeMap<u32, PathBuf>) -> Result<Self, Error> {
        match members.get(&0) {
            Some(_) if base == Path::new("-") => Ok(Self::standard_input()),
            Some(path) => Self::with_older(path),
            None => {
                // Highest number first: the oldest.
                let files = members.values().rev().map(|path| Opened::open(path));
                let newest = members.values().next().cloned();
                Ok(Self { path: newest, files: files.collect::<Result<_, _>>()?, compressed: Vec::new() })
            }
        }
    }

    /// The log at `path` and what was rotated out of it.
    ///
    /// # Errors
    /// When there is neither, or the current one cannot be read.
    pub fn with_older(path: &Path) -> Result<Self, Error> {
        // The current one first, then ever older: whatever is rotated meanwhile is met twice, and never missed.
        let current = match Opened::open(path) {
            Err(error) if error.code() == Code::NoTarget => Err(error),
            opened => Ok(opened?),
        };
        let is_log =
            current.as_ref().map_or(true, |opened| opened.file.metadata().is_ok_and(|meta| meta.is_file()));
        let (older, compressed) = if is_log { older(path) } else { Default::default() };
        let mut files: Vec<Opened> = Vec::new();
        let missing = match current {
            Ok(opened) => {
                files.push(opened);
                None
            }
            Err(error) => Some(error),
        };
        for path in older {
            let Ok(opened) = Opened::open(&path) else { continue };
            let is_file = opened.file.metadata().is_ok_and(|meta| meta.is_file());
            if is_file && files.iter().all(|file| file.inode != opened.inode) {
                files.push(opened);
            }
        }
        if let Some(error) = missing.filter(|_| files.is_empty()) {
            return Err(error);
        }
        files.reverse();
        Ok(Self { path: Some(path.to_owned()), files, compressed })
    }

    /// How it is called in the report.
    pub fn name(&self) -> String {
        self.path.as_deref().map_or_else(|| "standard input".to_owned(), escaped_path)
    }

    /// The files that it is read from, oldest first.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.iter().map(|opened| opened.path.clone()).collect()
    }

    /// Hands over every line, without its end, the oldest first; before each file its beginning.
    ///
    /// # Errors
    /// The first file that cannot be read to its end; what came before it has been handed over.
    pub fn read(self, mut hear: impl FnMut(Heard<'_>)) -> Result<(), Error> {
        if self.path.is_none() {
            let stdin = io::stdin().lock();
            return lines(stdin, None, &mut hear)
                .map_err(|error| failed(Path::new("standard input"), &error));
        }
        for Opened { path, file, .. } in self.files {
            lines(file, Some(&path), &mut hear).map_err(|error| failed(&path, &error))?;
        }
        Ok(())
    }
}

/// What is read.
#[derive(Debug, PartialEq)]
pub enum Heard<'a> {
    /// A file begins, so.
    Beginning(&'a [u8]),
    /// A line without its end; `is_cut` when it was longer than anybody writes.
    Line { bytes: &'a [u8], is_cut: bool },
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let message = format!("failed to read {}: {}", escaped_path(path), system_words(error));
    Error::io(message, error.kind())
}

fn lines(input: impl Read, path: Option<&Path>, hear: &mut impl FnMut(Heard<'_>)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(CHUNK, input);
    let head = retried(|| reader.fill_buf().map(<[u8]>::to_vec))?;
    if let Some(tool) = unpacks(&head) {
        let tool = Part::Word(tool.as_ref());
        let command = match path {
            Some(path) => to_type("{} {} | beadlock log -", &[tool, Part::Path(path)]),
            None => to_type("{} … | beadlock log -", &[tool]),
        };
        return Err(io::Error::other(format!("it is compressed; type: {command}")));
    }
    hear(Heard::Beginning(&head));
    let mut line = Vec::with_capacity(256);
    loop {
        line.clear();
        let limit = LONGEST_LINE as u64;
        if reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // A log that was truncated under its writer begins with as many zeros as it had bytes.
        while line.len() == LONGEST_LINE && line.iter().all(|byte| *byte == 0) {
            line.clear();
            reader.by_ref().take(limit).read_until(b'\n', &mut line)?;
        }
        let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
        let is_cut = !is_whole && line.len() == LONGEST_LINE && reader.skip_until(b'\n')? > 1;
        hear(Heard::Line { bytes: &line, is_cut });
    }
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// What unpacks a file that begins so, when it is compressed.
fn unpacks(head: &[u8]) -> Option<&'static str> {
    let magic: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
        (b"\xfd7zXZ\0", "xzcat"),
        (b"BZh", "bzcat"),
    ];
    magic.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, tool)| *tool)
}

impl Opened {
    /// Opens what can be read as a log: a regular file, or a pipe. Links are followed: the user names it.
    fn open(path: &Path) -> Result<Self, Error> {
        let shown = escaped_path(path);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
            .open(path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::new(Code::NoTarget, format!("there is no {shown}")),
                kind => Error::io(format!("failed to open {shown}: {}", system_words(&error)), kind),
            })?;
        let meta = file.metadata().map_err(|error| failed(path, &error))?;
        let kind = meta.file_type();
        if kind.is_dir() {
            let meant = to_type("beadlock log {}", &[Part::Path(&path.join("daemon.log"))]);
            return Err(Error::new(Code::Io, format!("{shown} is a directory; name the log in it: {meant}")));
        }
        if !kind.is_file() && !kind.is_fifo() {
            return Err(Error::new(
                Code::Io,
                format!("{shown} is a device; name a log, or - for standard input"),
            ));
        }
        if kind.is_fifo() {
            // Whoever writes it may take its time.
            let flags = fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()));
            flags.map_err(|errno| failed(path, &errno.into()))?;
        }
        Ok(Self { path: path.to_owned(), file, inode: (meta.dev(), meta.ino()) })
    }
}

#[cfg(test)]
mod tests;
