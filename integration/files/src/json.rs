//! Rules for content before it becomes a file's: JSON, lines of JSON, or anything, and what a schema says of it.
//! serde_json checks it while it is copied. Memory holds a piece of it: 64 KiB of JSON, or one line; for a schema the
//! whole value. A value may be nested `DEEPEST` levels deep.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::{ffi::OsStr, fmt, path::Path, str::FromStr};

use beadlock_base::escape::escaped;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Deserializer, Value};

use super::{Error, Schema};

/// The mark that some editors put before a text, and JSON never begins with. It cannot be seen, so messages name it.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const PIECE: usize = 64 * 1024;

/// Formats that content may be required to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON value, nested at most 127 levels deep.
    Json,
    /// Such a value in each line.
    JsonLines,
    /// Anything.
    Any,
}

impl Format {
    /// By the file's name: lines of JSON for `.jsonl` and `.ndjson`, else JSON.
    pub fn of(path: &Path) -> Self {
        let is_lines = |extension: &OsStr| extension == "jsonl" || extension == "ndjson";
        if path.extension().is_some_and(is_lines) {
            Self::JsonLines
        } else {
            Self::Json
        }
    }
}

/// A text that is not the name of a [`Format`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(f, "{text:?} is not a format: json, jsonl or any")
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    /// The format of this name, as its `Display` writes it.
    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "json" => Ok(Self::Json),
            "jsonl" => Ok(Self::JsonLines),
            "any" => Ok(Self::Any),
            _ => Err(UnknownFormat(text.to_owned())),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::JsonLines => "jsonl",
            Self::Any => "any",
        })
    }
}

/// Rules by which content is checked.
#[derive(Debug, Clone, Copy)]
pub struct Check<'s> {
    /// The format that the content must have.
    pub format: Format,
    /// The schema that each value must conform to as well; `None`: there is none.
    pub schema: Option<&'s Schema>,
}

/// Why content did not arrive.
#[derive(Debug)]
pub enum Spilled {
    /// The content could not be read.
    Read(io::Error),
    /// The content could not be written.
    Write(io::Error),
    /// The content breaks a rule; the words begin with what it is not.
    Invalid(String),
}

impl Spilled {
    /// The error for content of the file at `path` that came from `source`.
    pub fn error(self, path: &Path, source: &str) -> Error {
        Error::Content {
            path: path.to_owned(),
            from: source.to_owned(),
            why: self,
        }
    }
}

impl Check<'_> {
    /// A check of nothing, for content that is known to be right.
    pub const NOTHING: Self = Self {
        format: Format::Any,
        schema: None,
    };

    /// Copies all of `from` to `to`, and returns the number of bytes. Content that breaks a rule ends the copy early.
    pub fn pour(&self, from: impl Read, to: impl Write) -> Result<u64, Spilled> {
        let text = (self.format == Format::Json).then(Text::default);
        let mut tee = Tee {
            from,
            to,
            count: 0,
            is_blank: true,
            text,
            failed: None,
        };
        let checked = match self.format {
            Format::Json => self.value(BufReader::with_capacity(PIECE, &mut tee)),
            Format::JsonLines => self
                .lines(BufReader::with_capacity(PIECE, &mut tee))
                .map(drop),
            Format::Any => io::copy(&mut tee, &mut io::sink())
                .map(drop)
                .map_err(Spilled::Read),
        };
        match (tee.failed, checked) {
            (Some(failed), _) => Err(failed),
            (None, Err(_)) if tee.is_blank => {
                Err(Spilled::Invalid("empty, which is no JSON".to_owned()))
            }
            (None, Err(failed)) => Err(failed),
            (None, Ok(())) => Ok(tee.count),
        }
    }

    /// Checks whole lines that are in memory, and returns their number. The last one gets an end where it has none.
    pub fn whole_lines(&self, bytes: &mut Vec<u8>) -> Result<u64, Spilled> {
        if bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        if self.format == Format::Any {
            return Ok(bytes.iter().filter(|byte| **byte == b'\n').count() as u64);
        }
        self.lines(bytes.as_slice())
    }

    fn value(&self, from: impl Read) -> Result<(), Spilled> {
        match self.read(Deserializer::from_reader(from)) {
            Ok(conforms) => conforms.map_err(Spilled::Invalid),
            Err(error) => Err(Spilled::Invalid(format!(
                "not valid JSON: {}",
                escaped(&error.to_string())
            ))),
        }
    }

    fn lines(&self, mut from: impl BufRead) -> Result<u64, Spilled> {
        let (mut line, mut count) = (Vec::new(), 0);
        while from.read_until(b'\n', &mut line).map_err(Spilled::Read)? > 0 {
            count += 1;
            self.line(&line, count)?;
            line.clear();
        }
        Ok(count)
    }

    fn line(&self, line: &[u8], number: u64) -> Result<(), Spilled> {
        if number == 1 && line.starts_with(BYTE_ORDER_MARK) {
            return Err(marked());
        }
        let wrong =
            |why: &str| Spilled::Invalid(format!("not valid JSON Lines: line {number}: {why}"));
        if line.trim_ascii().is_empty() {
            return Err(wrong("it is empty"));
        }
        Text::default()
            .hear(line)
            .map_err(|(what, at)| wrong(&format!("{what} at column {}", at + 1)))?;
        match self.read(Deserializer::from_slice(line)) {
            Ok(conforms) => {
                conforms.map_err(|why| Spilled::Invalid(format!("{why} (line {number})")))
            }
            Err(error) => {
                // Its own line is always the first.
                let words = error
                    .to_string()
                    .replace(" at line 1 column ", " at column ");
                Err(wrong(&escaped(&words).to_string()))
            }
        }
    }

    /// Reads one value to its end, and says what the schema finds wrong with it.
    fn read<'de>(
        &self,
        mut json: Deserializer<impl serde_json::de::Read<'de>>,
    ) -> serde_json::Result<Result<(), String>> {
        let value = match self.schema {
            None => IgnoredAny::deserialize(&mut json).map(|_| None)?,
            Some(schema) => Some((schema, Value::deserialize(&mut json)?)),
        };
        json.end()?;
        Ok(value.map_or(Ok(()), |(schema, value)| schema.check(&value)))
    }
}

