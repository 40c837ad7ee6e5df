//! What is wrong with the watcher, in words that say what to do.

use std::io;

/// Said once, by the scheduler.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wrong {
    /// Whose it is; `None`: everyone's.
    pub(crate) database: Option<usize>,
    pub(crate) why: String,
}

impl Wrong {
    /// From an error that came up with a database, or with none. A limit that is reached is everyone's.
    pub(crate) fn new(database: Option<usize>, error: &notify::Error) -> Self {
        let is_limit = matches!(error.kind, notify::ErrorKind::MaxFilesWatch);
        Self { database: database.filter(|_| !is_limit), why: why(error) }
    }
}

fn why(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the limit of inotify watches is reached; raise fs.inotify.max_user_watches".to_owned()
        }
        notify::ErrorKind::Io(source) if source.raw_os_error() == Some(nix::libc::EMFILE) => {
            "the limit of inotify instances is reached; raise fs.inotify.max_user_instances".to_owned()
        }
        notify::ErrorKind::Io(source) => io_words(source),
        other => format!("{other:?}"),
    }
}

fn io_words(error: &io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |errno| nix::errno::Errno::from_raw(errno).desc().to_lowercase())
}
