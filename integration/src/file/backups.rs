//! Backups: `PATH.1` is what was there before the last write, `PATH.2` before the one before, up to `PATH.N`.
//!
//! A kill at any step loses none but the oldest. They are moved from the oldest end, each into a place that is free by
//! then; the original gets a second name before the new content takes its first one. What a kill leaves is a gap, and a
//! gap is filled by the next rotation, never shifted over; or an original that is its own newest backup already, which the
//! next rotation lets be.

use std::io;

use nix::errno::Errno;
use nix::sys::stat::{FileStat, Mode, fchmod};
use nix::unistd::{Gid, Uid, fchown};

use super::acl;
use super::entry::{Beside, Entry};
use crate::failure::Error;

/// How many are kept where nobody says so.
pub const DEFAULT: u32 = 5;

/// What became of the newest backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// None was wanted.
    None,
    /// It was made.
    Made,
    /// A write that was killed had made it: the file has two names already.
    There,
}

/// Makes the file its own newest backup, and keeps `count` of them; 0 keeps none, and touches none. Only under the lock.
///
/// # Errors
/// What the system said. The file is as it was then.
pub fn keep(entry: &Entry, original: &FileStat, count: u32) -> Result<Kept, Error> {
    if count == 0 {
        return Ok(Kept::None);
    }
    let newest = entry.look(Beside::Backup(1))?;
    if newest.is_some_and(|newest| is_same(&newest, original)) {
        // Killed between its second name and the rename: the backup of this very content is there.
        return Ok(Kept::There);
    }
    let mut free = 1;
    let mut is_there = newest.is_some();
    while is_there && free < count {
        free += 1;
        is_there = entry.look(Beside::Backup(free))?.is_some();
    }
    for number in (1..free).rev() {
        entry.rename(Beside::Backup(number), Beside::Backup(number + 1))?;
    }
    loop {
        match entry.link_to(Beside::Backup(1)) {
            Ok(()) => return Ok(Kept::Made),
            // The only one that is kept; or one that was two of them, which a rename leaves where it is.
            Err(Errno::EEXIST) => entry.remove(Beside::Backup(1)).map(drop)?,
            // No hard links here, or not of other people's files.
            Err(
                Errno::EPERM
                | Errno::EACCES
                | Errno::EMLINK
                | Errno::EOPNOTSUPP
                | Errno::ENOSYS
                | Errno::EXDEV,
            ) => return copy(entry).map(|()| Kept::Made),
            Err(errno) => return Err(entry.failed("link", Beside::Backup(1), errno)),
        }
    }
}

fn is_same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// The newest backup as a copy of the file: whole before it has its name.
fn copy(entry: &Entry) -> Result<(), Error> {
    let Some(mut original) = entry.open_to_read()? else { return Ok(()) };
    let (stat, acl) = (entry.stat(&original)?, entry.acl()?);
    let mut copy = entry.create(Beside::Copy, 0o600)?;
    let copied = (|| {
        io::copy(&mut original, &mut copy)?;
        // Where it cannot have the owner, it is for nobody else.
        let owner = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
        if fchown(&copy, owner.0, owner.1).is_ok() {
            acl::give(&copy, acl.as_ref())?;
            fchmod(&copy, Mode::from_bits_truncate(stat.st_mode & 0o7777))?;
        }
        copy.sync_all()
    })();
    let moved = copied
        .map_err(|error: io::Error| entry.failed("copy what is to be kept to", Beside::Copy, error))
        .and_then(|()| entry.rename(Beside::Copy, Beside::Backup(1)));
    moved.inspect_err(|_| {
        let _ = entry.remove(Beside::Copy);
    })
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

        fn entry(&self) -> Entry {
            Entry::open(&self.path().join("x")).unwrap()
        }

        fn keep(&self, count: u32) -> Result<Kept, Error> {
            let entry = self.entry();
            keep(&entry, &entry.look(Beside::Itself).unwrap().unwrap(), count)
        }

        /// The backups, `-` where there is a gap.
        fn texts(&self) -> String {
            let text = |number| fs::read_to_string(self.path().join(format!("x.{number}")));
            (1..=6).map(|number| text(number).unwrap_or("-".into())).collect::<Vec<_>>().join(" ")
        }
    }

    #[test]
    fn the_newest_is_1_and_the_oldest_goes() {
        let dir = Dir::new(&[]);
        for text in ["a", "b", "c", "d"] {
            fs::write(dir.path().join("x.tmp"), text).unwrap();
            dir.entry().rename(Beside::Stage, Beside::Itself).unwrap();
            dir.keep(3).unwrap();
        }
        assert_eq!(dir.texts(), "d c b - - -");
    }

    #[test]
    fn a_gap_is_filled_and_not_shifted_over() {
        let dir = Dir::new(&[("x", "new"), ("x.1", "a"), ("x.2", "b"), ("x.4", "d"), ("x.5", "e")]);
        dir.keep(5).unwrap();
        assert_eq!(dir.texts(), "new a b d e -");
        let dir = Dir::new(&[("x", "new"), ("x.2", "b"), ("x.3", "c")]);
        dir.keep(3).unwrap();
        assert_eq!(dir.texts(), "new b c - - -");
    }

    #[test]
    fn one_that_is_there_already_is_not_made_again() {
        let dir = Dir::new(&[("x", "now"), ("x.2", "b")]);
        fs::hard_link(dir.path().join("x"), dir.path().join("x.1")).unwrap();
        assert_eq!(dir.keep(2).unwrap(), Kept::There);
        assert_eq!(dir.texts(), "now b - - - -");
    }

    #[test]
    fn one_alone_and_none_at_all() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a"), ("x.2", "b")]);
        dir.keep(0).unwrap();
        assert_eq!(dir.texts(), "a b - - - -", "none: what is there is somebody's");
        dir.keep(1).unwrap();
        assert_eq!(dir.texts(), "now b - - - -");
    }

    #[test]
    fn two_names_of_one_backup_are_two_backups_of_it() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a")]);
        fs::hard_link(dir.path().join("x.1"), dir.path().join("x.2")).unwrap();
        dir.keep(2).unwrap();
        assert_eq!(dir.texts(), "now a - - - -");
    }

    #[test]
    fn what_is_no_file_is_named_and_nothing_is_moved_onto_it() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a")]);
        fs::create_dir(dir.path().join("x.2")).unwrap();
        let error = dir.keep(2).unwrap_err().to_string();
        assert!(error.contains("x.2 is a directory; move it out of the way"), "{error}");
        assert_eq!(dir.texts(), "a - - - - -");
    }

    #[test]
    fn where_links_are_refused_it_is_a_copy() {
        let dir = Dir::new(&[("x", "now"), ("x.1", "a"), ("x.1.tmp", "left over")]);
        let entry = dir.entry();
        copy(&entry).unwrap();
        assert_eq!(dir.texts(), "now - - - - -");
        let numbers = |which| entry.look(which).unwrap().map(|stat| (stat.st_ino, stat.st_mode));
        let (itself, backup) = (numbers(Beside::Itself).unwrap(), numbers(Beside::Backup(1)).unwrap());
        assert!(itself.0 != backup.0 && itself.1 == backup.1);
        assert_eq!(numbers(Beside::Copy), None);
    }
}
