//! An intent file: what it says of its lock (sections 2.1, 3.3 and 9 in docs/protocols/tower.md#the-requirements).
//!
//! The document shows `spec.controls.lock`, `spec.timeouts.lock_ttl` and `mode`; where name and version lie it does
//! not. Read are, whichever is there:
//!
//! | | under |
//! |---|---|
//! | name, version | `metadata`, `spec`, or the document itself |
//! | mode | `spec`, or the document itself |
//! | `controls.lock`, `timeouts.lock_ttl` | `spec`, or the document itself |
//!
//! What is given twice is an error, and so is whatever could hide a lock: an alias or a merge key (`<<`) on the way to
//! one of them. Everything else in the file is left alone.

use beadlock_claim::error::Problem;
use std::io;
use std::{collections::BTreeMap, path::Path};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::regular::{self, Links};
use beadlock_core::record::tower::LockName;
use clap::ValueEnum;

use super::yaml::{Wrong, YamlEntry, YamlValue, entries};
use beadlock_claim::error::Error;

const LIMIT: u64 = 64 * 1024;

pub type Params = BTreeMap<String, String>;

/// An intent, as far as a lock needs it. What is not in the file is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    file: String,
    pub name: Option<String>,
    pub version: Option<String>,
    pub mode: Option<IntentMode>,
    /// Seconds, above 0.
    pub lock_ttl: Option<u64>,
    lock: Option<(String, usize)>,
}

impl Intent {
    /// Reads `path`, a regular file of at most 64 KiB.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |why: String, kind: io::ErrorKind| {
            Error::io(
                format!(
                    "the intent file {} cannot be read: {why}",
                    escaped_path(path)
                ),
                kind,
            )
        };
        let text = regular::read_text(path, Links::Followed, LIMIT)
            .map_err(|why| failed(why.to_string(), io::Error::from(why).kind()))?;
        Self::parse(&escaped_path(path), &text)
    }

    /// The intent that `text` is; `file` names it in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        Self::understood(file, text).map_err(|wrong| said_of(file, &wrong))
    }

    fn understood(file: &str, text: &str) -> Result<Self, Wrong> {
        let document = Document(entries(text)?);
        document.must_show(&[])?;
        for way in [&["metadata"][..], &["spec"], &["controls"], &["timeouts"]] {
            document.must_show(way)?;
        }
        document.must_show(&["spec", "controls"])?;
        document.must_show(&["spec", "timeouts"])?;
        let of_name = |name| [vec!["metadata", name], vec!["spec", name], vec![name]];
        let of_spec = |rest: &[&'static str]| [[&["spec"], rest].concat(), rest.to_vec()];
        let mode = document.scalar(&of_spec(&["mode"]))?.map(|(word, line)| {
            let why = || {
                format!(
                    "mode is \"{}\"; wanted: observe, mutate or reconcile",
                    escaped(word)
                )
            };
            IntentMode::parse(word).ok_or_else(|| Wrong::new(line, why()))
        });
        let mode = mode.transpose()?;
        let lock_ttl = document
            .scalar(&of_spec(&["timeouts", "lock_ttl"]))?
            .map(|(text, line)| {
                let why = || {
                    format!(
                        "lock_ttl is \"{}\"; wanted: whole seconds, above 0",
                        escaped(text)
                    )
                };
                seconds(text).ok_or_else(|| Wrong::new(line, why()))
            });
        let lock_ttl = lock_ttl.transpose()?;
        let owned = |found: Option<(&str, usize)>| found.map(|(text, _)| text.to_owned());
        let lock = document.scalar(&of_spec(&["controls", "lock"]))?;
        Ok(Self {
            file: file.to_owned(),
            name: owned(document.scalar(&of_name("name"))?),
            version: owned(document.scalar(&of_name("version"))?),
            mode,
            lock_ttl,
            lock: lock.map(|(text, line)| (text.to_owned(), line)),
        })
    }

    /// The name of its lock with every `${params.X}` resolved; `None` when it names none.
    pub fn lock_name(&self, params: &Params) -> Result<Option<LockName>, Error> {
        let Some((template, line)) = &self.lock else {
            return Ok(None);
        };
        let name = resolve(template, params).and_then(|name| {
            LockName::parse(&name)
                .map_err(|why| format!("the lock would be \"{}\": {why}", escaped(&name)))
        });
        name.map(Some)
            .map_err(|why| said_of(&self.file, &Wrong::new(*line, why)))
    }

    /// Names the file, for what is said of an intent as a whole.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// `template` with every `${params.X}` replaced by what it stands for.
pub fn resolve(template: &str, params: &Params) -> Result<String, String> {
    let mut name = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        name.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            return Err(format!(
                "the lock \"{}\" has a ${{ without its }}",
                escaped(template)
            ));
        };
        let Some(param) = inside
            .strip_prefix("params.")
            .filter(|param| is_param(param))
        else {
            let inside = escaped(inside);
            return Err(format!(
                "the lock has ${{{inside}}}; only ${{params.NAME}} is known here"
            ));
        };
        match params.get(param).map(String::as_str) {
            None => {
                return Err(format!(
                    "the lock needs ${{params.{param}}}, which is not set: --param {param}=…"
                ));
            }
            Some("") => {
                return Err(format!(
                    "the lock needs ${{params.{param}}}, which is empty: --param {param}=…"
                ));
            }
            Some(value) => name.push_str(value),
        }
        rest = after;
    }
    name.push_str(rest);
    Ok(name)
}

