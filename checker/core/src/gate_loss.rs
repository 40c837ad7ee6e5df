//! Loss of a gate: the directory at the path is another one than the gate is on (docs/design.md#its-reach).
//!
//! A gate is on a directory, and a claim finds the directory by its path. `git switch` to a branch without `.beads` and
//! back, a rename, or `rm -r` puts another directory there. A claim then takes another gate, and does not wait for the
//! cycle.
//!
//! One look proves nothing, since a tool may rename the directory and move it back. A second look, 100 ms later,
//! proves the loss. An error other than ENOENT or ENOTDIR proves nothing. A [`GateWatch`] looks in a thread of its own:
//! a file system that does not answer must not keep the cycle from its end.

use std::{
    fmt, io, io::BufRead, io::BufReader, io::PipeReader, io::PipeWriter, io::Write, os::fd::AsFd,
};
use std::{
    os::fd::BorrowedFd, os::fd::OwnedFd, path::Path, path::PathBuf, sync::mpsc,
    sync::mpsc::Receiver,
};
use std::{
    sync::mpsc::RecvTimeoutError, sync::mpsc::Sender, thread, time::Duration, time::Instant,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::{errno::Errno, sys::stat::FileStat, sys::stat::fstat, sys::stat::stat};

use beadlock_base::escape::escaped_path;

/// Pause between two looks of a watch. A loss is confirmed well within a second.
const EVERY: Duration = Duration::from_millis(300);
/// Pause between the look that finds a loss and the look that confirms it.
const CONFIRM: Duration = Duration::from_millis(100);
/// Time for which [`GateWatch::last_look`] waits for an answer.
const LAST_LOOK: Duration = Duration::from_secs(1);

beadlock_base::words! {
    /// Kind of loss of a gate.
    pub enum GateLoss {
    /// The directory's path leads to another file or directory.
        Replaced = "replaced",
    /// The directory's path leads nowhere.
        Vanished = "vanished",
    }
}

impl GateLoss {
    /// Reads a word that [`GateLoss::as_str`] has returned. `None`: it is another word.
    #[doc(hidden)]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Replaced, Self::Vanished]
            .into_iter()
            .find(|loss| loss.as_str() == word)
    }

    /// Returns a sentence, to be shown: the loss, and its likely causes.
    #[doc(hidden)]
    pub fn cause(self, dir: &Path) -> GateLossCause<'_> {
        GateLossCause { loss: self, dir }
    }
}

/// Sentence about a loss: the result of [`GateLoss::cause`].
#[derive(Debug, Clone, Copy)]
pub struct GateLossCause<'a> {
    loss: GateLoss,
    dir: &'a Path,
}

impl fmt::Display for GateLossCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = escaped_path(self.dir);
        match self.loss {
            GateLoss::Replaced => write!(f, "{dir} is another directory now")?,
            GateLoss::Vanished => write!(f, "{dir} is gone")?,
        }
        f.write_str(
            "; `git switch` to a branch without it, a rename or rm does that; claims no longer wait for this \
             cycle",
        )
    }
}

/// Looks once at the path of the directory that is open as `gate`. The open directory is asked again at each look: on
/// an overlay the inode of a directory may change at the first write into it, for the path and the descriptor alike.
fn look(gate: impl AsFd, path: &Path) -> Option<GateLoss> {
    let number = |stat: FileStat| (stat.st_dev, stat.st_ino);
    let there = stat(path);
    let ours = fstat(gate).ok().map(number)?;
    match there {
        Ok(there) if number(there) == ours => None,
        Ok(_) => Some(GateLoss::Replaced),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Some(GateLoss::Vanished),
        Err(_) => None,
    }
}

/// Looks twice at the path of a gate that is held. Takes [`CONFIRM`] when the first look finds a loss.
pub(crate) fn twice(gate: impl AsFd, path: &Path) -> Option<GateLoss> {
    look(&gate, path)?;
    thread::sleep(CONFIRM);
    look(&gate, path)
}

/// Watch over the directory of a gate, until this value is dropped. Its descriptor becomes readable once the gate is
/// lost, and [`Self::loss`] says how.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct GateWatch {
    loss: PipeReader,
    ask: Sender<()>,
}

impl GateWatch {
    /// Starts to watch the directory that is open as `gate`, at its `path`. Errors: no descriptor, pipe or thread is to
    /// be had.
    pub fn start(gate: impl AsFd, path: &Path) -> io::Result<Self> {
        let gate = gate.as_fd().try_clone_to_owned()?;
        let (loss, told) = io::pipe()?;
        let (ask, asked) = mpsc::channel();
        let watching = Watching {
            gate,
            path: path.to_owned(),
            asked,
            told,
        };
        thread::Builder::new()
            .name("gate-watch".to_owned())
            .spawn(move || watching.watch())?;
        Ok(Self { loss, ask })
    }

