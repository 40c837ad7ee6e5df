//! An intent file: what it says of its lock (sections 2.1, 3.3 and 9 of the seed).
//!
//! The seed shows `spec.controls.lock`, `spec.timeouts.lock_ttl` and `mode`; where name and version lie it does not. Read
//! are, whichever is there:
//!
//! | | under |
//! |---|---|
//! | name, version | `metadata`, `spec`, or the document itself |
//! | mode | `spec`, or the document itself |
//! | `controls.lock`, `timeouts.lock_ttl` | `spec`, or the document itself |
//!
//! What is given twice is an error, and so is whatever could hide a lock: an alias or a merge key (`<<`) on the way to
//! one of them. Everything else in the file is left alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::system_words;
use nix::fcntl::OFlag;

use super::mode::Mode;
use super::yaml::{Entry, Value, Wrong, entries};
use crate::failure::Error;

/// The longest file that is read.
const LIMIT: u64 = 64 * 1024;

/// What `${params.X}` stands for, by X.
pub type Params = BTreeMap<String, String>;

/// An intent, as far as a lock needs it. What is not in the file is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// The file, for lines.
    file: String,
    pub name: Option<String>,
    pub version: Option<String>,
    pub mode: Option<Mode>,
    /// Seconds, above 0.
    pub lock_ttl: Option<u64>,
    /// The template, and its line.
    lock: Option<(String, usize)>,
}

impl Intent {
    /// Reads `path`, a regular file of at most 64 KiB.
    ///
    /// # Errors
    /// Exit 1 when it cannot be read, exit 2 when it says what it must not; each names the file, and the line.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let failed = |why: String, kind: io::ErrorKind| {
            Error::io(format!("the intent file {} cannot be read: {why}", escaped_path(path)), kind)
        };
        let system = |error: io::Error| failed(system_words(&error), error.kind());
        // Without waiting for whoever may write into a FIFO.
        let flags = (OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits();
        let file = File::options().read(true).custom_flags(flags).open(path).map_err(system)?;
        let meta = file.metadata().map_err(system)?;
        if !meta.is_file() {
            let what = if meta.is_dir() { "a directory" } else { "not a regular file" };
            return Err(failed(format!("it is {what}"), io::ErrorKind::InvalidInput));
        }
        let mut bytes = Vec::new();
        file.take(LIMIT + 1).read_to_end(&mut bytes).map_err(system)?;
        if bytes.len() as u64 > LIMIT {
            return Err(failed("it is larger than 64 KiB".to_owned(), io::ErrorKind::InvalidData));
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(failed("it is not UTF-8".to_owned(), io::ErrorKind::InvalidData));
        };
        Self::parse(&escaped_path(path), &text)
    }

    /// The intent that `text` is; `file` names it in errors.
    ///
    /// # Errors
    /// Exit 2, as `FILE:LINE: what is wrong, and what is wanted`.
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
        let mode = match document.scalar(&of_spec(&["mode"]))? {
            None => None,
            Some((word, line)) => Some(Mode::parse(word).ok_or_else(|| {
                let why = format!("mode is \"{}\"; wanted: observe, mutate or reconcile", escaped(word));
                Wrong::new(line, why)
            })?),
        };
        let lock_ttl = match document.scalar(&of_spec(&["timeouts", "lock_ttl"]))? {
            None => None,
            Some((text, line)) => Some(seconds(text).ok_or_else(|| {
                let why = format!("lock_ttl is \"{}\"; wanted: whole seconds, above 0", escaped(text));
                Wrong::new(line, why)
            })?),
        };
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

    /// The name of its lock with every `${params.X}` resolved, to be checked as a name; `None` when it names none.
    ///
    /// # Errors
    /// Exit 2, as [`resolve`] and naming file and line.
    pub fn lock_name(&self, params: &Params) -> Result<Option<String>, Error> {
        let Some((template, line)) = &self.lock else { return Ok(None) };
        let resolved = resolve(template, params);
        resolved.map(Some).map_err(|why| said_of(&self.file, &Wrong::new(*line, why)))
    }

    /// Names the file, for what is said of an intent as a whole.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// `template` with every `${params.X}` replaced by what it stands for.
