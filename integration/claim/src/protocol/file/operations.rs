//! From Rust: one operation on a file under its lock, and several under one.

use crate::error::Problem;
use std::{io::Read, path::Path};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::record::file::{LockId, Mode};
use serde::Serialize;
use serde_json::Value;

use super::{lock::FileLock, target::Locks};
use crate::error::{Code, Error};
use beadlock_files::append::{Appended, WholeLines, append as append_lines};
use beadlock_files::entry::{Beside, NamedFile};
use beadlock_files::json::{Check, Format};
use beadlock_files::write::{self, CONTENT, Rules, StagedContent, Written, tidy};
use beadlock_files::{self as files, WriteLock, stage::Stage};

/// Gives the file at `path` this content, all of it or none, under its lock and with a backup. It has to be what the
/// file's name says ([`Format::of`]). Waits up to 30 seconds for the lock; for another wait, format or number of
/// backups take the lock by hand ([`FileLock::write_with`]).
///
/// ```no_run
/// # fn main() -> Result<(), beadlock::Error> {
/// beadlock::file::atomic_write("todo.json", r#"{"n": 1}"#)?;
/// # Ok(())
/// # }
/// ```
/// Fails as [`FileLock::acquire`](super::Locking::acquire) and [`FileLock::write_with`].
pub fn atomic_write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<Written, Error> {
    under_lock(path, |entry, lock| {
        let rules = Rules::default();
        Ok(write::write(entry, lock, content.as_ref(), &rules)?)
    })
}

/// Gives the file at `path` this value as JSON, indented by two spaces, as [`atomic_write`] does.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("todo.json");
/// let written = beadlock::file::save_json(&path, &["tea", "coffee"])?;
/// assert!(written.created);
/// assert_eq!(std::fs::read_to_string(&path)?, "[\n  \"tea\",\n  \"coffee\"\n]\n");
/// # Ok(())
/// # }
/// ```
/// Fails as [`atomic_write`]; also when the value is none that JSON has.
pub fn save_json(
    path: impl AsRef<Path>,
    value: &(impl Serialize + ?Sized),
) -> Result<Written, Error> {
    let content = json(path.as_ref(), value)?;
    let rules = Rules::default().format(Format::Json);
    under_lock(path, |entry, lock| {
        Ok(write::write(entry, lock, content.as_slice(), &rules)?)
    })
}

/// Reads the JSON in the file at `path`, lets `change` change it, and writes it, all under one lock; returns what
/// `change` does. Where there is no file it gets `null`. Numbers beyond an `f64` lose digits: such a file is one for
/// [`FileLock::read`] and [`FileLock::write`].
///
/// ```no_run
/// # fn main() -> Result<(), beadlock::Error> {
/// let id = beadlock::file::update_json("todo.json", |todo| {
///     let id = todo["next"].as_u64().unwrap_or(1);
///     todo["next"] = (id + 1).into();
///     id
/// })?;
/// # Ok(())
/// # }
/// ```
/// Fails as [`atomic_write`]; also when what is there is no JSON.
pub fn update_json<R>(
    path: impl AsRef<Path>,
    change: impl FnOnce(&mut Value) -> R,
) -> Result<R, Error> {
    under_lock(path, |entry, lock| update(entry, lock, change))
}

/// Adds whole lines to the end of the file at `path`, each a JSON value, under its lock: never in the middle of
/// somebody else's, all of them or none.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("log.jsonl");
/// # std::fs::write(&path, "{\"did\": \"te")?;
/// // Somebody was cut off in the middle of a line: {"did": "te
/// let appended = beadlock::file::append(&path, r#"{"did": "coffee"}"#)?;
/// assert_eq!(appended.torn.map(|torn| torn.length), Some(11));
/// assert_eq!(std::fs::read_to_string(&path)?, "{\"did\": \"te\n{\"did\": \"coffee\"}\n");
/// # Ok(())
/// # }
/// ```
/// Fails as [`FileLock::acquire`](super::Locking::acquire) and [`FileLock::append`].
pub fn append(path: impl AsRef<Path>, lines: impl AsRef<[u8]>) -> Result<Appended, Error> {
    let lines = checked(path.as_ref(), lines.as_ref())?;
    under_lock(path, |entry, lock| Ok(append_lines(entry, lock, &lines)?))
}

fn under_lock<T>(
    path: impl AsRef<Path>,
    work: impl FnOnce(&NamedFile, &FileLock) -> Result<T, Error>,
) -> Result<T, Error> {
    let lock = FileLock::exclusive(path)?;
    let entry = NamedFile::open(lock.path())?;
    let done = lock.alone(|| work(&entry, &lock))?;
    lock.release()?;
    Ok(done)
}

