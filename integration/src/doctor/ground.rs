//! The ground: the directory itself and the file system that it is on, without making anything.

use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd};

use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::{FileSystem, Reach, system_words};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::geteuid;

use super::trial::{Failure, Outcome};

/// What is known of the file system, and where it is mounted.
pub fn file_system(dir: BorrowedFd<'_>) -> Outcome {
    let found = FileSystem::of(dir).map_err(of_statfs)?;
    let mount = mount_of(dir);
    let name = name_of(found.name, mount.as_ref().map(|mount| mount.kind.as_str()), found.magic);
    let at = mount.map(|mount| format!(", mounted at {}", escaped(&mount.point))).unwrap_or_default();
    match found.reach {
        Reach::Local => Ok(name + &at),
        Reach::Shared => Err(Failure::Missing(name + &at)),
        Reach::Unknown => Err(Failure::Untried(format!("{name}{at}: a kind that is in no table of ours"))),
    }
}

/// It says nothing about what it was asked for.
fn of_statfs(errno: Errno) -> Failure {
    Failure::untried(system_words(&errno.into()))
}

/// By the kernel's word, which knows `ext3` from `ext4` and `fuse.sshfs` from other FUSE; ours where it says more.
fn name_of(ours: Option<&str>, kind: Option<&str>, magic: i64) -> String {
    let (Some(ours), Some(kind)) = (ours, kind) else {
        let known = ours.or(kind).map(|name| escaped(name).to_string());
        return known.unwrap_or_else(|| format!("unknown (statfs {magic:#x})"));
    };
    let lower = (ours.to_ascii_lowercase(), kind.to_ascii_lowercase());
    match () {
        () if lower.0.starts_with(&lower.1) => ours.to_owned(),
        () if lower.1.starts_with(&lower.0) || lower.1.starts_with("ext") => escaped(kind).to_string(),
        () => format!("{} ({ours})", escaped(kind)),
    }
}

/// What the kernel says of a mount; untrusted.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    kind: String,
    point: String,
}

/// `None` where it is not to be seen, as in a chroot.
fn mount_of(dir: BorrowedFd<'_>) -> Option<Mount> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_raw_fd())).ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let mounts = String::from_utf8_lossy(&mounts);
    mounts.lines().find(|line| line.split(' ').next() == Some(id)).and_then(Mount::parse)
}

impl Mount {
    /// `36 35 98:0 /root /mnt\040x rw,noatime master:1 - fuse.bindfs src rw`
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        Some(Self { kind: unescaped(after.split(' ').next()?), point: unescaped(before.split(' ').nth(4)?) })
    }
}

