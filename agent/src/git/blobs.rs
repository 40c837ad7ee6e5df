//! How blobs begin: git prints them whole, and of each the first bytes are kept. So a large one needs no memory.

use super::program::Git;
use super::shortened::{BEGINNING, size};
use super::stop::Stop;

/// How each of these blobs begins, in their order.
pub(super) fn beginnings<'a>(
    git: &Git,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Vec<u8>>, Stop> {
    let asked: String = ids.into_iter().flat_map(|id| [id, "\n"]).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    // Buffered, for else git and this would take turns, object by object.
    let answer = git.call(["cat-file", "--batch", "--buffer"]).stdin(asked.as_bytes()).beginnings().done()?;
    let beginnings = parse(&answer.stdout);
    if beginnings.len() != asked.lines().count() {
        return Err(Stop::Refused("git cat-file has not shown every file that was asked for".to_owned()));
    }
    Ok(beginnings)
}

fn parse(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut beginnings = Vec::new();
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let (head, rest) = (&bytes[..end], &bytes[end + 1..]);
        let kept = size(head).map_or(0, |size| size.min(BEGINNING as u64) as usize).min(rest.len());
        beginnings.push(rest[..kept].to_vec());
        bytes = &rest[kept..];
    }
    beginnings
}

#[cfg(test)]
mod tests {
    use super::super::shortened::Shortened;
    use super::*;

    #[test]
    fn beginnings_are_kept_wherever_the_pieces_end() {
        let long = vec![b'\n'; 100];
        let printed =
            [&b"a1 blob 100\n"[..], &long, b"\nb2 missing\nc3 blob 0\n\nd4 blob 3\nx\ny\n"].concat();
        for piece in 1..printed.len() {
            let (mut shortened, mut kept) = (Shortened::default(), Vec::new());
            for part in printed.chunks(piece) {
                shortened.take(part, &mut kept);
            }
            let beginnings = parse(&kept);
            assert_eq!(
                beginnings,
                [vec![b'\n'; BEGINNING], Vec::new(), Vec::new(), b"x\ny".to_vec()],
                "{piece}"
            );
        }
    }
}
