//! The proof that nothing has changed since git was last asked, found without git.
//!
//! A [`Snapshot`] has the stamps (`lstat`) of everything by which git's answer could become another: each file of the
//! database, and what [`KnownRepository`] names. Two equal snapshots prove that nothing changed between them, when no
//! stamp of the first was racy. A file that changes twice within one tick of the clock may keep its stamp, as git
//! knows it of its index. So a stamp that is not older than the snapshot by a margin proves nothing. Where it cannot
//! be sure there is no snapshot, and git is asked.
//!
//! A part of it, the setup, is only of what tells where the repository is and what its settings are. As long as that is
//! the same, a sync of other changes does not ask for these again.
//!
//! # Limits
//! - A configuration that is included, and what a filter makes of a file, have no stamp. So a proof is good for one
//!   hour.
//! - A page that stays mapped is written without another stamp: the [contents](crate::contents) are looked at.
//! - Other machines may write on a network file system without this one seeing it: there git is asked each time.

use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use beadlock_base::filesystem::{FileSystem, Reach};
use beadlock_core::facts;
use serde::{Deserialize, Serialize};

use crate::contents::RECENT;
use crate::known::KnownRepository;
use crate::names::ExcludedNames;

/// With more entries, git is asked.
const MANY: usize = 10_000;
/// A stamp must be older than the snapshot by more than a tick of the kernel's clock (at most 10 ms).
const MARGIN: Duration = Duration::from_millis(100);
/// The same on file systems that count whole seconds.
const COARSE: Duration = Duration::from_secs(2);

/// The stamps of all that counts, at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    all: Stamps,
    setup: Stamps,
    /// The files of the database that were written within the last hour.
    recent: Vec<(PathBuf, FileStamp)>,
}

/// What a snapshot is taken of.
pub struct Subjects<'a> {
    /// The database's directory.
    pub database: &'a Path,
    /// The agent's own files, which may lie in the database.
    pub own_files: &'a [PathBuf],
    /// The repository around it, as the last sync has found it.
    pub repository: &'a KnownRepository,
    /// What else another sync would depend on: the settings.
    pub settings: [bool; 2],
}

impl Snapshot {
    /// `now` is the time since 1970, read before. `None` where only git can tell.
    pub fn take(subjects: &Subjects<'_>, now: Duration) -> Option<Self> {
        let dirs = [subjects.database, subjects.repository.common_dir()];
        if !dirs.iter().all(|dir| is_of_this_machine(dir)) {
            return None;
        }
        Self::stamps(subjects, now).ok()
    }

    /// Whether the later one shows that nothing has changed.
    pub fn proves(&self, later: &Self) -> bool {
        self.all.prove(&later.all)
    }

    /// Whether the later one shows the same repository, with the same settings.
    pub fn proves_setup(&self, later: &Self) -> bool {
        self.setup.prove(&later.setup)
    }

    pub(crate) fn recent(&self) -> &[(PathBuf, FileStamp)] {
        &self.recent
    }

    fn stamps(subjects: &Subjects<'_>, now: Duration) -> io::Result<Self> {
        let mut setup = Stamps {
            now,
            digest: 0,
            is_settled: true,
        };
        setup.add(&(subjects.settings, subjects.own_files));
        let repository = subjects.repository;
        for dir in repository.owned().into_iter().chain([subjects.database]) {
            setup.owner(dir)?;
        }
        for path in repository.setup() {
            setup.path(&path)?;
        }
        let mut all = setup.clone();
        let recent = all.files_of(subjects)?;
        for path in repository.content() {
            all.path(&path)?;
        }
        Ok(Self { all, setup, recent })
    }
}

#[derive(Debug, Clone)]
struct Stamps {
    now: Duration,
    /// The sum of the digests of the entries, whose order says nothing.
    digest: u64,
    /// None of the stamps is racy.
    is_settled: bool,
}

impl Stamps {
    fn prove(&self, later: &Self) -> bool {
        self.is_settled && self.digest == later.digest
    }