/// Blanks and the like are octal there: `\040`.
fn unescaped(word: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal =
            after.get(..3).filter(|_| *first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether there are a block and an inode left for this user.
pub fn space(dir: BorrowedFd<'_>) -> Outcome {
    let stat = fstatvfs(dir).map_err(of_statfs)?;
    // Some file systems make inodes as they need them, and count none.
    let inodes = (stat.files() > 0).then(|| stat.files_available());
    let (blocks, size) = (u128::from(stat.blocks_available()), u128::from(stat.fragment_size()));
    judged_space(stat.blocks() > 0, blocks * size, inodes)
}

fn judged_space(is_limited: bool, bytes: u128, inodes: Option<u64>) -> Outcome {
    let inodes_left = match inodes {
        Some(count) => format!("{count} inodes"),
        None => "inodes as they are needed".to_owned(),
    };
    if !is_limited {
        // As a tmpfs without a limit.
        return Ok("no limit".to_owned());
    }
    let detail = format!("{} and {inodes_left} free", size(bytes));
    if bytes == 0 || inodes == Some(0) { Err(Failure::Missing(detail)) } else { Ok(detail) }
}

/// `4.0 KiB`.
fn size(bytes: u128) -> String {
    let mut rest = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB", "TiB"] {
        if rest < 1024.0 {
            return if unit == "bytes" { format!("{rest:.0} {unit}") } else { format!("{rest:.1} {unit}") };
        }
        rest /= 1024.0;
    }
    format!("{rest:.1} PiB")
}

/// Whether the directory can be opened for reading. It is not locked: that would be the gate.
pub fn gate_opens(dir: BorrowedFd<'_>) -> Outcome {
    openat(dir, c".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    Ok("the directory can be opened for reading".to_owned())
}

/// Whose it is.
pub fn owner(dir: BorrowedFd<'_>) -> Outcome {
    judged_owner(fstat(dir)?.st_uid, geteuid().as_raw())
}

fn judged_owner(owner: u32, user: u32) -> Outcome {
    if owner == user {
        return Ok(format!("yours, UID {owner}"));
    }
    Err(Failure::Missing(format!("UID {owner}'s, and you are UID {user}")))
}

/// Who else may write.
pub fn private(dir: BorrowedFd<'_>) -> Outcome {
    judged_mode(fstat(dir)?.st_mode & 0o7777)
}

fn judged_mode(mode: u32) -> Outcome {
    let detail = format!("mode {mode:04o}");
    if mode & 0o022 != 0 {
        let who = match mode & 0o022 {
            0o020 => "its group may write",
            0o002 => "every user may write",
            _ => "its group and every user may write",
        };
        return Err(Failure::Missing(format!("{detail}, {who}")));
    }
    if mode & 0o044 != 0 {
        return Ok(format!("{detail}; who may read it can shut the gate: 0700 is better"));
    }
    Ok(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_whatever_it_is_called() {
        let line = r"36 35 98:0 / /mnt\040a\134b rw,noatime master:1 shared:2 - fuse.bindfs /src rw";
        let expected = Mount { kind: "fuse.bindfs".to_owned(), point: r"/mnt a\b".to_owned() };
        assert_eq!(Mount::parse(line), Some(expected));
        assert_eq!(Mount::parse("36 35 98:0 /"), None);
        assert_eq!(unescaped(r"a\04"), r"a\04", "not whole");
        assert_eq!(unescaped(r"\777\999"), r"\777\999", "no byte");
    }

    #[test]
    fn a_file_system_has_the_name_that_people_know() {
        let cases = [
            (Some("ext4"), Some("ext4"), "ext4"),
            (Some("ext4"), Some("ext3"), "ext3"),
            (Some("XFS"), Some("xfs"), "XFS"),
            (Some("overlayfs"), Some("overlay"), "overlayfs"),
            (Some("FUSE"), Some("fuse"), "FUSE"),
            (Some("FUSE"), Some("fuse.sshfs"), "fuse.sshfs"),
            (Some("NFS"), Some("nfs4"), "nfs4"),
            (Some("SMB"), Some("cifs"), "cifs (SMB)"),
            (None, Some("vfat"), "vfat"),
            (Some("9p"), None, "9p"),
            (None, None, "unknown (statfs 0x4d44)"),
        ];
        for (ours, kind, name) in cases {
            assert_eq!(name_of(ours, kind, 0x4d44), name);
        }
    }

    #[test]
    fn who_else_may_write_is_named() {
        for mode in [0o700, 0o755, 0o750, 0o500, 0o2755] {
            assert!(judged_mode(mode).is_ok(), "{mode:o}");
        }
        for (mode, word) in
            [(0o777, "its group and every user"), (0o1777, "every user"), (0o775, "its group may")]
        {
            let Err(Failure::Missing(detail)) = judged_mode(mode) else { panic!("{mode:o}") };
            assert!(detail.contains(word), "{detail}");
        }
        assert!(judged_mode(0o755).unwrap().contains("0700"));
        assert!(!judged_mode(0o700).unwrap().contains("shut"));
        assert!(judged_owner(7, 7).is_ok() && judged_owner(7, 0).is_err() && judged_owner(0, 7).is_err());
    }

    #[test]
    fn nothing_left_is_nothing_left() {
        assert!(judged_space(true, 4096, Some(1)).is_ok());
        assert!(judged_space(true, 4096, None).is_ok(), "as Btrfs");
        assert!(judged_space(true, 0, Some(5)).is_err());
        assert!(judged_space(true, 4096, Some(0)).is_err());
        assert!(judged_space(false, 0, None).is_ok());
        assert_eq!((size(0), size(1023), size(1536), size(66 << 30)).3, "66.0 GiB");
        assert_eq!(size(1536), "1.5 KiB");
    }
}
