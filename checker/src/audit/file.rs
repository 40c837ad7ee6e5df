//! The file: opened for every line without following a link, appended to by one write.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::write;

use super::{Author, Entry, Event};
use crate::error::words;
use crate::escape::escaped_path;
use crate::sys::{Flock, flock};

/// For how long others may be writing before a line goes in beside theirs.
const PATIENCE: Duration = Duration::from_millis(500);

/// The audit trail of this process: a file by its name. No descriptor is kept.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    author: Author,
    /// The last line could not be written.
    failing: AtomicBool,
}

impl Audit {
    /// Opens the file once, creating it, to learn before anything is claimed whether it can be appended to. A relative
    /// path is taken from the working directory of now.
    ///
    /// # Errors
    /// When it cannot be: what is wrong and what to do.
    pub fn open(path: &Path, author: Author) -> Result<Self, Failed> {
        let failed = |error: io::Error| Failed::new(path, Act::Open, &error, true);
        let path = std::path::absolute(path).map_err(failed)?;
        open_file(&path).map_err(failed)?;
        Ok(Self { path, author, failing: AtomicBool::new(false) })
    }

    /// Appends a line.
    ///
    /// # Errors
    /// When it could not be written, or only in part. Nothing that is done to a lock depends on it: say it when it
    /// [is news](Failed::is_news), and go on.
    pub fn write(&self, entry: &Entry) -> Result<(), Failed> {
        let appended = self.append(entry.line(self.author.by()));
        let was_failing = self.failing.swap(appended.is_err(), Ordering::Relaxed);
        appended.map_err(|error| {
            let act = Act::Write { event: entry.event(), lock: entry.lock_path().to_owned() };
            Failed::new(&self.path, act, &error, !was_failing)
        })
    }

