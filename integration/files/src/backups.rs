//! Backups: `PATH.1` is what was there before the last write, `PATH.2` before the one before, up to `PATH.N`.
//!
//! They move only when the file has its new content: a write that fails touches none. Before that the file as it is
//! gets a second name, `PATH.tmp1`, and after it that one becomes `PATH.1`.
//!
//! A kill at any step loses none but the oldest. A `PATH.tmp1` that it leaves is what the file still is, and is removed
//! by the next operation; or it is what the file was, and the next operation makes it a backup. They are moved from the
//! oldest end, each into a place that is free by then. What a kill leaves is a gap, and a gap is filled by the next
//! rotation, never shifted over.

use std::fs::File;
use std::io::{self, Read};

use nix::errno::Errno;
use nix::sys::stat::{FileStat, Mode, fchmod};
use nix::unistd::{Gid, Uid, fchown};

use super::{Error, acl, entry::Beside, entry::NamedFile};

/// How many are kept where nobody says so.
pub const DEFAULT: u32 = 5;

/// How much of two files is compared at once, in bytes.
const PIECE: u64 = 64 * 1024;

/// The file as it is, kept while the new content takes its name. Dropped before [`Kept::rotate`], nothing has changed.
#[derive(Debug)]
#[must_use = "dropped, what the file was is kept nowhere"]
pub struct Kept<'e> {
    entry: &'e NamedFile,
    newest: Newest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newest {
    /// No backup is wanted, or there was no file.
    None,
    /// The file has the name `PATH.1` already: version 0.1.0 gave it before the rename, and was killed in between.
    There,
    /// The file waits as `PATH.tmp1`; the backup of this number is the one that goes or is missing.
    Waiting { last: u32 },
}

/// Keeps the file as it is, with `count` backups afterwards; 0 touches none. Only under the lock.
pub fn keep<'e>(
    entry: &'e NamedFile,
    original: Option<&FileStat>,
    count: u32,
) -> Result<Kept<'e>, Error> {
    let kept = |newest| Kept { entry, newest };
    let Some(original) = original.filter(|_| count > 0) else {
        return Ok(kept(Newest::None));
    };
    let newest = entry.look(Beside::Backup(1))?;
    if newest.is_some_and(|newest| is_same(&newest, original)) {
        return Ok(kept(Newest::There));
    }
    let (mut last, mut is_there) = (1, newest.is_some());
    while is_there && last < count {
        last += 1;
        is_there = entry.look(Beside::Backup(last))?.is_some();
    }
    match entry.link_to(Beside::Waiting) {
        Ok(()) => {}
        // No hard links here, or not of this file. Where no other can take its place either, a copy is for nothing.
        Err(
            Errno::EPERM
            | Errno::EACCES
            | Errno::EMLINK
            | Errno::EOPNOTSUPP
            | Errno::ENOSYS
            | Errno::EXDEV,
        ) => entry.obstacle().map_or_else(|| copy(entry), Err)?,
        Err(errno) => return Err(entry.failed("link", Beside::Waiting, errno)),
    }
    Ok(kept(Newest::Waiting { last }))
}

impl Kept<'_> {
    pub fn is_any(&self) -> bool {
        self.newest != Newest::None
    }

    pub fn was_there(&self) -> bool {
        self.newest == Newest::There
    }

    /// Makes the old file its newest backup, and moves the others by one. After an error the next write goes on.
    pub fn rotate(mut self) -> Result<(), Error> {
        let Newest::Waiting { last } = std::mem::replace(&mut self.newest, Newest::None) else {
            return Ok(());
        };
        rotate(self.entry, last).map_err(|error| Error::Backup(Box::new(error)))
    }
}

impl Drop for Kept<'_> {
    /// A `PATH.tmp1` that stays is removed by the next operation, or made a backup where a rename was done that seemed
    /// to fail.
    fn drop(&mut self) {
        if let Newest::Waiting { .. } = self.newest {
            let _ = remove_needless(self.entry);
        }
    }
}