#[doc(hidden)]
impl WriteLock for FileLock {
    fn guards(&self, entry: &NamedFile) -> Result<(), files::Error> {
        let LockId { device, inode, .. } = self.id();
        let is_here = entry
            .look(Beside::Lock)?
            .is_some_and(|stat| (stat.st_dev, stat.st_ino) == (device, inode));
        if is_here && !self.is_nested() {
            return Ok(());
        }
        self.still_held().map_err(files::Error::lost)?;
        if is_here {
            return Ok(());
        }
        let path = escaped_path(entry.path());
        Err(files::Error::lost(Error::new(
            Code::LockLost,
            format!("{path} is in another directory than its lock by now"),
        )))
    }
}

impl FileLock {
    /// All of the file's content; `None`: there is no file. Fails with what the system said.
    pub fn read(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(write::read(&NamedFile::open(self.path())?)?)
    }

    /// Gives the file this content, as [`atomic_write`] does. Fails as [`FileLock::write_with`].
    pub fn write(&self, content: impl AsRef<[u8]>) -> Result<Written, Error> {
        self.write_with(content.as_ref(), &Rules::default())
    }

    /// Gives the file what `from` reads, by these rules. It is never held in memory as a whole, unless a schema is to
    /// check it.
    ///
    /// # Errors
    /// When the content is not what it has to be; what the system said; [`Code::LockLost`] when the lock is gone,
    /// [`Code::Usage`] when it is a shared one. The file is as it was then.
    pub fn write_with(&self, from: impl Read, rules: &Rules) -> Result<Written, Error> {
        let entry = NamedFile::open(self.path())?;
        self.in_turn(|| Ok(write::write(&entry, self, from, rules)?))
    }

    /// Gives the file this value as JSON, as [`save_json`] does. Fails as [`save_json`].
    pub fn save_json(&self, value: &(impl Serialize + ?Sized)) -> Result<Written, Error> {
        let content = json(self.path(), value)?;
        self.write_with(content.as_slice(), &Rules::default().format(Format::Json))
    }

    /// Lets `change` change the JSON in the file, as [`update_json`] does. Fails as [`update_json`].
    pub fn update_json<R>(&self, change: impl FnOnce(&mut Value) -> R) -> Result<R, Error> {
        let entry = NamedFile::open(self.path())?;
        self.in_turn(|| update(&entry, self, change))
    }

    /// Adds whole lines, each a JSON value, to the end of the file. A last line without an end gets one. Fails when a
    /// line is not JSON; what the system said. The file is as it was then.
    pub fn append(&self, lines: impl AsRef<[u8]>) -> Result<Appended, Error> {
        let lines = checked(self.path(), lines.as_ref())?;
        let entry = NamedFile::open(self.path())?;
        self.in_turn(|| Ok(append_lines(&entry, self, &lines)?))
    }

    /// One operation under a lock that was taken for it. Under a hold others may be at work too.
    #[doc(hidden)]
    pub fn alone<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if self.is_nested() {
            self.in_turn(work)
        } else {
            work()
        }
    }

    fn in_turn<T, E: From<Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        if self.mode() == Mode::Shared {
            let path = escaped_path(self.path());
            let message =
                format!("{path} is locked by many at once (shared), and so for reading only");
            return Err(Error::usage(message).into());
        }
        if self.target().locks() == Locks::Itself {
            let path = escaped_path(self.path());
            let message = format!(
                "{path} is locked itself, and a write would put another file in its place; to write it, lock \
                 {path}.lock beside it (FileLock::on, file:{path})"
            );
            return Err(Error::usage(message).into());
        }
        let _turn = self.turn()?;
        work()
    }
}

fn update<R>(
    entry: &NamedFile,
    lock: &FileLock,
    change: impl FnOnce(&mut Value) -> R,
) -> Result<R, Error> {
    let rules = Rules::default();
    tidy(entry, rules.kept())?;
    let mut value = match write::read(entry)? {
        None => Value::Null,
        Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let why = escaped(&error.to_string()).to_string();
            let what = format!("{} is not valid JSON: {why}", escaped_path(entry.path()));
            Error::io(what, std::io::ErrorKind::InvalidData)
        })?,
    };
    let result = change(&mut value);
    let content = json(entry.path(), &value)?;
    StagedContent::fill(
        Stage::new(entry)?,
        content.as_slice(),
        CONTENT,
        &Check::NOTHING,
    )?
    .commit(lock, &rules)?;
    Ok(result)
}

