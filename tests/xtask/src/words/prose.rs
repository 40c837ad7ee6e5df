//! The prose of a text: its passages as words with their lines. Code is left out.

/// Lines of prose above this many characters are found.
pub const COLUMNS: usize = 120;

/// Between these marks `make bench` writes into a page.
const GENERATED: &str = "<!-- a run";
const GENERATED_END: &str = "<!-- the end of the run";

/// A word as it is printed, with the punctuation that touches it. A code span or a link is one word, without spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// The line of the file, from 1.
    pub line: usize,
}

/// A paragraph, a heading, an item of a list, or a cell of a table.
pub type Passage = Vec<Word>;

/// The prose of one file.
#[derive(Debug, Default)]
pub struct Prose {
    pub passages: Vec<Passage>,
    /// The lines above `COLUMNS` that could be broken at a space.
    pub long_lines: Vec<usize>,
    /// The lines of the passage that is being read.
    open: Vec<(usize, String)>,
    is_in_code: bool,
    is_in_remark: bool,
    is_generated: bool,
}

impl Prose {
    /// The prose of a page in markdown.
    pub fn of_page(text: &str) -> Self {
        let mut prose = Self::default();
        for (at, line) in text.lines().enumerate() {
            prose.read(at + 1, line, line);
        }
        prose.flush();
        prose
    }

    /// The comments of a Rust file: `//`, `///` and `//!` at the beginning of a line. Lines that follow each other and
    /// begin alike are one text.
    pub fn of_comments(text: &str) -> Self {
        Self::of_lines(text, &["///", "//!", "//"])
    }

    /// The `///` comments of a Rust file.
    pub fn of_help(text: &str) -> Self {
        Self::of_lines(text, &["///"])
    }

    fn of_lines(text: &str, beginnings: &[&str]) -> Self {
        let mut prose = Self::default();
        let mut last = None;
        for (at, whole) in text.lines().enumerate() {
            let line = whole.trim_start();
            let begins = beginnings.iter().find(|beginning| line.starts_with(**beginning));
            if begins != last {
                prose.flush();
                prose.is_in_code = false;
                last = begins;
            }
            if let Some(begins) = begins {
                prose.read(at + 1, whole, &line[begins.len()..]);
            }
        }
        prose.flush();
        prose
    }