/// Ends what a kill has left. A `PATH.tmp1` that is still the file goes; one that is the old file becomes a backup.
/// `count` backups are to be there, and 0 stands for [`DEFAULT`]: a caller that keeps none takes none away. Only under
/// the lock.
pub fn finish(entry: &NamedFile, count: u32) -> Result<(), Error> {
    if remove_needless(entry)? {
        return Ok(());
    }
    let count = if count == 0 { DEFAULT } else { count };
    let mut missing = 1;
    while entry.look(Beside::Backup(missing))?.is_some() {
        missing += 1;
    }
    // Whose count it was is not known: of a longer row the last one goes.
    rotate(
        entry,
        if missing <= count {
            missing
        } else {
            missing - 1
        },
    )
}

/// Removes the file that waits to be a backup if it is still the file, or its newest backup. True: nothing waits.
fn remove_needless(entry: &NamedFile) -> Result<bool, Error> {
    let Some(waiting) = entry.look(Beside::Waiting)? else {
        return Ok(true);
    };
    let newest = entry.look(Beside::Backup(1))?;
    let is_needless = newest.is_some_and(|newest| is_same(&newest, &waiting))
        || is_what_the_file_is(entry, &waiting)?;
    if is_needless {
        entry.remove(Beside::Waiting)?;
    }
    Ok(is_needless)
}

/// Moves the backups by one, up to `last`, which is missing or goes.
fn rotate(entry: &NamedFile, last: u32) -> Result<(), Error> {
    for number in (1..last).rev() {
        entry.rename(Beside::Backup(number), Beside::Backup(number + 1))?;
    }
    entry.rename(Beside::Waiting, Beside::Backup(1))
}

fn is_same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// True when the file that waits to be a backup is the file itself, or an equal copy of it.
fn is_what_the_file_is(entry: &NamedFile, waiting: &FileStat) -> Result<bool, Error> {
    let Some(itself) = entry.look(Beside::Itself)? else {
        return Ok(false);
    };
    if is_same(&itself, waiting) {
        return Ok(true);
    }
    if itself.st_size != waiting.st_size {
        return Ok(false);
    }
    let (Some(one), Some(other)) = (entry.read(Beside::Itself)?, entry.read(Beside::Waiting)?)
    else {
        return Ok(false);
    };
    is_equal(one, other).map_err(|error| entry.failed("read", Beside::Waiting, error))
}

fn is_equal(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        one.by_ref().take(PIECE).read_to_end(&mut left)?;
        other.by_ref().take(PIECE).read_to_end(&mut right)?;
        if left != right || left.is_empty() {
            return Ok(left == right);
        }
    }
}

