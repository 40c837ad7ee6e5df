//! The cycles of this process: a claim inside one's own cycle would wait for itself.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use beadlock_base::{asker::Asker, own::Own};

use crate::gate::Gate;

/// The gates of this process's cycles, by descriptor, and who has entered them.
static CYCLES: Own<Vec<(RawFd, Asker)>> = Own::new();

/// A cycle of this process, until this is dropped: before its gate is.
#[derive(Debug)]
pub(crate) struct OwnCycle(RawFd);

impl OwnCycle {
    pub(crate) fn enter(gate: &Gate) -> Self {
        let fd = gate.as_fd().as_raw_fd();
        CYCLES.with(|cycles| cycles.push((fd, Asker::current())));
        Self(fd)
    }
}

impl Drop for OwnCycle {
    fn drop(&mut self) {
        CYCLES.with(|cycles| cycles.retain(|(fd, _)| *fd != self.0));
    }
}

/// Whether who asks now is inside a cycle of this process on the directory, and would wait for itself.
pub fn is_inside(dir: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let asker = Asker::current();
    let own: Vec<RawFd> = CYCLES.with(|cycles| {
        let own = cycles
            .iter()
            .filter(|(_, other)| asker.would_wait_for_itself(other));
        own.map(|(fd, _)| *fd).collect()
    });
    // Looked at afterwards: a file system may hang.
    let gate = |fd: &RawFd| number(Path::new(&format!("/proc/self/fd/{fd}")));
    own.iter()
        .filter_map(gate)
        .any(|gate| number(dir) == Some(gate))
}