fn json(path: &Path, value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, Error> {
    let mut content = serde_json::to_vec_pretty(value).map_err(|error| {
        let path = escaped_path(path);
        Error::io(
            format!("the value for {path} is none of JSON: {error}"),
            std::io::ErrorKind::InvalidData,
        )
    })?;
    content.push(b'\n');
    Ok(content)
}

fn checked(path: &Path, lines: &[u8]) -> Result<WholeLines, Error> {
    let check = Check {
        format: Format::JsonLines,
        schema: None,
    };
    Ok(WholeLines::read(lines, CONTENT, path, &check)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    fn scene() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap().join("todo.json");
        (dir, path)
    }

    #[test]
    fn one_operation_is_one_call() {
        let (_dir, path) = scene();
        let written = atomic_write(&path, r#"{"n":1}"#).unwrap();
        assert_eq!(
            (written.bytes, written.created, written.backup),
            (7, true, None)
        );
        let id = update_json(&path, |todo| {
            todo["n"] = 2.into();
            todo["n"].as_u64()
        });
        assert_eq!(id.unwrap(), Some(2));
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\n  \"n\": 2\n}\n");
        assert_eq!(
            save_json(&path, &[1, 2]).unwrap().backup,
            Some(path.with_file_name("todo.json.1"))
        );
        let log = path.with_file_name("log.jsonl");
        assert_eq!(append(&log, "1\n2").unwrap().lines, 2);
        assert_eq!(fs::read_to_string(&log).unwrap(), "1\n2\n");
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let (_dir, path) = scene();
        atomic_write(&path, "1").unwrap();
        assert!(
            atomic_write(&path, "{")
                .unwrap_err()
                .to_string()
                .contains("the content is not valid JSON")
        );
        assert!(
            append(&path, "{}\n{")
                .unwrap_err()
                .to_string()
                .contains("line 2")
        );
        fs::write(&path, "{half").unwrap();
        let error = update_json(&path, |_| ()).unwrap_err();
        assert!(
            error.to_string().contains("todo.json is not valid JSON"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "{half");
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            2,
            "file and lock file"
        );
    }

    #[test]
    fn several_operations_under_one_lock() {
        let (_dir, path) = scene();
        let lock = FileLock::exclusive(&path).unwrap();
        assert_eq!(lock.read().unwrap(), None);
        lock.update_json(|todo| assert!(todo.is_null())).unwrap();
        lock.write("2").unwrap();
        lock.append("3").unwrap();
        lock.write_with(
            &b"any"[..],
            &Rules::default().format(Format::Any).backups(1),
        )
        .unwrap();
        assert_eq!(lock.read().unwrap().as_deref(), Some(&b"any"[..]));
        let backup =
            |number: u32| fs::read_to_string(path.with_file_name(format!("todo.json.{number}")));
        assert_eq!(
            backup(1).unwrap(),
            "2\n3\n",
            "what has no end gets one before a line is added"
        );
        assert!(backup(2).is_err(), "one is kept");
        let error = atomic_write(&path, "4").unwrap_err();
        assert_eq!(
            error.code(),
            Code::LockFailed,
            "twice in one process: {error}"
        );
        lock.release().unwrap();
        atomic_write(&path, "4").unwrap();
    }

    #[test]
    fn a_shared_lock_reads_and_never_writes() {
        let (_dir, path) = scene();
        atomic_write(&path, "1").unwrap();
        let lock = FileLock::shared(&path).unwrap();
        assert_eq!(lock.read().unwrap().as_deref(), Some(&b"1"[..]));
        for refused in [
            lock.write("2").map(drop),
            lock.append("2").map(drop),
            lock.update_json(|_| ()),
        ] {
            assert_eq!(refused.unwrap_err().code(), Code::Usage);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    }

    #[test]
    fn threads_take_turns_under_one_lock() {
        let (_dir, path) = scene();
        let lock = FileLock::exclusive(&path).unwrap();
        lock.write("0").unwrap();
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    lock.update_json(|n| *n = (n.as_u64().unwrap() + 1).into())
                        .unwrap()
                });
            }
        });
        assert_eq!(lock.read().unwrap().as_deref(), Some(&b"8\n"[..]));
    }

    #[test]
    fn without_files_that_have_no_name_the_stage_has_one() {
        let (_dir, path) = scene();
        atomic_write(&path, "1").unwrap();
        fs::write(path.with_file_name("todo.json.tmp"), "left over").unwrap();
        let (entry, lock) = (
            NamedFile::open(&path).unwrap(),
            FileLock::exclusive(&path).unwrap(),
        );
        let fill = |text: &[u8]| {
            let stage = Stage::named(&entry).unwrap();
            StagedContent::fill(stage, text, CONTENT, &Rules::default().check(&path))
        };
        assert!(fill(b"{").is_err());
        assert!(
            !path.with_file_name("todo.json.tmp").exists(),
            "nothing is left of it"
        );
        fill(b"2")
            .unwrap()
            .commit(&lock, &Rules::default())
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
        assert!(!path.with_file_name("todo.json.tmp").exists());
    }
}
