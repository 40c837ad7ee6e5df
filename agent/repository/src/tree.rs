//! The files below a directory, reached by descriptors and through no link: what is swapped there is swapped in one
//! step, so that a reader sees the old file or the new one.
//!
//! # Limits
//! - Where the file system cannot exchange two names (`RENAME_EXCHANGE`), a file is replaced after a second name was
//!   made for the old one. What a tool puts there by a rename between these two steps is lost.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, StatxFlags, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::content::FileContent;

/// A directory, and the files below it by their paths from there.
#[derive(Debug, Clone)]
pub struct FileTree {
    open: Arc<File>,
    /// The path of the directory, for lines and for git.
    pub path: PathBuf,
}

/// Result of a move of a file to a place where nothing may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The file is at its new place.
    Done,
    /// The file was not moved: there is something at the new place already, or nothing at the old one.
    Otherwise,
}

const DIR: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl FileTree {
    /// The files below a directory that is open; `path` is its path.
    pub(crate) fn new(open: Arc<File>, path: PathBuf) -> Self {
        Self { open, path }
    }

    /// Makes the directory `path`, with those above it that are missing.
    pub fn make(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let open = rustix::fs::open(path, DIR, Mode::empty())?;
        Ok(Self::new(Arc::new(File::from(open)), path.to_owned()))
    }

    /// The directory `path`, where it is there.
    pub fn existing(path: &Path) -> io::Result<Option<Self>> {
        match rustix::fs::open(path, DIR, Mode::empty()) {
            Ok(open) => Ok(Some(Self::new(Arc::new(File::from(open)), path.to_owned()))),
            Err(errno) if is_absent(errno) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The directory in which a path lies, and its name there. `None` where that is not there, or behind a link.
    fn dir_of<'a>(&self, path: &'a Path) -> io::Result<Option<(OwnedFd, &'a OsStr)>> {
        self.walk(path, false)
    }

    fn walk<'a>(&self, path: &'a Path, makes: bool) -> io::Result<Option<(OwnedFd, &'a OsStr)>> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut dir = rustix::fs::openat(self.open.as_fd(), c".", DIR, Mode::empty())?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(part) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            if makes {
                match rustix::fs::mkdirat(&dir, part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            dir = match rustix::fs::openat(&dir, part, DIR, Mode::empty()) {
                Ok(below) => below,
                Err(errno) if is_absent(errno) && !makes => return Ok(None),
                Err(errno) => return Err(errno.into()),
            };
        }
        Ok(Some((dir, name)))
    }

    /// The content of the file or link at a path; `None` where nothing is there.
    pub fn look(&self, path: &Path) -> io::Result<Option<FileContent>> {
        let Some((dir, name)) = self.dir_of(path)? else {
            return Ok(None);
        };
        content_at(dir.as_fd(), name)
    }

    /// The bytes of the regular file at a path; `None` where there is no such file.
    pub fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open_file(path)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// The regular file at a path, open for reading; `None` where there is no such file.
    pub fn open_file(&self, path: &Path) -> io::Result<Option<File>> {
        let Some((dir, name)) = self.dir_of(path)? else {
            return Ok(None);
        };
        open_file(dir.as_fd(), name, OFlags::RDONLY)
    }

    /// The regular file at a path, open for reading and writing at its end; `None` where it cannot be.
    pub fn open_to_append(&self, path: &Path) -> Option<File> {
        let (dir, name) = self.dir_of(path).ok()??;
        open_file(dir.as_fd(), name, OFlags::RDWR | OFlags::APPEND)
            .ok()
            .flatten()
    }

    /// The `stat` of the file at a path, of a link its own; `None` where nothing is there.
    pub fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        let Some((dir, name)) = self.dir_of(path)? else {
            return Ok(None);
        };
        match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(errno) if is_absent(errno) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Makes a new file with these bytes. It is an error when something is there.
    pub fn write_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (dir, name) = self.walk(path, true)?.ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(0o666))?;
        io::Write::write_all(&mut File::from(file), bytes)
    }

    /// Exchanges the file at a path with that of the same path in another tree.
    pub fn exchange(&self, other: &Self, path: &Path) -> io::Result<()> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let (here, name) = self.dir_of(path)?.ok_or_else(missing)?;
        let (there, _) = other.dir_of(path)?.ok_or_else(missing)?;
        match rustix::fs::renameat_with(&there, name, &here, name, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                let aside = second_name(name);
                // A kill may have left it.
                let _ = rustix::fs::unlinkat(&there, &aside, AtFlags::empty());
                let aside = aside.as_os_str();
                rustix::fs::linkat(&here, name, &there, aside, AtFlags::empty())?;
                rustix::fs::renameat(&there, name, &here, name)?;
                Ok(rustix::fs::renameat(&there, aside, &there, name)?)
            }
            ended => Ok(ended?),
        }
    }

    /// Ends an exchange of this tree with another one that was made in steps and stopped by a kill.
    pub fn end_exchange(&self, path: &Path) -> io::Result<()> {
        let Some((dir, name)) = self.dir_of(path)? else {
            return Ok(());
        };
        match rustix::fs::renameat_with(&dir, second_name(name), &dir, name, RenameFlags::NOREPLACE)
        {
            // There was no such exchange, or it has not come to its second step.
            Ok(()) | Err(Errno::EXIST | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Moves the file at a path to the same path of another tree, and over nothing.
    pub fn move_to(&self, other: &Self, path: &Path) -> io::Result<Put> {
        let Some((here, name)) = self.dir_of(path)? else {
            return Ok(Put::Otherwise);
        };
        let (there, _) = other.walk(path, true)?.ok_or(io::ErrorKind::NotFound)?;
        match rustix::fs::renameat_with(&here, name, &there, name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(Put::Done),
            Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(Put::Otherwise),
            Err(errno) if is_absent(errno) => Ok(Put::Otherwise),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match rustix::fs::linkat(&here, name, &there, name, AtFlags::empty()) {
                    Ok(()) => {}
                    Err(Errno::EXIST) => return Ok(Put::Otherwise),
                    Err(errno) => return Err(errno.into()),
                }
                rustix::fs::unlinkat(&here, name, AtFlags::empty())?;
                Ok(Put::Done)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// The tree under another name, which no other has.
    pub fn renamed(self, to: &Path) -> io::Result<Self> {
        rustix::fs::rename(&self.path, to)?;
        Ok(Self::new(self.open, to.to_owned()))
    }

    /// Removes a directory with no files in it, nor below. Returns whether it is gone.
    pub fn remove_dir(&self, path: &Path) -> bool {
        let Ok(Some((above, name))) = self.dir_of(path) else {
            return false;
        };
        remove_dir_at(above.as_fd(), name).is_ok()
    }

    /// Removes a file.
    pub fn remove(&self, path: &Path) {
        if let Ok(Some((dir, name))) = self.dir_of(path) {
            let _ = rustix::fs::unlinkat(&dir, name, AtFlags::empty());
        }
    }

    /// Makes a directory at a path, as git does for a submodule.
    pub fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.walk(&path.join("x"), true).map(drop)
    }

    /// Removes the directories above a path that are empty, but neither this tree's top nor one that `stays`.
    pub fn remove_empty_above(&self, path: &Path, stays: impl Fn(&Path) -> bool) {
        for dir in path.ancestors().skip(1) {
            if dir.as_os_str().is_empty() || stays(dir) {
                return;
            }
            let Ok(Some((above, name))) = self.dir_of(dir) else {
                return;
            };
            if rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }

    /// Writes out the directory in which a path lies, so that the names there survive a power cut.
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match self.dir_of(path)? {
            Some((dir, _)) => Ok(rustix::fs::fsync(dir)?),
            None => Ok(()),
        }
    }

    /// Writes out the file at a path, so that its bytes survive a power cut.
    pub fn sync_file(&self, path: &Path) -> io::Result<()> {
        match self.open_file(path)? {
            Some(file) => file.sync_all(),
            None => Ok(()),
        }
    }

    /// Writes out the whole file system on which the tree lies.
    pub fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(self.open.as_fd())?)
    }

    /// The mount on which a path lies, or would lie: names can be exchanged only within one.
    pub fn mount_of(&self, path: &Path) -> io::Result<u64> {
        let mut dir = rustix::fs::openat(self.open.as_fd(), c".", DIR, Mode::empty())?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            match rustix::fs::openat(&dir, part.as_os_str(), DIR, Mode::empty()) {
                Ok(below) => dir = below,
                Err(_) => break,
            }
        }
        mount(dir.as_fd())
    }

    /// Gives the file at a path the owner, the rights (but who may execute it) and the attributes that the same file
    /// has in another tree. Returns false where it could then be read or written by fewer.
    pub fn dress_as(&self, other: &Self, path: &Path) -> io::Result<bool> {
        let (Some(new), Some(old)) = (self.open_file(path)?, other.open_file(path)?) else {
            return Ok(true);
        };
        dress(&new, &old)
    }
}

