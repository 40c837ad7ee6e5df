//! The small process that looks first. It is the running binary again, in a session of its own, with its streams on
//! `/dev/null` but for the pipe in which it says by one byte that all was answered.
//!
//! It changes nothing and takes neither a lock nor the gate, so it may be left behind: it hangs until the file system
//! answers or is unmounted, and is gone then.

use std::fs;
use std::io::{self, PipeReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use beadlock_base::filesystem::shared_file_system;
use beadlock_base::helper::{self, Helpers, detach, has_said_so_within, helper, report_ready};
use beadlock_base::regular::{self, Links};
use beadlock_core::database::{Database, DatabaseVariables, REDIRECT};
use beadlock_core::place::Names;
use nix::{sys::prctl::set_pdeathsig, sys::signal::Signal};

use super::Lookup;
use beadlock_base::escape::in_title;

/// How long one that was killed may take to end, before it is left behind.
const END: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct ProbeHelper {
    child: Child,
    ready: PipeReader,
}

impl ProbeHelper {
    /// `None`: it could not be started.
    pub fn start(helpers: Helpers, lookup: &Lookup) -> Option<Self> {
        let (ready, said) = io::pipe().ok()?;
        let title = format!(
            "beadlock: looks at {}",
            in_title(&lookup.path().to_string_lossy())
        );
        let mut command = helper(helpers, &title, lookup).ok()?;
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(Stdio::null());
        // The writing end is closed here with `command`.
        Some(Self {
            child: command.spawn().ok()?,
            ready,
        })
    }

    /// False: not within `limit`. After one that was killed before it could say anything, the command looks itself.
    pub fn answers(self, limit: Duration) -> bool {
        let Self { mut child, ready } = self;
        let answer = has_said_so_within(ready, limit);
        let _ = child.kill();
        if answer.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            let begun = Instant::now();
            while begun.elapsed() < END && !matches!(child.try_wait(), Ok(Some(_))) {
                std::thread::sleep(Duration::from_millis(5));
            }
            return false;
        }
        let _ = child.wait();
        true
    }
}

impl helper::Helper for Lookup {
    const KIND: &'static str = "Lookup";

    fn run(self) -> u8 {
        look_first(&self);
        0
    }
}

/// The helper's own life.
fn look_first(lookup: &Lookup) {
    // An interrupted command leaves none behind that can still be killed.
    let _ = set_pdeathsig(Signal::SIGKILL);
    detach(c"beadlock-look", &[]);
    let around = |cwd| DatabaseVariables {
        cwd,
        ..DatabaseVariables::default()
    };
    look_at(lookup.path());
    let database = match lookup {
        Lookup::Path(path) => Database::named(Path::new(path), &around("/".into())),
        Lookup::Nearest(path) => Database::find(&around(path.into())),
    };
    if let Ok(database) = database {
        look_at(&database.dir);
    }
    report_ready();
}

/// Looks at a path and ignores errors: the command looks again, and reports them.
fn look_at(path: &Path) {
    if fs::metadata(path).is_ok_and(|meta| meta.is_dir()) {
        return look_in(path);
    }
    read_a_byte(path);
    path.parent().into_iter().for_each(look_in);
}

fn look_in(dir: &Path) {
    // These two are never answered from what the kernel remembers.
    let _ = shared_file_system(dir);
    let _ = fs::read_dir(dir).map(|mut entries| entries.next().map(drop));
    for names in [Names::BEADS, Names::MEMORY] {
        for name in [names.lock(), names.aside()] {
            read_a_byte(&dir.join(OsStr::from_bytes(name.to_bytes())));
        }
    }
    for name in [REDIRECT, ".beads"] {
        let _ = fs::metadata(dir.join(name));
    }
}

/// Reads a byte of a regular file alone: a process that waits at a FIFO is not to be woken.
fn read_a_byte(path: &Path) {
    if !fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) {
        return;
    }
    let _ = regular::open(path, Links::Refused).map(|mut file| file.read(&mut [0]));
}
