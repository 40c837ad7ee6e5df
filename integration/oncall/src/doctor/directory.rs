//! Trials of the directory and its file system, of git there, and of the machine.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::{ffi::OsStr, fs};

use beadlock_base::{
    error::system_words,
    escape::escaped,
    filesystem::{FileSystem, Reach},
};
use beadlock_core::dolt::Dolt;
use beadlock_core::facts::{Ids, hostname};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, statfs};
use nix::unistd::geteuid;

use super::bench::TrialSite;
use super::guarantee::Keeps;
use super::results::{TrialCause, TrialFailure, TrialOutcome, ensure, seen};
use crate::ignored::{GitAnswer, IgnoreAdvice};

/// The endings after the lock's name, one for each kind of file beside it: set aside, unfinished, and a record that
/// `break` has kept.
const SIDE_FILES: [&str; 3] = [".aside", ".tmp-1-00000000", ".broken-20260101T000000Z.json"];

/// Whether only this machine writes the file system. The detail names its type and its mount point.
pub fn file_system(site: &TrialSite<'_>) -> TrialOutcome {
    let found = FileSystem::of(&site.directory.dir).map_err(of_statfs)?;
    let (kind, point) = mount_of(site.directory.dir.as_fd()).unzip();
    let at = point
        .map(|point| format!(", mounted at {}", escaped(&point)))
        .unwrap_or_default();
    let detail = name_of(found.name, kind.as_deref(), found.magic) + &at;
    match found.reach {
        Reach::Local | Reach::Shared => seen(found.reach == Reach::Local, detail),
        Reach::Unknown => {
            let detail = format!("{detail}: a kind that is in no table of ours");
            Err(TrialCause::Unclear(detail).into())
        }
    }
}

/// The failure of a trial whose call for statistics failed: that says nothing about the file system.
fn of_statfs(errno: Errno) -> TrialFailure {
    TrialFailure::untried(system_words(&errno.into()))
}

/// Whether the bench could be made.
pub fn writable(site: &TrialSite<'_>) -> TrialOutcome {
    match &site.made {
        Ok(_) => Ok("a directory was made in it".to_owned()),
        // A full disk is the answer here, not an accident on the way to another.
        Err(errno @ (Errno::ENOSPC | Errno::EDQUOT)) => {
            Err(TrialFailure::missing(system_words(&(*errno).into())))
        }
        Err(errno) => Err((*errno).into()),
    }
}

/// The name of a file system for people: the kernel's word `kind`, or `ours` where that says more. The kernel tells
/// `ext3` from `ext4`, and `fuse.sshfs` from other FUSE.
fn name_of(ours: Option<&str>, kind: Option<&str>, magic: i64) -> String {
    let (Some(ours), Some(kind)) = (ours, kind) else {
        let known = ours.or(kind).map(|name| escaped(name).to_string());
        return known.unwrap_or_else(|| format!("unknown (statfs {magic:#x})"));
    };
    let lower = (ours.to_ascii_lowercase(), kind.to_ascii_lowercase());
    match () {
        () if lower.0.starts_with(&lower.1) => ours.to_owned(),
        () if lower.1.starts_with(&lower.0) || lower.1.starts_with("ext") => {
            escaped(kind).to_string()
        }
        () => format!("{} ({ours})", escaped(kind)),
    }
}

/// The type and the place of the mount that `dir` is on, both untrusted. `None` where it is not to be seen, as in a
/// chroot.
fn mount_of(dir: BorrowedFd<'_>) -> Option<(String, String)> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_raw_fd())).ok()?;
    let id = info
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?
        .trim();
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let mounts = String::from_utf8_lossy(&mounts);
    mounts
        .lines()
        .find(|line| line.split(' ').next() == Some(id))
        .and_then(kind_and_point)
}

