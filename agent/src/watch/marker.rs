//! The marker: what is opened to learn that everything before it has been reported.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::sys::memfd::{MFdFlags, memfd_create};

/// A file without a name that nobody else opens. It stays open, for its inode must stay the watched one: that of a
/// file in `/proc` is another one after the kernel has reclaimed its memory.
pub(super) struct Marker {
    path: PathBuf,
    _pinned: File,
}

impl Marker {
    /// # Errors
    /// On a system without such files.
    pub(super) fn new() -> nix::Result<Self> {
        let file = File::from(memfd_create(c"beadlock-marker", MFdFlags::MFD_CLOEXEC)?);
        Ok(Self { path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(), _pinned: file })
    }

    /// What to watch.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// One event for who watches it.
    pub(super) fn touch(&self) {
        let _ = File::open(&self.path);
    }
}