    /// Every file of the database but those that are never committed. Returns those that were written a short time ago.
    fn files_of(&mut self, subjects: &Subjects<'_>) -> io::Result<Vec<(PathBuf, FileStamp)>> {
        let mut recent = Vec::new();
        let names = ExcludedNames {
            top: PathBuf::new(),
            prefix: subjects.database.to_owned(),
            own: subjects.own_files.to_vec(),
        };
        let mut dirs = vec![subjects.database.to_owned()];
        let mut entries = 0;
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let path = entry.path();
                if names.is_left_out(path.as_os_str().as_encoded_bytes()) {
                    continue;
                }
                entries += 1;
                if entries > MANY {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                let meta = entry.metadata()?;
                if meta.is_dir() {
                    // Its names are read; its times change with what is left out.
                    self.add(&(&path, owner(&meta)));
                    dirs.push(path);
                } else {
                    let stamp = self.file(&path, &meta);
                    if meta.is_file() && !stamp.is_older(RECENT, self.now) {
                        recent.push((path, stamp));
                    }
                }
            }
        }
        Ok(recent)
    }

    fn path(&mut self, path: &Path) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            // A directory is watched for being there.
            Ok(meta) if meta.is_dir() => self.add(&(path, owner(&meta))),
            Ok(meta) => drop(self.file(path, &meta)),
            Err(error) if is_absent(&error) => self.add(&(path, "absent")),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn add(&mut self, entry: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        entry.hash(&mut hasher);
        self.digest = self.digest.wrapping_add(hasher.finish());
    }

    fn owner(&mut self, dir: &Path) -> io::Result<()> {
        let meta = fs::symlink_metadata(dir)?;
        self.add(&(dir, owner(&meta)));
        Ok(())
    }

    fn file(&mut self, path: &Path, meta: &Metadata) -> FileStamp {
        let stamp = FileStamp::from(meta);
        self.is_settled &= stamp.is_settled(self.now);
        self.add(&(path, &stamp));
        stamp
    }
}

/// A file, as long as nobody changes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    owner: (u64, u64, u32, u32, u32),
    size: u64,
    /// When it was modified and when it was changed, in seconds and nanoseconds.
    times: [(i64, i64); 2],
}

impl From<&Metadata> for FileStamp {
    fn from(meta: &Metadata) -> Self {
        let times = [
            (meta.mtime(), meta.mtime_nsec()),
            (meta.ctime(), meta.ctime_nsec()),
        ];
        Self {
            owner: owner(meta),
            size: meta.size(),
            times,
        }
    }
}

impl FileStamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(Self::from)
    }

    /// The stamps of the files, each before the caller looks into it. `None` for a file that could change now without
    /// another stamp. For files that were written a moment ago it waits that moment, once.
    pub(crate) fn settled(paths: &[PathBuf]) -> Vec<Option<Self>> {
        let all = || -> Vec<_> {
            let now = Duration::try_from(facts::now().0).unwrap_or_default();
            paths
                .iter()
                .map(|path| Self::of(path).filter(|stamp| stamp.is_settled(now)))
                .collect()
        };
        let stamps = all();
        if stamps.iter().all(Option::is_some) {
            return stamps;
        }
        thread::sleep(MARGIN + Duration::from_millis(1));
        all()
    }

    /// Whether it is the same file with the same content, under another name.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        let [written, _] = self.times;
        (self.owner, self.size, written) == (other.owner, other.size, other.times[0])
    }

    /// When it was last changed, since 1970.
    pub(crate) fn changed(&self) -> Duration {
        let (seconds, nanos) = self.times[1];
        let seconds = u64::try_from(seconds).unwrap_or_default();
        Duration::new(seconds, u32::try_from(nanos).unwrap_or_default())
    }

    /// In bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Neither of its times is younger than that.
    fn is_older(&self, age: Duration, now: Duration) -> bool {
        let since = now.saturating_sub(age).as_secs();
        self.times
            .iter()
            .all(|(seconds, _)| u64::try_from(*seconds).unwrap_or_default() < since)
    }

    fn is_settled(&self, now: Duration) -> bool {
        self.times.iter().all(|time| is_old(*time, now))
    }
}

/// Device, inode, mode, user and group.
fn owner(meta: &Metadata) -> (u64, u64, u32, u32, u32) {
    (meta.dev(), meta.ino(), meta.mode(), meta.uid(), meta.gid())
}

/// Whether a file with this time could not have been changed again without another time.
fn is_old((seconds, nanos): (i64, i64), now: Duration) -> bool {
    let margin = if nanos == 0 { COARSE } else { MARGIN };
    let time = Duration::new(
        u64::try_from(seconds).unwrap_or_default(),
        u32::try_from(nanos).unwrap_or_default(),
    );
    time.checked_add(margin).is_some_and(|time| time < now)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// A local file system, or a container's own.
pub(crate) fn is_of_this_machine(dir: &Path) -> bool {
    let file_system = File::open(dir).map(FileSystem::of);
    matches!(file_system, Ok(Ok(found)) if found.reach == Reach::Local || found.name == Some("overlayfs"))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests change what they have made"
)]
mod tests;
