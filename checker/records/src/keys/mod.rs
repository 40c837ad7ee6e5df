//! Keys by which the lines of three versions are compared.
//!
//! Lines are kept by where they lie in their file, not as copies: 24 bytes for each line of each version, and some 150 for
//! each key.

mod logs;

use std::collections::HashMap;

use crate::id::LineId;
use crate::lines::{self, Frame, LineKind, RecordLine};

/// One of the three versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Base,
    Ours,
    Theirs,
}

/// In the order in which their numbers stand in arrays.
pub const VERSIONS: [Version; 3] = [Version::Base, Version::Ours, Version::Theirs];

/// No line, or no key.
const NONE: u32 = u32::MAX;

/// The key by which a line is compared. The order is that of lines without a time: records first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineKey<'a> {
    Record(LineId<'a>),
    /// The bytes of other JSON, and which occurrence of them in the file it is.
    Other(&'a [u8], u32),
    /// The bytes of a line that is not JSON, and which occurrence of them in the file it is.
    Bad(&'a [u8], u32),
}

impl LineKey<'_> {
    pub fn is_record(&self) -> bool {
        matches!(self, Self::Record(_))
    }
}

/// Place and key of a line. There may be millions.
struct Entry {
    begin: u32,
    length: u32,
    number: u32,
    /// For a line that is not a record this is known last: see [`LineKeys::give_keys_to_other_lines`].
    key: u32,
    /// The next line of its key in its file.
    next: u32,
    is_bad: bool,
    has_end: bool,
}

/// A version with its lines.
struct File<'a> {
    bytes: &'a [u8],
    entries: Vec<Entry>,
    frame: Frame,
}

impl<'a> File<'a> {
    fn line(&self, entry: &Entry) -> RecordLine<'a> {
        let begin = entry.begin as usize;
        let text = self.bytes.get(begin..begin + entry.length as usize);
        RecordLine {
            text: text.unwrap_or_default(),
            begin,
            number: entry.number,
            has_end: entry.has_end,
        }
    }
}

/// The lines of three versions, by key. A key is a number below [`LineKeys::count`].
pub struct LineKeys<'a> {
    files: [File<'a>; 3],
    keys: Vec<LineKey<'a>>,
    /// For each key its first line in each version.
    first: Vec<[u32; 3]>,
}

impl<'a> LineKeys<'a> {
    pub fn read(base: &'a [u8], ours: &'a [u8], theirs: &'a [u8]) -> Self {
        let mut keys = Vec::new();
        let mut known: HashMap<LineId<'a>, u32> = HashMap::new();
        let files = [base, ours, theirs].map(|bytes| {
            let newlines = bytes.iter().filter(|byte| **byte == b'\n').count();
            let mut entries = Vec::with_capacity(newlines + 1);
            let frame = lines::read(bytes, |line, kind| {
                let is_bad = kind == LineKind::Bad;
                let key = match kind {
                    LineKind::Record(id) => *known.entry(id).or_insert_with_key(|id| {
                        keys.push(LineKey::Record(id.clone()));
                        number(keys.len() - 1)
                    }),
                    LineKind::Other | LineKind::Bad => NONE,
                };
                entries.push(Entry {
                    begin: number(line.begin),
                    length: number(line.text.len()),
                    number: line.number,
                    key,
                    next: NONE,
                    is_bad,
                    has_end: line.has_end,
                });
            });
            File {
                bytes,
                entries,
                frame,
            }
        });
        drop(known);
        let first = vec![[NONE; 3]; keys.len()];
        let mut read = Self { files, keys, first };
        read.link();
        let logs = logs::find(&read);
        read.give_keys_to_other_lines(&logs);
        read.link();
        read
    }

    /// Puts the lines of each key and version into a chain.
    fn link(&mut self) {
        self.first.clear();
        self.first.resize(self.keys.len(), [NONE; 3]);
        for (version, file) in self.files.iter_mut().enumerate() {
            for (index, entry) in file.entries.iter_mut().enumerate().rev() {
                if let Some(first) = self.first.get_mut(entry.key as usize) {
                    entry.next = first[version];
                    first[version] = number(index);
                }
            }
        }
    }

    /// Gives keys to lines that are not records, and to those of the ids in `logs`, which then have no line left.
    fn give_keys_to_other_lines(&mut self, logs: &[bool]) {
        /// The keys of lines of the same bytes, by occurrence.
        #[derive(Default)]
        struct Same {
            keys: Vec<u32>,
            version: usize,
            seen: usize,
        }
        let mut known: HashMap<(bool, &'a [u8]), Same> = HashMap::new();
        for (version, file) in self.files.iter_mut().enumerate() {
            let bytes = file.bytes;
            for entry in &mut file.entries {
                if logs.get(entry.key as usize) == Some(&false) {
                    continue;
                }
                let begin = entry.begin as usize;
                let text = bytes.get(begin..begin + entry.length as usize);
                let text = text.unwrap_or_default();
                let same = known.entry((entry.is_bad, text)).or_default();
                if same.version != version {
                    (same.version, same.seen) = (version, 0);
                }
                if same.seen == same.keys.len() {
                    let occurrence = number(same.seen);
                    same.keys.push(number(self.keys.len()));
                    self.keys.push(match entry.is_bad {
                        true => LineKey::Bad(text, occurrence),
                        false => LineKey::Other(text, occurrence),
                    });
                }
                entry.key = same.keys[same.seen];
                same.seen += 1;
            }
        }
    }

    pub fn count(&self) -> usize {
        self.keys.len()
    }

    pub fn key(&self, key: u32) -> &LineKey<'a> {
        &self.keys[key as usize]
    }

    /// Whether the version has a line of this key.
    pub fn has(&self, key: u32, version: Version) -> bool {
        self.first[key as usize][version as usize] != NONE
    }

    /// The lines of a key in a version, in their order.
    pub fn lines(
        &self,
        key: u32,
        version: Version,
    ) -> impl Iterator<Item = RecordLine<'a>> + Clone {
        let file = &self.files[version as usize];
        let at = |index: u32| file.entries.get(index as usize);
        let first = self.first[key as usize][version as usize];
        std::iter::successors(at(first), move |entry| at(entry.next)).map(|entry| file.line(entry))
    }

    /// How many lines a version has.
    pub fn size(&self, version: Version) -> usize {
        self.files[version as usize].entries.len()
    }

    pub fn frame(&self, version: Version) -> Frame {
        self.files[version as usize].frame
    }

    /// The keys of a version in the order of their first lines.
    pub fn sequence(&self, version: Version) -> impl Iterator<Item = u32> {
        let entries = self.files[version as usize].entries.iter();
        entries.enumerate().filter_map(move |(index, entry)| {
            let first = self.first[entry.key as usize][version as usize];
            (first as usize == index).then_some(entry.key)
        })
    }
}

/// Lines and keys are counted in 32 bits: three versions of [`crate::MAX_LINES`] lines fit.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}
