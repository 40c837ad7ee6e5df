//! Inside another hold of the same file (docs/design.md#nesting): it stands, and so nothing is locked again. Inside the
//! filter of an update of it: that one writes the file next, and so nobody else in there may.

use std::ffi::{OsStr, OsString};

use beadlock_base::process::Stat;
use beadlock_core::gate_holders::flock_of;
use beadlock_core::record::file::{LockId, Mode};
use nix::unistd::getppid;

use super::{open::FileId, refused, target::FileTarget};
use crate::outer::{self, NESTED};
use crate::{environment::Environment, error::Error};

/// By what a filter, and all that it starts, knows of the updates that it runs in: the id of each, `DEV:INODE:PID`.
pub const UPDATES: &str = "BEADLOCK_UPDATE_IDS";

/// The claim of the lock file `inode` that this process runs in: a `hold` that is a living ancestor, or one of
/// `acquire` whose id is in the environment, and that has its flock still. `mode` is what is wanted under it.
pub fn outer(
    target: &FileTarget,
    inode: FileId,
    mode: Mode,
    environment: &Environment,
) -> Result<Option<LockId>, Error> {
    if let Some(pid) = update(target, inode, environment) {
        return Err(refused::inside_update(target, pid));
    }
    let holds = outer::holds(environment)
        .filter_map(|id| id.parse().ok())
        .filter(|id: &LockId| is_above(id.pid));
    // Where the lock file was replaced while the hold waited for it, the command's environment was made before.
    let holds = holds.map(|LockId { pid, .. }| LockId {
        device: inode.0,
        inode: inode.1,
        pid,
    });
    let acquired = environment.get("BEADLOCK_ID").and_then(|id| id.to_str());
    let acquired = acquired.and_then(|id| id.strip_prefix(NESTED).unwrap_or(id).parse().ok());
    let mut known = holds
        .chain(acquired)
        .filter(|id| (id.device, id.inode) == inode);
    match known.find_map(|id| Some((id, standing(target, id)?))) {
        Some((id, Mode::Shared)) if mode == Mode::Exclusive => {
            Err(refused::only_shared(target, id.pid))
        }
        outer => Ok(outer.map(|(id, _)| id)),
    }
}

/// The PID of a `beadlock update` of the lock file `inode` whose filter this process runs in: it has lock or turn.
fn update(target: &FileTarget, inode: FileId, environment: &Environment) -> Option<i32> {
    // Where the lock file was replaced while the update waited for it, the filter's environment was made before.
    let has_flock = |pid| {
        standing(
            target,
            LockId {
                device: inode.0,
                inode: inode.1,
                pid,
            },
        )
        .is_some()
    };
    let mut around = updates(environment).filter_map(|id| id.parse().ok());
    let is_it =
        |id: &LockId| is_above(id.pid) && ((id.device, id.inode) == inode || has_flock(id.pid));
    around.find(is_it).map(|id| id.pid)
}

fn updates(environment: &Environment) -> impl Iterator<Item = &str> {
    environment
        .get(UPDATES)
        .and_then(OsStr::to_str)
        .unwrap_or_default()
        .split_ascii_whitespace()
}

/// `$BEADLOCK_UPDATE_IDS` for the filter of an update with this id, which those around it stay in.
pub fn updates_with(id: LockId, environment: &Environment) -> OsString {
    let ids: Vec<String> = updates(environment)
        .map(str::to_owned)
        .chain([id.to_string()])
        .collect();
    ids.join(" ").into()
}

/// How the claim has the file, if it still stands.
pub fn standing(target: &FileTarget, id: LockId) -> Option<Mode> {
    flock_of(id.pid, target.lock(), (id.device, id.inode))
}

/// Whether this process runs in the process `pid`, at any depth.
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

    #[test]
    fn the_update_of_a_file_is_above_and_of_that_file() {
        let target = FileTarget::of("todo.json".as_ref()).unwrap();
        let (inode, above) = ((1, 2), getppid().as_raw());
        let of = |ids: &str| update(&target, inode, &Environment::of(&[(UPDATES, ids)]));
        assert_eq!(of(&format!("1:3:{above} 1:2:{above}")), Some(above));
        for ids in [
            String::new(),
            format!("1:3:{above}"),
            format!("1:2:{}", std::process::id()),
        ] {
            assert_eq!(of(&ids), None, "{ids}");
        }
        let outer = Environment::of(&[(UPDATES, "1:3:4")]);
        assert_eq!(
            updates_with(
                LockId {
                    device: 1,
                    inode: 2,
                    pid: 9
                },
                &outer
            ),
            "1:3:4 1:2:9"
        );
    }
}
