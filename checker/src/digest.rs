//! What names bytes that have no name of their own.

use sha2::{Digest, Sha256};

use crate::facts::hex;

/// `sha256:` and 64 hex digits.
///
/// ```
/// let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// assert_eq!(beadlock_checker::internal::digest::sha256(b""), empty);
/// ```
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}
