//! The directory itself and the file system that it is on.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::{FileSystem, Reach, system_words};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::geteuid;

use super::outcome::{TrialFailure, TrialOutcome, ensure, seen};
use super::site::TrialSite;

/// What is known of the file system, and where it is mounted.
pub fn file_system(site: &TrialSite<'_>) -> TrialOutcome {
    let found = FileSystem::of(site.directory).map_err(of_statfs)?;
    let mount = mount_of(site.directory.as_fd());
    let name = name_of(found.name, mount.as_ref().map(|mount| mount.kind.as_str()), found.magic);
    let at = mount.map(|mount| format!(", mounted at {}", escaped(&mount.point))).unwrap_or_default();
    let detail = name + &at;
    match found.reach {
        Reach::Local | Reach::Shared => seen(found.reach == Reach::Local, detail),
        Reach::Unknown => {
            let detail = format!("{detail}: a kind that is in no table of ours");
            Err(TrialFailure { ok: None, detail, to_type: None })
        }
    }
}

/// A call that failed says nothing about the file system.
fn of_statfs(errno: Errno) -> TrialFailure {
    TrialFailure::untried(system_words(&errno.into()))
}

/// Whether the bench could be made.
pub fn writable(site: &TrialSite<'_>) -> TrialOutcome {
    match &site.made {
        Ok(_) => Ok("a directory was made in it".to_owned()),
        // A full disk is the answer here, not an accident on the way to another.
        Err(errno @ (Errno::ENOSPC | Errno::EDQUOT)) => Err(TrialFailure::missing(system_words(&(*errno).into()))),
        Err(errno) => Err((*errno).into()),
    }
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
struct MountLine {
    kind: String,
    point: String,
}

/// `None` where it is not to be seen, as in a chroot.
fn mount_of(dir: BorrowedFd<'_>) -> Option<MountLine> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_raw_fd())).ok()?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let mounts = String::from_utf8_lossy(&mounts);
    mounts.lines().find(|line| line.split(' ').next() == Some(id)).and_then(MountLine::parse)
}

impl MountLine {
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
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether there are a block and an inode left for this user.
pub fn space(site: &TrialSite<'_>) -> TrialOutcome {
    let stat = site.free.map_err(of_statfs)?;
    // Some file systems make inodes as they need them, and count none.
    let inodes = (stat.files() > 0).then(|| stat.files_available());
    let (blocks, size) = (u128::from(stat.blocks_available()), u128::from(stat.fragment_size()));
    judged_space(stat.blocks() > 0, blocks * size, inodes)
}

fn judged_space(is_limited: bool, bytes: u128, inodes: Option<u64>) -> TrialOutcome {
    if !is_limited {
        // As a tmpfs without a limit.
        return Ok("no limit".to_owned());
    }
    let inodes_left = inodes.map_or("inodes as they are needed".to_owned(), |count| format!("{count} inodes"));
    seen(bytes > 0 && inodes != Some(0), format!("{} and {inodes_left} free", size(bytes)))
}

/// `4.0 KiB`.
fn size(bytes: u128) -> String {
    let mut rest = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB", "TiB"] {
        if rest < 1024.0 {
            let digits = usize::from(unit != "bytes");
            return format!("{rest:.digits$} {unit}");
        }
        rest /= 1024.0;
    }
    format!("{rest:.1} PiB")
}

/// Whether the directory can be opened for reading. It is not locked: that would be the gate.
pub fn gate_opens(site: &TrialSite<'_>) -> TrialOutcome {
    openat(site.directory, c".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    Ok("the directory can be opened for reading".to_owned())
}

/// Whose it is.
pub fn owner(site: &TrialSite<'_>) -> TrialOutcome {
    judged_owner(fstat(site.directory)?.st_uid, geteuid().as_raw())
}

fn judged_owner(owner: u32, user: u32) -> TrialOutcome {
    ensure(owner == user, &format!("UID {owner}'s, and you are UID {user}"))?;
    Ok(format!("yours, UID {owner}"))
}

/// Which other users may write.
pub fn private(site: &TrialSite<'_>) -> TrialOutcome {
    judged_mode(fstat(site.directory)?.st_mode & 0o7777)
}

fn judged_mode(mode: u32) -> TrialOutcome {
    let note = match mode & 0o066 {
        0 => "",
        others if others & 0o022 == 0o022 => ", its group and every user may write",
        others if others & 0o020 != 0 => ", its group may write",
        others if others & 0o002 != 0 => ", every user may write",
        _ => "; who may read it can shut the gate: 0700 is better",
    };
    seen(mode & 0o022 == 0, format!("mode {mode:04o}{note}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_whatever_it_is_called() {
        let line = r"36 35 98:0 / /mnt\040a\134b rw,noatime master:1 shared:2 - fuse.bindfs /src rw";
        let expected = MountLine { kind: "fuse.bindfs".to_owned(), point: r"/mnt a\b".to_owned() };
        assert_eq!(MountLine::parse(line), Some(expected));
        assert_eq!(MountLine::parse("36 35 98:0 /"), None);
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
        for (mode, word) in [(0o777, "its group and every user"), (0o1777, "every user"), (0o775, "its group may")] {
            let failure = judged_mode(mode).unwrap_err();
            assert!(failure.ok == Some(false) && failure.detail.contains(word), "{failure:?}");
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
