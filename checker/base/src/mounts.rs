//! Which paths lie on a file system that may stop answering: one of a network, or one that a process serves (FUSE).
//!
//! A call that looks at such a path can take for ever once the server is gone, `stat` and `statfs` too. So the question
//! is answered by the kernel's list of mounts and by the letters of the path alone; the file system is never asked.

use std::path::{Component, Path, PathBuf};
use std::{ffi::OsStr, ffi::OsString, fs, fs::File, io::Read, os::unix::ffi::OsStringExt};

/// File systems that another machine or a process serves, by their names in `/proc`; of `fuse.sshfs` the first part.
const REMOTE: &str = "9p afs beegfs ceph cifs coda davfs fuse fuseblk gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 \
                      orangefs pvfs2 smb3 smbfs sshfs virtiofs vboxsf";

/// Room for the list of a usual machine, in bytes.
const ROOM: usize = 16 * 1024;

/// Most links of a path that are followed, as in the kernel.
const LINKS: usize = 40;

/// The mounts that this process sees.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Mounts {
    all: Vec<Mount>,
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub point: PathBuf,
    /// Type of the file system as the kernel names it, such as `nfs4` or `fuse.sshfs`.
    pub kind: String,
}

impl Mounts {
    /// The mounts as they are now. Empty where the kernel does not list them (not on Linux, or without `/proc`).
    pub fn now() -> Self {
        // The kernel does not say how long it is: with room from the start it takes few reads.
        let mut text = Vec::with_capacity(ROOM);
        let read =
            File::open("/proc/self/mountinfo").and_then(|mut file| file.read_to_end(&mut text));
        read.map(|_| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n');
        let mut all: Vec<Mount> = lines.filter_map(Mount::parse).collect();
        // The usual machine has none, and asks no further.
        if !all.iter().any(Mount::is_remote) {
            all.clear();
        }
        Self { all }
    }

    /// There is no mount that may stop answering.
    pub fn are_local(&self) -> bool {
        self.all.is_empty()
    }

    /// Something that may stop answering is mounted at this very path.
    pub fn is_remote_point(&self, path: &Path) -> bool {
        self.all
            .iter()
            .any(|mount| mount.is_remote() && mount.point == path)
    }

    /// Where those are mounted that may stop answering.
    pub fn remote_points(&self) -> impl Iterator<Item = &Path> {
        self.all
            .iter()
            .filter(|mount| mount.is_remote())
            .map(|mount| mount.point.as_path())
    }

    /// The mount that `path` lies on, by its letters, when that may stop answering. `path` is absolute and has no
    /// `..` in it; see [`Mounts::on_the_way`] for one that may have links in it.
    pub fn remote_of(&self, path: &Path) -> Option<&Mount> {
        let mut found: Option<&Mount> = None;
        for mount in &self.all {
            // Of two at one point the later one is seen.
            let is_deeper = found.is_none_or(|found| mount.point.starts_with(&found.point));
            if is_deeper && path.starts_with(&mount.point) {
                found = Some(mount);
            }
        }
        found.filter(|mount| mount.is_remote())
    }

    /// The first mount that a look-up of `path`, which is absolute, comes to and that may stop answering. Links are
    /// followed only as far as the file systems before it go.
    pub fn on_the_way(&self, path: &Path) -> Option<&Mount> {
        if self.are_local() {
            return None;
        }
        let mut left: Vec<OsString> = components(path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            at.push(&name);
            if let Some(mount) = self.remote_of(&at) {
                return Some(mount);
            }
            if let Ok(target) = fs::read_link(&at) {
                links += 1;
                if links > LINKS {
                    return None;
                }
                at.pop();
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left.extend(components(&target));
            }
        }
        None
    }
}

impl Mount {
    /// Parses a line such as `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - nfs4 host:/ rw`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let point = fields.nth(4)?;
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        let point = PathBuf::from(OsString::from_vec(unescaped(point)));
        Some(Self {
            point,
            kind: String::from_utf8_lossy(kind).into_owned(),
        })
    }

