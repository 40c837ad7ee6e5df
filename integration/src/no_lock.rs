//! A file at `lock:PATH` that is no lock: somebody's data, called what it is. One that is empty may be another tool's
//! lock.

use beadlock_checker::Verdict;
use beadlock_checker::internal::dialect::beads::Content;
use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::{FileKind, Look};
use std::ffi::OsString;
use std::path::Path;

use crate::error::{Code, Error};
use crate::target::Found;
use crate::words::{quoted, to_type};

/// The longest lock file that is read, in bytes (docs/design.md#the-beads-rule).
pub const LIMIT: u64 = 64 * 1024;

/// What cannot be understood there is nobody's lock.
pub fn is_it(look: &Look, target: &Found) -> bool {
    let is_large = || look.on_disk.is_some_and(|file| file.kind == FileKind::File && file.size > LIMIT);
    let is_data = || look.content == Some(Content::Data) || is_large();
    target.path_of_lock().is_some() && matches!(look.verdict, Verdict::Unreadable(_)) && is_data()
}

/// What cannot be understood there is a lock: by its name or by its content. Nothing is lost with it that anybody
/// needs.
pub fn is_lock(look: &Look, target: &Found) -> bool {
    target.path_of_lock().is_none() || matches!(look.content, Some(Content::Empty | Content::Record))
}

/// `todo.json is not a lock file; did you mean file:todo.json or lock:todo.json.lock?`
pub fn words(target: &Found) -> String {
    let path = target.path_of_lock().unwrap_or(Path::new(""));
    let (file, lock) = meant(target);
    format!("{} is not a lock file; did you mean {file} or {lock}?", escaped_path(path))
}

/// The targets that may have been meant, ready for a shell: the file's own lock, and a lock file beside it.
fn meant(target: &Found) -> (String, String) {
    let [file, lock] = meant_names(target).map(|name| quoted(&name));
    (file, lock)
}

/// The same as they are: the file's own lock, and a lock file beside it.
pub fn meant_names(target: &Found) -> [OsString; 2] {
    let path = target.path_of_lock().unwrap_or(Path::new(""));
    let named = |scheme: &str, tail: &str| {
        let mut name = OsString::from(scheme);
        name.push(path);
        name.push(tail);
        name
    };
    [named("file:", ""), named("lock:", ".lock")]
}

/// Why an empty file is there.
pub const WHY_EMPTY: &str = "flock(1) leaves such files, and so do tools that lock by creating a file";

/// What a claim says of such a file; `None`: it is no such file.
pub fn error(look: &Look, target: &Found) -> Option<Error> {
    let path = target.path_of_lock()?;
    let message = match look.content {
        _ if is_it(look, target) => words(target),
        Some(Content::Empty) => format!(
            "{} is empty: {WHY_EMPTY}. If nobody uses it: {}",
            escaped_path(path),
            to_type("beadlock break {} --malformed", &[target.part()])
        ),
        _ => return None,
    };
    let detail = format!("lock_file={}", escaped_path(&target.path()));
    Some(Error::new(Code::LockUnreadable, message).detailed(detail))
}
