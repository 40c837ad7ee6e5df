//! A file at `lock:PATH` that is not a lock: somebody's data, called what it is. An empty file may be another tool's
//! lock.

use std::path::Path;

use beadlock_checker::Verdict;
use beadlock_checker::internal::{
    FileKind, Look, dialect::beads::Content, escape::escaped_path, target::Scheme,
};

use crate::claim::protocol::{LONGEST_LOCK_FILE, NotALock};
use crate::{claim::target::prefixed, words::quoted};

/// What lies at `path`, where it is somebody's data.
pub fn at(path: &Path, look: &Look) -> Option<NotALock> {
    let is_large =
        || look.on_disk.is_some_and(|file| file.kind == FileKind::File && file.size > LONGEST_LOCK_FILE);
    let is_data = look.content == Some(Content::Data) || is_large();
    if !is_data || !matches!(look.verdict, Verdict::Unreadable(_)) {
        return None;
    }
    let mut beside = prefixed(Scheme::Lock.prefix(), path);
    beside.push(".lock");
    let meant = [prefixed(Scheme::File.prefix(), path), beside];
    let [file, lock] = meant.each_ref().map(|name| quoted(name));
    let words = format!("{} is not a lock file; did you mean {file} or {lock}?", escaped_path(path));
    Some(NotALock { words, meant })
}

/// Why an empty file is there.
pub fn why_empty(look: &Look) -> Option<&'static str> {
    let why = "flock(1) leaves such files, and so do tools that lock by creating a file";
    (look.content == Some(Content::Empty)).then_some(why)
}

/// Neither its name nor its content says that it is a lock.
pub fn may_be_data(look: &Look) -> bool {
    !matches!(look.content, Some(Content::Empty | Content::Record))
}