fn marked() -> Spilled {
    Spilled::Invalid(
        "not valid JSON: it begins with a byte order mark; save it without one".to_owned(),
    )
}

struct Tee<R, W> {
    from: R,
    to: W,
    count: u64,
    is_blank: bool,
    /// None: the content may be anything, or each line is checked on its own.
    text: Option<Text>,
    failed: Option<Spilled>,
}

impl<R: Read, W: Write> Read for Tee<R, W> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let failed = match self.step(bytes) {
            Ok(count) => return Ok(count),
            Err(Spilled::Read(error)) if error.kind() == io::ErrorKind::Interrupted => {
                return Err(error);
            }
            Err(failed) => failed,
        };
        self.failed = Some(failed);
        Err(io::Error::other("ended early"))
    }
}

impl<R: Read, W: Write> Tee<R, W> {
    fn step(&mut self, bytes: &mut [u8]) -> Result<usize, Spilled> {
        let count = self.from.read(bytes).map_err(Spilled::Read)?;
        let piece = bytes.get(..count).unwrap_or_default();
        self.is_blank &= piece.trim_ascii().is_empty();
        if let Some(text) = &mut self.text {
            if self.count == 0 && piece.starts_with(BYTE_ORDER_MARK) {
                return Err(marked());
            }
            text.hear(piece).map_err(|(what, at)| {
                Spilled::Invalid(format!("{what} near byte {}", self.count + at as u64))
            })?;
        }
        self.to.write_all(piece).map_err(Spilled::Write)?;
        self.count += count as u64;
        Ok(count)
    }
}

/// Checks that serde_json does not make when it builds no value: for invalid UTF-8, and for nesting too deep to be read
/// again. The text comes in pieces, which may end in the middle of a character.
#[derive(Debug, Default)]
struct Text {
    utf8: Utf8,
    nesting: Nesting,
}

impl Text {
    /// `Err`: what is wrong with the piece, and where.
    fn hear(&mut self, piece: &[u8]) -> Result<(), (String, usize)> {
        self.utf8
            .hear(piece)
            .map_err(|at| ("not UTF-8".to_owned(), at))?;
        self.nesting
            .hear(piece)
            .map_err(|at| (format!("nested more than {DEEPEST} levels deep"), at))
    }
}

#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character whose rest is to come, and the piece that is read just now.
    begun: Vec<u8>,
}

