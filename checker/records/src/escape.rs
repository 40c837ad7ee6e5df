//! Escaping of names that come out of files, for a line for people.

use std::fmt::{self, Write};

/// Characters that are shown.
const SHOWN: usize = 200;

/// Text with control characters, line separators and marks of writing direction escaped, what is not UTF-8 as U+FFFD, cut
/// at 200 characters.
pub fn escaped(text: &[u8]) -> EscapedText<'_> {
    EscapedText(text)
}

/// Made by [`escaped`].
#[derive(Debug, Clone, Copy)]
pub struct EscapedText<'a>(&'a [u8]);

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is shown fits into so many bytes.
        let begin = &self.0[..self.0.len().min(4 * (SHOWN + 1))];
        for (shown, c) in String::from_utf8_lossy(begin).chars().enumerate() {
            if shown == SHOWN {
                return f.write_char('…');
            }
            if is_harmless(c) {
                f.write_char(c)?;
            } else {
                write!(f, "{}", c.escape_default())?;
            }
        }
        Ok(())
    }
}

/// Neither moves the cursor nor ends the line nor turns the direction of writing nor hides.
fn is_harmless(c: char) -> bool {
    !(c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'))
}