///
/// # Errors
/// Words: the parameter that is unset or empty, or what else is in `${…}`.
pub fn resolve(template: &str, params: &Params) -> Result<String, String> {
    let mut name = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        name.push_str(before);
        let Some((inside, after)) = after.split_once('}') else {
            return Err(format!("the lock \"{}\" has a ${{ without its }}", escaped(template)));
        };
        let Some(param) = inside.strip_prefix("params.").filter(|param| is_param(param)) else {
            let inside = escaped(inside);
            return Err(format!("the lock has ${{{inside}}}; only ${{params.NAME}} is known here"));
        };
        match params.get(param).map(String::as_str) {
            None => {
                return Err(format!(
                    "the lock needs ${{params.{param}}}, which is not set: --param {param}=…"
                ));
            }
            Some("") => {
                return Err(format!("the lock needs ${{params.{param}}}, which is empty: --param {param}=…"));
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
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// Whole seconds above 0, as far as a record of the seed has room for them.
pub fn seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse::<u64>().ok().filter(|_| is_number)?;
    (1..=i64::MAX.unsigned_abs()).contains(&seconds).then_some(seconds)
}

fn said_of(file: &str, Wrong { line, why }: &Wrong) -> Error {
    Error::usage(format!("{file}:{line}: {why}"))
}

struct Document(Vec<Entry>);

impl Document {
    fn at(&self, keys: &[&str]) -> impl Iterator<Item = &Entry> {
        self.0.iter().filter(move |entry| entry.keys == keys)
    }

    /// What is below `way`, if there is anything, is there to be seen: keys and values, once, and none merged in.
    fn must_show(&self, way: &[&str]) -> Result<(), Wrong> {
        let name = if way.is_empty() { "an intent".to_owned() } else { way.join(".") };
        let mut seen = None;
        for entry in self.at(way) {
            let is = match entry.value {
                Value::Mapping => None,
                Value::Null if !way.is_empty() => None,
                Value::Null => Some("nothing"),
                Value::Scalar(_) => Some("a plain value"),
                Value::List => Some("a list"),
                Value::Alias => Some("an alias, which is not followed"),
            };
            if let Some(is) = is {
                return Err(Wrong::new(entry.line, format!("{name} is {is}; wanted: keys and values")));
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
                let why = format!("{name} merges other keys in (<<), which is not followed: write them out");
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
                    Value::Scalar(text) if !text.is_empty() => {
                        if let Some((_, first)) = found.replace((text, entry.line)) {
                            return Err(twice(&name, first, entry.line));
                        }
                        continue;
                    }
                    Value::Scalar(_) | Value::Null => "empty",
                    Value::List => "a list",
                    Value::Mapping => "a mapping",
                    Value::Alias => "an alias, which is not followed",
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
    Wrong::new(again, format!("{name} is given a second time here (first in line {first})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
metadata:
  name: deploy-app
  version: 1.20
spec:
  mode: mutate
  params:
    app: {type: string}
  controls:
    lock: \"${params.app}-${params.environment}\"
  timeouts:
    lock_ttl: 1800  # 30 minutes
  steps: [&a {run: x}, *a]
";

    fn params(pairs: &[(&str, &str)]) -> Params {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn said(text: &str) -> String {
        Intent::parse("i.yaml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_intent() {
        let intent = Intent::parse("i.yaml", WHOLE).unwrap();
        assert_eq!(intent.name.as_deref(), Some("deploy-app"));
        assert_eq!(intent.version.as_deref(), Some("1.20"), "as written, not the number 1.2");
        assert_eq!((intent.mode, intent.lock_ttl), (Some(Mode::Mutate), Some(1800)));
        let name = intent.lock_name(&params(&[("app", "money-tracker"), ("environment", "production")]));
        assert_eq!(name.unwrap().as_deref(), Some("money-tracker-production"));
        let error = intent.lock_name(&params(&[("app", "x")])).unwrap_err();
        let words = "i.yaml:9: the lock needs ${params.environment}, which is not set: --param environment=…";
        assert_eq!((error.to_string().as_str(), error.exit), (words, crate::exit::Exit::Usage));
    }

    #[test]
    fn the_other_places_are_read_too() {
        for text in [
            "name: n\nversion: '2'\nmode: observe\ncontrols: {lock: l}\ntimeouts: {lock_ttl: 60}",
            "spec: {name: n, version: '2', mode: observe, controls: {lock: l}, timeouts: {lock_ttl: 60}}",
            "metadata: {name: n}\nspec: {version: 2}\nmode: observe\ncontrols: {lock: l}\ntimeouts: {lock_ttl: 60}",
        ] {
            let Intent { name, version, mode, lock_ttl, lock, .. } = Intent::parse("i", text).unwrap();
            assert_eq!((name.as_deref(), version.as_deref()), (Some("n"), Some("2")), "{text}");
            assert_eq!((mode, lock_ttl), (Some(Mode::Observe), Some(60)), "{text}");
            assert_eq!(lock.map(|(lock, _)| lock).as_deref(), Some("l"), "{text}");
        }
        let empty = Intent::parse("i", "kind: Intent\nspec:\n").unwrap();
        assert_eq!((empty.name.clone(), empty.lock_name(&Params::new())), (None, Ok(None)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_what_is_wanted() {
        for (text, words) in [
            ("", "i.yaml:1: the file is empty; wanted: an intent"),
            ("- a", "i.yaml:1: an intent is a list; wanted: keys and values"),
            ("a: 1\nmode: Observe", "i.yaml:2: mode is \"Observe\"; wanted: observe, mutate or reconcile"),
            (
                "spec:\n  mode: [observe]",
                "i.yaml:2: spec.mode is a list; wanted: a plain value, or leave the key out",
            ),
            (
                "spec:\n  controls:\n    lock:\n",
                "i.yaml:3: spec.controls.lock is empty; wanted: a plain value",
            ),
            ("spec:\n  controls:\n    lock: {a: b}", "i.yaml:3: spec.controls.lock is a mapping; wanted"),
            (
                "spec:\n  timeouts: {lock_ttl: 30m}",
                "i.yaml:2: lock_ttl is \"30m\"; wanted: whole seconds, above 0",
            ),
            ("spec:\n  timeouts: {lock_ttl: 0}", "i.yaml:2: lock_ttl is \"0\""),
            ("spec:\n  timeouts: {lock_ttl: -1}", "i.yaml:2: lock_ttl is \"-1\""),
            ("spec:\n  timeouts: {lock_ttl: 9223372036854775808}", "i.yaml:2: lock_ttl is"),
            ("name: a\nmetadata:\n  name: b", "i.yaml:3: name is given a second time here (first in line 1)"),
            ("name: a\nname: b", "i.yaml:2: name is given a second time here (first in line 1)"),
            ("spec: {}\nspec: {}", "i.yaml:2: spec is given a second time here (first in line 1)"),
            (
                "a: &x {lock: l}\nspec:\n  controls: *x",
                "i.yaml:3: spec.controls is an alias, which is not followed",
            ),
            (
                "a: &x {lock: l}\nspec:\n  controls:\n    <<: *x",
                "i.yaml:4: spec.controls merges other keys in (<<)",
            ),
            (
                "a: &x l\nspec: {controls: {lock: *x}}",
                "i.yaml:2: spec.controls.lock is an alias, which is not followed",
            ),
            ("a: \"\u{1b}[2J\nmode: x", "i.yaml:"),
        ] {
            let said = said(text);
            assert!(said.starts_with(words), "{text:?}: {said}");
        }
    }

    #[test]
    fn templates() {
        let known = params(&[("a", "1"), ("b.c", "2"), ("e", "")]);
        assert_eq!(resolve("x-${params.a}-${params.b.c}", &known).as_deref(), Ok("x-1-2"));
        assert_eq!(resolve("plain$", &known).as_deref(), Ok("plain$"));
        for (template, words) in [
            ("${params.z}", "the lock needs ${params.z}, which is not set: --param z=…"),
            ("${params.e}", "the lock needs ${params.e}, which is empty: --param e=…"),
            ("${params.a", "the lock \"${params.a\" has a ${ without its }"),
            ("${env.HOME}", "the lock has ${env.HOME}; only ${params.NAME} is known here"),
            ("${params.${params.a}}", "the lock has ${params.${params.a}; only ${params.NAME} is known here"),
            ("${}", "the lock has ${}; only ${params.NAME} is known here"),
        ] {
            assert_eq!(resolve(template, &known).unwrap_err(), words);
        }
        // What a parameter stands for is not resolved again.
        let nested = params(&[("a", "${params.b}")]);
        assert_eq!(resolve("${params.a}", &nested).as_deref(), Ok("${params.b}"));
    }

    #[test]
    fn only_a_regular_file_of_a_bounded_size_is_read() {
        let top = tempfile::tempdir().unwrap();
        let said = |name: &str| Intent::read(&top.path().join(name)).unwrap_err().to_string();
        nix::unistd::mkfifo(&top.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::write(top.path().join("large"), "#".repeat(64 * 1024 + 1)).unwrap();
        std::fs::write(top.path().join("latin"), b"name: \xe9").unwrap();
        std::fs::write(top.path().join("fits"), format!("name: n\n{}", "#".repeat(64 * 1024 - 8))).unwrap();
        for (name, why) in [
            ("fifo", "it is not a regular file"),
            (".", "it is a directory"),
            ("none", "no such file or directory"),
            ("large", "it is larger than 64 KiB"),
            ("latin", "it is not UTF-8"),
        ] {
            let said = said(name);
            assert!(
                said.starts_with("the intent file /") && said.ends_with(&format!("cannot be read: {why}")),
                "{said}"
            );
        }
        assert_eq!(Intent::read(&top.path().join("fits")).unwrap().name.as_deref(), Some("n"));
    }
}
