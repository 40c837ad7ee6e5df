//! A file's access control list. Where there is one, the group's bits of the mode are not what the group may do, but
//! the most that any user in the list may do. A new file with the mode alone would give all of that to the group.

use std::{ffi::CStr, io, os::fd::AsFd, path::Path};

use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr, lgetxattr};
use rustix::{buffer::spare_capacity, io::Errno};

const NAME: &CStr = c"system.posix_acl_access";

/// No extended attribute has more bytes.
const LIMIT: usize = 64 * 1024;

/// An access control list in the kernel's own form, which is handed on unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl(Vec<u8>);

impl Acl {
    /// The list of the file at `path`; `None`: the file has none, or there is no such file.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        Self::read(|bytes| lgetxattr(path, NAME, spare_capacity(bytes)))
    }

    fn of_open(file: impl AsFd) -> io::Result<Option<Self>> {
        Self::read(|bytes| fgetxattr(file, NAME, spare_capacity(bytes)))
    }

    fn read(
        read: impl FnOnce(&mut Vec<u8>) -> rustix::io::Result<usize>,
    ) -> io::Result<Option<Self>> {
        let mut bytes = Vec::with_capacity(LIMIT);
        match read(&mut bytes) {
            Ok(_) => Ok(Some(Self(bytes))),
            // There is none, no such file, or there are none on this file system.
            Err(Errno::NODATA | Errno::NOENT | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Gives the open file this list, or takes away the one of its directory. False: nothing was to be changed.
pub fn give(file: impl AsFd, acl: Option<&Acl>) -> io::Result<bool> {
    if Acl::of_open(&file)?.as_ref() == acl {
        return Ok(false);
    }
    match acl {
        Some(Acl(bytes)) => fsetxattr(file, NAME, bytes, XattrFlags::empty())?,
        None => fremovexattr(file, NAME)?,
    }
    Ok(true)
}
