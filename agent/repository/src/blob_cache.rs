//! Blobs that a sync has read or written. While a program writes to a record file all the time, each merge asks for the
//! same versions again; a git for each question would take longer than the program rests.

use std::collections::BTreeMap;

/// How many bytes are kept. What is read beyond that is asked for again.
const BYTES: usize = 16 << 20;

/// Blobs by their id, and the ids that git has given for names.
#[derive(Debug, Default)]
pub struct BlobCache {
    blobs: BTreeMap<String, Vec<u8>>,
    ids: BTreeMap<String, String>,
    bytes: usize,
}

impl BlobCache {
    /// The bytes of the blob with this id, where they are kept.
    pub fn blob(&self, id: &str) -> Option<&Vec<u8>> {
        self.blobs.get(id)
    }

    /// The id of the blob with these bytes, where it is kept.
    pub fn id_of(&self, bytes: &[u8]) -> Option<&String> {
        let mut blobs = self.blobs.iter();
        blobs.find(|(_, blob)| *blob == bytes).map(|(id, _)| id)
    }

    /// Keeps a blob that is in the repository, unless there are too many.
    pub fn keep(&mut self, id: &str, bytes: &[u8]) {
        if self.bytes + bytes.len() > BYTES || self.blobs.contains_key(id) {
            return;
        }
        self.bytes += bytes.len();
        self.blobs.insert(id.to_owned(), bytes.to_vec());
    }

    /// The id of the blob with this name, `COMMIT:PATH` or an id itself, where git has told it.
    pub fn id(&self, name: &str) -> Option<&String> {
        self.ids.get(name)
    }

    /// Keeps the id of a name that has it for ever: its commit is given by an id.
    pub fn keep_id(&mut self, name: &str, id: &str) {
        self.ids.insert(name.to_owned(), id.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded() {
        let mut cache = BlobCache::default();
        cache.keep("a", b"one");
        cache.keep("b", &vec![0; BYTES]);
        assert_eq!(cache.blob("a").map(Vec::as_slice), Some(&b"one"[..]));
        assert_eq!((cache.blob("b"), cache.id_of(b"")), (None, None));
        assert_eq!(cache.id_of(b"one").map(String::as_str), Some("a"));
        cache.keep_id("c:x", "a");
        assert_eq!(cache.id("c:x").map(String::as_str), Some("a"));
        assert_eq!(cache.id("d:x"), None);
    }
}
