//! Base64 with padding (RFC 4648), for the hashes of a page and for a terminal's clipboard.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes in Base64, padded with `=`.
pub fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, at| {
            number << 8 | u32::from(three.get(at).copied().unwrap_or(0))
        });
        for place in 0..4 {
            let digit = usize::try_from(number >> (18 - 6 * place) & 63).unwrap_or(0);
            text.push(if place <= three.len() {
                char::from(DIGITS[digit])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_the_examples_of_the_document() {
        for (plain, code) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encoded(plain.as_bytes()), code);
        }
        assert_eq!(encoded(&[0xfb, 0xff, 0xfe]), "+//+");
    }
}
