//! The content of a file of the working tree, in a form in which two looks at the file can be compared.

use std::fmt::Write as _;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The content of a file or link. Two equal ones have the same bytes, but for [`FileContent::Other`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileContent {
    /// A regular file.
    File {
        /// SHA-256 of the bytes, in hexadecimal digits.
        digest: String,
        /// Its owner may execute it.
        is_executable: bool,
    },
    /// A symbolic link: the path that it leads to.
    Link(Vec<u8>),
    /// A directory, or a kind of file that git never writes.
    Other,
}

impl FileContent {
    /// Reads an open regular file to its end, and returns its content.
    pub(crate) fn of_file(file: &mut impl Read, is_executable: bool) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => hasher.update(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self::File {
            digest: digits(&hasher.finalize()),
            is_executable,
        })
    }

    /// Whether it is a regular file with exactly these bytes, executable or not.
    pub fn has_bytes(&self, bytes: &[u8]) -> bool {
        matches!(self, Self::File { digest, .. } if *digest == self::digest(bytes))
    }
}

/// SHA-256, in hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    digits(&Sha256::digest(bytes))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
