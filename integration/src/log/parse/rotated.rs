//! The older files of a log, found by their names.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `daemon.log.2` is `daemon.log` and 2; the current file has number 0.
pub fn numbered(path: &Path) -> (PathBuf, u32) {
    let split = || {
        let (base, number) = path.to_str()?.rsplit_once('.')?;
        let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|number| is_number && *number > 0)?;
        (!base.is_empty() && !base.ends_with('/')).then(|| (PathBuf::from(base), number))
    };
    split().unwrap_or_else(|| (path.to_owned(), 0))
}

/// The older files beside `path`, from the newest to the oldest: the plain ones, and the compressed ones.
pub fn rotated(path: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (Some(name), Some(dir)) = (path.file_name(), path.parent()) else { return Default::default() };
    let entries = fs::read_dir(if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    let mut files: Vec<(Age, bool, PathBuf)> = Vec::new();
    for entry in entries.into_iter().flatten().flatten() {
        let other = entry.file_name();
        let extension = Path::new(&other).extension().and_then(OsStr::to_str);
        let is_compressed = matches!(extension, Some("gz" | "zst" | "xz" | "bz2"));
        let plain = if is_compressed { Path::new(&other).with_extension("").into() } else { other.clone() };
        if let Some(age) = age(name, &plain) {
            files.push((age, is_compressed, path.with_file_name(other)));
        }
    }
    files.sort();
    let (compressed, plain): (Vec<_>, Vec<_>) = files.into_iter().partition(|(_, is, _)| *is);
    let paths = |files: Vec<(Age, bool, PathBuf)>| files.into_iter().map(|(.., path)| path).collect();
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
    let extension = Path::new(name).extension().map(|extension| [b".", extension.as_bytes()].concat());
    let rest = other.as_bytes().strip_prefix(stem)?.strip_prefix(b"-")?;
    let stamp = rest.strip_suffix(&extension.unwrap_or_default()[..])?;
    // 2006-01-02T15-04-05.000
    let shape = b"dddd-dd-ddTdd-dd-dd.ddd";
    let fits = |(byte, shape): (&u8, &u8)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == shape };
    (stamp.len() == shape.len() && stamp.iter().zip(shape).all(fits)).then(|| Age::Dated(Reverse(other.to_owned())))
}
