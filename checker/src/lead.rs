//! What leads from the name of a database to its directory: a link in its place, and a redirect in it.

use std::{fs, fs::Metadata, os::unix::fs::MetadataExt, path::Path};

/// The file in a database that says that it is elsewhere.
pub const REDIRECT: &str = "redirect";

/// What leads from a database's name to its directory, as it is now. Where two are the same, nothing has changed, and
/// git need not be asked again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lead {
    pub(crate) link: Option<Stamp>,
    pub(crate) redirect: Option<Stamp>,
}

/// Device, inode, size, and the times of the last change of content and of anything.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Lead {
    /// What a link in the place of a database is like, before it is followed: `at` is its name as it was typed.
    pub(crate) fn of_link(at: &Path) -> Self {
        let link = fs::symlink_metadata(at).ok().filter(Metadata::is_symlink);
        Self { link: link.as_ref().map(stamp), redirect: None }
    }

    /// And the redirect in the directory `named`, before that is read.
    pub(crate) fn and_redirect(self, named: &Path) -> Self {
        let redirect = fs::symlink_metadata(named.join(REDIRECT)).ok();
        Self { redirect: redirect.as_ref().map(stamp), ..self }
    }

    /// Nothing leads anywhere: the database is where its name says.
    pub fn is_none(&self) -> bool {
        self.link.is_none() && self.redirect.is_none()
    }
}

fn stamp(meta: &Metadata) -> Stamp {
    let times = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
    (meta.dev(), meta.ino(), meta.size(), times.0, times.1)
}