impl Utf8 {
    /// `Err`: where in the piece it is not UTF-8.
    fn hear(&mut self, piece: &[u8]) -> Result<(), usize> {
        let before = self.begun.len();
        self.begun.extend(piece);
        match std::str::from_utf8(&self.begun) {
            Ok(_) => self.begun.clear(),
            Err(error) if error.error_len().is_none() => {
                drop(self.begun.drain(..error.valid_up_to()))
            }
            Err(error) => return Err(error.valid_up_to().saturating_sub(before)),
        }
        Ok(())
    }
}

/// The deepest value that serde_json reads. So every value that is written can be read again.
const DEEPEST: u32 = 127;

/// How deeply JSON is nested at the end of a piece. Only strings and brackets are read here: serde_json checks whether
/// the JSON is valid.
#[derive(Debug, Default)]
struct Nesting {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    /// `Err`: where in the piece it is deeper than [`DEEPEST`].
    fn hear(&mut self, piece: &[u8]) -> Result<(), usize> {
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

    fn poured(format: Format, text: &[u8]) -> Result<Vec<u8>, String> {
        let mut to = Vec::new();
        let check = Check {
            format,
            schema: None,
        };
        match check.pour(text, &mut to) {
            Ok(count) => {
                assert_eq!(count, to.len() as u64);
                Ok(to)
            }
            Err(Spilled::Invalid(why)) => Err(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_format_is_read_by_the_name_that_it_is_shown_by() {
        for format in [Format::Json, Format::JsonLines, Format::Any] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let unknown = "xml".parse::<Format>().unwrap_err().to_string();
        assert_eq!(unknown, "\"xml\" is not a format: json, jsonl or any");
    }

    #[test]
    fn valid_content_arrives_as_it_is() {
        let deep = [b"[".repeat(127), b"]".repeat(127)].concat();
        let long = format!("[{}0]", "1.5e3, ".repeat(50_000));
        for json in [
            &b"{}"[..],
            b" \n[1, 2.5e-3, \"\xc3\xa4\\u00e4\", null, true]\n\n",
            b"0",
            b"\"x\"",
            b"{\"a\":1,\"a\":2}",
            b"[1e999, 123456789012345678901234567890]",
            &deep,
            long.as_bytes(),
        ] {
            assert_eq!(poured(Format::Json, json).unwrap(), json);
        }
        for lines in [
            &b""[..],
            b"{}\n",
            b"1\n2\r\n[3]",
            b"{\"a\":\"\\n\"}\n",
            &deep,
        ] {
            assert_eq!(poured(Format::JsonLines, lines).unwrap(), lines);
        }
        for any in [&b""[..], b"\0\xff\n\n", &b"[".repeat(100_000)] {
            assert_eq!(poured(Format::Any, any).unwrap(), any);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let deep = b"[".repeat(100_000);
        let deep_line = [b"1\n", deep.as_slice(), b"\n"].concat();
        for (json, why) in [
            (&b""[..], "empty, which is no JSON"),
            (b" \n ", "empty, which is no JSON"),
            (
                b"{\"n\":\n",
                "not valid JSON: EOF while parsing a value at line 2 column 0",
            ),
            (
                b"{",
                "not valid JSON: EOF while parsing an object at line 1 column 1",
            ),
            (
                b"{}\n{}",
                "not valid JSON: trailing characters at line 2 column 1",
            ),
            (
                b"{\"a\":\n nul}",
                "not valid JSON: expected ident at line 2 column 5",
            ),
            (b"[1,]", "not valid JSON: expected value at line 1 column 4"),
            (b"[01]", "not valid JSON: invalid number at line 1 column 3"),
            (b"NaN", "not valid JSON: expected value at line 1 column 1"),
            (
                b"\xef\xbb\xbf{}",
                "not valid JSON: it begins with a byte order mark",
            ),
            (b"\"\xff\"", "not UTF-8 near byte 1"),
            (b"\"\xe2\x82\"", "not UTF-8 near byte 1"),
            (&deep, "nested more than 127 levels deep near byte 127"),
            (
                b"{}\0",
                "not valid JSON: trailing characters at line 1 column 3",
            ),
        ] {
            let said = poured(Format::Json, json).unwrap_err();
            assert!(
                said.starts_with(why),
                "{}: {said}",
                String::from_utf8_lossy(json)
            );
        }
        for (lines, why) in [
            (
                &b"{}\n{\n}\n"[..],
                "not valid JSON Lines: line 2: EOF while parsing an object",
            ),
            (b"1\n\n2\n", "not valid JSON Lines: line 2: it is empty"),
            (
                b"1 2\n",
                "not valid JSON Lines: line 1: trailing characters at column 3",
            ),
            (
                b"\"\xff\"\n",
                "not valid JSON Lines: line 1: not UTF-8 at column 2",
            ),
            (
                &deep_line,
                "not valid JSON Lines: line 2: nested more than 127 levels deep at column 128",
            ),
            (
                b"\xef\xbb\xbf{}\n",
                "not valid JSON: it begins with a byte order mark",
            ),
        ] {
            let said = poured(Format::JsonLines, lines).unwrap_err();
            assert!(
                said.starts_with(why),
                "{}: {said}",
                String::from_utf8_lossy(lines)
            );
        }
    }

    #[test]
    fn lines_are_made_whole_and_counted() {
        let whole = |format, text: &[u8]| {
            let mut bytes = text.to_vec();
            let count = Check {
                format,
                schema: None,
            }
            .whole_lines(&mut bytes);
            count
                .map(|count| (count, bytes))
                .map_err(|spilled| match spilled {
                    Spilled::Invalid(why) => why,
                    other => panic!("{other:?}"),
                })
        };
        assert_eq!(
            whole(Format::JsonLines, b"1\n2").unwrap(),
            (2, b"1\n2\n".to_vec())
        );
        assert_eq!(whole(Format::JsonLines, b"").unwrap(), (0, Vec::new()));
        assert_eq!(
            whole(Format::Any, b"a\n\n\xff").unwrap(),
            (3, b"a\n\n\xff\n".to_vec())
        );
        assert!(
            whole(Format::JsonLines, b"1\n\"\xff\"\n")
                .unwrap_err()
                .contains("line 2: not UTF-8")
        );
        assert!(
            whole(Format::JsonLines, b"1\nx\n")
                .unwrap_err()
                .contains("line 2: expected value")
        );
        assert!(
            whole(Format::JsonLines, b"\xef\xbb\xbf1\n")
                .unwrap_err()
                .contains("a byte order mark")
        );
        assert_eq!(whole(Format::Any, b"\xef\xbb\xbf\n").unwrap().0, 1);
    }

    #[test]
    fn a_reader_or_a_writer_that_fails_is_told_apart() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(nix::libc::ENOSPC))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(nix::libc::EIO))
            }
        }
        for format in [Format::Json, Format::JsonLines, Format::Any] {
            let check = Check {
                format,
                schema: None,
            };
            assert!(
                matches!(check.pour(&b"{}"[..], Full), Err(Spilled::Write(_))),
                "{format}"
            );
            assert!(
                matches!(check.pour(Broken, io::sink()), Err(Spilled::Read(_))),
                "{format}"
            );
        }
    }

