//! What `git cat-file --batch` prints, shortened as it comes, so that a large blob needs no memory.

/// How much of a blob is kept.
pub(super) const BEGINNING: usize = 16;

/// What `cat-file --batch` prints, shortened as it comes: `ID blob SIZE`, a newline, the beginning of the blob.
#[derive(Debug, Default)]
pub(super) struct Shortened {
    head: Vec<u8>,
    /// Of a blob: what is still to be kept, and what is still to come, with the newline at its end.
    blob: Option<(usize, u64)>,
}

impl Shortened {
    /// Adds to `kept` what is to be kept of the next bytes.
    pub(super) fn take(&mut self, mut bytes: &[u8], kept: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if let Some((to_keep, left)) = &mut self.blob {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                let (content, rest) = bytes.split_at(here);
                let wanted = (*to_keep).min(content.len());
                kept.extend_from_slice(&content[..wanted]);
                (*to_keep, *left) = (*to_keep - wanted, *left - here as u64);
                if *left == 0 {
                    self.blob = None;
                }
                bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (head, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.head.extend_from_slice(head);
            bytes = rest;
            if let Some(head) = self.head.strip_suffix(b"\n") {
                let size = size(head);
                self.blob = size.map(|size| (size.min(BEGINNING as u64) as usize, size.saturating_add(1)));
                kept.append(&mut self.head);
            }
        }
    }
}

/// Of `ID blob SIZE`. `None`: it is not there.
pub(super) fn size(head: &[u8]) -> Option<u64> {
    let mut fields = std::str::from_utf8(head).ok()?.split(' ');
    fields.nth(2)?.parse().ok()
}
