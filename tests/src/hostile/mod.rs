//! What must hold of hostile input, whatever it is: each takes any bytes, and panics where a promise is broken.
//! `tests/hostile.rs` tries them with random documents, and `fuzz/` with those that libFuzzer finds.

mod config;
mod line;
mod log;
mod memory;
mod named;
mod record;
mod records;
mod target;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use beadlock_base::escape::is_harmless;
use tempfile::TempDir;

pub use config::config;
pub use line::line;
pub use log::log;
pub use memory::memory;
pub use named::named;
pub use record::record;
pub use records::records;
pub use target::target;

/// Shows on one line, moves no cursor, and is of a length that somebody reads.
#[track_caller]
fn is_fit_to_be_said(words: &str) {
    assert!(
        !words.is_empty() && words.chars().all(is_harmless),
        "{words:?}"
    );
}

/// A place of this thread's for the files that are tried; goes with the thread.
fn scratch(name: &str) -> PathBuf {
    thread_local! { static DIR: OnceCell<TempDir> = const { OnceCell::new() } }
    // In memory where there is such a place: a million files are written.
    let make = || {
        let shm = Path::new("/dev/shm");
        let builder = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix("beadlock-hostile-");
            builder
        };
        builder()
            .tempdir_in(shm)
            .or_else(|_| builder().tempdir())
            .expect("a temporary directory")
    };
    DIR.with(|dir| dir.get_or_init(make).path().join(name))
}
