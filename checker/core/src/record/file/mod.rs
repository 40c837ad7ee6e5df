//! The file protocol: an exclusive or shared `flock` on `PATH.lock`, a file that is never deleted and never written. The
//! lock has no record: the process with the flock holds it. This module has its names, its id and its document's words.

use std::{
    ffi::OsString, fmt, os::unix::ffi::OsStrExt, os::unix::ffi::OsStringExt, path::Path,
    path::PathBuf,
};
use std::{str::FromStr, time::Duration};

pub use beadlock_base::sys::Mode;

const SUFFIX: &[u8] = b".lock";

/// Time for which a claim waits for a holder by default (section 3.1 in docs/protocols/file.md).
pub const WAIT: Duration = Duration::from_secs(30);

/// Path of the lock file of the file at `path`: `PATH.lock` (section 2.2 in docs/protocols/file.md).
pub fn lock_of(path: &Path) -> PathBuf {
    OsString::from_vec([path.as_os_str().as_bytes(), SUFFIX].concat()).into()
}

/// Path of the file whose lock file has the path `path`. `None`: the name does not end with `.lock`, or has nothing
/// before that.
pub fn locked_by(path: &Path) -> Option<PathBuf> {
    let name = path
        .file_name()?
        .as_bytes()
        .strip_suffix(SUFFIX)
        .filter(|name| !name.is_empty())?;
    Some(path.with_file_name(OsString::from_vec(name.to_vec())))
}

/// Message for a wait that ended after `limit` (section 7.2 in docs/protocols/file.md).
pub fn timed_out(limit: Duration) -> String {
    format!(
        "Failed to acquire lock (timeout after {}s)",
        limit.as_secs_f64()
    )
}

/// Message for a lock that another process holds (section 7.2 in docs/protocols/file.md). `file` must be escaped.
pub fn held(file: &str) -> String {
    format!("Cannot acquire lock on {file} (another process may be active)")
}

/// Id of a claim without a record, as `DEV:INODE:PID`: of the lock file, and of the process that holds its flock
/// (docs/design.md#nesting).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockId {
    /// Device of the lock file.
    pub device: u64,
    /// Inode number of the lock file.
    pub inode: u64,
    /// PID of the holder.
    pub pid: i32,
}

impl fmt::Display for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.device, self.inode, self.pid)
    }
}

impl FromStr for LockId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.split(':').map(|digits| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| is_number)
        });
        let mut next = || numbers.next().flatten().ok_or(());
        let (device, inode, pid) = (next()?, next()?, next()?);
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(())?;
        if numbers.next().is_some() {
            Err(())
        } else {
            Ok(Self { device, inode, pid })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_documents() {
        for (millis, shown) in [
            (30_000, "30s"),
            (500, "0.5s"),
            (0, "0s"),
            (1_250, "1.25s"),
            (90_000, "90s"),
        ] {
            let words = timed_out(Duration::from_millis(millis));
            assert_eq!(
                words,
                format!("Failed to acquire lock (timeout after {shown})")
            );
        }
        assert_eq!(
            held("todo.json"),
            "Cannot acquire lock on todo.json (another process may be active)"
        );
    }

    #[test]
    fn the_lock_file_is_called_by_its_file() {
        assert_eq!(
            lock_of(Path::new("a/todo.json")),
            Path::new("a/todo.json.lock")
        );
        assert_eq!(
            locked_by(Path::new("a/todo.json.lock")),
            Some("a/todo.json".into())
        );
        assert_eq!(locked_by(Path::new("a/todo.json")), None);
        assert_eq!(locked_by(Path::new("a/.lock")), None, "a file of its own");
    }

    #[test]
    fn an_id_is_read_back_and_nothing_else_is_one() {
        let id = LockId {
            device: 64512,
            inode: u64::MAX,
            pid: 4242,
        };
        assert_eq!(id.to_string(), "64512:18446744073709551615:4242");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in [
            "",
            "1:2",
            "1:2:3:4",
            "1:2:0",
            "1:2:-3",
            "+1:2:3",
            "1:2:4294967296",
            "1::3",
            "a:b:c",
            "1:2:3 ",
        ] {
            assert_eq!(wrong.parse::<LockId>(), Err(()), "{wrong}");
        }
    }
}
