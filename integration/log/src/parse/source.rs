//! The files of a log and their lines. Memory is bounded, whatever the files contain.
//!
//! A log is read with its older files beside it, the oldest first: `FILE.3`, `FILE.2`, `FILE.1` as the agent numbers
//! them, and `NAME-TIME.log` as the original daemon names them. An older file that is named itself is read alone.

use beadlock_claim::error::Problem;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use beadlock_base::error::system_words;
use beadlock_base::escape::escaped_path;
use beadlock_base::regular::CAREFULLY;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use beadlock_claim::error::{Code, Error};
use beadlock_claim::words::{Part, to_type};

/// A line is read up to here; the rest is left out.
const LONGEST_LINE: usize = 64 * 1024;

/// One read of a file. The first read also tells which daemon writes the file.
const CHUNK: usize = 256 * 1024;

/// One log: a stream of lines from standard input or from one or more files.
#[derive(Debug, Default)]
pub struct LogSource {
    /// The log as the user named it; `None` is standard input.
    pub path: Option<PathBuf>,
    /// Oldest first; empty for standard input.
    files: Vec<OpenedLog>,
    /// Older files that are compressed, and so not read.
    pub compressed: Vec<PathBuf>,
}

#[derive(Debug)]
struct OpenedLog {
    path: PathBuf,
    file: File,
    is_regular: bool,
    inode: (u64, u64),
}

/// A part of a log as it is read.
#[derive(Debug, PartialEq)]
pub enum LogBytes<'a> {
    /// A file begins with these bytes. They come again as lines.
    Head(&'a [u8]),
    /// A line without its end; `is_cut` when it was longer than [`LONGEST_LINE`].
    Line { bytes: &'a [u8], is_cut: bool },
}

impl LogSource {
    /// The logs that `names` mean, in their order. Names of one family are one log, each file once.
    pub fn named(names: &[OsString]) -> Vec<Result<Self, Error>> {
        let mut families: Vec<(PathBuf, BTreeMap<u32, PathBuf>)> = Vec::new();
        for name in names {
            let path = PathBuf::from(name);
            let (base, number) = numbered(&path);
            let at = families
                .iter()
                .position(|(of, _)| *of == base)
                .unwrap_or_else(|| {
                    families.push((base, BTreeMap::new()));
                    families.len() - 1
                });
            families[at].1.entry(number).or_insert(path);
        }
        families
            .into_iter()
            .map(|(base, members)| Self::family(&base, &members))
            .collect()
    }

    fn family(base: &Path, members: &BTreeMap<u32, PathBuf>) -> Result<Self, Error> {
        match members.get(&0) {
            Some(_) if base == Path::new("-") => Ok(Self::default()),
            Some(path) => Self::with_older(path),
            None => {
                // The highest number is the oldest file.
                let files = members.values().rev().map(|path| OpenedLog::open(path));
                let newest = members.values().next().cloned();
                Ok(Self {
                    path: newest,
                    files: files.collect::<Result<_, _>>()?,
                    compressed: Vec::new(),
                })
            }
        }
    }

    /// The log at `path` and its older files.
    ///
    /// # Errors
    /// When none of them exists, or the current one cannot be read.
    pub fn with_older(path: &Path) -> Result<Self, Error> {
        // The current file first, then older and older ones. A file that is rotated meanwhile is found twice, and
        // never missed.
        let mut files: Vec<OpenedLog> = Vec::new();
        let missing = match OpenedLog::open(path) {
            Ok(file) => {
                files.push(file);
                None
            }
            Err(error) if error.code() == Code::NoTarget => Some(error),
            Err(error) => return Err(error),
        };
        let is_log = files.first().is_none_or(|file| file.is_regular);
        let (older, compressed) = if is_log {
            rotated(path)
        } else {
            Default::default()
        };
        for file in older.iter().filter_map(|path| OpenedLog::open(path).ok()) {
            if file.is_regular && files.iter().all(|other| other.inode != file.inode) {
                files.push(file);
            }
        }
        if let Some(error) = missing.filter(|_| files.is_empty()) {
            return Err(error);
        }
        files.reverse();
        Ok(Self {
            path: Some(path.to_owned()),
            files,
            compressed,
        })
    }

    pub fn files(&self) -> Vec<PathBuf> {
        self.files
            .iter()
            .map(|opened| opened.path.clone())
            .collect()
    }

    /// Hands over the beginning of each file and then its lines, the oldest first.
    ///
    /// # Errors
    /// The first file that cannot be read to its end. The lines before that point have been handed over.
    pub fn read(self, mut take: impl FnMut(LogBytes<'_>)) -> Result<(), Error> {
        if self.path.is_none() {
            let stdin = io::stdin().lock();
            return lines(stdin, None, &mut take)
                .map_err(|error| failed(Path::new("standard input"), &error));
        }
        for OpenedLog { path, file, .. } in self.files {
            lines(file, Some(&path), &mut take).map_err(|error| failed(&path, &error))?;
        }
        Ok(())
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let message = format!(
        "failed to read {}: {}",
        escaped_path(path),
        system_words(error)
    );
    Error::io(message, error.kind())
}

fn lines(
    input: impl Read,
    path: Option<&Path>,
    take: &mut impl FnMut(LogBytes<'_>),
) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(CHUNK, input);
    let head = loop {
        match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            head => break head?.to_vec(),
        }
    };
    if let Some(tool) = decompressor(&head) {
        let tool = Part::Word(tool.as_ref());
        let command = match path {
            Some(path) => to_type("{} {} | beadlock log -", &[tool, Part::Path(path)]),
            None => to_type("{} … | beadlock log -", &[tool]),
        };
        return Err(io::Error::other(format!(
            "it is compressed; type: {command}"
        )));
    }
    take(LogBytes::Head(&head));
    let mut line = Vec::with_capacity(256);
    loop {
        line.clear();
        let limit = LONGEST_LINE as u64;
        if reader.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // A log that was truncated while its daemon writes begins with as many zeros as it had bytes.
        while line.len() == LONGEST_LINE && line.iter().all(|byte| *byte == 0) {
            line.clear();
            reader.by_ref().take(limit).read_until(b'\n', &mut line)?;
        }
        let is_whole = line.pop_if(|byte| *byte == b'\n').is_some();
        let is_cut = !is_whole && line.len() == LONGEST_LINE && reader.skip_until(b'\n')? > 1;
        take(LogBytes::Line {
            bytes: &line,
            is_cut,
        });
    }
}

/// The program that unpacks a file with this beginning.
fn decompressor(head: &[u8]) -> Option<&'static str> {
    let magic: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
        (b"\xfd7zXZ\0", "xzcat"),
        (b"BZh", "bzcat"),
    ];
    magic
        .iter()
        .find(|(magic, _)| head.starts_with(magic))
        .map(|(_, tool)| *tool)
}

