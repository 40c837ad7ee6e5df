//! A Rust source as words, with the line of each. Comments and what is only there for tests are left out.

/// A word of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A name, a keyword or a number.
    Word(String),
    /// `::`
    Path,
    /// Any other sign.
    Sign(char),
    /// What a string says.
    Text(String),
}

/// A word and its line, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lexeme {
    pub kind: Kind,
    pub line: usize,
}

impl Lexeme {
    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub fn is(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }
}

/// A source without its unit tests.
pub struct Source {
    pub lexemes: Vec<Lexeme>,
}

impl Source {
    pub fn read(text: &str) -> Self {
        let all = lex(text);
        let tests = test_items(&all);
        let is_outside = |line: usize| {
            !tests
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&line))
        };
        Self {
            lexemes: all
                .into_iter()
                .filter(|lexeme| is_outside(lexeme.line))
                .collect(),
        }
    }
}

/// The first and last line of each item with `#[cfg(test)]`.
fn test_items(all: &[Lexeme]) -> Vec<(usize, usize)> {
    let attribute = lex("#[cfg(test)]");
    let begins = |at: usize| {
        let here = all[at..].iter().map(|lexeme| &lexeme.kind);
        here.zip(&attribute)
            .filter(|(here, part)| **here == part.kind)
            .count()
            == attribute.len()
    };
    let mut items: Vec<(usize, usize)> = Vec::new();
    for at in (0..all.len()).filter(|at| begins(*at)) {
        let end = end_of_item(all, at + attribute.len());
        items.push((all[at].line, all[end.min(all.len() - 1)].line));
    }
    items
}

/// Where the item that begins at `at` ends: at its semicolon, or at the brace of its body.
pub fn end_of_item(all: &[Lexeme], at: usize) -> usize {
    let mut depth = 0_i32;
    // The braces of a `use` are not a body.
    let is_use = all[at..]
        .iter()
        .take(3)
        .any(|lexeme| lexeme.word() == Some("use"));
    for (end, lexeme) in all.iter().enumerate().skip(at) {
        match lexeme.kind {
            Kind::Sign('{' | '(' | '[') => depth += 1,
            Kind::Sign(')' | ']') => depth -= 1,
            Kind::Sign('}') => {
                depth -= 1;
                if depth == 0 && !is_use {
                    return end;
                }
            }
            Kind::Sign(';') if depth == 0 => return end,
            _ => {}
        }
    }
    all.len().saturating_sub(1)
}

/// Every word of the text.
pub fn lex(text: &str) -> Vec<Lexeme> {
    let mut reader = Reader {
        chars: text.chars().collect(),
        at: 0,
        line: 1,
    };
    let mut found = Vec::new();
    while let Some(c) = reader.peek(0) {
        let line = reader.line;
        if let Some(kind) = reader.next_kind(c) {
            found.push(Lexeme { kind, line });
        }
    }
    found
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn starts(&self, what: &str) -> bool {
        what.chars()
            .enumerate()
            .all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn skip(&mut self, count: usize) {
        let end = (self.at + count).min(self.chars.len());
        self.line += self.chars[self.at..end]
            .iter()
            .filter(|c| **c == '\n')
            .count();
        self.at = end;
    }

    fn skip_to(&mut self, end: &str) {
        while self.at < self.chars.len() && !self.starts(end) {
            self.skip(1);
        }
    }

    fn next_kind(&mut self, c: char) -> Option<Kind> {
        if self.starts("//") {
            self.skip_to("\n");
            return None;
        }
        if self.starts("/*") {
            self.skip_to("*/");
            self.skip(2);
            return None;
        }
        if let Some(hashes) = self.raw_string() {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = self.at + hashes + 2;
            self.skip(hashes + 2);
            self.skip_to(&end);
            let text = self.chars[begin.min(self.at)..self.at].iter().collect();
            self.skip(end.len());
            return Some(Kind::Text(text));
        }
        match c {
            '"' => Some(self.string()),
            '\'' => self.quote(),
            _ if c.is_alphanumeric() || c == '_' => Some(self.name()),
            ':' if self.starts("::") => {
                self.skip(2);
                Some(Kind::Path)
            }
            _ => {
                self.skip(1);
                (!c.is_whitespace()).then_some(Kind::Sign(c))
            }
        }
    }

    /// The hashes of the raw string that begins here.
    fn raw_string(&self) -> Option<usize> {
        if self.peek(0) != Some('r') {
            return None;
        }
        let hashes = self.chars[self.at + 1..]
            .iter()
            .take_while(|c| **c == '#')
            .count();
        (self.peek(1 + hashes) == Some('"')).then_some(hashes)
    }

    fn string(&mut self) -> Kind {
        self.skip(1);
        let begin = self.at;
        while self.peek(0).is_some_and(|c| c != '"') {
            let step = if self.peek(0) == Some('\\') { 2 } else { 1 };
            self.skip(step);
        }
        let text = self.chars[begin..self.at].iter().collect();
        self.skip(1);
        Kind::Text(text)
    }

    /// A character, or the mark of a lifetime.
    fn quote(&mut self) -> Option<Kind> {
        if self.peek(1) == Some('\\') {
            self.skip(3);
            self.skip_to("'");
            self.skip(1);
        } else if self.peek(2) == Some('\'') {
            self.skip(3);
        } else {
            self.skip(1);
        }
        None
    }

    fn name(&mut self) -> Kind {
        let begin = self.at;
        while self
            .peek(0)
            .is_some_and(|c| c.is_alphanumeric() || c == '_')
        {
            self.skip(1);
        }
        Kind::Word(self.chars[begin..self.at].iter().collect())
    }
}

#[test]
fn words_keep_their_lines_and_tests_are_left_out() {
    let text = "// a comment\nfn f<'a>(c: char) { \"two\nlines\"; r#\"raw \"#; '\"'; b::C }\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nstruct S;\n";
    let source = Source::read(text);
    let texts: Vec<_> = source
        .lexemes
        .iter()
        .filter(|lexeme| matches!(lexeme.kind, Kind::Text(_)))
        .collect();
    assert_eq!(
        texts[0],
        &Lexeme {
            kind: Kind::Text("two\nlines".to_owned()),
            line: 2
        }
    );
    assert_eq!(
        texts[1],
        &Lexeme {
            kind: Kind::Text("raw ".to_owned()),
            line: 3
        }
    );
    let words: Vec<&str> = source.lexemes.iter().filter_map(Lexeme::word).collect();
    assert_eq!(
        words,
        ["fn", "f", "a", "c", "char", "b", "C", "struct", "S"]
    );
    let mut lines: Vec<usize> = source.lexemes.iter().map(|lexeme| lexeme.line).collect();
    lines.dedup();
    assert_eq!(lines, [2, 3, 9]);
}
