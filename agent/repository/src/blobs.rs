//! How blobs begin. `git cat-file --batch` prints them whole and only the first bytes are kept, so that a large blob
//! needs no memory.

use std::collections::HashMap;
use std::rc::Rc;

use crate::{Git, GitReason, SyncStop};

pub(crate) const BEGINNING: usize = 16;

/// How each of these blobs begins, in their order: as much as is kept of one.
///
/// # Errors
/// When git cannot be asked, or does not have one of them.
pub fn beginnings<'a>(
    git: &Git,
    ids: impl Iterator<Item = &'a str>,
) -> Result<Vec<Vec<u8>>, SyncStop> {
    let asked: String = ids.flat_map(|id| [id, "\n"]).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    // Without --buffer git flushes after each object.
    let answer = git
        .call(["cat-file", "--batch", "--buffer"])
        .stdin(asked.as_bytes())
        .beginnings()
        .done()?;
    let beginnings = parse(&answer.stdout);
    if beginnings.len() != asked.lines().count() {
        return Err(SyncStop::failed(
            GitReason::GitFailed,
            "git cat-file has not shown every file that was asked for",
        ));
    }
    Ok(beginnings)
}

/// The content of each blob, by its id. What git does not have is left out.
pub fn contents<'a>(
    git: &Git,
    ids: impl Iterator<Item = &'a str>,
) -> Result<HashMap<String, Rc<Vec<u8>>>, SyncStop> {
    let asked: String = ids.flat_map(|id| [id, "\n"]).collect();
    if asked.is_empty() {
        return Ok(HashMap::new());
    }
    let call = git.call(["cat-file", "--batch", "--buffer"]);
    let printed = call.stdin(asked.as_bytes()).done()?.stdout;
    let mut contents = HashMap::new();
    let mut rest = printed.as_slice();
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let head = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 1..];
        // `ID blob SIZE`, or `ID missing`.
        let mut fields = head.split(' ');
        let (id, size) = (fields.next(), fields.nth(1));
        let (Some(id), Some(size)) = (id, size.and_then(|size| size.parse().ok())) else {
            continue;
        };
        let Some((content, after)) = rest.split_at_checked(size) else {
            break;
        };
        contents.insert(id.to_owned(), Rc::new(content.to_vec()));
        rest = after.get(1..).unwrap_or_default();
    }
    Ok(contents)
}

/// Reads what [`Beginnings`] has kept: for each blob a length, in one byte, and so many bytes.
fn parse(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut beginnings = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let (beginning, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        beginnings.push(beginning.to_vec());
        bytes = rest;
    }
    beginnings
}

/// Shortens the output of `cat-file --batch` as it comes.
#[derive(Debug, Default)]
pub(crate) struct Beginnings {
    head: Vec<u8>,
    /// Inside a blob: the bytes still to be kept, and those still to come, with the newline at the end.
    blob: Option<(usize, u64)>,
}

impl Beginnings {
    pub(crate) fn take(&mut self, mut bytes: &[u8], kept: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if let Some((to_keep, left)) = &mut self.blob {
                let here = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
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
                // `ID blob SIZE`, or `ID missing`.
                let size = std::str::from_utf8(head)
                    .ok()
                    .and_then(|head| head.split(' ').nth(2)?.parse().ok());
                let length = size.map_or(0, |size: u64| size.min(BEGINNING as u64) as u8);
                kept.push(length);
                self.blob = size.map(|size| (usize::from(length), size.saturating_add(1)));
                self.head.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_kept_wherever_the_pieces_end() {
        let long = vec![b'\n'; 100];
        let printed = [
            &b"a1 blob 100\n"[..],
            &long,
            b"\nb2 missing\nc3 blob 0\n\nd4 blob 3\nx\ny\n",
        ]
        .concat();
        for piece in 1..printed.len() {
            let (mut shortened, mut kept) = (Beginnings::default(), Vec::new());
            for part in printed.chunks(piece) {
                shortened.take(part, &mut kept);
            }
            let beginnings = parse(&kept);
            assert_eq!(
                beginnings,
                [
                    vec![b'\n'; BEGINNING],
                    Vec::new(),
                    Vec::new(),
                    b"x\ny".to_vec()
                ],
                "{piece}"
            );
        }
    }
}