    fn is_remote(&self) -> bool {
        let kind = self.kind.split('.').next().unwrap_or_default();
        // That of containers is as local as /proc, whose files it serves.
        REMOTE.split(' ').any(|remote| remote == kind) && self.kind != "fuse.lxcfs"
    }
}

/// The names in the path, the first one last; neither `/` nor `.` is one.
fn components(path: &Path) -> Vec<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    };
    let mut names: Vec<OsString> = path.components().filter_map(name).collect();
    names.reverse();
    names
}

/// The kernel writes blanks, line ends and backslashes of a path as `\` and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut parts = field.split(|byte| *byte == b'\\');
    let mut bytes = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(3).unwrap_or((b"", part));
        match str::from_utf8(digits)
            .ok()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok())
        {
            Some(byte) => bytes.push(byte),
            None => bytes.extend([b"\\", digits].concat()),
        }
        bytes.extend(rest);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(lines: &[(&str, &str)]) -> Mounts {
        let text: String = lines
            .iter()
            .enumerate()
            .map(|(number, (point, kind))| {
                format!("{number} 1 0:1 / {point} rw shared:1 - {kind} source rw\n")
            })
            .collect();
        Mounts::parse(text.as_bytes())
    }

    #[test]
    fn the_deepest_mount_decides() {
        let mounts = mounts(&[
            ("/", "ext4"),
            ("/mnt", "nfs4"),
            ("/mnt/local", "ext4"),
            ("/home/ann", "fuse.sshfs"),
            ("/with\\040blank\\134", "cifs"),
            ("/twice", "nfs"),
            ("/twice", "tmpfs"),
            ("/again", "tmpfs"),
            ("/again", "9p"),
            ("/bulk", "fuseblk"),
            ("/var/lib/lxcfs", "fuse.lxcfs"),
        ]);
        for (path, kind) in [
            ("/mnt", Some("nfs4")),
            ("/mnt/x/.beads", Some("nfs4")),
            ("/mntx", None),
            ("/mnt/local/x", None),
            ("/home/ann/x", Some("fuse.sshfs")),
            ("/home/anna", None),
            ("/with blank\\/x", Some("cifs")),
            ("/twice/x", None),
            ("/again/x", Some("9p")),
            ("/bulk", Some("fuseblk")),
            ("/var/lib/lxcfs/proc", None),
            ("/", None),
        ] {
            let found = mounts
                .remote_of(Path::new(path))
                .map(|mount| mount.kind.as_str());
            assert_eq!(found, kind, "{path}");
        }
    }

    #[test]
    fn a_machine_without_them_asks_nothing() {
        let mounts = mounts(&[("/", "ext4"), ("/proc", "proc"), ("/run", "tmpfs")]);
        assert!(mounts.are_local());
        assert_eq!(mounts.on_the_way(Path::new("/run/x")), None);
        assert_eq!(
            Mounts::parse(b"nonsense\n1 2 3\n\xff\xff - \n"),
            Mounts::default()
        );
    }

    #[test]
    fn links_are_followed_as_far_as_the_mount() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        let point = top.join("mnt");
        fs::create_dir_all(point.join("repo/.beads")).unwrap();
        fs::create_dir(top.join("dir")).unwrap();
        for (target, link) in [
            ("../mnt/repo", "dir/link"),
            ("dir/link/.beads", "far"),
            ("loop", "loop"),
            ("/", "root"),
        ] {
            std::os::unix::fs::symlink(target, top.join(link)).unwrap();
        }
        let mounts = mounts(&[("/", "ext4"), (&point.display().to_string(), "fuse.bindfs")]);
        for (path, is_on_it) in [
            ("dir/link", true),
            ("far", true),
            ("far/x", true),
            ("dir/link/../../dir", true),
            ("mnt/../dir", true),
            ("dir/../mnt", true),
            ("dir", false),
            ("loop/x", false),
            ("nowhere/x", false),
            ("root/tmp", false),
        ] {
            assert_eq!(
                mounts.on_the_way(&top.join(path)).is_some(),
                is_on_it,
                "{path}"
            );
        }
    }
}
