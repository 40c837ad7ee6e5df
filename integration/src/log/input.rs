//! Which files are read, in which order, and how: line by line, with bounded memory, whatever is in them.
//!
//! A log that is named is read with its older files beside it, the oldest first: `FILE.3`, `FILE.2`, `FILE.1` as the
//! agent numbers them, and `NAME-TIME.log` as the original daemon calls them. An older one that is named itself is
//! read alone.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use beadlock_checker::escape::escaped_path;
use beadlock_checker::system_words;
use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::failure::{Code, Error};
use crate::words::quoted_path;

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
            return lines(stdin, "…", &mut hear).map_err(|error| failed(Path::new("standard input"), &error));
        }
        for Opened { path, file, .. } in self.files {
            lines(file, &quoted_path(&path), &mut hear).map_err(|error| failed(&path, &error))?;
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

fn lines(input: impl Read, typed: &str, hear: &mut impl FnMut(Heard<'_>)) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(CHUNK, input);
    let head = retried(|| reader.fill_buf().map(<[u8]>::to_vec))?;
    if let Some(tool) = unpacks(&head) {
        return Err(io::Error::other(format!("it is compressed; type: {tool} {typed} | beadlock log -")));
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
            let meant = quoted_path(&path.join("daemon.log"));
            return Err(Error::new(
                Code::Io,
                format!("{shown} is a directory; name the log in it: beadlock log {meant}"),
            ));
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

/// `daemon.log.2` is `daemon.log` and 2; the current one is 0.
fn numbered(path: &Path) -> (PathBuf, u32) {
    let split = || {
        let (base, number) = path.to_str()?.rsplit_once('.')?;
        let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|number| is_number && *number > 0)?;
        (!base.is_empty() && !base.ends_with('/')).then(|| (PathBuf::from(base), number))
    };
    split().unwrap_or_else(|| (path.to_owned(), 0))
}

/// The older files beside `path`, from the newest to the oldest, and those that are compressed.
fn older(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (Some(name), Some(dir)) = (path.file_name(), path.parent()) else { return Default::default() };
    let entries = fs::read_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let mut found = Vec::new();
    let mut compressed = Vec::new();
    for entry in entries.into_iter().flatten().flatten() {
        let other = entry.file_name();
        let (plain, is_compressed) = match Path::new(&other).extension().and_then(OsStr::to_str) {
            Some("gz" | "zst" | "xz" | "bz2") => {
                (Path::new(&other).with_extension("").into_os_string(), true)
            }
            _ => (other.clone(), false),
        };
        let Some(age) = age(name, &plain) else { continue };
        let older = path.with_file_name(&other);
        if is_compressed { compressed.push((age, older)) } else { found.push((age, older)) }
    }
    let in_order = |mut files: Vec<(Age, PathBuf)>| {
        files.sort();
        files.into_iter().map(|(_, path)| path).collect()
    };
    (in_order(found), in_order(compressed))
}

/// From the newest to the oldest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Age {
    Numbered(u32),
    Dated(std::cmp::Reverse<OsString>),
}

/// How old the file `other` is beside the log `name`; `None` when it is not one of its older files.
fn age(name: &OsStr, other: &OsStr) -> Option<Age> {
    if let (base, number @ 1..) = numbered(Path::new(other))
        && base == Path::new(name)
    {
        return Some(Age::Numbered(number));
    }
    let stem = Path::new(name).file_stem()?.as_bytes();
    let extension = Path::new(name).extension().map(|extension| [b".", extension.as_bytes()].concat());
    let rest = other.as_bytes().strip_prefix(stem)?.strip_prefix(b"-")?;
    let stamp = rest.strip_suffix(&extension.unwrap_or_default()[..])?;
    // 2006-01-02T15-04-05.000
    let shape = b"dddd-dd-ddTdd-dd-dd.ddd";
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == shape };
    (stamp.len() == shape.len() && stamp.iter().zip(shape).all(fits))
        .then(|| Age::Dated(std::cmp::Reverse(other.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(source: &Source) -> Vec<String> {
        source.files().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    fn read(source: Source) -> Vec<String> {
        let mut lines = Vec::new();
        source
            .read(|heard| {
                if let Heard::Line { bytes, .. } = heard {
                    lines.push(String::from_utf8_lossy(bytes).into_owned());
                }
            })
            .unwrap();
        lines
    }

    fn scene(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(dir.path().join(name), format!("{name}\n")).unwrap();
        }
        dir
    }

    #[test]
    fn a_log_comes_with_its_older_files_oldest_first() {
        let dir = scene(&[
            "daemon.log",
            "daemon.log.1",
            "daemon.log.2",
            "daemon.log.10",
            "daemon.log.x",
            "daemon.log2",
            "daemon.log.3.gz",
            "daemon-2026-02-01T10-11-12.000.log",
            "daemon-2026-02-02T10-11-12.000.log",
            "daemon-2026-01-01T10-11-12.000.log.gz",
            "daemon-x.log",
            "xdaemon.log.1",
        ]);
        let source = Source::with_older(&dir.path().join("daemon.log")).unwrap();
        let order = [
            "daemon-2026-02-01T10-11-12.000.log",
            "daemon-2026-02-02T10-11-12.000.log",
            "daemon.log.10",
            "daemon.log.2",
            "daemon.log.1",
            "daemon.log",
        ];
        assert_eq!(names(&source), order);
        assert_eq!(source.compressed.len(), 2);
        assert_eq!(read(source), order);
    }

    #[test]
    fn one_family_is_one_log_and_an_older_file_alone_is_alone() {
        let dir = scene(&["daemon.log", "daemon.log.1", "daemon.log.2", "b.log"]);
        let typed = |names: &[&str]| {
            let names: Vec<OsString> =
                names.iter().map(|name| dir.path().join(name).into_os_string()).collect();
            Source::named(&names).into_iter().map(|source| self::names(&source.unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(typed(&["daemon.log.1"]), [["daemon.log.1"]]);
        assert_eq!(typed(&["daemon.log.1", "daemon.log.2"]), [["daemon.log.2", "daemon.log.1"]]);
        let all = vec!["daemon.log.2", "daemon.log.1", "daemon.log"];
        assert_eq!(typed(&["daemon.log", "daemon.log.1", "daemon.log.2"]), [&all[..]]);
        assert_eq!(typed(&["daemon.log", "b.log", "daemon.log"]), [all, vec!["b.log"]]);
    }

    #[test]
    fn a_log_between_two_files_is_what_is_left_of_it() {
        let dir = scene(&["daemon.log.1"]);
        let source = Source::with_older(&dir.path().join("daemon.log")).unwrap();
        assert_eq!(names(&source), ["daemon.log.1"]);
        let error = Source::with_older(&dir.path().join("other.log")).unwrap_err();
        assert!(error.to_string().starts_with("there is no "), "{error}");
    }

    #[test]
    fn lines_are_lines_whatever_is_in_them() {
        let heard = |input: &[u8]| {
            let mut all = Vec::new();
            lines(input, "x", &mut |heard| {
                if let Heard::Line { bytes, is_cut } = heard {
                    all.push((bytes.len(), is_cut));
                }
            })
            .unwrap();
            all
        };
        assert_eq!(heard(b""), []);
        assert_eq!(heard(b"a\n\nb"), [(1, false), (0, false), (1, false)]);
        let long = [&b"x".repeat(LONGEST_LINE * 9)[..], b"\nshort\n"].concat();
        assert_eq!(heard(&long), [(LONGEST_LINE, true), (5, false)]);
        let exact = [&b"x".repeat(LONGEST_LINE)[..], b"\nshort\n"].concat();
        assert_eq!(heard(&exact), [(LONGEST_LINE, false), (5, false)]);
        let zeros = [&b"\0".repeat(LONGEST_LINE * 3 + 7)[..], b"[x\n"].concat();
        assert_eq!(heard(&zeros), [(9, false)]);
    }

    #[test]
    fn what_is_compressed_is_said_with_what_to_type() {
        for (head, tool) in
            [(&b"\x1f\x8b\x08"[..], "zcat"), (b"\x28\xb5\x2f\xfd", "zstdcat"), (b"BZh9", "bzcat")]
        {
            let error = lines(head, "FILE", &mut |_| ()).unwrap_err().to_string();
            assert_eq!(error, format!("it is compressed; type: {tool} FILE | beadlock log -"));
        }
    }
}