/// A parameter's name as it may stand in `${params.NAME}`.
pub fn is_param(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Whole seconds above 0, as far as the document's record has room for them.
pub fn seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse::<u64>().ok().filter(|_| is_number)?;
    (1..=i64::MAX.unsigned_abs())
        .contains(&seconds)
        .then_some(seconds)
}

fn said_of(file: &str, Wrong { line, why }: &Wrong) -> Error {
    Error::usage(format!("{file}:{line}: {why}"))
}

struct Document(Vec<YamlEntry>);

impl Document {
    fn at(&self, keys: &[&str]) -> impl Iterator<Item = &YamlEntry> {
        self.0.iter().filter(move |entry| entry.keys == keys)
    }

    /// What is below `way`, if there is anything, is there to be seen: keys and values, once, and none merged in.
    fn must_show(&self, way: &[&str]) -> Result<(), Wrong> {
        let name = if way.is_empty() {
            "an intent".to_owned()
        } else {
            way.join(".")
        };
        let mut seen = None;
        for entry in self.at(way) {
            let is = match entry.value {
                YamlValue::Mapping => None,
                YamlValue::Null if !way.is_empty() => None,
                YamlValue::Null => Some("nothing"),
                YamlValue::Scalar(_) => Some("a plain value"),
                YamlValue::List => Some("a list"),
                YamlValue::Alias => Some("an alias, which is not followed"),
            };
            if let Some(is) = is {
                return Err(Wrong::new(
                    entry.line,
                    format!("{name} is {is}; wanted: keys and values"),
                ));
            }
            if let Some(first) = seen.replace(entry.line) {
                return Err(twice(&name, first, entry.line));
            }
        }
        if way.is_empty() && seen.is_none() {
            return Err(Wrong::new(1, "the file is empty; wanted: an intent"));
        }
        match self.at(&[way, &["<<"]].concat()).next() {
            None => Ok(()),
            Some(merge) => {
                let why = format!(
                    "{name} merges other keys in (<<), which is not followed: write them out"
                );
                Err(Wrong::new(merge.line, why))
            }
        }
    }

    /// The one value among `ways`, and its line.
    fn scalar<W: AsRef<[&'static str]>>(&self, ways: &[W]) -> Result<Option<(&str, usize)>, Wrong> {
        let mut found: Option<(&str, usize)> = None;
        for way in ways {
            let name = way.as_ref().join(".");
            for entry in self.at(way.as_ref()) {
                let is = match &entry.value {
                    YamlValue::Scalar(text) if !text.is_empty() => {
                        if let Some((_, first)) = found.replace((text, entry.line)) {
                            return Err(twice(&name, first, entry.line));
                        }
                        continue;
                    }
                    YamlValue::Scalar(_) | YamlValue::Null => "empty",
                    YamlValue::List => "a list",
                    YamlValue::Mapping => "a mapping",
                    YamlValue::Alias => "an alias, which is not followed",
                };
                let why = format!("{name} is {is}; wanted: a plain value, or leave the key out");
                return Err(Wrong::new(entry.line, why));
            }
        }
        Ok(found)
    }
}

fn twice(name: &str, one: usize, other: usize) -> Wrong {
    let (first, again) = (one.min(other), one.max(other));
    Wrong::new(
        again,
        format!("{name} is given a second time here (first in line {first})"),
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum IntentMode {
    /// It reads: takes no lock and is blocked by none.
    Observe,
    /// It changes things: locks where it names a lock.
    #[default]
    Mutate,
    /// It brings things to a wanted state: locks like [`IntentMode::Mutate`].
    Reconcile,
}

impl IntentMode {
    pub fn parse(word: &str) -> Option<Self> {
        Self::from_str(word, false).ok()
    }

    /// The sentence for an intent that names no lock; `None` for one that needs none.
    pub fn without_lock(self) -> Option<&'static str> {
        match self {
            Self::Observe => None,
            Self::Mutate => Some("Mutate intent without lock - concurrent execution possible"),
            Self::Reconcile => {
                Some("Reconcile intent without lock - concurrent execution possible")
            }
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod mode_tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_command_line() {
        for mode in IntentMode::value_variants() {
            let word = mode.to_possible_value().unwrap().get_name().to_owned();
            assert_eq!(IntentMode::parse(&word), Some(*mode));
        }
        assert_eq!(IntentMode::parse("Observe"), None);
    }
}