    fn append(&self, mut line: String) -> io::Result<()> {
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

const FLAGS: OFlag = OFlag::O_APPEND
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY);

/// Opens the file for appending, or makes it. Reading is for [`is_torn`]; who may not read it writes without.
fn open_file(path: &Path) -> io::Result<File> {
    for _ in 0..ROUNDS {
        // Who opens a FIFO or a device has done something to it already.
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
            // Renamed just now by who rotates it.
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
    let file = File::from(open(path, FLAGS | OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL, mode)?);
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

/// True when this process has the flock on the file: no other is writing a line. Without it the line is appended all the
/// same, only the end of the one before is not looked at.
fn wait_to_be_alone(file: &File) -> bool {
    let begun = Instant::now();
    loop {
        match flock(file, Flock::Try) {
            Ok(false) if begun.elapsed() < PATIENCE => sleep(Duration::from_millis(1)),
            answer => return answer.unwrap_or(false),
        }
    }
}

/// The last line of the file has no end.
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
    act: Act,
    why: String,
    todo: &'static str,
    kind: io::ErrorKind,
    is_news: bool,
}

#[derive(Debug)]
enum Act {
    Open,
    Write { event: Event, lock: PathBuf },
}

impl Failed {
    fn new(path: &Path, act: Act, error: &io::Error, is_news: bool) -> Self {
        let errno = error.raw_os_error().map(Errno::from_raw);
        let why = match errno {
            Some(Errno::ELOOP) => "it is a symbolic link".to_owned(),
            _ => words(error),
        };
        let todo = match (error.kind(), errno) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => "make room there",
            (io::ErrorKind::FileTooLarge, _) => "raise the limit for files (ulimit -f), or name another",
            (io::ErrorKind::PermissionDenied, _) => "name one that this user may write",
            (io::ErrorKind::ReadOnlyFilesystem, _) => "name one elsewhere",
            (_, Some(Errno::EMFILE | Errno::ENFILE | Errno::EIO)) => "see to that",
            _ => "name a regular file in a directory that is there",
        };
        Self { path: path.to_owned(), act, why, todo, kind: error.kind(), is_news }
    }

    /// False for a line after another that could not be written either: it has been said.
    pub fn is_news(&self) -> bool {
        self.is_news
    }

    /// What the system said.
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { act, why, todo, .. } = self;
        let path = escaped_path(&self.path);
        match act {
            Act::Open => write!(f, "the audit file {path} cannot be opened: {why}; {todo}"),
            Act::Write { event, lock } => {
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
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use serde_json::Value;

    fn author() -> Author {
        Author::new("beadlock", "1")
    }

    fn entry(id: &str) -> Entry {
        Entry::new(Event::LockAcquired, id, "beads:.beads", Path::new("/r/.beads/.exclusive-lock"))
    }

    fn scene() -> (tempfile::TempDir, PathBuf, Audit) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("audit.jsonl");
        let audit = Audit::open(&path, author()).unwrap();
        (root, path, audit)
    }

    /// The requests of all lines; every line has to be one JSON object.
    fn requests(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        let parsed = text.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
        parsed.map(|line| line["request_id"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn opening_makes_an_empty_file_that_is_nobody_elses() {
        let (_root, path, audit) = scene();
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.len(), meta.permissions().mode() & 0o7777), (0, 0o600));
        audit.write(&entry("a")).unwrap();
        audit.write(&entry("b")).unwrap();
        assert_eq!(requests(&path), ["a", "b"]);
        Audit::open(&path, author()).unwrap();
        assert_eq!(requests(&path), ["a", "b"], "opening changes nothing");
    }

    #[test]
    fn no_link_is_followed_at_the_start_or_later() {
        let (root, path, audit) = scene();
        let victim = root.path().join("victim");
        fs::write(&victim, "").unwrap();
        fs::remove_file(&path).unwrap();
        for there in [&victim, &root.path().join("nowhere")] {
            symlink(there, &path).unwrap();
            let said = Audit::open(&path, author()).unwrap_err().to_string();
            let shown = path.display();
            assert_eq!(
                said,
                format!(
                    "the audit file {shown} cannot be opened: it is a symbolic link; name a regular file in a \
                     directory that is there"
                )
            );
            let said = audit.write(&entry("a")).unwrap_err().to_string();
            assert_eq!(
                said,
                format!(
                    "lock_acquired of /r/.beads/.exclusive-lock is not in the audit file {shown}: it is a symbolic \
                     link; name a regular file in a directory that is there; the work goes on without it"
                )
            );
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read(&victim).unwrap(), b"");
        assert!(!root.path().join("nowhere").exists());
        audit.write(&entry("b")).unwrap();
        assert_eq!(requests(&path), ["b"], "it goes on when it can");
    }

    #[test]
    fn what_is_wrong_is_news_once() {
        let (root, path, audit) = scene();
        let is_news = || audit.write(&entry("a")).unwrap_err().is_news();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!([is_news(), is_news()], [true, false]);
        fs::remove_dir(&path).unwrap();
        audit.write(&entry("a")).unwrap();
        drop(root);
        assert_eq!([is_news(), is_news()], [true, false], "again after it went well");
    }

    #[test]
    fn nothing_but_a_regular_file_is_written_and_none_blocks() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
        nix::unistd::mkfifo(&at("read"), Mode::S_IRWXU).unwrap();
        let _reader = open(&at("read"), OFlag::O_RDONLY | OFlag::O_NONBLOCK, Mode::empty()).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        let begun = Instant::now();
        for (path, words) in [
            (at("fifo"), "it is a FIFO; name a regular file"),
            (at("read"), "it is a FIFO; name a regular file"),
            (at("socket"), "it is a socket; name a regular file"),
            (at("dir"), "is a directory; name a regular file"),
            (at("no/file"), "no such file or directory; name a regular file in a directory that is there"),
            (PathBuf::from("/dev/null"), "it is not a regular file; name a regular file"),
            (PathBuf::from("/dev/stderr"), "it is a symbolic link; name a regular file"),
            (PathBuf::new(), "name a regular file"),
        ] {
            let said = Audit::open(&path, author()).unwrap_err().to_string();
            assert!(said.contains(words), "{}: {said}", path.display());
        }
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }

    /// An open of a FIFO for both wakes whoever waits for a writer.
    #[test]
    fn what_is_no_file_is_not_even_opened() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("fifo");
        nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
        let reading = std::thread::spawn({
            let path = path.clone();
            move || fs::read(path).unwrap()
        });
        let opening = |_| Audit::open(&path, author()).unwrap_err();
        let failed: Vec<Failed> =
            (0..200).map(opening).inspect(|_| sleep(Duration::from_millis(1))).collect();
        assert!(!reading.is_finished(), "its reader was woken: {:?}", failed.last());
        File::options().write(true).open(&path).unwrap();
        assert_eq!(reading.join().unwrap(), b"");
    }

    #[test]
    fn a_torn_line_does_not_swallow_the_next() {
        let (_root, path, audit) = scene();
        audit.write(&entry("a")).unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"event\":\"lock_acq").unwrap();
        audit.write(&entry("b")).unwrap();
        audit.write(&entry("c")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!((lines.len(), lines[1]), (4, "{\"event\":\"lock_acq"), "{text}");
        for (line, id) in [(lines[0], "a"), (lines[2], "b"), (lines[3], "c")] {
            assert_eq!(serde_json::from_str::<Value>(line).unwrap()["request_id"], id);
        }
    }

    #[test]
    fn who_has_the_file_locked_keeps_nobody_from_writing() {
        let (_root, path, audit) = scene();
        let theirs = File::open(&path).unwrap();
        assert!(flock(&theirs, Flock::Try).unwrap());
        audit.write(&entry("a")).unwrap();
        audit.write(&entry("b")).unwrap();
        assert_eq!(requests(&path), ["a", "b"]);
    }

    #[test]
    fn a_file_that_may_not_be_read_is_written() {
        let (_root, path, audit) = scene();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o200)).unwrap();
        audit.write(&entry("a")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(requests(&path), ["a"]);
    }

    #[test]
    fn who_rotates_it_tells_nobody() {
        let (root, path, audit) = scene();
        audit.write(&entry("a")).unwrap();
        fs::rename(&path, root.path().join("audit.1")).unwrap();
        audit.write(&entry("b")).unwrap();
        assert_eq!(
            (requests(&root.path().join("audit.1")), requests(&path)),
            (vec!["a".into()], vec!["b".into()])
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    }

    #[test]
    fn the_lines_of_many_never_mix() {
        const LINES: usize = 1000;
        let (_root, path, audit) = scene();
        let other = Audit::open(&path, author()).unwrap();
        let write = |audit: &Audit, name: &str| {
            for number in 0..LINES {
                let long = name.repeat(1 + number * 7 % 1000);
                audit.write(&entry(&format!("{name}{number}")).detail(long)).unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| write(&audit, "a"));
            scope.spawn(|| write(&audit, "b"));
            scope.spawn(|| write(&other, "c"));
        });
        let found = requests(&path);
        assert_eq!(found.len(), 3 * LINES);
        for name in ["a", "b", "c"] {
            let of_one = found.iter().filter_map(|id| id.strip_prefix(name)?.parse::<usize>().ok());
            assert!(of_one.eq(0..LINES), "{name} has all of its lines, in order");
        }
    }
}
