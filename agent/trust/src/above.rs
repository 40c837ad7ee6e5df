//! The directories above a database, from the one above that in which its commands run up to the top.
//!
//! Each is the `..` of the one before, by descriptor. So it does not matter what their names lead to by now: these are
//! the directories in which somebody could put another one in the place of the database.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use beadlock_base::open_directory::{OpenDirectory, up};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::sys::stat::{FileStat, fstat, fstatat};

use crate::{DirStamp, Doubt, Sticky, Trusted};

/// For how long an answer holds, while the first directory has the same stamp. All directories were trusted, so no
/// other user can have changed anything about them since.
const HOLDS: Duration = Duration::from_secs(1);

/// How many answers are kept at most.
const KEPT: usize = 4096;

/// The most directories that are looked at, one above the other: no path is as deep.
const DEEPEST: usize = 4096;

/// The user that trusted a directory and those above it, and when.
static TRUSTED: Mutex<Option<HashMap<(Trusted, DirStamp), Instant>>> = Mutex::new(None);

impl Trusted {
    /// Looks at every directory above the one above `opened`. `None`: they are trusted, or the directory may not be
    /// searched, so that there can be no work above it.
    pub fn doubts_above(self, opened: &OpenDirectory) -> io::Result<Option<(&Path, Doubt)>> {
        let now = Instant::now();
        let holds = |asked: &Instant| now.saturating_duration_since(*asked) < HOLDS;
        let answers = || TRUSTED.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, [_, next]) = opened.ways_up();
        let first = fstatat(from, next, AtFlags::empty());
        if let Ok(first) = &first
            && answers()
                .as_ref()
                .and_then(|answers| answers.get(&(self, first.into())))
                .is_some_and(holds)
        {
            return Ok(None);
        }
        let Ok(above) = opened.above() else {
            return Ok(None);
        };
        first?;
        let first = match self.climb(above, opened.path())? {
            Climbed::Trusted(first) => first,
            Climbed::Doubted(dir, doubt) => return Ok(Some((dir, doubt))),
        };
        let mut answers = answers();
        let answers = answers.get_or_insert_default();
        if answers.len() >= KEPT {
            answers.retain(|_, asked| holds(asked));
        }
        if answers.len() < KEPT {
            answers.insert((self, first), now);
        }
        Ok(None)
    }

    /// Looks at the directories above `above`, which is the parent directory of the one at `path`.
    fn climb<'a>(self, above: BorrowedFd<'_>, path: &'a Path) -> io::Result<Climbed<'a>> {
        let top = fstatat(AT_FDCWD, "/", AtFlags::empty())?;
        let mut names = path.ancestors().skip(2);
        let mut below = fstat(above)?;
        let mut dir = up(above)?;
        // Before the questions, so that a change meanwhile changes the stamp too.
        let first = DirStamp::from(&fstat(&dir)?);
        for _ in 0..DEEPEST {
            let stat = fstat(&dir)?;
            // A directory can be mounted on one in itself, and then looks like the top from below.
            if is_same(&stat, &below) && is_same(&stat, &top) {
                return Ok(Climbed::Trusted(first));
            }
            let name = names.next().unwrap_or(Path::new("/"));
            if let Some(doubt) = self.doubts(dir.as_fd(), Sticky::IsEnough)? {
                return Ok(Climbed::Doubted(name, doubt));
            }
            below = stat;
            dir = up(&dir)?;
        }
        Err(Errno::ELOOP.into())
    }
}

enum Climbed<'a> {
    /// No directory is doubted; with the first one as it was before the questions.
    Trusted(DirStamp),
    Doubted(&'a Path, Doubt),
}

fn is_same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// The doubt about the directories above `top/a/b/c/.beads`, where the directory `dir` has this mode.
    fn doubted(top: &Path, dir: &str, mode: u32) -> Option<(PathBuf, Doubt)> {
        let beads = top.join("a/b/c/.beads");
        fs::create_dir_all(&beads).unwrap();
        fs::set_permissions(top.join(dir), Permissions::from_mode(mode)).unwrap();
        let opened = OpenDirectory::open(&beads).unwrap();
        let doubted = Trusted::this_user().doubts_above(&opened).unwrap();
        let doubted = doubted.map(|(dir, doubt)| (dir.to_owned(), doubt));
        fs::set_permissions(top.join(dir), Permissions::from_mode(0o755)).unwrap();
        doubted
    }

    #[test]
    fn every_directory_up_to_the_top_is_asked_and_named() {
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(top.join("a/b/c/.beads")).unwrap();
        for dir in ["a", "a/b"] {
            let (named, doubt) = doubted(&top, dir, 0o757).unwrap();
            assert_eq!(named, top.join(dir));
            assert!(
                matches!(
                    doubt,
                    Doubt::Writers {
                        mode: 0o757,
                        group: None,
                        everybody: true
                    }
                ),
                "{doubt:?}"
            );
            assert_eq!(doubted(&top, dir, 0o1757), None, "the sticky bit is enough");
        }
        assert_eq!(doubted(&top, "a/b/c", 0o757), None, "asked by others");
        assert_eq!(
            doubted(&top, "a/b/c/.beads", 0o757),
            None,
            "asked by others"
        );
    }

    #[test]
    fn an_answer_holds_no_longer_than_it_says_and_never_for_a_directory_that_has_changed() {
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(top.join("a/b/c/.beads")).unwrap();
        assert_eq!(doubted(&top, "a/b", 0o755), None);
        // The nearest at once.
        assert!(doubted(&top, "a/b", 0o777).is_some());
        // One further up when the answer is old, at the latest.
        assert_eq!(doubted(&top, "a/b", 0o755), None);
        let asked = Instant::now();
        while doubted(&top, "a", 0o777).is_none() {
            assert!(asked.elapsed() < HOLDS * 20, "for ever");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
