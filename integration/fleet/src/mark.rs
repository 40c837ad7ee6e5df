//! The mark of a database directory that has joined a fleet: `.exclusive-fleet` (docs/fleet.md). It is an own name:
//! never committed, and never accepted by a pull, so neither a branch nor a pull takes a clone into a fleet or out of
//! one.

use std::io::{self, Write};
use std::{fs::File, os::fd::AsFd, os::unix::fs::OpenOptionsExt, path::Path};

use beadlock_base::regular::{self, Links, NotRead};
use beadlock_core::facts;
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Name};

/// The mark's file name.
pub const MARK: &str = ".exclusive-fleet";

/// The largest mark that is read.
const LIMIT: u64 = 4096;

/// The content of a mark: which fleet a clone has joined, and its names there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The nonce of the fleet.
    pub fleet: String,
    /// The name of the database in the fleet.
    pub name: Name,
    /// The random name of this clone.
    pub clone: String,
}

impl Mark {
    /// The mark of a clone that joins now, with a new random name.
    pub fn of_new_clone(fleet: &str, name: &Name) -> Self {
        Self {
            fleet: fleet.to_owned(),
            name: name.clone(),
            clone: facts::random_id(),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mark: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let is_id = |id: &str| {
            (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !is_id(&mark.fleet) || !is_id(&mark.clone) {
            return Err("fleet and clone are 1 to 64 letters and digits".to_owned());
        }
        Ok(mark)
    }
}

/// The mark of the open directory `dir`; `None`: it has not joined. No link is followed, nothing blocks, and at most
/// 4 KiB are read.
///
/// # Errors
/// [`ErrorKind::Mark`] when there is something that is not a mark; [`ErrorKind::Io`] when it cannot be read.
pub fn read(dir: impl AsFd) -> Result<Option<Mark>, Error> {
    let unfit = |why: &str| Err(Error::new(ErrorKind::Mark, unfit_words(why)));
    let opened = regular::open_at(dir, MARK, Links::Refused);
    let bytes = match opened.and_then(|file| regular::whole(file, LIMIT)) {
        Ok(bytes) => bytes,
        Err(NotRead::System(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(NotRead::System(error)) => return Err(Error::io("read", Path::new(MARK), &error)),
        Err(why) => return unfit(&why.to_string()),
    };
    match Mark::parse(&bytes) {
        Ok(mark) => Ok(Some(mark)),
        Err(why) => unfit(&why),
    }
}

fn unfit_words(why: &str) -> String {
    format!(
        "{MARK} cannot be understood: {why}; it says which fleet the database belongs to, and is never guessed; \
         look at it, remove it, and type: beadlock fleet join NAME"
    )
}

/// [`read`] of the directory at a path.
///
/// # Errors
/// As [`read`], and when the directory cannot be opened.
pub fn read_in(dir: &Path) -> Result<Option<Mark>, Error> {
    let open = File::open(dir).map_err(|error| Error::io("open", dir, &error))?;
    read(&open).map_err(|error| Error::new(error.kind(), format!("{}: {error}", shown(dir))))
}

fn shown(dir: &Path) -> String {
    beadlock_base::escape::escaped_path(dir)
}

/// Writes the mark into `dir`, whole or not at all. False: there is something of that name already.
///
/// # Errors
/// [`ErrorKind::Io`], [`ErrorKind::NotPermitted`] when it cannot be written.
pub fn write(dir: &Path, mark: &Mark) -> Result<bool, Error> {
    let path = dir.join(MARK);
    match drafted(dir, mark, |draft| std::fs::hard_link(draft, &path)) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("write", &path, &error)),
    }
}

/// Writes the mark into `dir` in the place of one that is there: at each moment there is one of them.
///
/// # Errors
/// As [`write()`].
#[expect(clippy::disallowed_methods, reason = "a mark is replaced here alone")]
pub fn replace(dir: &Path, mark: &Mark) -> Result<(), Error> {
    let path = dir.join(MARK);
    drafted(dir, mark, |draft| std::fs::rename(draft, &path))
        .map_err(|error| Error::io("write", &path, &error))
}

/// Writes a draft, has `name_it` give it its name, and removes the draft's own name.
#[expect(clippy::disallowed_methods, reason = "the draft is this module's own")]
fn drafted(
    dir: &Path,
    mark: &Mark,
    name_it: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let draft = dir.join(format!("{MARK}.tmp-{}", facts::random_id()));
    let written = (|| {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&draft)?;
        let text = serde_json::to_string(mark)? + "\n";
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        name_it(&draft)
    })();
    let _ = std::fs::remove_file(&draft);
    if written.is_ok() {
        // The name too must outlive a power cut; a file system that cannot do that has no better way.
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    written
}

/// Removes the mark of `dir`. False: there was none.
///
/// # Errors
/// [`ErrorKind::Io`], [`ErrorKind::NotPermitted`] when it cannot be removed.
#[expect(clippy::disallowed_methods, reason = "a mark is removed here alone")]
pub fn remove(dir: &Path) -> Result<bool, Error> {
    let path = dir.join(MARK);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("remove", &path, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn mark() -> Mark {
        Mark::of_new_clone("0123abcd", &Name::parse("acme/tracker").unwrap())
    }

    #[test]
    fn what_is_written_is_read_and_goes_when_it_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_in(dir.path()), Ok(None));
        let mark = mark();
        assert_eq!(write(dir.path(), &mark), Ok(true));
        assert_eq!(read_in(dir.path()), Ok(Some(mark.clone())));
        assert_eq!(
            write(dir.path(), &tests::mark()),
            Ok(false),
            "a mark never changes by itself"
        );
        assert_eq!(read_in(dir.path()), Ok(Some(mark)));
        let other = tests::mark();
        replace(dir.path(), &other).unwrap();
        assert_eq!(read_in(dir.path()), Ok(Some(other)));
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no draft stays"
        );
        assert_eq!(
            (remove(dir.path()), remove(dir.path())),
            (Ok(true), Ok(false))
        );
    }

    #[test]
    fn a_hostile_mark_is_an_error_and_never_no_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(MARK);
        let fleet = |fleet: &str| format!(r#"{{"fleet":"{fleet}","name":"a","clone":"b"}}"#);
        for text in [
            String::new(),
            "{".to_owned(),
            "null".to_owned(),
            fleet(""),
            fleet("../x"),
            fleet(&"x".repeat(65)),
            r#"{"fleet":"a","name":"A","clone":"b"}"#.to_owned(),
            r#"{"fleet":"a","name":"a"}"#.to_owned(),
            format!("{}{}", fleet("a"), " ".repeat(4096)),
        ] {
            fs::write(&path, &text).unwrap();
            let error = read_in(dir.path()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mark, "{text}");
            assert!(
                error.to_string().contains("beadlock fleet join NAME"),
                "{error}"
            );
        }
        remove(dir.path()).unwrap();
        symlink("/etc/hostname", &path).unwrap();
        assert_eq!(read_in(dir.path()).unwrap_err().kind(), ErrorKind::Mark);
        remove(dir.path()).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_in(dir.path()).unwrap_err().kind(), ErrorKind::Mark);
        remove(dir.path()).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(read_in(dir.path()).unwrap_err().kind(), ErrorKind::Mark);
    }
}
