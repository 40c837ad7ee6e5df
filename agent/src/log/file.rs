//! One log file: opened under its directory without following a link, opened again when the name has become
//! another file, rotated by size.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fstatat};

use super::layer::STAMP;
use super::{own, shown};

/// A file that would grow above this is moved aside first.
const LARGEST: u64 = 10 * 1024 * 1024;

/// How many older files are kept: `.1`, the newest, to `.3`.
const KEPT: u32 = 3;

/// A log by its path; the file need not be there, nor be open.
pub(super) struct LogFile {
    dir: PathBuf,
    name: OsString,
    largest: u64,
    open: Option<Open>,
    /// What is wrong was said, and has been so since.
    complained: bool,
    /// The last line was written in part (a full disk): the next begins a new one.
    torn: bool,
}

struct Open {
    dir: OwnedFd,
    file: File,
    inode: (u64, u64),
}

impl LogFile {
    pub(super) fn at(path: &Path) -> Self {
        let name = path.file_name().unwrap_or(OsStr::new("daemon.log")).to_owned();
        let dir = match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() => dir.to_path_buf(),
            _ => PathBuf::from("."),
        };
        Self { dir, name, largest: LARGEST, open: None, complained: false, torn: false }
    }

    /// Appends a line. `Some`: what is wrong and what to do, said only once for as long as it stays wrong.
    pub(super) fn write(&mut self, line: &str) -> Option<String> {
        match self.append(line) {
            Ok(()) => {
                self.complained = false;
                None
            }
            Err(error) => {
                self.open = None;
                let is_news = !std::mem::replace(&mut self.complained, true);
                let path = shown(&self.dir.join(&self.name));
                is_news.then(|| {
                    format!("cannot write the log {path}: {}; cycles go on without it", words(&error))
                })
            }
        }
    }

    /// Opens it, to learn at the start what is wrong.
    ///
    /// # Errors
    /// What is wrong and what to do.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.ready().map(drop).map_err(|error| {
            let path = shown(&self.dir.join(&self.name));
            let words = words(&error);
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

    fn append(&mut self, line: &str) -> io::Result<()> {
        let mut size = self.ready()?;
        if size > 0 && size + line.len() as u64 > self.largest {
            self.rotate();
            size = self.ready()?;
        }
        let header = match size {
            0 => format!("{}{}\n", line.get(..STAMP).unwrap_or_default(), own::header()),
            _ if self.torn => "\n".to_owned(),
            _ => String::new(),
        };
        let Some(open) = &mut self.open else { return Err(Errno::EBADF.into()) };
        // One write a line, so that two agents never mix theirs.
        let bytes = [header.as_bytes(), line.as_bytes()].concat();
        self.torn = true;
        let written = open.file.write(&bytes)?;
        if written < bytes.len() {
            open.file.write_all(&bytes[written..])?;
        }
        self.torn = false;
        Ok(())
    }

    /// Opens the file unless it is open and still the one with the name. Returns its size.
    fn ready(&mut self) -> io::Result<u64> {
        if let Some(open) = &self.open {
            // The directory may be another one by now as well: by path, not by descriptor.
            let named =
                fstatat(nix::fcntl::AT_FDCWD, &self.dir.join(&self.name), AtFlags::AT_SYMLINK_NOFOLLOW);
            if let Ok(named) = named
                && inode(&named) == open.inode
            {
                return Ok(u64::try_from(named.st_size).unwrap_or(0));
            }
        }
        let dir = open_dir(&self.dir)?;
        let flags = OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT;
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let file = File::from(openat(&dir, self.name.as_os_str(), flags, Mode::from_bits_truncate(0o644))?);
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        self.open = Some(Open { dir, file, inode: (meta.dev(), meta.ino()) });
        Ok(meta.len())
    }

    /// Moves every file one number up, the last one out. What cannot be moved is written on.
    fn rotate(&self) {
        let Some(Open { dir, .. }) = &self.open else { return };
        let numbered = |number: u32| {
            let mut name = self.name.clone();
            if number > 0 {
                name.push(format!(".{number}"));
            }
            name
        };
        for number in (0..KEPT).rev() {
            let (from, to) = (numbered(number), numbered(number + 1));
            let _ = renameat(dir, from.as_os_str(), dir, to.as_os_str());
        }
    }
}