/// Makes the file that waits to be a backup as a copy of the file: whole before it has its name.
fn copy(entry: &NamedFile) -> Result<(), Error> {
    let Some(mut original) = entry.read(Beside::Itself)? else {
        return Ok(());
    };
    let (stat, acl) = (entry.stat(&original)?, entry.acl()?);
    let mut copy = entry.create(Beside::Copy, 0o600)?;
    let copied = (|| {
        io::copy(&mut original, &mut copy)?;
        // Where it cannot have the owner, it is for nobody else.
        let owner = (
            Some(Uid::from_raw(stat.st_uid)),
            Some(Gid::from_raw(stat.st_gid)),
        );
        if fchown(&copy, owner.0, owner.1).is_ok() {
            acl::give(&copy, acl.as_ref())?;
            fchmod(&copy, Mode::from_bits_truncate(stat.st_mode & 0o7777))?;
        }
        copy.sync_all()
    })();
    copied
        .map_err(|error: io::Error| entry.failed("copy what is to be kept to", Beside::Copy, error))
        .and_then(|()| entry.rename(Beside::Copy, Beside::Waiting))
        .inspect_err(|_| drop(entry.remove(Beside::Copy)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    struct Dir(tempfile::TempDir);

    impl Dir {
        fn new(files: &[(&str, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in files {
                fs::write(dir.path().join(name), text).unwrap();
            }
            Self(dir)
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn entry(&self) -> NamedFile {
            NamedFile::open(&self.path().join("x")).unwrap()
        }

        /// A write of `text`, and whether it was its own newest backup before.
        fn write(&self, text: &str, count: u32) -> Result<bool, Error> {
            let entry = self.entry();
            finish(&entry, count)?;
            let kept = keep(&entry, entry.look(Beside::Itself)?.as_ref(), count)?;
            fs::write(self.path().join("x.tmp"), text).unwrap();
            entry.rename(Beside::Stage, Beside::Itself)?;
            let was_there = kept.was_there();
            kept.rotate().map(|()| was_there)
        }

        /// The backups, `-` where there is a gap.
        fn texts(&self) -> String {
            let text = |number| fs::read_to_string(self.path().join(format!("x.{number}")));
            (1..=6)
                .map(|number| text(number).unwrap_or("-".into()))
                .collect::<Vec<_>>()
                .join(" ")
        }
    }

    #[test]
    fn the_newest_is_1_and_the_oldest_goes() {
        let dir = Dir::new(&[]);
        for text in ["a", "b", "c", "d", "e"] {
            dir.write(text, 3).unwrap();
        }
        assert_eq!(dir.texts(), "d c b - - -");
    }

    #[test]
    fn a_gap_is_filled_and_not_shifted_over() {
        let dir = Dir::new(&[
            ("x", "now"),
            ("x.1", "a"),
            ("x.2", "b"),
            ("x.4", "d"),
            ("x.5", "e"),
        ]);
        dir.write("new", 5).unwrap();
        assert_eq!(dir.texts(), "now a b d e -");
        let dir = Dir::new(&[("x", "now"), ("x.2", "b"), ("x.3", "c")]);
        dir.write("new", 3).unwrap();
        assert_eq!(dir.texts(), "now b c - - -");
    }

    #[test]
    fn one_that_is_there_already_is_not_made_again() {
        let dir = Dir::new(&[("x", "now"), ("x.2", "b")]);
        fs::hard_link(dir.path().join("x"), dir.path().join("x.1")).unwrap();
        assert!(dir.write("new", 2).unwrap());
        assert_eq!(dir.texts(), "now b - - - -");
        assert!(!dir.write("newer", 2).unwrap());
        assert_eq!(dir.texts(), "new now - - - -");
    }

    #[test]
    fn one_alone_and_none_at_all() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a"), ("x.2", "b")]);
        dir.write("new", 0).unwrap();
        assert_eq!(
            dir.texts(),
            "a b - - - -",
            "none: what is there is somebody's"
        );
        dir.write("newer", 1).unwrap();
        assert_eq!(dir.texts(), "new b - - - -");
    }

    #[test]
    fn two_names_of_one_backup_are_two_backups_of_it() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a")]);
        fs::hard_link(dir.path().join("x.1"), dir.path().join("x.2")).unwrap();
        dir.write("new", 2).unwrap();
        assert_eq!(dir.texts(), "now a - - - -");
    }

    #[test]
    fn until_it_is_rotated_no_backup_has_moved_and_dropped_nothing_is_left() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a"), ("x.2", "b")]);
        let entry = dir.entry();
        let kept = keep(&entry, entry.look(Beside::Itself).unwrap().as_ref(), 2).unwrap();
        assert_eq!(
            fs::read_to_string(dir.path().join("x.tmp1")).unwrap(),
            "now"
        );
        assert_eq!(dir.texts(), "a b - - - -");
        drop(kept);
        assert_eq!(
            (dir.texts().as_str(), entry.look(Beside::Waiting).unwrap()),
            ("a b - - - -", None)
        );
    }

    #[test]
    fn what_a_kill_left_before_the_rename_goes_and_after_it_becomes_a_backup() {
        // A link, and where there are none a copy.
        for is_link in [true, false] {
            let dir = Dir::new(&[("x", "now"), ("x.1", "a"), ("x.2", "b")]);
            let path = |name: &str| dir.path().join(name);
            let keep = || {
                if is_link {
                    fs::hard_link(path("x"), path("x.tmp1"))
                } else {
                    fs::copy(path("x"), path("x.tmp1")).map(drop)
                }
            };
            keep().unwrap();
            finish(&dir.entry(), 2).unwrap();
            assert_eq!(
                (dir.texts().as_str(), path("x.tmp1").exists()),
                ("a b - - - -", false)
            );
            keep().unwrap();
            fs::write(path("x.tmp"), "new").unwrap();
            dir.entry().rename(Beside::Stage, Beside::Itself).unwrap();
            finish(&dir.entry(), 2).unwrap();
            assert_eq!(
                (dir.texts().as_str(), path("x.tmp1").exists()),
                ("now a - - - -", false)
            );
        }
    }

    #[test]
    fn what_a_kill_left_is_a_backup_whatever_the_next_one_keeps() {
        for (there, count, after) in [
            (&["a"][..], 0, "old a - - - -"),
            (&["a", "b", "c"], 2, "old a b - - -"),
            (&["a", "b", "c", "d", "e", "f"], 0, "old a b c d e"),
            (&["a", "-", "c"], 1, "old - c - - -"),
        ] {
            let dir = Dir::new(&[("x", "now"), ("x.tmp1", "old")]);
            for (number, text) in (1..).zip(there).filter(|(_, text)| **text != "-") {
                fs::write(dir.path().join(format!("x.{number}")), text).unwrap();
            }
            finish(&dir.entry(), count).unwrap();
            assert_eq!(dir.texts(), after, "{there:?}, {count}");
        }
    }

    #[test]
    fn killed_in_the_middle_of_a_rotation_it_goes_on() {
        let dir = Dir::new(&[("x", "new"), ("x.tmp1", "now"), ("x.1", "a"), ("x.3", "b")]);
        finish(&dir.entry(), 3).unwrap();
        assert_eq!(dir.texts(), "now a b - - -");
        // Its last step but one: the newest has both names.
        fs::hard_link(dir.path().join("x.1"), dir.path().join("x.tmp1")).unwrap();
        finish(&dir.entry(), 3).unwrap();
        assert_eq!(dir.texts(), "now a b - - -");
        assert!(!dir.path().join("x.tmp1").exists());
    }

    #[test]
    fn of_the_same_length_and_of_another_content_is_another_file() {
        let long = "x".repeat(200_000);
        for (text, other) in [
            ("now", "old"),
            (long.as_str(), &*format!("{}y", &long[1..])),
            ("", "a"),
        ] {
            let dir = Dir::new(&[("x", text), ("x.tmp1", other)]);
            finish(&dir.entry(), 5).unwrap();
            assert_eq!(fs::read_to_string(dir.path().join("x.1")).unwrap(), other);
            let dir = Dir::new(&[("x", text), ("x.tmp1", text)]);
            finish(&dir.entry(), 5).unwrap();
            assert_eq!(dir.texts(), "- - - - - -");
        }
    }

    #[test]
    fn what_is_no_file_is_named_and_nothing_is_moved_onto_it() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a")]);
        fs::create_dir(dir.path().join("x.2")).unwrap();
        let error = dir.write("new", 2).unwrap_err().to_string();
        assert!(
            error.contains("x.2 is a directory; move it out of the way"),
            "{error}"
        );
        assert_eq!(dir.texts(), "a - - - - -");
        assert_eq!(fs::read_to_string(dir.path().join("x")).unwrap(), "now");
    }

    #[test]
    fn where_links_are_refused_it_is_a_copy() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a"), ("x.1.tmp", "left over")]);
        let entry = dir.entry();
        copy(&entry).unwrap();
        assert_eq!(dir.texts(), "a - - - - -");
        let numbers = |which| {
            entry
                .look(which)
                .unwrap()
                .map(|stat| (stat.st_ino, stat.st_mode))
        };
        let (itself, backup) = (
            numbers(Beside::Itself).unwrap(),
            numbers(Beside::Waiting).unwrap(),
        );
        assert!(itself.0 != backup.0 && itself.1 == backup.1);
        assert_eq!(numbers(Beside::Copy), None);
    }
}