/// The second name that an exchange in steps gives to the old file.
fn second_name(name: &OsStr) -> OsString {
    OsString::from_vec([name.as_bytes(), b".old"].concat())
}

fn dress(new: &File, old: &File) -> io::Result<bool> {
    let (is, was) = (rustix::fs::fstat(new)?, rustix::fs::fstat(old)?);
    let (owner, group) = (Uid::from_raw(was.st_uid), Gid::from_raw(was.st_gid));
    let has_all = (is.st_uid, is.st_gid) == (was.st_uid, was.st_gid)
        || rustix::fs::fchown(new, Some(owner), Some(group)).is_ok();
    // Only root gives files away; a group of one's own can be given.
    let has_group =
        has_all || is.st_gid == was.st_gid || rustix::fs::fchown(new, None, Some(group)).is_ok();
    let has_owner = has_all || is.st_uid == was.st_uid;
    // git decides who may execute it, as far as it may be read.
    let read = was.st_mode & 0o666;
    let execute = if is.st_mode & 0o111 == 0 {
        0
    } else {
        read >> 2
    };
    rustix::fs::fchmod(new, Mode::from_raw_mode(read | execute))?;
    // Where everybody has the same rights, it does not matter whose it is.
    let everybody = read & 0o7;
    let is_as_open = (has_owner || (read >> 6) & !everybody == 0)
        && (has_group || (read >> 3) & 0o7 & !everybody == 0);
    Ok(copy_attributes(new, old)? && is_as_open)
}

