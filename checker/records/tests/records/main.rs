//! The merge of record files: every rule, the shared vectors, histories at random, hostile input.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as it must be"
)]

mod vectors;

/// Exchanges the halves of each hunk, with their labels.
fn halves_swapped(file: &[u8]) -> Vec<u8> {
    let mut swapped = Vec::new();
    let mut halves: Option<[Vec<u8>; 2]> = None;
    let mut half = 0;
    let mut labels = [Vec::new(), Vec::new()];
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        let is = |marker: &[u8]| line.starts_with(marker);
        match &mut halves {
            None if is(b"<<<<<<< ") => {
                labels[0] = line[8..].to_vec();
                (halves, half) = (Some([Vec::new(), Vec::new()]), 0);
            }
            None => swapped.extend_from_slice(line),
            Some(_) if is(b"=======") => half = 1,
            Some([ours, theirs]) if is(b">>>>>>> ") => {
                labels[1] = line[8..].to_vec();
                let end: &[u8] = if line.ends_with(b"\r\n") {
                    b"\r\n"
                } else {
                    b"\n"
                };
                swapped.extend(
                    [
                        b"<<<<<<< ",
                        &labels[1][..],
                        theirs,
                        b"=======",
                        end,
                        ours,
                        b">>>>>>> ",
                        &labels[0],
                    ]
                    .concat(),
                );
                halves = None;
            }
            Some(both) => both[half].extend_from_slice(line),
        }
    }
    swapped
}
