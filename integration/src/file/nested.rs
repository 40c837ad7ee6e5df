//! Inside another hold of the same file (DESIGN 7, "Environment"): it stands, and so nothing is locked again.

use beadlock_checker::dialect::file::{LockId, Mode};
use beadlock_checker::flock_of;
use beadlock_checker::process::Stat;
use nix::unistd::getppid;

use super::open::Inode;
use super::target::FileTarget;
use crate::claim::nested::{self, NESTED};
use crate::environment::Environment;

/// An outer claim that stands, and how it has the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer {
    pub id: LockId,
    pub mode: Mode,
}

/// The claim of the lock file `inode` that this process runs in: a `hold` that is a living ancestor, or one of `acquire`
/// whose id is in the environment, and that has its flock still.
pub fn outer(target: &FileTarget, inode: Inode, environment: &Environment) -> Option<Outer> {
    let holds =
        nested::holds(environment).filter_map(|id| id.parse().ok()).filter(|id: &LockId| is_above(id.pid));
    // Where the lock file was replaced while the hold waited for it, the command's environment was made before.
    let holds = holds.map(|LockId { pid, .. }| LockId { device: inode.0, inode: inode.1, pid });
    let acquired = environment.get("BEADLOCK_ID").and_then(|id| id.to_str());
    let acquired = acquired.and_then(|id| id.strip_prefix(NESTED).unwrap_or(id).parse().ok());
    let mut known = holds.chain(acquired).filter(|id| (id.device, id.inode) == inode);
    known.find_map(|id| standing(target, id))
}

/// The claim, if it still stands.
pub fn standing(target: &FileTarget, id: LockId) -> Option<Outer> {
    flock_of(id.pid, target.lock(), (id.device, id.inode)).map(|mode| Outer { id, mode })
}

/// The process is an ancestor of this one.
pub fn is_above(pid: i32) -> bool {
    let mut above = getppid().as_raw();
    while above > 0 {
        if above == pid {
            return true;
        }
        above = Stat::read(above).map_or(0, |stat| stat.ppid);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ancestor_is_above_and_oneself_is_not() {
        assert!(is_above(getppid().as_raw()));
        assert!(!is_above(std::process::id().cast_signed()));
        assert!(!is_above(0) && !is_above(-1));
    }
}