/// The type and the mount point in a line of `mountinfo`, such as
/// `36 35 98:0 /root /mnt\040x rw,noatime master:1 - fuse.bindfs src rw`.
fn kind_and_point(line: &str) -> Option<(String, String)> {
    let (before, after) = line.split_once(" - ")?;
    Some((
        unescaped(after.split(' ').next()?),
        unescaped(before.split(' ').nth(4)?),
    ))
}

/// A word of the mount table without the kernel's escapes. The backslash comes last, for every escape begins with one.
fn unescaped(word: &str) -> String {
    let escapes = [
        (r"\040", " "),
        (r"\011", "\t"),
        (r"\012", "\n"),
        (r"\043", "#"),
        (r"\134", r"\"),
    ];
    escapes
        .into_iter()
        .fold(word.to_owned(), |word, (escape, meant)| {
            word.replace(escape, meant)
        })
}

/// Whether there are a block and an inode left for this user.
pub fn space(site: &TrialSite<'_>) -> TrialOutcome {
    let stat = site.free.map_err(of_statfs)?;
    // Some file systems make inodes as they need them, and count none.
    let inodes = (stat.files() > 0).then(|| stat.files_available());
    let (blocks, size) = (
        u128::from(stat.blocks_available()),
        u128::from(stat.fragment_size()),
    );
    judged_space(stat.blocks() > 0, blocks * size, inodes)
}

fn judged_space(is_limited: bool, bytes: u128, inodes: Option<u64>) -> TrialOutcome {
    if !is_limited {
        // A tmpfs without a limit, for example.
        return Ok("no limit".to_owned());
    }
    let inodes_left = inodes.map_or("inodes as they are needed".to_owned(), |count| {
        format!("{count} inodes")
    });
    seen(
        bytes > 0 && inodes != Some(0),
        format!("{} and {inodes_left} free", size(bytes)),
    )
}

/// A number of bytes for people: `4.0 KiB`.
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
    openat(
        &site.directory.dir,
        ".",
        OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    Ok("the directory can be opened for reading".to_owned())
}

/// Whether the directory belongs to this user.
pub fn owner(site: &TrialSite<'_>) -> TrialOutcome {
    judged_owner(fstat(&site.directory.dir)?.st_uid, geteuid().as_raw())
}

fn judged_owner(owner: u32, user: u32) -> TrialOutcome {
    ensure(
        owner == user,
        &format!("UID {owner}'s, and you are UID {user}"),
    )?;
    Ok(format!("yours, UID {owner}"))
}

/// Whether no other user may write to the directory, by its mode.
pub fn private(site: &TrialSite<'_>) -> TrialOutcome {
    judged_mode(fstat(&site.directory.dir)?.st_mode & 0o7777)
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

/// `/proc` is the kernel's own, and shows the processes of this PID namespace.
pub fn proc() -> TrialOutcome {
    ensure(
        statfs("/proc")?.filesystem_type() == PROC_SUPER_MAGIC,
        "/proc is not the kernel's",
    )?;
    let me = std::process::id().to_string();
    ensure(
        fs::read_link("/proc/self")?.as_os_str() == me.as_str(),
        "/proc is of another PID namespace",
    )?;
    Ok("/proc is of this PID namespace".to_owned())
}

/// The host name, which a lock file names.
pub fn host_name() -> TrialOutcome {
    let name = hostname().ok_or_else(|| TrialFailure::missing("none, or it cannot be read"))?;
    Ok(escaped(&name).to_string())
}

/// The machine id, which is not shown.
pub fn machine_id() -> TrialOutcome {
    ensure(
        Ids::current().machine_id.is_some(),
        "no /etc/machine-id, or an empty one",
    )?;
    Ok("known".to_owned())
}

/// The kernel's boot id.
pub fn boot_id() -> TrialOutcome {
    let is_known = Ids::current().boot_id.is_some();
    ensure(
        is_known,
        "none from the kernel itself; containers often have another",
    )?;
    Ok("known".to_owned())
}

/// bd keeps no Dolt database here: with Dolt, bd does not ask for a lock.
pub fn asked_by_bd(site: &TrialSite<'_>) -> TrialOutcome {
    match Dolt::of(&site.directory.path) {
        None => Ok("not a Dolt database".to_owned()),
        Some(dolt) => Err(TrialFailure::missing(format!(
            "a Dolt database ({})",
            dolt.name()
        ))),
    }
}

/// Git ignores the lock.
pub fn ignored_by_git(site: &TrialSite<'_>) -> TrialOutcome {
    let lock = &site.directory.lock;
    all_ignored(site, lock, std::slice::from_ref(lock))
}

/// Git ignores the files beside the lock.
pub fn records_ignored(site: &TrialSite<'_>) -> TrialOutcome {
    let lock = &site.directory.lock;
    if site.directory.kind.keeps == Keeps::Kernel {
        return Ok("nothing lies beside it".to_owned());
    }
    all_ignored(
        site,
        &format!("{lock}.*"),
        &SIDE_FILES.map(|tail| format!("{lock}{tail}")),
    )
}

/// Git ignores all files of these `names`, which are `shown` as one.
fn all_ignored(site: &TrialSite<'_>, shown: &str, names: &[String]) -> TrialOutcome {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match GitAnswer::about(&site.directory.path, &names) {
        GitAnswer::NoWorkTree => Ok("it is not in a git work tree".to_owned()),
        GitAnswer::Ignored => Ok(format!("git ignores {shown}")),
        GitAnswer::NotIgnored(name) => {
            let such = if name == shown {
                String::new()
            } else {
                format!(", such as {name}")
            };
            let name = OsStr::new(&site.directory.lock);
            let advice = IgnoreAdvice {
                dir: &site.directory.path,
                name,
                cwd: site.cwd,
            };
            let failure = TrialFailure::missing(format!("git does not ignore {shown}{such}"));
            Err(TrialFailure {
                to_type: Some(advice.to_type()),
                ..failure
            })
        }
        GitAnswer::Unknown(why) => Err(TrialFailure::untried(why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_whatever_it_is_called() {
        let line =
            r"36 35 98:0 / /mnt\040a\134b rw,noatime master:1 shared:2 - fuse.bindfs /src rw";
        assert_eq!(
            kind_and_point(line),
            Some(("fuse.bindfs".to_owned(), r"/mnt a\b".to_owned()))
        );
        assert_eq!(kind_and_point("36 35 98:0 /"), None);
        assert_eq!(
            unescaped(r"a\134040"),
            r"a\040",
            "a backslash before digits"
        );
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
        for (mode, word) in [
            (0o777, "its group and every user"),
            (0o1777, "every user"),
            (0o775, "its group may"),
        ] {
            let failure = judged_mode(mode).unwrap_err();
            assert!(
                failure.cause.ok() == Some(false) && failure.cause.detail().contains(word),
                "{failure:?}"
            );
        }
        assert!(judged_mode(0o755).unwrap().contains("0700"));
        assert!(!judged_mode(0o700).unwrap().contains("shut"));
        assert!(
            judged_owner(7, 7).is_ok()
                && judged_owner(7, 0).is_err()
                && judged_owner(0, 7).is_err()
        );
    }

    #[test]
    fn nothing_left_is_nothing_left() {
        assert!(judged_space(true, 4096, Some(1)).is_ok());
        assert!(judged_space(true, 4096, None).is_ok(), "as Btrfs");
        assert!(judged_space(true, 0, Some(5)).is_err());
        assert!(judged_space(true, 4096, Some(0)).is_err());
        assert!(judged_space(false, 0, None).is_ok());
        assert_eq!(
            (size(0), size(1023), size(1536), size(66 << 30)).3,
            "66.0 GiB"
        );
        assert_eq!(size(1536), "1.5 KiB");
    }
}
