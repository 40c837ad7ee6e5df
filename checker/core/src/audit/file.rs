//! The file: opened for every line without following a link, appended to by one write.

use std::time::Instant;
use std::{
    fmt, fs, fs::File, fs::Metadata, io, os::unix::fs::FileExt, os::unix::fs::FileTypeExt,
    path::Path,
};
use std::{
    path::PathBuf, sync::atomic::AtomicBool, sync::atomic::Ordering, thread::sleep, time::Duration,
};

use nix::{
    errno::Errno, fcntl::OFlag, fcntl::open, sys::stat::Mode, sys::stat::fchmod, unistd::write,
};

use super::{AuditEntry, Author};
use beadlock_base::{
    error::system_words,
    escape::escaped_path,
    regular::CAREFULLY,
    sys::{Flock, flock},
};

/// For how long others may be writing before a line goes in beside theirs.
const PATIENCE: Duration = Duration::from_millis(500);

/// The audit trail of this process, in the lines of this project.
#[derive(Debug)]
pub struct Audit {
    lines: LineFile,
    author: Author,
}

impl Audit {
    /// Opens the file, as [`LineFile::open`] does.
    pub fn open(path: &Path, author: Author) -> Result<Self, Failed> {
        Ok(Self {
            lines: LineFile::open(path)?,
            author,
        })
    }

    /// Appends a line.
    pub fn write(&self, entry: &AuditEntry) -> Result<(), Failed> {
        self.lines.append(
            entry.line(self.author.by()),
            entry.event().as_str(),
            entry.lock_path(),
        )
    }
}

/// A file of lines, by its name, of whatever protocol. No descriptor is kept.
#[derive(Debug)]
pub struct LineFile {
    path: PathBuf,
    failing: AtomicBool,
}

impl LineFile {
    /// Opens the file once, creating it, to learn before anything is claimed whether it can be appended to. A relative
    /// path is taken from the working directory of now.
    pub fn open(path: &Path) -> Result<Self, Failed> {
        let failed = |error: io::Error| Failed::new(path, AuditAct::Open, &error, true);
        let path = std::path::absolute(path).map_err(failed)?;
        open_file(&path).map_err(failed)?;
        Ok(Self {
            path,
            failing: AtomicBool::new(false),
        })
    }

    /// Appends `line`, which ends in its only line break. `event` and `lock` are for the error. Fails when it could not
    /// be written, or only in part. Nothing that is done to a lock depends on it: say it when it [is
    /// news](Failed::is_news), and go on.
    pub fn append(&self, line: String, event: &'static str, lock: &Path) -> Result<(), Failed> {
        let appended = self.write(line);
        let was_failing = self.failing.swap(appended.is_err(), Ordering::Relaxed);
        appended.map_err(|error| {
            let act = AuditAct::Write {
                event,
                lock: lock.to_owned(),
            };
            Failed::new(&self.path, act, &error, !was_failing)
        })
    }

