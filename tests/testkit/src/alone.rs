//! A test in a PID namespace of its own, with a `/proc` of its own.
//!
//! What it counts does not depend on what else the machine runs: a walk through `/proc` sees the test and what it has
//! started, and nobody else. The test starts itself again there, in several shards that divide the work.

use std::process::Command;
use std::time::Duration;

use crate::{Ended, Running, Scene, binaries, skip};

const SHARD: &str = "BEADLOCK_TEST_SHARD";
const NAMESPACES: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// Which part of the work is this process's: every `of`th, from `at` on.
#[derive(Debug, Clone, Copy)]
pub struct Shard {
    /// From 0 on.
    pub at: usize,
    /// How many there are.
    pub of: usize,
}

impl Shard {
    /// Its part of `all`.
    pub fn part<T>(self, all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        all.skip(self.at).step_by(self.of)
    }
}

/// The shard that this process is; `None` in the process that starts them.
pub fn shard() -> Option<Shard> {
    let text = std::env::var(SHARD).ok()?;
    let (at, of) = text.split_once('/')?;
    Some(Shard {
        at: at.parse().ok()?,
        of: of.parse().ok()?,
    })
}

/// Runs the test `name` of this program again, in `of` shards beside each other, which also have this variable. Returns
/// how each has ended; `None`, which is said, where there are no namespaces for us.
///
/// # Panics
///
/// When one of them fails, with all that it has said, or has not ended within `bound`.
#[track_caller]
pub fn shards(
    name: &str,
    of: usize,
    variable: (&str, String),
    bound: Duration,
) -> Option<Vec<Ended>> {
    let scene = Scene::new();
    scene.in_namespaces(&NAMESPACES, "true")?;
    let unshare = skip::tool("unshare")?;
    let this = std::env::current_exe().expect("this test's own path");
    let start = |at: usize| {
        let mut command = Command::new(&unshare);
        if !skip::may_be_root() {
            command.arg("--map-root-user");
        }
        command.args(NAMESPACES).arg(&this).args([
            "--exact",
            name,
            "--nocapture",
            "--test-threads",
            "1",
        ]);
        command
            .env(SHARD, format!("{at}/{of}"))
            .env(binaries::BUILT, binaries::directory());
        command
            .env(variable.0, &variable.1)
            .env("RUST_BACKTRACE", "0");
        Running::start(command)
    };
    let started: Vec<Running> = (0..of).map(start).collect();
    let ended = started.into_iter().map(|shard| {
        let ended = Ended::from(shard.finish(bound));
        let Ended { code, out, err, .. } = &ended;
        assert!(
            *code == 0 && out.contains("1 passed"),
            "{name}: {code}\n{out}\n{err}"
        );
        ended
    });
    Some(ended.collect())
}
