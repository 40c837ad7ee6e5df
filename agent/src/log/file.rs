//! One log file: opened without following a link, opened again when its name is another file, rotated by size.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use beadlock_base::regular::CAREFULLY;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{FileStat, Mode, lstat};

use super::{FullLog, LogLimits, shown};

/// A log by its path; the file need not be there, nor be open.
pub(super) struct LogFile {
    path: PathBuf,
    limits: LogLimits,
    open: Option<OpenLog>,
    /// Its inode and size after the last line that was written whole.
    left: Option<((u64, u64), u64)>,
    /// The last write failed. The failure was reported, and is not reported again until a write succeeds.
    is_failing: bool,
    /// The last rotation failed. The failure was reported, and is not reported again until a rotation succeeds.
    is_stuck: bool,
}

struct OpenLog {
    file: File,
    inode: (u64, u64),
    /// Its last line was written in part (a full disk): the next begins a new one.
    is_torn: bool,
}

impl LogFile {
    pub(super) fn at(path: &Path, limits: LogLimits) -> Self {
        Self {
            path: path.to_owned(),
            limits,
            open: None,
            left: None,
            is_failing: false,
            is_stuck: false,
        }
    }

    /// Appends lines, after what `head` has for a new file (true) or for one that is there (false). Returns what is wrong and what to do, each once for as long as it
    /// stays wrong.
    pub(super) fn write(&mut self, line: &str, head: impl FnOnce(bool) -> String) -> Vec<String> {
        let mut complaints = Vec::new();
        let appended = self.append(line, head, &mut complaints);
        let was_failing = std::mem::replace(&mut self.is_failing, appended.is_err());
        if let Err(error) = appended {
            self.open = None;
            if !was_failing {
                let (path, words) = (shown(&self.path), words(&error));
                complaints.push(format!(
                    "cannot write the log {path}: {words}; cycles go on without it"
                ));
            }
        }
        complaints
    }

    /// Opens it, to learn at the start what is wrong.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.ready().map(drop).map_err(|error| {
            let (path, words) = (shown(&self.path), words(&error));
            io::Error::other(format!(
                "the log {path} cannot be written: {words}; name a regular file in a directory that is there"
            ))
        })
    }

    pub(super) fn close(&mut self) {
        self.open = None;
    }

    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn append(
        &mut self,
        line: &str,
        head: impl FnOnce(bool) -> String,
        complaints: &mut Vec<String>,
    ) -> io::Result<()> {
        let mut size = self.ready()?;
        if self.limits.are_reached(size, line.len()) {
            complaints.extend(self.make_room(line.len()));
            size = self.ready()?;
        }
        let Some(open) = &mut self.open else {
            return Err(Errno::EBADF.into());
        };
        let end = if open.is_torn && size > 0 { "\n" } else { "" };
        let front = end.to_owned() + &head(size == 0);
        // One write, so that two agents never mix their lines.
        let bytes = [front.as_bytes(), line.as_bytes()].concat();
        let written = open.file.write(&bytes)?;
        if written < bytes.len() {
            open.file.write_all(&bytes[written..])?;
        }
        open.is_torn = false;
        self.left = Some((open.inode, size + bytes.len() as u64));
        Ok(())
    }

    /// Opens the file unless it is open and still the one with the name. Returns its size.
    fn ready(&mut self) -> io::Result<u64> {
        if let Some(open) = &self.open {
            // The directory may be another one by now as well: by path, not by descriptor.
            if let Ok(named) = lstat(&self.path)
                && inode(&named) == open.inode
            {
                must_have_one_name(named.st_nlink)?;
                return Ok(u64::try_from(named.st_size).unwrap_or(0));
            }
        }
        let path = &self.path;
        let open = |how| {
            let flags = how | OFlag::O_NOFOLLOW | CAREFULLY;
            open(path, flags, Mode::from_bits_truncate(0o644)).map(File::from)
        };
        let file = open(OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        must_have_one_name(meta.nlink())?;
        let inode = (meta.dev(), meta.ino());
        let is_as_it_was = meta.len() == 0 || self.left == Some((inode, meta.len()));
        // By another descriptor: a file that may only be written is written without a look.
        let is_torn =
            !is_as_it_was && open(OFlag::O_RDONLY).is_ok_and(|file| is_torn(&file, meta.len()));
        self.open = Some(OpenLog {
            file,
            inode,
            is_torn,
        });
        Ok(meta.len())
    }

    /// Makes room in a full file. Returns a new complaint.
    fn make_room(&mut self, more: usize) -> Option<String> {
        let OpenLog { file, .. } = self.open.as_ref()?;
        // Without its directory the file has no name any more.
        let (dir, name) = (open_dir(self.path.parent()?).ok()?, self.path.file_name()?);
        let rotated = FullLog {
            dir: &dir,
            name,
            file,
            limits: self.limits,
            more,
        }
        .rotate();
        let was_stuck = std::mem::replace(&mut self.is_stuck, rotated.is_err());
        let (error, not_emptied) = rotated.err().filter(|_| !was_stuck)?;
        let (path, words) = (shown(&self.path), words(&error));
        let instead = match not_emptied {
            None => "it is emptied whenever it is full".to_owned(),
            Some(error) => format!("it cannot be emptied either ({error}), and grows on"),
        };
        let advice = format!("make its directory writable and move {path}.1 out of the way");
        Some(format!(
            "cannot move the full log {path} aside: {words}; {instead}; {advice}"
        ))
    }
}

/// The directory of a file; of a name alone it is the working directory.
fn open_dir(dir: &Path) -> nix::Result<OwnedFd> {
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    open(
        dir,
        OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
}

/// With a second name it may be another user's file, which must not be written and emptied as a log. Without a name it
/// was removed just now.
pub(super) fn must_have_one_name(links: u64) -> io::Result<()> {
    match links {
        0 | 1 => Ok(()),
        links => Err(io::Error::other(format!("it has {links} hard links"))),
    }
}

fn is_torn(file: &File, size: u64) -> bool {
    let mut last = [b'\n'];
    let _ = file.read_exact_at(&mut last, size.saturating_sub(1));
    last != [b'\n']
}

pub(super) fn inode(stat: &FileStat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

fn words(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => "it is a symbolic link".to_owned(),
        Some(Errno::ENXIO) => "it is a FIFO".to_owned(),
        Some(errno) => errno.desc().to_lowercase(),
        None => error.to_string(),
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests move and remove what they have made"
)]
mod tests;
