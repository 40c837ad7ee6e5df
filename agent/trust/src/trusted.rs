//! The directories in which a program may run commands: its own user's and root's, into which nobody else writes.
//!
//! A user that owns a directory, or may write to it, decides what its names lead to. Such a user can put a script of
//! his own in the place of the one that is about to run.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use beadlock_base::open_directory::OpenDirectory;
use beadlock_base::sys;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use nix::unistd::{Gid, Group, Uid, User, geteuid};

/// For how long the members of a group are taken to be the same: with users in a directory service each question is one
/// over the network.
const MEMBERS_STAY: Duration = Duration::from_secs(10);

/// The users whose directories are trusted: root, and one other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Trusted(Uid);

/// Why a file or directory is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// The owner is a user that is not trusted, with this uid.
    Owner(u32),
    /// Users other than its owner may write to it.
    Writers {
        /// The permission bits, with the sticky bit.
        mode: u32,
        /// The gid of the group; `None` where it may not write, or counts as the owner.
        group: Option<u32>,
        /// Whether everybody may write.
        everybody: bool,
    },
}

/// Whether the sticky bit makes up for others that may write to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sticky {
    /// The sticky bit is enough: others cannot take away or replace what is in there, and only that is looked up.
    IsEnough,
    /// The sticky bit is not enough: others may also make new names there, and these matter too.
    IsNot,
}

impl Trusted {
    /// Root and the user of this process.
    pub fn this_user() -> Self {
        Self(geteuid())
    }

    /// Root and the user with this uid.
    pub fn user(uid: u32) -> Self {
        Self(Uid::from_raw(uid))
    }

    /// Whether a file of this user is trusted.
    pub fn includes(self, uid: u32) -> bool {
        uid == 0 || uid == self.0.as_raw()
    }

    /// Looks at the owner of an open directory alone. `None`: it is trusted.
    pub fn doubts_owner(self, dir: impl AsFd) -> io::Result<Option<Doubt>> {
        Ok(self.doubts_owner_of(&fstat(dir)?))
    }

    /// Looks at the owner of an open directory and at who may write to it. `None`: it is trusted.
    pub fn doubts(self, dir: impl AsFd, sticky: Sticky) -> io::Result<Option<Doubt>> {
        Ok(self.doubts_stat(&fstat(&dir)?, sticky, dir.as_fd(), "."))
    }

    /// Looks at the owner and the writers of an open directory, as it was just after it was opened. `None`: it is
    /// trusted. The sticky bit is not enough.
    ///
    /// # Errors
    /// What `fstat` said.
    pub fn doubts_opened(self, opened: &OpenDirectory) -> io::Result<Option<Doubt>> {
        Ok(self.doubts_stat(&opened.stat()?, Sticky::IsNot, opened.as_fd(), "."))
    }