impl OpenedLog {
    /// Opens a regular file or a pipe. Links are followed, because the user named the path.
    fn open(path: &Path) -> Result<Self, Error> {
        let shown = escaped_path(path);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(CAREFULLY.bits())
            .open(path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    Error::new(Code::NoTarget, format!("there is no {shown}"))
                }
                kind => Error::io(
                    format!("failed to open {shown}: {}", system_words(&error)),
                    kind,
                ),
            })?;
        let meta = file.metadata().map_err(|error| failed(path, &error))?;
        let kind = meta.file_type();
        if kind.is_dir() {
            let meant = to_type("beadlock log {}", &[Part::Path(&path.join("daemon.log"))]);
            return Err(Error::new(
                Code::Io,
                format!("{shown} is a directory; name the log in it: {meant}"),
            ));
        }
        if kind.is_fifo() {
            // The program that writes to the pipe may be slow: wait for it.
            let flags = fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()));
            flags.map_err(|errno| failed(path, &errno.into()))?;
        } else if !kind.is_file() {
            let message = format!("{shown} is a device; name a log, or - for standard input");
            return Err(Error::new(Code::Io, message));
        }
        let inode = (meta.dev(), meta.ino());
        Ok(Self {
            path: path.to_owned(),
            file,
            is_regular: kind.is_file(),
            inode,
        })
    }
}

/// `daemon.log.2` is `daemon.log` and 2; the current file has number 0.
fn numbered(path: &Path) -> (PathBuf, u32) {
    let split = || {
        let (base, number) = path.to_str()?.rsplit_once('.')?;
        let is_number =
            (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number
            .parse()
            .ok()
            .filter(|number| is_number && *number > 0)?;
        (!base.is_empty() && !base.ends_with('/')).then(|| (PathBuf::from(base), number))
    };
    split().unwrap_or_else(|| (path.to_owned(), 0))
}

/// The older files beside `path`, from the newest to the oldest: the plain ones, and the compressed ones.
fn rotated(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (Some(name), Some(dir)) = (path.file_name(), path.parent()) else {
        return Default::default();
    };
    let entries = fs::read_dir(if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    });
    let mut files: Vec<(Age, bool, PathBuf)> = Vec::new();
    for entry in entries.into_iter().flatten().flatten() {
        let other = entry.file_name();
        let extension = Path::new(&other).extension().and_then(OsStr::to_str);
        let is_compressed = matches!(extension, Some("gz" | "zst" | "xz" | "bz2"));
        let plain = if is_compressed {
            Path::new(&other).with_extension("").into()
        } else {
            other.clone()
        };
        if let Some(age) = age(name, &plain) {
            files.push((age, is_compressed, path.with_file_name(other)));
        }
    }
    files.sort();
    let (compressed, plain): (Vec<_>, Vec<_>) = files.into_iter().partition(|(_, is, _)| *is);
    let paths =
        |files: Vec<(Age, bool, PathBuf)>| files.into_iter().map(|(.., path)| path).collect();
    (paths(plain), paths(compressed))
}

/// Sorts from the newest file to the oldest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Numbered(u32),
    Dated(Reverse<OsString>),
}

/// How old the file `other` is beside the log `name`; `None` when it does not belong to that log.
fn age(name: &OsStr, other: &OsStr) -> Option<Age> {
    if let (base, number @ 1..) = numbered(Path::new(other))
        && base == Path::new(name)
    {
        return Some(Age::Numbered(number));
    }
    let stem = Path::new(name).file_stem()?.as_bytes();
    let extension = Path::new(name)
        .extension()
        .map(|extension| [b".", extension.as_bytes()].concat());
    let rest = other.as_bytes().strip_prefix(stem)?.strip_prefix(b"-")?;
    let stamp = rest.strip_suffix(&extension.unwrap_or_default()[..])?;
    // 2006-01-02T15-04-05.000
    let shape = b"dddd-dd-ddTdd-dd-dd.ddd";
    let fits = |(byte, shape): (&u8, &u8)| {
        if *shape == b'd' {
            byte.is_ascii_digit()
        } else {
            byte == shape
        }
    };
    (stamp.len() == shape.len() && stamp.iter().zip(shape).all(fits))
        .then(|| Age::Dated(Reverse(other.to_owned())))
}

#[cfg(test)]
mod tests;