/// The extended attributes, and with them an access list. Returns false where an access list could not be given.
fn copy_attributes(new: &File, old: &File) -> io::Result<bool> {
    let mut names = vec![0u8; 64 * 1024];
    let length = match rustix::fs::flistxattr(old, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => return Ok(true),
        Err(errno) => return Err(errno.into()),
    };
    let mut all_given = true;
    for name in names[..length].split(|byte| *byte == 0) {
        if name.is_empty() {
            continue;
        }
        let name = OsStr::from_bytes(name);
        let mut value = vec![0u8; 64 * 1024];
        let Ok(length) = rustix::fs::fgetxattr(old, name, &mut value[..]) else {
            continue;
        };
        let given = rustix::fs::fsetxattr(new, name, &value[..length], XattrFlags::empty());
        all_given &= given.is_ok() || !name.as_bytes().starts_with(b"system.posix_acl_access");
    }
    Ok(all_given)
}

fn remove_dir_at(above: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        ended => return Ok(ended?),
    }
    let dir = rustix::fs::openat(above, name, DIR, Mode::empty())?;
    for entry in rustix::fs::Dir::read_from(&dir)? {
        let entry = entry?;
        let below = entry.file_name().to_bytes();
        if below != b"." && below != b".." {
            remove_dir_at(dir.as_fd(), OsStr::from_bytes(below))?;
        }
    }
    Ok(rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)?)
}

