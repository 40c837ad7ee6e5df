//! The line of those who wait for one lock: they go on in the order in which they came
//! (docs/design.md#the-line).
//!
//! It is a hint and excludes nobody: the gate and the lock decide alone. Without it all who wait would wake at each
//! release, and go for the gate at once. In a line only its front watches the lock; the others are blocked in the kernel,
//! on the lock of one byte of a file, and take no time. Linux serves such a lock in order (since 5.0). Where there can be
//! no line, everybody is its front.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io, path::Path, path::PathBuf, thread};

use beadlock_base::own::Own;
use beadlock_base::sys::{Flock, byte_lock};
use beadlock_core::Place;
use nix::{sys::eventfd::EventFd, unistd::geteuid};

use crate::event::bell;

/// A place in the line for one lock, until this is dropped. By default there is no line.
#[derive(Debug, Default)]
pub struct Line(Option<Arc<Slot>>);

/// Threads in a line whose callers have given up. Blocked in the kernel, they cannot be called back; the next one that
/// waits for the same takes such a place over, so that a process that tries for ever has one such thread.
static GIVEN_UP: Own<Vec<Arc<Slot>>> = Own::new();

#[derive(Debug)]
struct Slot {
    byte: i64,
    file: File,
    /// Rung when the place is the front.
    bell: EventFd,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    is_awaited: bool,
    is_front: bool,
    /// It has no thread any more, and does not get to the front by itself.
    has_ended: bool,
}

impl Line {
    /// Joins the line for the lock at `place`, at its end.
    pub fn join(place: &Place) -> Self {
        Self(Slot::join(place).ok())
    }

    /// Whether nobody is before this one, or there is no line.
    pub fn is_front(&self) -> bool {
        self.0.as_ref().is_none_or(|slot| {
            let state = slot.state();
            state.is_front || state.has_ended
        })
    }

    /// Readable once this one has become the front. `None`: there is no line.
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|slot| slot.bell.as_fd())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let Some(slot) = self.0.take() else { return };
        let mut state = slot.state();
        state.is_awaited = false;
        if state.is_front {
            slot.leave();
        } else if !state.has_ended {
            drop(state);
            GIVEN_UP.with(|given_up| given_up.push(slot));
        }
    }
}

impl Slot {
    fn join(place: &Place) -> io::Result<Arc<Self>> {
        let byte = byte_of(place)?;
        let left = GIVEN_UP.with(|given_up| {
            given_up.retain(|slot| !slot.state().has_ended);
            let at = given_up.iter().position(|slot| slot.byte == byte)?;
            Some(given_up.swap_remove(at))
        });
        if let Some(slot) = left {
            let mut state = slot.state();
            if !state.has_ended {
                state.is_awaited = true;
                drop(state);
                return Ok(slot);
            }
        }
        let file = open(&path())?;
        let is_front = byte_lock(&file, Flock::Try, byte)?;
        let bell = bell("make an eventfd for the line").map_err(io::Error::other)?;
        let slot = Arc::new(Self {
            byte,
            file,
            bell,
            state: Mutex::new(State {
                is_awaited: true,
                is_front,
                has_ended: is_front,
            }),
        });
        if !is_front {
            let blocked = Arc::clone(&slot);
            let builder = thread::Builder::new()
                .name("line".to_owned())
                .stack_size(64 * 1024);
            builder.spawn(move || blocked.wait())?;
        }
        Ok(slot)
    }

    fn wait(&self) {
        let is_front = byte_lock(&self.file, Flock::Wait, self.byte).is_ok();
        let mut state = self.state();
        state.has_ended = true;
        state.is_front = is_front;
        if !state.is_awaited {
            self.leave();
            return;
        }
        drop(state);
        // It cannot be full.
        let _ = self.bell.write(1);
    }

    /// Lets the place go. Closing the file does not where a fork has it too.
    fn leave(&self) {
        let _ = byte_lock(&self.file, Flock::Unlock, self.byte);
    }

    /// Nobody panics with it; and what is there counts, should somebody.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The byte that stands for the lock: the same for every path that leads to its directory. Two versions of the program
/// may differ in it, and have a line each.
fn byte_of(place: &Place) -> io::Result<i64> {
    let dir = fs::metadata(place.dir())?;
    let mut hasher = DefaultHasher::new();
    (dir.dev(), dir.ino(), place.names().lock()).hash(&mut hasher);
    // The last byte of a file is one before the greatest offset.
    Ok((hasher.finish() >> 2).cast_signed())
}

/// The file of all lines of this user. It is empty for ever.
fn open(path: &Path) -> io::Result<File> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)?;
    let meta = file.metadata()?;
    // Another user's: that user could keep everybody here from the front.
    if meta.uid() != geteuid().as_raw() || !meta.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(file)
}

/// The same for all processes of the user, whatever their environment: a job of cron stands in the line of a terminal.
fn path() -> PathBuf {
    format!("/tmp/beadlock-{}.line", geteuid()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    fn place() -> (tempfile::TempDir, Place) {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::beads(dir.path());
        (dir, place)
    }

    fn until_front(line: &Line) {
        let begun = Instant::now();
        while !line.is_front() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{line:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_places_come_to_the_front_in_order() {
        let (_dir, place) = place();
        let line: Vec<Line> = (0..5)
            .map(|_| {
                let joined = Line::join(&place);
                // A thread that has not come to the kernel yet has no place there.
                thread::sleep(Duration::from_millis(20));
                joined
            })
            .collect();
        let fronts = |line: &[Line]| -> Vec<bool> { line.iter().map(Line::is_front).collect() };
        assert_eq!(fronts(&line), [true, false, false, false, false]);
        let mut left = line;
        while left.len() > 1 {
            drop(left.remove(0));
            until_front(&left[0]);
            assert!(!fronts(&left[1..]).contains(&true));
        }
    }

    #[test]
    fn a_place_that_was_given_up_is_taken_over_or_left() {
        let (_dir, place) = place();
        let first = Line::join(&place);
        let given_up = Line::join(&place);
        let slot = Arc::clone(given_up.0.as_ref().unwrap());
        drop(given_up);
        let again = Line::join(&place);
        assert!(Arc::ptr_eq(&slot, again.0.as_ref().unwrap()));
        drop(again);
        drop(first);
        let begun = Instant::now();
        while !slot.state().has_ended {
            assert!(begun.elapsed() < Duration::from_secs(30));
            thread::sleep(Duration::from_millis(1));
        }
        until_front(&Line::join(&place));
    }

    #[test]
    fn each_lock_has_a_line_of_its_own() {
        let (_first, one) = place();
        let (_second, other) = place();
        let _front = Line::join(&one);
        assert!(Line::join(&other).is_front());
        let named = Place::named(one.dir(), std::ffi::OsStr::new("x.lock")).unwrap();
        assert!(Line::join(&named).is_front());
        assert!(!Line::join(&one).is_front());
    }

    #[test]
    fn a_file_that_is_not_ours_makes_no_line() {
        let (dir, _) = place();
        let path = dir.path().join("line");
        symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(open(&path).is_err());
        assert!(open(dir.path()).is_err());
        assert!(!dir.path().join("elsewhere").exists());
        assert!(open(&dir.path().join("new")).is_ok());
        assert!(Line::default().is_front());
    }
}
