//! SQLite's databases, known by how they begin, whatever they are called. One that is open is live: a commit would tear
//! it, and a pull would replace it under its users.

use std::fs;
use std::io::Read;
use std::path::Path;

use beadlock_base::regular::{self, Links};

use crate::blobs::BEGINNING;

const MAGIC: &[u8; BEGINNING] = b"SQLite format 3\0";
/// Usual ends of a database's name. An empty file of such a name is one that SQLite has only just made.
const ENDINGS: [&[u8]; 4] = [b".db", b".sqlite", b".sqlite3", b".db3"];

/// Whether a file that begins with these bytes is a database of SQLite's.
pub fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Whether the file at this path is a database of SQLite's. One that cannot be read is not known to be one.
pub fn is_at(path: &Path) -> bool {
    let is_long_enough = |meta: fs::Metadata| meta.is_file() && meta.len() >= MAGIC.len() as u64;
    // Before it is opened: to open a device may do something.
    if !fs::symlink_metadata(path).is_ok_and(is_long_enough) {
        return false;
    }
    let mut bytes = [0; BEGINNING];
    regular::open(path, Links::Refused)
        .and_then(|mut file| Ok(file.read_exact(&mut bytes)?))
        .is_ok_and(|()| begins(&bytes))
}

/// Whether a database usually has such a name: an empty file of this name is about to become one.
pub(crate) fn has_usual_name(name: &[u8]) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The line of the `.gitignore` beside it that names this file alone.
pub fn ignored(inside: &Path) -> Vec<u8> {
    let mut line = b"/".to_vec();
    for byte in inside.as_os_str().as_encoded_bytes() {
        match byte {
            b'\\' | b'*' | b'?' | b'[' | b' ' => line.extend([b'\\', *byte]),
            // No line can hold it; `?` matches any character.
            b'\n' | b'\r' => line.push(b'?'),
            byte => line.push(*byte),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_by_how_it_begins() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str, bytes: &[u8]| {
            let path = top.path().join(name);
            fs::write(&path, bytes).unwrap();
            is_at(&path)
        };
        assert!(at("notes.txt", b"SQLite format 3\0"));
        assert!(!at("x.db", b"SQLite format 3\n and more"));
        assert!(!at("y.db", b"") && has_usual_name(b"y.db"));
        assert!(!at("empty", b"") && !has_usual_name(b"empty"));
        let link = top.path().join("link");
        std::os::unix::fs::symlink("notes.txt", &link).unwrap();
        assert!(!is_at(&link) && !is_at(top.path()) && !is_at(Path::new("/dev/zero")));
    }

    #[test]
    fn a_line_names_one_file() {
        assert_eq!(ignored(Path::new("a b*[c]\\")), br"/a\ b\*\[c]\\");
        assert_eq!(ignored(Path::new("!#x\ny")), b"/!#x?y");
    }
}
