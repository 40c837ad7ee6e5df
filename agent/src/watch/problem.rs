//! What is wrong with the watcher, in words that say what to do.

use std::io;

/// Said once, by the scheduler.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct WatchProblem {
    /// Whose it is; `None`: everyone's.
    pub(crate) database: Option<usize>,
    pub(crate) why: String,
}

impl WatchProblem {
    /// From an error that came up with a database, or with none. A limit that is reached is everyone's.
    pub(crate) fn new(database: Option<usize>, error: &io::Error) -> Self {
        let is_limit = matches!(error.raw_os_error(), Some(nix::libc::ENOSPC | nix::libc::EMFILE));
        Self { database: database.filter(|_| !is_limit), why: why(error) }
    }
}

fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::ENOSPC) => {
            "the limit of inotify watches is reached; raise fs.inotify.max_user_watches".to_owned()
        }
        Some(nix::libc::EMFILE) => {
            "the limit of inotify instances is reached; raise fs.inotify.max_user_instances".to_owned()
        }
        Some(errno) => nix::errno::Errno::from_raw(errno).desc().to_lowercase(),
        None => error.to_string(),
    }
}
