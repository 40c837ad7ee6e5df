//! JSON by its bytes: whether a line is JSON, and where its parts lie.

/// Whether a byte may stand in a text as it is: no quote, no backslash, no control character.
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut control = 0;
    while control < 0x20 {
        plain[control] = false;
        control += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'\\' as usize] = false;
    plain
};

/// Kind of a line as JSON, by its outermost value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outer {
    Object,
    OtherJson,
    /// Not JSON, or not UTF-8.
    Bad,
}

/// Reads one JSON text (RFC 8259, UTF-8, nothing behind it) and shows each member of its outermost object: the name
/// as it is written, without quotes, and the value.
pub fn members<'a>(
    text: &'a [u8],
    is_utf8: bool,
    mut member: impl FnMut(&'a [u8], &'a [u8]),
) -> Outer {
    if !is_utf8 && str::from_utf8(text).is_err() {
        return Outer::Bad;
    }
    let mut scanner = Scanner::new(text);
    let mut read = |scanner: &mut Scanner<'a>| {
        scanner.space();
        let is_object = scanner.peek() == Some(b'{');
        if is_object {
            scanner.elements(b'{', b'}', |scanner| {
                let name = scanner.string()?;
                scanner.colon()?;
                member(name, scanner.value()?);
                Some(())
            })?;
        } else {
            scanner.skip()?;
        }
        scanner.space();
        let is_whole = scanner.at == text.len();
        is_whole.then_some(is_object)
    };
    match read(&mut scanner) {
        Some(true) => Outer::Object,
        Some(false) => Outer::OtherJson,
        None => Outer::Bad,
    }
}

/// A number that is written without fraction and exponent.
pub fn is_integer(written: &[u8]) -> bool {
    let digits = written.strip_prefix(b"-").unwrap_or(written);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// Goes over bytes that may be JSON. Each step returns `None` where they are not.
pub struct Scanner<'a> {
    pub text: &'a [u8],
    pub at: usize,
    /// The brackets that [`Self::skip`] has open: nesting costs a byte a level, and no stack.
    open: Vec<u8>,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        let (at, open) = (0, Vec::new());
        Self { text, at, open }
    }

    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    pub fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads the elements between two brackets, separated by commas; `element` reads one.
    pub fn elements(
        &mut self,
        open: u8,
        close: u8,
        mut element: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        if !self.eat(open) {
            return None;
        }
        self.space();
        if self.eat(close) {
            return Some(());
        }
        loop {
            element(self)?;
            self.space();
            match self.next()? {
                b',' => self.space(),
                end if end == close => return Some(()),
                _ => return None,
            }
        }
    }

    pub fn colon(&mut self) -> Option<()> {
        self.space();
        let is_there = self.eat(b':');
        self.space();
        is_there.then_some(())
    }

    /// Reads the value here, and returns its bytes.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let begin = self.at;
        self.skip()?;
        self.text.get(begin..self.at)
    }

    /// Goes behind the value here, however deep it is.
    pub fn skip(&mut self) -> Option<()> {
        self.open.clear();
        loop {
            let opened = self.scalar_or_bracket()?;
            if opened {
                continue;
            }
            // A value has ended, and whatever ends with it.
            loop {
                let Some(&bracket) = self.open.last() else {
                    return Some(());
                };
                self.space();
                match (self.next()?, bracket) {
                    (b',', b'{') => {
                        self.space();
                        self.string()?;
                        self.colon()?;
                        break;
                    }
                    (b',', _) => {
                        self.space();
                        break;
                    }
                    (b'}', b'{') | (b']', b'[') => {
                        self.open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    /// Reads a value without parts, or opens a bracket, which is then true: the first element comes next.
    fn scalar_or_bracket(&mut self) -> Option<bool> {
        let byte = self.peek()?;
        match byte {
            b'"' => {
                self.string()?;
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.word(b"true")?,
            b'f' => self.word(b"false")?,
            b'n' => self.word(b"null")?,
            b'{' | b'[' => {
                self.at += 1;
                self.space();
                let close = if byte == b'{' { b'}' } else { b']' };
                if self.eat(close) {
                    return Some(false);
                }
                self.open.push(byte);
                if byte == b'{' {
                    self.string()?;
                    self.colon()?;
                }
                return Some(true);
            }
            _ => return None,
        }
        Some(false)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_it = self.text.get(self.at..)?.starts_with(word);
        self.at += word.len();
        is_it.then_some(())
    }

    /// Reads a text, and returns the bytes between its quotes.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        if !self.eat(b'"') {
            return None;
        }
        let begin = self.at;
        loop {
            let rest = self.text.get(self.at..)?;
            self.at += rest.iter().position(|&byte| !PLAIN[usize::from(byte)])?;
            match self.next()? {
                b'"' => return self.text.get(begin..self.at - 1),
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4)?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<()> {
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > begin).then_some(())
    }
}
