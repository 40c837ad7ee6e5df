//! Renames that replace nothing, or exchange two files.

use std::os::fd::{AsFd, AsRawFd};

use nix::{NixPath, errno::Errno};

/// What a rename does with a file that has the new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// Leaves it, and fails with EEXIST (`RENAME_NOREPLACE`).
    NoReplace,
    /// Gives it the old name (`RENAME_EXCHANGE`). Fails with ENOENT where there is none.
    Exchange,
}

/// `renameat2(2)`, by the number of the call (Linux 3.15): glibc has a function for it from 2.28 on, and the programs
/// run with 2.17. Errors: as [`RenameMode`] says, and EINVAL, ENOSYS or EOPNOTSUPP where the kernel or the file system
/// has no such rename.
pub fn renameat2<From: ?Sized + NixPath, To: ?Sized + NixPath>(
    from_dir: impl AsFd,
    from: &From,
    to_dir: impl AsFd,
    to: &To,
    mode: RenameMode,
) -> nix::Result<()> {
    let flags = match mode {
        RenameMode::NoReplace => libc::RENAME_NOREPLACE,
        RenameMode::Exchange => libc::RENAME_EXCHANGE,
    };
    let (from_dir, to_dir) = (from_dir.as_fd(), to_dir.as_fd());
    let answer = from.with_nix_path(|from| {
        to.with_nix_path(|to| {
            // SAFETY: both names end with a NUL and live until the call returns, which keeps neither; the descriptors
            // are open for as long as they are borrowed.
            unsafe {
                libc::syscall(
                    libc::SYS_renameat2,
                    from_dir.as_raw_fd(),
                    from.as_ptr(),
                    to_dir.as_raw_fd(),
                    to.as_ptr(),
                    flags,
                )
            }
        })
    })??;
    Errno::result(answer).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it renames its own files")]
    fn it_replaces_nothing_and_exchanges_two() {
        let dir = tempfile::tempdir().unwrap();
        let at = File::open(dir.path()).unwrap();
        let rename = |mode| renameat2(&at, c"one", &at, "two", mode);
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(rename(RenameMode::NoReplace), Err(Errno::ENOENT));
        fs::write(dir.path().join("one"), "first").unwrap();
        assert_eq!(rename(RenameMode::Exchange), Err(Errno::ENOENT));
        assert_eq!(rename(RenameMode::NoReplace), Ok(()));
        fs::write(dir.path().join("one"), "second").unwrap();
        assert_eq!(rename(RenameMode::NoReplace), Err(Errno::EEXIST));
        assert_eq!(
            (read("one"), read("two")),
            ("second".into(), "first".into())
        );
        assert_eq!(rename(RenameMode::Exchange), Ok(()));
        assert_eq!(
            (read("one"), read("two")),
            ("first".into(), "second".into())
        );
    }
}
