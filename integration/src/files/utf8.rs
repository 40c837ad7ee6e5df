//! UTF-8 that is heard in pieces, which may end in the middle of a character.

/// UTF-8 that comes in pieces.
#[derive(Debug, Default)]
pub struct Utf8 {
    /// The beginning of a character whose rest is to come: up to three bytes.
    begun: Vec<u8>,
}

impl Utf8 {
    /// `Err`: where in the piece it is none.
    pub fn hear(&mut self, piece: &[u8]) -> Result<(), usize> {
        let mut at = 0;
        while !self.begun.is_empty()
            && let Some(byte) = piece.get(at)
        {
            self.begun.push(*byte);
            at += 1;
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(at - 1),
            }
        }
        let rest = piece.get(at..).unwrap_or_default();
        match std::str::from_utf8(rest) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_none() => {
                self.begun.extend(rest.get(error.valid_up_to()..).unwrap_or_default());
                Ok(())
            }
            Err(error) => Err(at + error.valid_up_to()),
        }
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
}