    /// Looks at the owner and the writers of the directory above `opened`. `None`: it is trusted, or `opened` may not
    /// be searched, so that there can be no work above it.
    ///
    /// # Errors
    /// What `fstatat` said.
    pub fn doubts_just_above(
        self,
        opened: &OpenDirectory,
        sticky: Sticky,
    ) -> io::Result<Option<Doubt>> {
        let (from, [above, _]) = opened.ways_up();
        match fstatat(from, above, AtFlags::empty()) {
            Ok(stat) => Ok(self.doubts_stat(&stat, sticky, from, above)),
            Err(_) if opened.above().is_err() => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Why the file or directory with this name in `from` is not trusted, by its `stat`; `None`: it is trusted.
    pub(crate) fn doubts_stat(
        self,
        stat: &FileStat,
        sticky: Sticky,
        from: BorrowedFd<'_>,
        name: impl AsRef<OsStr>,
    ) -> Option<Doubt> {
        let is_own_group = || {
            is_own_group(
                Uid::from_raw(stat.st_uid),
                Gid::from_raw(stat.st_gid),
                from,
                name.as_ref(),
            )
        };
        self.doubts_owner_of(stat)
            .or_else(|| writers(stat, sticky, is_own_group))
    }

    pub(crate) fn doubts_owner_of(self, stat: &FileStat) -> Option<Doubt> {
        (!self.includes(stat.st_uid)).then_some(Doubt::Owner(stat.st_uid))
    }
}

/// The users that may write beside the owner. Whether the group is the owner's own is asked only where it matters.
fn writers(stat: &FileStat, sticky: Sticky, is_own_group: impl FnOnce() -> bool) -> Option<Doubt> {
    let mode = Mode::from_bits_truncate(stat.st_mode);
    if mode.contains(Mode::S_ISVTX) && sticky == Sticky::IsEnough {
        return None;
    }
    let everybody = mode.contains(Mode::S_IWOTH);
    let group = (mode.contains(Mode::S_IWGRP) && !is_own_group()).then_some(stat.st_gid);
    let bits = mode & (Mode::S_IRWXU | Mode::S_IRWXG | Mode::S_IRWXO | Mode::S_ISVTX);
    (everybody || group.is_some()).then_some(Doubt::Writers {
        mode: bits.bits(),
        group,
        everybody,
    })
}

/// Many systems give each user a group of the same name, and let that group write to what the user makes. It counts as
/// the user as long as nobody else is in it, and as long as the group bits are the group's and not those of an ACL.
fn is_own_group(owner: Uid, gid: Gid, from: BorrowedFd<'_>, name: &OsStr) -> bool {
    has_only(owner, gid) && has_no_list(from, name)
}

/// Whether the file or directory has no ACL. One that cannot be read may say anything.
fn has_no_list(from: BorrowedFd<'_>, name: &OsStr) -> bool {
    // A named pipe must not be waited for.
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    // Another descriptor: the first may be one for look-ups alone, which knows no attributes.
    openat(from, name, flags, Mode::empty()).is_ok_and(|dir| sys::has_access_list(dir) == Ok(false))
}

/// Whether this user alone is in this group, as was known within the last [`MEMBERS_STAY`].
fn has_only(owner: Uid, gid: Gid) -> bool {
    /// The groups that were asked for, each with its user, when, and the answer.
    static KNOWN: Mutex<Vec<(Uid, Gid, Instant, bool)>> = Mutex::new(Vec::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let is_fresh =
        |(_, _, asked, _): &(Uid, Gid, Instant, bool)| now.duration_since(*asked) < MEMBERS_STAY;
    let is_asked = |(uid, group, ..): &&(Uid, Gid, Instant, bool)| (*uid, *group) == (owner, gid);
    if let Some((.., answer)) = known()
        .iter()
        .filter(|known| is_fresh(known))
        .find(is_asked)
    {
        return *answer;
    }
    let answer = ask_for_members(owner, gid).unwrap_or(false);
    let mut known = known();
    known.retain(is_fresh);
    known.push((owner, gid, now, answer));
    answer
}

/// Whether the user `owner` is alone in the group `gid` and the group has the user's name; `None` where that cannot be
/// told.
fn ask_for_members(owner: Uid, gid: Gid) -> Option<bool> {
    let user = User::from_uid(owner).ok()??;
    let group = Group::from_gid(gid).ok()??;
    let has_others = group.mem.iter().any(|member| *member != user.name);
    if user.gid != gid || group.name != user.name || has_others {
        return Some(false);
    }
    // Whose first group it is, the group does not list.
    Some(!is_first_group_of_another(
        &fs::read_to_string("/etc/passwd").ok()?,
        &user.name,
        gid,
    ))
}

/// Whether another user than this one has the group as the first, by the lines of `/etc/passwd`.
fn is_first_group_of_another(accounts: &str, user: &str, gid: Gid) -> bool {
    accounts.lines().any(|line| {
        let mut fields = line.split(':');
        let (name, first) = (fields.next(), fields.nth(2));
        name != Some(user) && first.and_then(|first| first.parse().ok()) == Some(gid.as_raw())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, Permissions, create_dir, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    const SOMEBODY: u32 = 54_321;

    /// The doubt about a new directory with this mode and these owners.
    fn doubt(mode: u32, owners: Option<(u32, u32)>, sticky: Sticky) -> Option<Doubt> {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("dir");
        create_dir(&dir).unwrap();
        if let Some((uid, gid)) = owners {
            chown(&dir, Some(uid), Some(gid)).unwrap();
        }
        set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        let found = Trusted::this_user()
            .doubts(File::open(&dir).unwrap(), sticky)
            .unwrap();
        set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
        found
    }

    #[test]
    fn everybody_may_not_write_unless_the_sticky_bit_is_enough() {
        for mode in [0o700, 0o755, 0o555] {
            assert_eq!(doubt(mode, None, Sticky::IsNot), None, "{mode:o}");
        }
        let Some(Doubt::Writers {
            mode, everybody, ..
        }) = doubt(0o777, None, Sticky::IsEnough)
        else {
            panic!("everybody may write")
        };
        assert_eq!((mode, everybody), (0o777, true));
        assert_eq!(doubt(0o1777, None, Sticky::IsEnough), None);
        assert!(doubt(0o1777, None, Sticky::IsNot).is_some());
    }

    #[test]
    fn another_users_directory_is_doubted_and_roots_is_not() {
        let mine = doubt(0o755, None, Sticky::IsNot);
        assert_eq!(mine, None);
        assert_eq!(
            Trusted::user(SOMEBODY)
                .doubts_owner(File::open("/").unwrap())
                .unwrap(),
            None,
            "root's"
        );
        if !beadlock_testkit::root() {
            return;
        }
        let theirs = doubt(0o755, Some((SOMEBODY, SOMEBODY)), Sticky::IsEnough);
        assert_eq!(theirs, Some(Doubt::Owner(SOMEBODY)));
        // The group of nobody in particular; the owner is root, whose group it is not.
        let group = doubt(0o775, Some((0, SOMEBODY)), Sticky::IsEnough);
        assert_eq!(
            group,
            Some(Doubt::Writers {
                mode: 0o775,
                group: Some(SOMEBODY),
                everybody: false
            })
        );
    }

    #[test]
    fn a_group_counts_as_its_user_only_while_that_user_is_alone_in_it_and_there_is_no_list() {
        let root = tempfile::tempdir().unwrap();
        set_permissions(root.path(), Permissions::from_mode(0o770)).unwrap();
        let (dir, meta) = (
            File::open(root.path()).unwrap(),
            fs::metadata(root.path()).unwrap(),
        );
        let owners = (Uid::from_raw(meta.uid()), Gid::from_raw(meta.gid()));
        let is_alone = ask_for_members(owners.0, owners.1) == Some(true);
        assert_eq!(
            is_own_group(owners.0, owners.1, dir.as_fd(), OsStr::new(".")),
            is_alone
        );
        let doubted = Trusted::this_user().doubts(&dir, Sticky::IsEnough).unwrap();
        assert_eq!(doubted.is_none(), is_alone);
        let listed = std::process::Command::new("setfacl")
            .args(["-m", "u:54321:rwx"])
            .arg(root.path())
            .status();
        if listed.is_ok_and(|status| status.success()) {
            assert!(
                !is_own_group(owners.0, owners.1, dir.as_fd(), OsStr::new(".")),
                "the group bits are the list's mask"
            );
            assert!(
                Trusted::this_user()
                    .doubts(&dir, Sticky::IsEnough)
                    .unwrap()
                    .is_some()
            );
        } else {
            beadlock_testkit::skip::cannot("needs setfacl and a file system with ACLs");
        }
    }

    #[test]
    fn another_account_with_the_same_first_group_is_in_it() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nsync:x:5:0:sync:/sbin:/bin/sync\nann:x:7:7::/:/bin/sh\n";
        let is_another = |user, gid| is_first_group_of_another(accounts, user, Gid::from_raw(gid));
        assert!(is_another("root", 0), "sync has it too");
        assert!(!is_another("ann", 7));
        assert!(is_another("bob", 7));
        assert!(!is_another("bob", 9));
    }
}
