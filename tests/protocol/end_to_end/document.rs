//! Requirements of the protocol's own document that no other test shows: docs/protocols/beads.md names each.

mod api;
mod cycles;
mod format;
mod limits;
mod scripts;

use beadlock_tests::{Ended, Scene, run};

/// One cycle of the agent with this command in it. Returns its exit code.
fn one_cycle(scene: &Scene, command: &str) -> i32 {
    Ended::from(run(
        scene.agent(&["--db", ".beads", "--once", "--exec", command])
    ))
    .code
}
