//! The file systems that it is tried on, each mounted for this test alone, in a mount namespace of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_tests::skip;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statfs::{EXT4_SUPER_MAGIC, statfs};

/// A file system.
#[derive(Clone, Copy)]
pub struct Ground {
    pub name: &'static str,
    /// Makes it below a fresh directory, and says where it is, or why it cannot be had.
    make: fn(&Path) -> Result<PathBuf, String>,
}

pub const ALL: [Ground; 3] = [
    Ground {
        name: "ext4",
        make: ext4,
    },
    Ground {
        name: "tmpfs",
        make: tmpfs,
    },
    Ground {
        name: "overlayfs",
        make: overlayfs,
    },
];

/// The temporary directory's, whatever that is: where nothing may be mounted.
pub const HERE: Ground = Ground {
    name: "here",
    make: |top| Ok(top.to_owned()),
};

impl Ground {
    /// Calls `work` with a directory on this file system; all threads and programs that it starts see the mount. None,
    /// and said so, where it cannot be had.
    pub fn on<T: Send>(self, work: impl FnOnce(&Path) -> T + Send) -> Option<T> {
        let top = tempfile::Builder::new()
            .prefix("beadlock-test-")
            .tempdir()
            .expect("a temporary directory");
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        std::thread::scope(|threads| {
            // The namespace is this one thread's, and of those that it starts.
            let made = || match (self.make)(top.path()) {
                Ok(dir) => Some(work(&dir)),
                Err(why) => {
                    skip::cannot(&format!("cannot have {}: {why}", self.name));
                    None
                }
            };
            let thread = std::thread::Builder::new()
                .name(name)
                .spawn_scoped(threads, made);
            thread
                .expect("a thread")
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// The temporary directory itself where it is ext4, else an image of one.
fn ext4(top: &Path) -> Result<PathBuf, String> {
    if statfs(top).is_ok_and(|there| there.filesystem_type() == EXT4_SUPER_MAGIC) {
        return Ok(top.to_owned());
    }
    own_mounts()?;
    let (image, disk) = (top.join("image"), subdirectory(top, "disk")?);
    let file = std::fs::File::create(&image).map_err(|error| error.to_string())?;
    file.set_len(64 << 20).map_err(|error| error.to_string())?;
    let program = |name: &str, args: &[&str]| {
        let output = Command::new(name)
            .args(args)
            .output()
            .map_err(|error| format!("{name}: {error}"))?;
        let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        output.status.success().then_some(()).ok_or_else(said)
    };
    let (image, target) = (
        image.to_string_lossy().into_owned(),
        disk.to_string_lossy().into_owned(),
    );
    program("mkfs.ext4", &["-q", &image])?;
    program("mount", &["-o", "loop", &image, &target])?;
    Ok(disk)
}

fn tmpfs(top: &Path) -> Result<PathBuf, String> {
    own_mounts()?;
    let memory = subdirectory(top, "memory")?;
    mount_at("tmpfs", &memory, None)?;
    Ok(memory)
}

/// On a tmpfs of its own, so that it can be had where the temporary directory is an overlay itself.
fn overlayfs(top: &Path) -> Result<PathBuf, String> {
    let base = tmpfs(top)?;
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| subdirectory(&base, name));
    let layers = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower?.display(),
        upper?.display(),
        work?.display()
    );
    let overlay = subdirectory(top, "overlay")?;
    mount_at("overlay", &overlay, Some(&layers))?;
    Ok(overlay)
}

/// What is mounted from now on is seen by nobody else.
fn own_mounts() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNS).map_err(|errno| errno.desc().to_owned())?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
        .map_err(|errno| errno.desc().to_owned())
}

fn mount_at(kind: &str, target: &Path, options: Option<&str>) -> Result<(), String> {
    mount(Some(kind), target, Some(kind), MsFlags::empty(), options)
        .map_err(|errno| errno.desc().to_owned())
}

fn subdirectory(dir: &Path, name: &str) -> Result<PathBuf, String> {
    let path = dir.join(name);
    std::fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}