fn open_dir(dir: &Path) -> nix::Result<OwnedFd> {
    open(dir, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

fn inode(stat: &FileStat) -> (u64, u64) {
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
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests {
    use super::*;
    use std::fs;

    const LINE: &str = "[2026-01-01 00:00:00] Sync cycle complete\n";

    fn scene() -> (tempfile::TempDir, PathBuf, LogFile) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("daemon.log");
        let file = LogFile::at(&path);
        (root, path, file)
    }

    #[test]
    fn a_new_file_begins_with_who_writes_it() {
        let (_root, path, mut file) = scene();
        assert_eq!(file.write(LINE), None);
        assert_eq!(file.write(LINE), None);
        let text = fs::read_to_string(path).unwrap();
        let header = format!("[2026-01-01 00:00:00] {}, times in UTC\n", super::super::this_agent());
        assert_eq!(text, [&header, LINE, LINE].concat());
        assert!(header.contains(&format!("PID {}", std::process::id())), "{header}");
    }

    #[test]
    fn the_current_file_is_always_daemon_log_and_three_are_kept() {
        let (root, path, mut file) = scene();
        file.largest = 300;
        for number in 0..60 {
            assert_eq!(file.write(&format!("[2026-01-01 00:00:00] line {number}\n")), None);
            assert!(fs::metadata(&path).unwrap().len() <= 300);
        }
        let mut names: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["daemon.log", "daemon.log.1", "daemon.log.2", "daemon.log.3"]);
        let numbers = |name: &str| -> Vec<u32> {
            let text = fs::read_to_string(root.path().join(name)).unwrap();
            assert!(text.lines().next().unwrap().ends_with("times in UTC"), "{text}");
            text.lines().skip(1).map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
        };
        let kept: Vec<u32> = names.iter().rev().flat_map(|name| numbers(name.to_str().unwrap())).collect();
        let first = kept[0];
        assert_eq!(kept, (first..60).collect::<Vec<_>>(), "in order, without a gap");
    }

    #[test]
    fn a_file_moved_or_removed_is_made_anew() {
        let (root, path, mut file) = scene();
        assert_eq!(file.write(LINE), None);
        fs::rename(&path, root.path().join("moved")).unwrap();
        assert_eq!(file.write(LINE), None);
        assert!(fs::read_to_string(&path).unwrap().ends_with(LINE));
        assert_eq!(fs::read_to_string(root.path().join("moved")).unwrap().matches(LINE).count(), 1);
    }

    #[test]
    fn a_link_is_not_followed_and_said_once() {
        let (root, path, mut file) = scene();
        let victim = root.path().join("victim");
        fs::write(&victim, "").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let complaint = file.write(LINE).unwrap();
        assert!(complaint.contains("daemon.log: it is a symbolic link; cycles go on"), "{complaint}");
        assert_eq!(file.write(LINE), None, "said once");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "");
        fs::remove_file(&path).unwrap();
        assert_eq!(file.write(LINE), None);
        assert!(fs::read_to_string(&path).unwrap().ends_with(LINE), "it goes on when it can");
    }

    #[test]
    fn a_fifo_neither_hangs_nor_is_written() {
        let (_root, path, mut file) = scene();
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        assert!(file.write(LINE).unwrap().contains("it is a FIFO"));
        let _reader = open(&path, OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty()).unwrap();
        file.complained = false;
        assert!(file.write(LINE).unwrap().contains("it is not a regular file"));
    }

    #[test]
    fn no_directory_is_a_complaint() {
        let (root, _path, _) = scene();
        let mut file = LogFile::at(&root.path().join("gone/daemon.log"));
        assert!(file.write(LINE).unwrap().contains("no such file or directory"));
    }
}