    /// `whole` is the line in the file, `line` its prose.
    fn read(&mut self, number: usize, whole: &str, line: &str) {
        let text = line.trim().trim_start_matches("> ");
        if text.starts_with("```") || self.is_in_code {
            self.flush();
            self.is_in_code ^= text.starts_with("```");
        } else if text.starts_with(GENERATED) || self.is_generated {
            self.flush();
            self.is_generated = !text.starts_with(GENERATED_END);
        } else if text.starts_with("<!--") || self.is_in_remark {
            self.flush();
            self.is_in_remark = !text.contains("-->");
        } else if text.is_empty() {
            self.flush();
        } else if let Some(row) = text.strip_prefix('|') {
            self.flush();
            let row = row.replace("\\|", "/");
            for cell in cells(&row) {
                self.open.push((number, cell));
                self.flush();
            }
        } else {
            let item = without_marker(text);
            let is_heading = text.starts_with('#');
            if item.len() < text.len() || is_heading {
                self.flush();
            }
            self.open.push((number, item.to_owned()));
            if whole.chars().count() > COLUMNS && words(&[(number, item.to_owned())]).len() > 1 {
                self.long_lines.push(number);
            }
            if is_heading {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let words = words(&std::mem::take(&mut self.open));
        if !words.is_empty() {
            self.passages.push(words);
        }
    }
}

/// The cells of a row without its first `|`. A `|` in a code span does not end a cell.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_code = false;
    for c in row.chars() {
        is_code ^= c == '`';
        match cells.last_mut() {
            Some(cell) if c != '|' || is_code => cell.push(c),
            _ => cells.push(String::new()),
        }
    }
    cells
}

/// The line without the sign that begins an item of a list or a heading: `-`, `*`, `+`, `1.`, `##`.
fn without_marker(line: &str) -> &str {
    let Some((marker, rest)) = line.split_once(' ') else { return line };
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_marker = ["-", "*", "+"].contains(&marker)
        || marker.bytes().all(|byte| byte == b'#')
        || marker.strip_suffix(['.', ')']).is_some_and(is_number);
    if is_marker { rest.trim_start() } else { line }
}

/// The words of these lines. Spaces in a code span and in a link do not end a word.
fn words(lines: &[(usize, String)]) -> Passage {
    let chars: Vec<(char, usize)> =
        lines.iter().flat_map(|(number, line)| line.chars().chain(['\n']).map(|c| (c, *number))).collect();
    let mut words = Passage::new();
    let mut word = String::new();
    let mut at = 0;
    while let Some(&(c, line)) = chars.get(at) {
        if c.is_whitespace() {
            if !word.is_empty() {
                words.push(Word { text: std::mem::take(&mut word), line });
            }
            at += 1;
            continue;
        }
        let end = match c {
            '`' => end_of_code(&chars, at),
            '[' => end_of_link(&chars, at),
            _ => None,
        };
        let end = end.unwrap_or(at + 1);
        word.extend(chars[at..end].iter().map(|(c, _)| if c.is_whitespace() { '\u{a0}' } else { *c }));
        at = end;
    }
    words
}

/// The place behind the code span that begins here, if one does: as many backticks end it as begin it.
fn end_of_code(chars: &[(char, usize)], begin: usize) -> Option<usize> {
    let ticks = |at: usize| chars[at..].iter().take_while(|(c, _)| *c == '`').count();
    let wanted = ticks(begin);
    let mut at = begin + wanted;
    while at < chars.len() {
        match ticks(at) {
            0 => at += 1,
            found if found == wanted => return Some(at + found),
            found => at += found,
        }
    }
    None
}

/// The place behind the link that begins here, if one does: `[text](target)`, or `[text]` of a reference.
fn end_of_link(chars: &[(char, usize)], begin: usize) -> Option<usize> {
    let until = |from: usize, end: char| chars[from..].iter().position(|(c, _)| *c == end).map(|at| from + at + 1);
    let end = until(begin, ']')?;
    match chars.get(end) {
        Some(('(', _)) => until(end, ')'),
        _ => Some(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(prose: &Prose) -> Vec<String> {
        let text = |passage: &Passage| passage.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        prose.passages.iter().map(text).collect()
    }

    #[test]
    fn passages_are_paragraphs_headings_items_and_cells() {
        let page =
            "# A head\nOne\ntwo.\n\n- an item\n  goes on\n- another\n3. third\n\n| a cell | `x|y` z |\n|---|---|\n";
        let expected = ["A head", "One two.", "an item goes on", "another", "third", "a cell", "`x|y` z", "---", "---"];
        assert_eq!(texts(&Prose::of_page(page)), expected);
    }

    #[test]
    fn code_and_remarks_are_left_out() {
        let page = "before\n```\nis no code\n```\nafter\n<!-- a\nremark -->\nlast";
        assert_eq!(texts(&Prose::of_page(page)), ["before", "after", "last"]);
        let page = "before\n<!-- a run: of a program -->\nprinted\n\n<!-- the end of the run -->\nafter";
        assert_eq!(texts(&Prose::of_page(page)), ["before", "after"]);
    }

    #[test]
    fn a_code_span_and_a_link_are_one_word_each() {
        let words = |text: &str| Prose::of_page(text).passages[0].len();
        assert_eq!(words("type `beadlock hold -- make` now"), 3);
        assert_eq!(words("type ``a ` b`` now"), 3);
        assert_eq!(words("see [the whole page](a.html#b), and go"), 4);
        assert_eq!(words("a ` alone, a [ alone"), 6);
    }

    #[test]
    fn words_know_their_lines() {
        let prose = Prose::of_page("\none two\nthree\n");
        assert_eq!(prose.passages[0].iter().map(|word| word.line).collect::<Vec<_>>(), [2, 2, 3]);
    }

    #[test]
    fn a_line_is_too_long_only_where_it_could_be_broken() {
        let long = "y".repeat(70);
        let page = format!("{long} {long}\n\n`{long} {long}`\n\n- [{long} x]({long})\n\n| {long} {long} |\n\n{long}\n");
        assert_eq!(Prose::of_page(&page).long_lines, [1]);
        assert!(Prose::of_page(&format!("{} {}", "é".repeat(60), "x".repeat(59))).long_lines.is_empty());
    }

    #[test]
    fn comments_are_read_by_their_kind() {
        let text = "//! The head.\n\n/// Of the item\n/// below.\n// A remark.\nlet a = \"// none\";\n    // Inside.\n";
        assert_eq!(texts(&Prose::of_comments(text)), ["The head.", "Of the item below.", "A remark.", "Inside."]);
        assert_eq!(texts(&Prose::of_help(text)), ["Of the item below."]);
        assert_eq!(Prose::of_comments(&format!("    /// {} {}", "y".repeat(56), "y".repeat(56))).long_lines, [1]);
    }
}
