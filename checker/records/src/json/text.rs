//! Decoding of JSON texts.

use std::borrow::Cow;

/// A text as it is written between its quotes, as bytes of UTF-8. Half of a surrogate pair becomes the three bytes that
/// UTF-8 would have for it: no two different texts are equal.
pub fn decoded(written: &[u8]) -> Cow<'_, [u8]> {
    if !written.contains(&b'\\') {
        return Cow::Borrowed(written);
    }
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let Some((&escape, after)) = rest.split_first() else {
            break;
        };
        rest = after;
        match escape {
            b'b' => bytes.push(8),
            b'f' => bytes.push(12),
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'u' => {
                let (unit, after) = utf16_unit(rest);
                rest = after;
                rest = push_code_point(&mut bytes, unit, rest);
            }
            other => bytes.push(other),
        }
    }
    Cow::Owned(bytes)
}

/// Adds the code point of `unit`, with the second half of its pair where there is one, and returns the rest after it.
fn push_code_point<'a>(bytes: &mut Vec<u8>, unit: u32, rest: &'a [u8]) -> &'a [u8] {
    if let (0xd800..=0xdbff, Some(pair)) = (unit, rest.strip_prefix(b"\\u")) {
        let (low, after) = utf16_unit(pair);
        if let 0xdc00..=0xdfff = low {
            push_utf8(bytes, 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
            return after;
        }
    }
    push_utf8(bytes, unit);
    rest
}

/// The value of four hex digits, and what follows them.
fn utf16_unit(text: &[u8]) -> (u32, &[u8]) {
    let (digits, rest) = text.split_at(text.len().min(4));
    let unit = digits.iter().fold(0, |unit, &digit| {
        unit << 4 | char::from(digit).to_digit(16).unwrap_or(0)
    });
    (unit, rest)
}

/// `char` has no surrogates, so this is not `char::encode_utf8`.
fn push_utf8(bytes: &mut Vec<u8>, code: u32) {
    let tail = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
    match code {
        0..0x80 => bytes.push(code as u8),
        0x80..0x800 => bytes.extend([0xc0 | (code >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => bytes.extend([0xe0 | (code >> 12) as u8, tail(6), tail(0)]),
        _ => bytes.extend([0xf0 | (code >> 18) as u8, tail(12), tail(6), tail(0)]),
    }
}
