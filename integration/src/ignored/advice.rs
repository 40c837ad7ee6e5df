//! What to say of a lock that git does not ignore, and the line to type.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::{fs, path::Path};

use beadlock_checker::internal::{escape::escaped_path, escape::is_harmless, shell, shell::Part};

use super::patterns::{GITIGNORE, Links, read};

/// The name that needs no anchor: it is nowhere else another file's.
const BEADS: &[u8] = b".exclusive-lock";

/// What makes git ignore a lock and the files beside it.
#[derive(Debug)]
pub struct IgnoreAdvice<'a> {
    /// The directory of the lock, without links.
    pub dir: &'a Path,
    /// The lock file's name.
    pub name: &'a OsStr,
    /// The working directory.
    pub cwd: &'a Path,
}

impl IgnoreAdvice<'_> {
    /// In one line, what is wrong and what to type.
    pub fn sentence(&self) -> String {
        let lock = escaped_path(&self.seen().join(self.name));
        format!("git does not ignore {lock}, and git add -A would commit it; type: {}", self.to_type())
    }

    /// The command that adds the pattern.
    pub fn to_type(&self) -> String {
        let ignore = self.dir.join(GITIGNORE);
        let content = read(&ignore, Links::Ignored).ok().flatten().unwrap_or_default();
        // A last line without its end would swallow the pattern.
        let template = match content.last() {
            None | Some(b'\n') => r"printf '%s\n' {} >> {}",
            Some(_) => r"printf '\n%s\n' {} >> {}",
        };
        let (pattern, file) = (pattern(self.name), self.seen().join(GITIGNORE));
        shell::to_type(template, &[Part::Words(vec![pattern]), Part::Path(&file)])
    }

    /// The directory as it is typed from here.
    fn seen(&self) -> &Path {
        let cwd = fs::canonicalize(self.cwd);
        cwd.ok().and_then(|cwd| self.dir.strip_prefix(cwd).ok()).unwrap_or(self.dir)
    }
}

/// The one pattern for a lock, its side file, its drafts and the records that `break` keeps.
fn pattern(name: &OsStr) -> OsString {
    if name.as_bytes() == BEADS {
        return ".exclusive-lock*".into();
    }
    let escaped = name.as_bytes().iter().flat_map(|byte| match byte {
        b'*' | b'?' | b'[' | b']' | b'\\' => vec![b'\\', *byte],
        // A pattern is a line.
        byte if byte.is_ascii_control() => vec![b'?'],
        byte => vec![*byte],
    });
    let mut pattern: Vec<u8> = [b'/'].into_iter().chain(escaped).chain([b'*']).collect();
    if !String::from_utf8_lossy(&pattern).chars().all(is_harmless) {
        pattern = pattern.into_iter().map(|byte| if byte.is_ascii() { byte } else { b'?' }).collect();
    }
    OsString::from_vec(pattern)
}