fn mount(dir: BorrowedFd<'_>) -> io::Result<u64> {
    let flags = AtFlags::EMPTY_PATH;
    let asked = rustix::fs::statx(dir, c"", flags, StatxFlags::MNT_ID);
    match asked {
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 => Ok(found.stx_mnt_id),
        // Before Linux 5.8: another device is another mount.
        _ => Ok(rustix::fs::fstat(dir)?.st_dev),
    }
}

fn content_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<FileContent>> {
    let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(errno) if is_absent(errno) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => match open_file(dir, name, OFlags::RDONLY)? {
            Some(mut file) => FileContent::of_file(&mut file, stat.st_mode & 0o100 != 0).map(Some),
            None => Ok(None),
        },
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            Ok(Some(FileContent::Link(target.into_bytes())))
        }
        _ => Ok(Some(FileContent::Other)),
    }
}

/// Opens a file below `dir`; `None` where there is nothing, or no regular file.
fn open_file(dir: BorrowedFd<'_>, name: &OsStr, how: OFlags) -> io::Result<Option<File>> {
    let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Ok(None),
        Err(errno) if is_absent(errno) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_file.then(|| File::from(file)))
}

/// Whether the error says that nothing is there, or that a link is on the way.
fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees() -> (tempfile::TempDir, FileTree, FileTree) {
        let dir = tempfile::tempdir().unwrap();
        let tree = |name: &str| FileTree::make(&dir.path().join(name)).unwrap();
        let (one, two) = (tree("one"), tree("two"));
        (dir, one, two)
    }

    #[test]
    fn files_are_exchanged() {
        let (_dir, one, two) = trees();
        let path = Path::new("a/b");
        one.write_new(path, b"1").unwrap();
        two.write_new(path, b"2").unwrap();
        one.exchange(&two, path).unwrap();
        let both = [one.read(path).unwrap(), two.read(path).unwrap()];
        assert_eq!(both, [Some(b"2".to_vec()), Some(b"1".to_vec())]);
        let missing = one.exchange(&two, Path::new("a/c")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_exchange_in_steps_is_ended_after_a_kill() {
        let (_dir, one, _two) = trees();
        let path = Path::new("a/b");
        one.write_new(Path::new("a/b.old"), b"old").unwrap();
        one.end_exchange(path).unwrap();
        assert_eq!(one.read(path).unwrap(), Some(b"old".to_vec()));
        // The second step was not made.
        one.write_new(Path::new("a/b.old"), b"older").unwrap();
        one.end_exchange(path).unwrap();
        assert_eq!(one.read(path).unwrap(), Some(b"old".to_vec()));
        one.end_exchange(Path::new("c/d")).unwrap();
    }

    #[test]
    fn only_directories_without_files_are_removed() {
        let (_dir, one, _two) = trees();
        one.make_dir(Path::new("a/b/c")).unwrap();
        one.write_new(Path::new("d/e/f"), b"").unwrap();
        assert!(one.remove_dir(Path::new("a")) && !one.remove_dir(Path::new("d")));
        assert_eq!(one.look(Path::new("a")).unwrap(), None);
        assert!(one.look(Path::new("d/e/f")).unwrap().is_some());
        assert!(!one.remove_dir(Path::new("d/e/f")) && !one.remove_dir(Path::new("x")));
    }

    #[test]
    fn nothing_is_reached_through_a_link() {
        let (dir, one, two) = trees();
        two.write_new(Path::new("f"), b"2").unwrap();
        std::os::unix::fs::symlink(dir.path().join("two"), dir.path().join("one/l")).unwrap();
        let path = Path::new("l/f");
        assert_eq!(
            (one.look(path).unwrap(), one.read(path).unwrap()),
            (None, None)
        );
        assert_eq!(one.move_to(&two, path).unwrap(), Put::Otherwise);
        assert!(one.write_new(path, b"1").is_err());
    }
}
