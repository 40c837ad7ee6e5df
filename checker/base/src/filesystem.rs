//! Which file system a directory is on, and so how far its gate reaches (docs/design.md#its-reach); and what kind of
//! thing a directory entry is.

use std::{os::fd::AsFd, path::Path};

use nix::{
    sys::stat::FileStat, sys::stat::SFlag, sys::statfs::Statfs, sys::statfs::fstatfs,
    sys::statfs::statfs,
};

/// Every file system that is known: its magic number, its name, and how far a gate on it reaches.
const KNOWN: [(i64, &str, Reach); 15] = [
    (0xEF53, "ext4", Reach::Local),
    (0x5846_5342, "XFS", Reach::Local),
    (0x9123_683E, "Btrfs", Reach::Local),
    (0xF2F5_2010, "F2FS", Reach::Local),
    (0x0102_1994, "tmpfs", Reach::Local),
    (0x2FC1_2FC1, "ZFS", Reach::Local),
    (0x6969, "NFS", Reach::Shared),
    (0x517B, "SMB", Reach::Shared),
    (0xFF53_4D42, "SMB", Reach::Shared),
    (0xFE53_4D42, "SMB", Reach::Shared),
    (0x6573_5546, "FUSE", Reach::Shared),
    (0x6A65_6A63, "virtiofs", Reach::Shared),
    (0x0102_1997, "9p", Reach::Shared),
    (0x00C3_6400, "ceph", Reach::Shared),
    (0x794C_7630, "overlayfs", Reach::Shared),
];

/// True on a file system that only this machine writes; false when that is not known.
pub fn is_local(dir: impl AsFd) -> bool {
    FileSystem::of(dir).is_ok_and(|found| found.reach == Reach::Local)
}

/// A file of the kernel's own `/proc`, and not one that somebody has mounted over it.
pub fn is_proc(file: &impl AsFd) -> bool {
    const PROC: i64 = 0x9FA0;
    FileSystem::of(file).is_ok_and(|found| found.magic == PROC)
}

/// A file system that may refuse a lease with EAGAIN although nobody writes: its server has none to give just then.
pub fn leases_are_its_servers(file: &impl AsFd) -> bool {
    FileSystem::of(file).is_ok_and(|found| matches!(found.name, Some("NFS" | "SMB")))
}

/// The name of the file system when its gate covers this machine only, e.g. `NFS`; `None` on others.
pub fn shared_file_system(dir: &Path) -> Option<&'static str> {
    let found = FileSystem::known(&statfs(dir).ok()?);
    found.name.filter(|_| found.reach == Reach::Shared)
}

/// The machines that may write a file system beside this one, and so how far a gate on it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// No other machine: the gate covers everyone.
    Local,
    /// Other machines, or other mounts of the same files: the gate covers this machine, or this mount, only.
    Shared,
    /// A file system that is not in our tables.
    Unknown,
}

/// A kind of file system, by the magic number of `statfs(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Name of the kind, e.g. `ext4` (which ext2 and ext3 are, too) or `NFS`; `None` where it is not in our tables.
    pub name: Option<&'static str>,
    /// How far a gate on it reaches.
    pub reach: Reach,
    /// The number itself.
    pub magic: i64,
}

impl FileSystem {
    /// The kind of file system that `dir` is on. Fails where `fstatfs(2)` does.
    pub fn of(dir: impl AsFd) -> nix::Result<Self> {
        fstatfs(dir).map(|stat| Self::known(&stat))
    }

    #[expect(
        clippy::unnecessary_cast,
        reason = "the width of f_type differs between platforms"
    )]
    fn known(stat: &Statfs) -> Self {
        // Some platforms sign-extend a 32-bit magic number.
        let magic = (stat.filesystem_type().0 as i64) & 0xFFFF_FFFF;
        match KNOWN.iter().find(|(number, ..)| *number == magic) {
            Some((_, name, reach)) => Self {
                name: Some(*name),
                reach: *reach,
                magic,
            },
            None => Self {
                name: None,
                reach: Reach::Unknown,
                magic,
            },
        }
    }
}

words! {
    /// Kinds of directory entries.
    pub enum FileKind {
        /// A regular file.
        File = "file",
        /// A directory.
        Directory = "directory",
        /// A symbolic link.
        Symlink = "symlink",
        /// A FIFO.
        Fifo = "fifo",
        /// A socket.
        Socket = "socket",
        /// A device.
        Device = "device",
    }
}

impl FileKind {
    /// The kind of a file with this status.
    pub fn of(stat: &FileStat) -> Self {
        match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFREG => Self::File,
            SFlag::S_IFDIR => Self::Directory,
            SFlag::S_IFLNK => Self::Symlink,
            SFlag::S_IFIFO => Self::Fifo,
            SFlag::S_IFSOCK => Self::Socket,
            _ => Self::Device,
        }
    }
}