    #[test]
    fn a_character_may_come_in_pieces() {
        for text in ["\u{e4}", "\u{20ac}", "\u{1f980}", "a\u{1f980}b"] {
            for at in 0..=text.len() {
                let mut utf8 = Utf8::default();
                let (one, two) = text.as_bytes().split_at(at);
                assert_eq!(
                    (utf8.hear(one), utf8.hear(two)),
                    (Ok(()), Ok(())),
                    "{text} at {at}"
                );
                assert!(utf8.begun.is_empty());
            }
        }
        let mut utf8 = Utf8::default();
        assert_eq!((utf8.hear(b"\xe2\x82"), utf8.hear(b"x")), (Ok(()), Err(0)));
    }

    #[test]
    fn it_is_as_deep_as_serde_json_reads() {
        for (open, close) in [("[", "]"), ("{\"[\\\"[\":", "}")] {
            for (depth, is_fine) in [(127, true), (128, false), (100_000, false)] {
                let json = format!(
                    "[0, {}0{}, 0]",
                    open.repeat(depth - 1),
                    close.repeat(depth - 1)
                );
                assert_eq!(
                    serde_json::from_str::<Value>(&json).is_ok(),
                    is_fine,
                    "{depth}"
                );
                for size in [1, 7, json.len()] {
                    let mut nesting = Nesting::default();
                    let heard = json
                        .as_bytes()
                        .chunks(size)
                        .try_for_each(|piece| nesting.hear(piece));
                    assert_eq!(heard.is_ok(), is_fine, "{depth} in pieces of {size}");
                }
            }
        }
    }
}
