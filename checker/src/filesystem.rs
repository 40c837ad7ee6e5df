//! Which file system a directory is on, and so how far its gate reaches (docs/design.md#its-reach).

use std::{os::fd::AsFd, path::Path};

use nix::sys::statfs::{Statfs, fstatfs, statfs};

/// File systems that only this machine writes.
const LOCAL: [(i64, &str); 6] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "XFS"),
    (0x9123_683E, "Btrfs"),
    (0xF2F5_2010, "F2FS"),
    (0x0102_1994, "tmpfs"),
    (0x2FC1_2FC1, "ZFS"),
];

/// File systems whose gate covers this machine, or this mount, only.
const SHARED: [(i64, &str); 9] = [
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "SMB"),
    (0xFE53_4D42, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x6A65_6A63, "virtiofs"),
    (0x0102_1997, "9p"),
    (0x00C3_6400, "ceph"),
    (0x794C_7630, "overlayfs"),
];

#[expect(clippy::unnecessary_cast, reason = "the width of f_type differs between platforms")]
fn magic(stat: &Statfs) -> i64 {
    // Some platforms sign-extend a 32-bit magic number.
    (stat.filesystem_type().0 as i64) & 0xFFFF_FFFF
}

/// True on a file system that only this machine writes; false when that is not known.
pub(crate) fn is_local(dir: impl AsFd) -> bool {
    fstatfs(dir).is_ok_and(|stat| local(&stat).is_some())
}

/// A file of the kernel's own `/proc`, and not one that somebody has mounted over it.
pub(crate) fn is_proc(file: &impl AsFd) -> bool {
    const PROC: i64 = 0x9FA0;
    fstatfs(file).is_ok_and(|stat| magic(&stat) == PROC)
}

/// A file system that answers the wish for a lease with EAGAIN also when nobody writes: its server has none to
/// give just then.
pub(crate) fn leases_are_its_servers(file: &impl AsFd) -> bool {
    let name = fstatfs(file).ok().and_then(|stat| shared(&stat));
    matches!(name, Some("NFS" | "SMB"))
}

/// The name of the file system when its gate covers this machine only, e.g. `NFS`; `None` on others.
pub fn shared_file_system(dir: &Path) -> Option<&'static str> {
    shared(&statfs(dir).ok()?)
}

fn shared(stat: &Statfs) -> Option<&'static str> {
    SHARED.iter().find(|(number, _)| *number == magic(stat)).map(|(_, name)| *name)
}

fn local(stat: &Statfs) -> Option<&'static str> {
    LOCAL.iter().find(|(number, _)| *number == magic(stat)).map(|(_, name)| *name)
}

/// Who may write a file system beside this machine, and so how far a gate on it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Nobody: the gate covers everyone.
    Local,
    /// Other machines, or other mounts of the same files: the gate covers this machine, or this mount, only.
    Shared,
    /// A file system that is not in our tables.
    Unknown,
}

/// A kind of file system, by the magic number of `statfs(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Its name, e.g. `ext4` (which ext2 and ext3 are, too) or `NFS`; `None` for one that is not in our tables.
    pub name: Option<&'static str>,
    /// How far a gate on it reaches.
    pub reach: Reach,
    /// The number itself.
    pub magic: i64,
}

impl FileSystem {
    /// Of the file system that `dir` is on.
    pub fn of(dir: impl AsFd) -> nix::Result<Self> {
        let stat = fstatfs(dir)?;
        let (name, reach) = match (local(&stat), shared(&stat)) {
            (Some(name), _) => (Some(name), Reach::Local),
            (None, Some(name)) => (Some(name), Reach::Shared),
            (None, None) => (None, Reach::Unknown),
        };
        Ok(Self { name, reach, magic: magic(&stat) })
    }
}
