//! A file that is there gets other content in one step, without a lock and without a backup.
//!
//! The content is written to a new file beside it, which gets mode, ACL and owner of the old one, is synced, and is
//! renamed over it. Where anything fails, the file is as it was and nothing is left beside it. A process that is killed
//! meanwhile may leave `.merge_file_` and eight digits, a name that git gives to such files too.
#![expect(
    clippy::disallowed_methods,
    reason = "it renames and removes a file that it has made; no lock is called so"
)]

use std::fs::{File, OpenOptions, remove_file, rename};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use beadlock_core::facts::random_id;
use nix::unistd::{Gid, Uid, fchown};

use super::error::{Error, Hint};
use super::{acl, acl::Acl, entry::NamedFile};

const PERMISSIONS: u32 = 0o7777;

/// New content that lies beside its file. Dropped, it is removed.
#[derive(Debug)]
#[must_use = "the file has its old content until `commit`"]
pub struct Replacement {
    path: PathBuf,
    beside: PathBuf,
    is_placed: bool,
}

impl Replacement {
    /// Writes the content beside the regular file at `path`, on the disk.
    ///
    /// # Errors
    /// When it cannot be written whole, or cannot get mode, ACL and owner of the file.
    pub fn prepare(path: &Path, content: &[u8]) -> Result<Self, Error> {
        // Where links lead to: the link itself stays one.
        let path = path
            .canonicalize()
            .map_err(|error| Error::io("find", path, error))?;
        let beside = path.with_file_name(format!(".merge_file_{}", &random_id()[..8]));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
            .map_err(|error| not_created(&path, error))?;
        let replacement = Self {
            path,
            beside,
            is_placed: false,
        };
        file.write_all(content)
            .and_then(|()| replacement.resemble(&file))
            // Some file systems find out only now that there is no room.
            .and_then(|()| file.sync_all())
            .map_err(|error| Error::io("write the new content of", &replacement.path, error))?;
        Ok(replacement)
    }

    fn resemble(&self, file: &File) -> io::Result<()> {
        let (old, new) = (self.path.metadata()?, file.metadata()?);
        let uid = (old.uid() != new.uid()).then(|| Uid::from_raw(old.uid()));
        let gid = (old.gid() != new.gid()).then(|| Gid::from_raw(old.gid()));
        if uid.is_some() || gid.is_some() {
            fchown(file, uid, gid)?;
        }
        acl::give(file, Acl::of(&self.path)?.as_ref())?;
        let mut permissions = new.permissions();
        permissions.set_mode(old.mode() & PERMISSIONS);
        file.set_permissions(permissions)
    }

    /// Renames the new content over the file.
    ///
    /// # Errors
    /// When it cannot take the file's name. The file is as it was then.
    pub fn commit(mut self) -> Result<(), Error> {
        rename(&self.beside, &self.path).map_err(|error| {
            let obstacle = NamedFile::open(&self.path)
                .ok()
                .and_then(|entry| entry.obstacle());
            obstacle.unwrap_or_else(|| Error::io("write", &self.path, error))
        })?;
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = remove_file(&self.beside);
        }
    }
}

fn not_created(path: &Path, error: io::Error) -> Error {
    let kind = error.kind();
    let why = Error::io("write", path, error);
    match kind {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            why.with(Hint::WritableDirectoryToReplace)
        }
        _ => why,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn the_file_keeps_its_mode_and_a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        Replacement::prepare(&link, b"new")
            .unwrap()
            .commit()
            .unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & PERMISSIONS, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(dir.path()).len(), 2);
    }

    #[test]
    fn what_is_not_committed_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "old").unwrap();
        drop(Replacement::prepare(&file, b"new").unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["file"]);
    }
}
