//! What serde_json does not check when it builds no value: invalid UTF-8, and nesting too deep to be read again. The text
//! comes in pieces, which may end in the middle of a character.

#[derive(Debug, Default)]
pub struct Text {
    utf8: Utf8,
    nesting: Nesting,
}

impl Text {
    /// `Err`: what is wrong with the piece, and where.
    pub fn hear(&mut self, piece: &[u8]) -> Result<(), (String, usize)> {
        self.utf8.hear(piece).map_err(|at| ("not UTF-8".to_owned(), at))?;
        self.nesting.hear(piece).map_err(|at| (format!("nested more than {DEEPEST} levels deep"), at))
    }
}

#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character whose rest is to come, and the piece that is read just now.
    begun: Vec<u8>,
}

impl Utf8 {
    /// `Err`: where in the piece it is not UTF-8.
    fn hear(&mut self, piece: &[u8]) -> Result<(), usize> {
        let before = self.begun.len();
        self.begun.extend(piece);
        match std::str::from_utf8(&self.begun) {
            Ok(_) => self.begun.clear(),
            Err(error) if error.error_len().is_none() => drop(self.begun.drain(..error.valid_up_to())),
            Err(error) => return Err(error.valid_up_to().saturating_sub(before)),
        }
        Ok(())
    }
}

/// The deepest value that serde_json reads. So every value that is written can be read again.
const DEEPEST: u32 = 127;

/// How deeply JSON is nested at the end of a piece. Only strings and brackets are read here: serde_json checks whether
/// the JSON is valid.
#[derive(Debug, Default)]
struct Nesting {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// `Err`: where in the piece it is deeper than [`DEEPEST`].
    fn hear(&mut self, piece: &[u8]) -> Result<(), usize> {
        for (at, byte) in piece.iter().enumerate() {
            let is_escaped = std::mem::take(&mut self.is_escaped);
            match byte {
                _ if is_escaped => {}
                b'"' => self.in_string = !self.in_string,
                b'\\' => self.is_escaped = self.in_string,
                _ if self.in_string => {}
                b'[' | b'{' if self.depth == DEEPEST => return Err(at),
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_may_come_in_pieces() {
        for text in ["\u{e4}", "\u{20ac}", "\u{1f980}", "a\u{1f980}b"] {
            for at in 0..=text.len() {
                let mut utf8 = Utf8::default();
                let (one, two) = text.as_bytes().split_at(at);
                assert_eq!((utf8.hear(one), utf8.hear(two)), (Ok(()), Ok(())), "{text} at {at}");
                assert!(utf8.begun.is_empty());
            }
        }
        let mut utf8 = Utf8::default();
        assert_eq!((utf8.hear(b"\xe2\x82"), utf8.hear(b"x")), (Ok(()), Err(0)));
    }

    #[test]
    fn it_is_as_deep_as_serde_json_reads() {
        for (open, close) in [("[", "]"), ("{\"[\\\"[\":", "}")] {
            for (depth, is_fine) in [(127, true), (128, false), (100_000, false)] {
                let json = format!("[0, {}0{}, 0]", open.repeat(depth - 1), close.repeat(depth - 1));
                assert_eq!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), is_fine, "{depth}");
                for size in [1, 7, json.len()] {
                    let mut nesting = Nesting::default();
                    let heard = json.as_bytes().chunks(size).try_for_each(|piece| nesting.hear(piece));
                    assert_eq!(heard.is_ok(), is_fine, "{depth} in pieces of {size}");
                }
            }
        }
    }
}
