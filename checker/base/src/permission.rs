//! A cause of EACCES beside the file's own permissions: a directory above it that this process may not search.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use nix::{errno::Errno, fcntl::AT_FDCWD, fcntl::AtFlags, unistd::AccessFlags, unistd::faccessat};

use crate::{escape::escaped_path, shell::Part, shell::to_type};

/// Which directory above `path`, if any, keeps this process from looking at it, and what its owner may type.
pub fn directory_above(path: &Path) -> Option<String> {
    let may_search = |dir: &Path| {
        faccessat(AT_FDCWD, dir, AccessFlags::X_OK, AtFlags::AT_EACCESS) != Err(Errno::EACCES)
    };
    let mut above: Vec<&Path> = path
        .ancestors()
        .skip(1)
        .filter(|dir| !dir.as_os_str().is_empty())
        .collect();
    above.reverse();
    let dir = above.into_iter().find(|dir| !may_search(dir))?;
    let mode =
        fs::metadata(dir).map(|meta| format!(" (mode {:04o})", meta.permissions().mode() & 0o7777));
    let (shown, mode) = (escaped_path(dir), mode.unwrap_or_default());
    let command = to_type("chmod a+x {}", &[Part::Path(dir)]);
    Some(format!(
        "this user may not search the directory {shown}{mode}; its owner may allow it: {command}"
    ))
}
