//! Names that come out of files are untrusted: what a line may show of them (docs/design.md#untrusted-names). How they
//! are typed is [`shell`](crate::shell).

use std::{fmt, path::Path};

const SHOWN: usize = 200;

/// `name` with control characters, line separators and bidi marks escaped, cut at 200 characters.
///
/// ```
/// assert_eq!(beadlock_base::escape::escaped("a\nb\u{1b}[2J").to_string(), r"a\nb\u{1b}[2J");
/// ```
pub fn escaped(name: &str) -> Escaped<'_> {
    Escaped { name, limit: SHOWN }
}

/// A path for a line: the same escapes, never cut, invalid UTF-8 shown as U+FFFD.
pub fn escaped_path(path: &Path) -> String {
    Escaped {
        name: &path.to_string_lossy(),
        limit: usize::MAX,
    }
    .to_string()
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
            if is_harmless(c) {
                f.write_char(c)?
            } else {
                write!(f, "{}", c.escape_default())?
            }
        }
        Ok(())
    }
}

/// Neither moves the cursor nor ends the line nor turns the reading direction nor hides.
pub fn is_harmless(c: char) -> bool {
    !(c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'))
}

/// A process for people: `PID 33 (sleep 60)`, `PID 33` without a command.
pub fn process_name(pid: i32, command: &str) -> String {
    if command.is_empty() {
        format!("PID {pid}")
    } else {
        format!("PID {pid} ({})", escaped(command))
    }
}

/// A name in the title of a helper process: escaped, and short enough for two of them on a line of `ps`.
pub fn in_title(name: &str) -> String {
    const SHOWN: usize = 70;
    let name = escaped(name).to_string();
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forges_no_line_and_moves_no_cursor() {
        let hostile =
            "x\r\n[2026-01-01 00:00:00] Sync cycle complete\u{2028}\u{202e}\u{1b}[1A\u{7f}\u{85}";
        let shown = escaped(hostile).to_string();
        assert!(shown.chars().all(is_harmless), "{shown}");
        assert!(shown.starts_with(r"x\r\n[2026"), "{shown}");
    }

    #[test]
    fn cuts_at_200_characters() {
        assert_eq!(
            escaped(&"é".repeat(10_000)).to_string().chars().count(),
            201
        );
        assert_eq!(escaped(&"a".repeat(200)).to_string(), "a".repeat(200));
    }
}
