//! How deeply JSON is nested, counted piece by piece. Only strings and brackets are read here: serde_json checks
//! whether the JSON is valid.

/// The deepest value that serde_json reads. So every value that is written can be read again.
pub const DEEPEST: u32 = 127;

/// The state at the end of a piece.
#[derive(Debug, Default)]
pub struct Nesting {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// `Err`: where in the piece it is deeper than [`DEEPEST`].
    pub fn hear(&mut self, piece: &[u8]) -> Result<(), usize> {
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
    use serde_json::Value;

    #[test]
    fn it_is_as_deep_as_serde_json_reads() {
        for (open, close) in [("[", "]"), ("{\"[\\\"[\":", "}")] {
            for (depth, is_fine) in [(127, true), (128, false), (100_000, false)] {
                let json = format!("[0, {}0{}, 0]", open.repeat(depth - 1), close.repeat(depth - 1));
                assert_eq!(serde_json::from_str::<Value>(&json).is_ok(), is_fine, "{depth}");
                for size in [1, 7, json.len()] {
                    let mut nesting = Nesting::default();
                    let heard = json.as_bytes().chunks(size).try_for_each(|piece| nesting.hear(piece));
                    assert_eq!(heard.is_ok(), is_fine, "{depth} in pieces of {size}");
                }
            }
        }
    }
}