    /// Returns how the gate was lost. Blocks until the descriptor is readable.
    pub fn loss(&self) -> Option<GateLoss> {
        let mut word = String::new();
        BufReader::new(&self.loss).read_line(&mut word).ok()?;
        GateLoss::parse(word.trim_end())
    }

    /// Ends the watch with one more look, and returns the loss. A directory that does not answer within a second counts
    /// as not lost.
    pub fn last_look(self) -> Option<GateLoss> {
        // After an error the thread has ended, and its answer is in the pipe.
        let _ = self.ask.send(());
        let deadline = Instant::now() + LAST_LOOK;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            match poll(
                &mut [PollFd::new(self.loss.as_fd(), PollFlags::POLLIN)],
                timeout,
            ) {
                Err(Errno::EINTR) => {}
                Ok(1..) => return self.loss(),
                _ => return None,
            }
        }
    }
}

impl AsFd for GateWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.loss.as_fd()
    }
}

/// Thread of a [`GateWatch`].
struct Watching {
    gate: OwnedFd,
    path: PathBuf,
    asked: Receiver<()>,
    told: PipeWriter,
}

impl Watching {
    fn watch(mut self) {
        loop {
            let is_last = match self.asked.recv_timeout(EVERY) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let loss = twice(&self.gate, &self.path);
            if is_last || loss.is_some() {
                let word = loss.map_or("none", GateLoss::as_str);
                // After an error the watch was dropped, and needs no answer.
                let _ = self.told.write_all(format!("{word}\n").as_bytes());
                return;
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test renames the directory")]
mod tests {
    use super::*;
    use crate::gate::Gate;
    use std::fs;

    fn is_readable_within(watch: &GateWatch, limit: Duration) -> bool {
        let timeout = PollTimeout::try_from(limit).unwrap();
        poll(
            &mut [PollFd::new(watch.as_fd(), PollFlags::POLLIN)],
            timeout,
        )
        .unwrap()
            == 1
    }

    #[test]
    fn a_directory_that_is_replaced_or_gone_is_lost_within_a_second() {
        for (replacement, loss) in [(true, GateLoss::Replaced), (false, GateLoss::Vanished)] {
            let top = tempfile::tempdir().unwrap();
            let dir = top.path().join(".beads");
            fs::create_dir(&dir).unwrap();
            let gate = Gate::try_take(&dir).unwrap().unwrap();
            let watch = GateWatch::start(&gate, &dir).unwrap();
            assert!(!is_readable_within(&watch, EVERY * 2), "it is in its place");
            assert_eq!(gate.lost(), None);
            fs::rename(&dir, top.path().join("old")).unwrap();
            if replacement {
                fs::create_dir(&dir).unwrap();
            }
            // An idle machine needs half a second.
            assert!(is_readable_within(&watch, Duration::from_secs(30)));
            assert_eq!((watch.last_look(), gate.lost()), (Some(loss), Some(loss)));
        }
    }

    #[test]
    fn a_directory_that_is_put_back_at_once_is_not_lost() {
        let top = tempfile::tempdir().unwrap();
        let (dir, aside) = (top.path().join(".beads"), top.path().join("aside"));
        fs::create_dir(&dir).unwrap();
        let gate = Gate::try_take(&dir).unwrap().unwrap();
        let watch = GateWatch::start(&gate, &dir).unwrap();
        for _ in 0..200 {
            fs::rename(&dir, &aside).unwrap();
            fs::rename(&aside, &dir).unwrap();
        }
        assert_eq!((watch.last_look(), gate.lost()), (None, None));
    }

    #[test]
    fn the_last_look_sees_what_has_just_happened() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join(".beads");
        fs::create_dir(&dir).unwrap();
        let gate = Gate::try_take(&dir).unwrap().unwrap();
        let watch = GateWatch::start(&gate, &dir).unwrap();
        fs::remove_dir(&dir).unwrap();
        assert_eq!(watch.last_look(), Some(GateLoss::Vanished));
    }

    #[test]
    fn what_cannot_be_told_is_not_a_loss() {
        let ours = fs::File::open("/proc/self").unwrap();
        let too_long = "x".repeat(300);
        assert_eq!(look(&ours, Path::new(&too_long)), None, "ENAMETOOLONG");
        assert_eq!(look(&ours, Path::new("/")), Some(GateLoss::Replaced));
        assert_eq!(
            look(&ours, Path::new("/nowhere/at/all")),
            Some(GateLoss::Vanished)
        );
        for loss in [GateLoss::Replaced, GateLoss::Vanished] {
            assert_eq!(GateLoss::parse(loss.as_str()), Some(loss));
        }
    }
}