    fn write(&self, mut line: String) -> io::Result<()> {
        let file = open_file(&self.path)?;
        // While somebody is writing, the file may end in the middle of his line.
        let is_alone = wait_to_be_alone(&file);
        if is_alone && is_torn(&file) {
            line.insert(0, '\n');
        }
        let written = loop {
            match write(&file, line.as_bytes()) {
                Err(Errno::EINTR) => {}
                result => break result,
            }
        };
        if is_alone {
            let _ = flock(&file, Flock::Unlock);
        }
        let written = written?;
        if written < line.len() {
            let what = format!("only {written} of {} bytes could be written", line.len());
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        Ok(())
    }
}

/// How often the file may be renamed away between two steps.
const ROUNDS: usize = 32;

const FLAGS: OFlag = OFlag::O_APPEND.union(OFlag::O_NOFOLLOW).union(CAREFULLY);

/// Opens the file for appending, or makes it; also for reading, where that is allowed, for [`is_torn`].
fn open_file(path: &Path) -> io::Result<File> {
    for _ in 0..ROUNDS {
        // To open a FIFO or a device is to do something to it already.
        match fs::symlink_metadata(path) {
            Ok(meta) => must_be_a_file(&meta)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => match made(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made,
            },
            Err(error) => return Err(error),
        }
        let opened = match open(path, FLAGS | OFlag::O_RDWR, Mode::empty()) {
            Err(Errno::EACCES) => open(path, FLAGS | OFlag::O_WRONLY, Mode::empty()),
            // A rotation has renamed it just now.
            Err(Errno::ENOENT) => continue,
            opened => opened,
        };
        let file = File::from(opened?);
        must_be_a_file(&file.metadata()?)?;
        return Ok(file);
    }
    Err(Errno::ENOENT.into())
}

/// A new file: nobody else's, and its owner's to open again, whatever the umask.
fn made(path: &Path) -> io::Result<File> {
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let file = File::from(open(
        path,
        FLAGS | OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL,
        mode,
    )?);
    fchmod(&file, mode)?;
    Ok(file)
}

fn must_be_a_file(meta: &Metadata) -> io::Result<()> {
    let kind = meta.file_type();
    Err(match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_symlink() => Errno::ELOOP.into(),
        () if kind.is_dir() => Errno::EISDIR.into(),
        () if kind.is_fifo() => io::Error::other("it is a FIFO"),
        () if kind.is_socket() => io::Error::other("it is a socket"),
        () => io::Error::other("it is not a regular file"),
    })
}

/// True when this process has the flock on the file: no other is writing a line. Without it the line is appended all
/// the same, only the end of the one before is not looked at.
fn wait_to_be_alone(file: &File) -> bool {
    let begun = Instant::now();
    loop {
        match flock(file, Flock::Try) {
            Ok(false) if begun.elapsed() < PATIENCE => sleep(Duration::from_millis(1)),
            answer => return answer.unwrap_or(false),
        }
    }
}

fn is_torn(file: &File) -> bool {
    let mut last = [b'\n'];
    if let Ok(meta) = file.metadata()
        && let Some(at) = meta.len().checked_sub(1)
    {
        let _ = file.read_exact_at(&mut last, at);
    }
    last != [b'\n']
}

/// Why there is no audit trail, or a line is not in it. `Display` says what, which file, why, and what to do.
#[derive(Debug)]
pub struct Failed {
    path: PathBuf,
    act: AuditAct,
    why: String,
    todo: &'static str,
    kind: io::ErrorKind,
    is_news: bool,
}

#[derive(Debug)]
enum AuditAct {
    Open,
    Write { event: &'static str, lock: PathBuf },
}

impl Failed {
    fn new(path: &Path, act: AuditAct, error: &io::Error, is_news: bool) -> Self {
        let errno = error.raw_os_error().map(Errno::from_raw);
        let why = match errno {
            Some(Errno::ELOOP) => "it is a symbolic link".to_owned(),
            _ => system_words(error),
        };
        let todo = match (error.kind(), errno) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => "make room there",
            (io::ErrorKind::FileTooLarge, _) => {
                "raise the limit for files (ulimit -f), or name another"
            }
            (io::ErrorKind::PermissionDenied, _) => "name one that this user may write",
            (io::ErrorKind::ReadOnlyFilesystem, _) => "name one elsewhere",
            (_, Some(Errno::EMFILE | Errno::ENFILE | Errno::EIO)) => "see to that",
            _ => "name a regular file in a directory that is there",
        };
        Self {
            path: path.to_owned(),
            act,
            why,
            todo,
            kind: error.kind(),
            is_news,
        }
    }

    /// False for a line after another that could not be written either: it has been said.
    pub fn is_news(&self) -> bool {
        self.is_news
    }

    /// The kind of error that the system returned.
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { act, why, todo, .. } = self;
        let path = escaped_path(&self.path);
        match act {
            AuditAct::Open => write!(f, "the audit file {path} cannot be opened: {why}; {todo}"),
            AuditAct::Write { event, lock } => {
                let lock = escaped_path(lock);
                write!(
                    f,
                    "{event} of {lock} is not in the audit file {path}: {why}; {todo}; the work goes on without it"
                )
            }
        }
    }
}

impl std::error::Error for Failed {}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests move and remove what they have made"
)]
mod tests;
