//! Names that come out of files are untrusted: what a line may show of them (DESIGN 8), and how they are typed.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Characters of an untrusted name that a line shows.
const SHOWN: usize = 200;

/// `name` with control characters, line separators and bidi marks escaped, cut at 200 characters.
///
/// ```
/// assert_eq!(beadlock_checker::escape::escaped("a\nb\u{1b}[2J").to_string(), r"a\nb\u{1b}[2J");
/// ```
pub fn escaped(name: &str) -> Escaped<'_> {
    Escaped { name, limit: SHOWN }
}

/// A path for a line: the same escapes, never cut, invalid UTF-8 shown as U+FFFD.
pub fn escaped_path(path: &Path) -> String {
    Escaped { name: &path.to_string_lossy(), limit: usize::MAX }.to_string()
}

/// An untrusted name on its way to a line; made by [`escaped`].
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a> {
    name: &'a str,
    limit: usize,
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for (shown, c) in self.name.chars().enumerate() {
            if shown == self.limit {
                return f.write_char('…');
            }
            if is_harmless(c) { f.write_char(c)? } else { write!(f, "{}", Shown(c))? }
        }
        Ok(())
    }
}

struct Shown(char);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            '\n' => f.write_str("\\n"),
            '\r' => f.write_str("\\r"),
            '\t' => f.write_str("\\t"),
            c => write!(f, "\\u{{{:x}}}", c as u32),
        }
    }
}

/// Neither moves the cursor nor ends the line nor turns the reading direction nor hides.
pub fn is_harmless(c: char) -> bool {
    !(c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'))
}

/// A word that means nothing but itself to any shell, and is not empty.
pub(crate) fn is_plain(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte))
}

/// A word that a shell reads back as it is, byte by byte; what could not be seen, or would move the cursor, as
/// `$'…'`.
pub fn quoted(word: &OsStr) -> String {
    match word.to_str() {
        Some(text) if is_plain(text) => text.to_owned(),
        Some(text) if text.chars().all(is_harmless) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            // Only ASCII stands for itself: its neighbours may be cut out of a longer character.
            let shown = |byte: &u8| match *byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                byte @ b' '..=b'~' => char::from(byte).to_string(),
                byte => format!("\\{byte:03o}"),
            };
            format!("$'{}'", word.as_bytes().iter().map(shown).collect::<String>())
        }
    }
}

/// A path that is no option, and that a shell reads back as it is.
pub fn quoted_path(path: &Path) -> String {
    let is_dashed = path.as_os_str().as_bytes().first() == Some(&b'-');
    quoted(if is_dashed { Path::new(".").join(path) } else { path.to_owned() }.as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_survives_a_shell() {
        for (word, shell) in
            [("make", "make"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("", "''"), ("$(x)", "'$(x)'")]
        {
            assert_eq!(quoted(OsStr::new(word)), shell);
        }
        for (word, shell) in [
            (&b"a\nb"[..], r"$'a\012b'"),
            (b"it's\xff1\\", r"$'it\'s\3771\\'"),
            ("\u{202e}x".as_bytes(), r"$'\342\200\256x'"),
            ("schön".as_bytes(), "'schön'"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(word)), shell);
        }
        assert_eq!(quoted_path(Path::new("-x/.beads")), "./-x/.beads");
        assert_eq!(quoted_path(Path::new("-\n")), r"$'./-\012'");
    }

    #[test]
    fn forges_no_line_and_moves_no_cursor() {
        let hostile = "x\r\n[2026-01-01 00:00:00] Sync cycle complete\u{2028}\u{202e}\u{1b}[1A\u{7f}\u{85}";
        let shown = escaped(hostile).to_string();
        assert!(shown.chars().all(is_harmless), "{shown}");
        assert!(shown.starts_with(r"x\r\n[2026"), "{shown}");
    }

    #[test]
    fn cuts_at_200_characters() {
        assert_eq!(escaped(&"é".repeat(10_000)).to_string().chars().count(), 201);
        assert_eq!(escaped(&"a".repeat(200)).to_string(), "a".repeat(200));
    }
}
