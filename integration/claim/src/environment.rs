//! The environment, read once: what is empty counts as unset, and the command line beats it (docs/design.md#settings).

use crate::error::Problem;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::{borrow::Cow, path::PathBuf};

use beadlock_base::escape::escaped;
use beadlock_core::{database, target::Scheme};

use crate::{error::Error, remote::Remote};

/// The settings of the terminal that the environment has: `TERM` and `NO_COLOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Whether the terminal cannot rewrite a line: `TERM` is `dumb`, or not set.
    pub is_dumb: bool,
    /// Whether `NO_COLOR` is set.
    pub no_color: bool,
}

/// The variable that names the directory of named locks.
pub const LOCK_DIR: &str = "BEADLOCK_LOCK_DIR";

/// The variables of a process, with the lock directory that was typed and the guard against file systems that do not
/// answer.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
    /// The lock directory as it was typed: messages that say what to type repeat it.
    typed_lock_dir: Option<OsString>,
    remote: Remote,
}

/// The variables that a command reads, or that it leaves for what it starts.
const KNOWN: [&str; 31] = [
    "BEADLOCK_ABOUT",
    "BEADLOCK_AUDIT",
    "BEADLOCK_BACKUPS",
    "BEADLOCK_COLOR",
    "BEADLOCK_COMPLETE",
    "BEADLOCK_CYCLE",
    "BEADLOCK_CYCLE_FLEET",
    "BEADLOCK_DRAIN",
    "BEADLOCK_FAILURE_STEP",
    "BEADLOCK_FENCING_TOKEN",
    "BEADLOCK_FILTER_TIMEOUT",
    "BEADLOCK_FLEET_CONFIG",
    "BEADLOCK_HELD_FLEET",
    "BEADLOCK_HELD_ID",
    "BEADLOCK_HELD_IDS",
    "BEADLOCK_HELD_TARGET",
    "BEADLOCK_HOLDER",
    "BEADLOCK_HOLDER_VERSION",
    "BEADLOCK_ID",
    "BEADLOCK_JSON",
    "BEADLOCK_KILL_AFTER",
    "BEADLOCK_LOCK_DIR",
    "BEADLOCK_ON_LOSS",
    "BEADLOCK_PID",
    "BEADLOCK_QUIET",
    "BEADLOCK_RESULT_FILE",
    "BEADLOCK_TARGET",
    "BEADLOCK_UNTIL",
    "BEADLOCK_UPDATE_IDS",
    "BEADLOCK_WAIT",
    "BEADLOCK_WARDS",
];

/// Variables of our own scripts and tests, and of the agent, which itself reports those that it does not know.
const ELSEWHERE: [&str; 4] = [
    "BEADLOCK_AGENT_",
    "BEADLOCK_BIN",
    "BEADLOCK_SHARED",
    "BEADLOCK_TEST_",
];

impl Environment {
    /// A sentence for each variable that looks like one of ours and is not, with the name that may be meant.
    pub fn unknown(&self) -> Vec<String> {
        let names = self.variables.iter().filter_map(|(name, _)| name.to_str());
        let is_unknown = |name: &&str| {
            name.starts_with("BEADLOCK_")
                && !KNOWN.contains(name)
                && !ELSEWHERE.iter().any(|other| name.starts_with(other))
        };
        let sentence = |name: &str| {
            let near = KNOWN
                .into_iter()
                .map(|known| (strsim::jaro(name, known), known));
            let meant = near
                .filter(|(nearness, _)| *nearness > 0.9)
                .max_by(|one, other| one.0.total_cmp(&other.0))
                .map(|(_, known)| format!("; did you mean ${known}?"));
            let name = escaped(name);
            format!(
                "${name} is not a variable of beadlock{}",
                meant.unwrap_or_default()
            )
        };
        names.filter(is_unknown).map(sentence).collect()
    }

    /// Reads the variables of this process. No lock directory was typed, and the guard asks nothing.
    pub fn read() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            ..Self::default()
        }
    }

    /// The environment with a lock directory that was typed, which beats the variable; commands that are started from
    /// here inherit it.
    pub fn with_lock_dir(self, dir: Option<&OsStr>) -> Self {
        let Some(dir) = dir else { return self };
        let absolute = self.of_database().cwd.join(dir).into_os_string();
        let variables = self.with(&[(LOCK_DIR, absolute)]);
        Self {
            variables,
            typed_lock_dir: Some(dir.to_owned()),
            ..self
        }
    }

    /// The environment with a guard against file systems that do not answer.
    pub fn with_remote(self, remote: Remote) -> Self {
        Self { remote, ..self }
    }

    /// The guard against file systems that do not answer.
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    pub(crate) fn typed_lock_dir(&self) -> Option<&OsStr> {
        self.typed_lock_dir.as_deref()
    }

    /// The terminal's settings by `TERM` and `NO_COLOR`; without `TERM` the terminal is dumb.
    pub fn terminal(&self) -> Terminal {
        let is_dumb = self.get("TERM").is_none_or(|term| term == "dumb");
        Terminal {
            is_dumb,
            no_color: self.get("NO_COLOR").is_some(),
        }
    }

    /// The variable `name`; empty is unset.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(given, _)| given == name);
        found
            .map(|(_, value)| value.as_os_str())
            .filter(|value| !value.is_empty())
    }

    /// The value that was typed, else the variable as `parse` reads it. An error has exit 2, and names the variable.
    pub fn unless<T>(
        &self,
        typed: Option<T>,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        if typed.is_some() {
            Ok(typed)
        } else {
            self.parsed(name, parse)
        }
    }

    /// The variable as `parse` reads it. An error has exit 2, and names the variable.
    pub fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let Some(text) = value.to_str() else {
            return Err(Error::usage(format!("${name} is not UTF-8")));
        };
        parse(text)
            .map(Some)
            .map_err(|why| Error::usage(format!("${name}: {why}")))
    }

    /// The settings of the search for a target: `BEADLOCK_TARGET` without a shell's quotes, `BEADS_DIR` and the working
    /// directory, which is `.` where it cannot be told.
    pub fn of_database(&self) -> database::DatabaseVariables {
        database::DatabaseVariables {
            target: self.get("BEADLOCK_TARGET").map(unquoted),
            beads_dir: self.get("BEADS_DIR").map(OsString::from),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
        }
    }

    /// All variables, with `changed` in place of those of the same name: a command's environment.
    pub fn with(&self, changed: &[(&str, OsString)]) -> Vec<(OsString, OsString)> {
        let is_kept =
            |(name, _): &&(OsString, OsString)| !changed.iter().any(|(new, _)| name == new);
        let kept = self.variables.iter().filter(is_kept).cloned();
        kept.chain(
            changed
                .iter()
                .map(|(name, value)| (OsString::from(name), value.clone())),
        )
        .collect()
    }

    /// An environment with these variables and nothing else: for tests.
    pub fn of(variables: &[(&str, &str)]) -> Self {
        let variables = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Self {
            variables,
            ..Self::default()
        }
    }
}

/// A target as `acquire` has printed it: out of a file of environment variables it comes with its quotes, also when it
/// is typed as `"$BEADLOCK_TARGET"`.
pub fn unquoted_target(text: &OsStr) -> Cow<'_, OsStr> {
    let quotes = [&b"\"$(printf '"[..], b"$'", b"'"];
    let inner = quotes
        .iter()
        .find_map(|quote| text.as_bytes().strip_prefix(*quote));
    if inner.and_then(Scheme::split).is_some() {
        unquoted(text).into()
    } else {
        text.into()
    }
}

/// The word that a shell would read `value` as, where it is quoted as a whole: as `acquire` has printed it, read from a
/// file of environment variables. Anything else is returned unchanged.
pub fn unquoted(value: &OsStr) -> OsString {
    let bytes = value.as_bytes();
    let printed = || {
        bytes
            .strip_prefix(b"\"$(printf '")?
            .strip_suffix(b"')\"")
            .and_then(unprinted)
    };
    let word = match bytes.strip_prefix(b"$'") {
        Some(rest) => rest.strip_suffix(b"'").and_then(unescaped),
        None if bytes.starts_with(b"\"") => printed(),
        None => bytes
            .strip_prefix(b"'")
            .and_then(|rest| rest.strip_suffix(b"'"))
            .and_then(unquoted_plainly),
    };
    word.map_or_else(|| value.to_owned(), OsString::from_vec)
}

/// What is between the outer quotes of `'…'`: a quote in it is `'\''`.
fn unquoted_plainly(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut word = Vec::with_capacity(rest.len());
    while let Some((first, tail)) = rest.split_first() {
        rest = match first {
            b'\'' => tail.strip_prefix(br"\''")?,
            _ => tail,
        };
        word.push(*first);
    }
    Some(word)
}

/// What is between the outer quotes of `$'…'`, of the escapes that we write: `\'`, `\\` and three octal digits.
fn unescaped(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut word = Vec::with_capacity(rest.len());
    while let Some((first, tail)) = rest.split_first() {
        let (byte, tail) = match (first, tail) {
            (b'\'', _) => return None,
            (b'\\', [quoted @ (b'\'' | b'\\'), tail @ ..]) => (*quoted, tail),
            (b'\\', tail) => {
                let (digits, tail) = tail.split_at_checked(3)?;
                let digits = std::str::from_utf8(digits)
                    .ok()
                    .filter(|text| !text.starts_with('+'))?;
                (u8::from_str_radix(digits, 8).ok()?, tail)
            }
            (byte, tail) => (*byte, tail),
        };
        word.push(byte);
        rest = tail;
    }
    Some(word)
}

/// What is between the quotes of `"$(printf '…')"`: the same, and `%%` for a per cent sign.
fn unprinted(rest: &[u8]) -> Option<Vec<u8>> {
    let doubled = rest.iter().filter(|byte| **byte == b'%').count();
    let format = String::from_utf8(rest.to_vec()).ok()?;
    let single = format.replace("%%", r"\045");
    (doubled % 2 == 0 && !single.contains('%'))
        .then(|| unescaped(single.as_bytes()))
        .flatten()
}

/// A boolean of the contract: 1, 0, true, false, yes, no. The error says what would be right.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" => Ok(false),
        _ => Err(format!("{text:?} is neither of 1, 0, true, false, yes, no")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_not_known_is_named_with_the_one_that_may_be_meant() {
        let unknown = |name| Environment::of(&[(name, "x")]).unknown();
        for (name, sentence) in [
            (
                "BEADLOCK_WIAT",
                "$BEADLOCK_WIAT is not a variable of beadlock; did you mean $BEADLOCK_WAIT?",
            ),
            (
                "BEADLOCK_HOLDERS",
                "$BEADLOCK_HOLDERS is not a variable of beadlock; did you mean $BEADLOCK_HOLDER?",
            ),
            (
                "BEADLOCK_XYZZY",
                "$BEADLOCK_XYZZY is not a variable of beadlock",
            ),
        ] {
            assert_eq!(unknown(name), [sentence]);
        }
        for name in KNOWN.into_iter().chain([
            "BEADLOCK",
            "BEADS_DIR",
            "BEADLOCK_AGENT_JOBS",
            "BEADLOCK_TEST_SCENE",
        ]) {
            assert!(unknown(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn empty_is_unset() {
        let environment = Environment::of(&[("A", ""), ("B", "yes")]);
        assert_eq!(environment.get("A"), None);
        assert_eq!(environment.parsed("A", boolean), Ok(None));
        assert_eq!(environment.parsed("B", boolean), Ok(Some(true)));
    }

    #[test]
    fn a_wrong_value_names_its_variable() {
        let error = Environment::of(&[("BEADLOCK_JSON", "maybe")])
            .parsed("BEADLOCK_JSON", boolean)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"$BEADLOCK_JSON: "maybe" is neither of 1, 0, true, false, yes, no"#
        );
    }

    #[test]
    fn a_quoted_target_is_the_word_that_a_shell_reads() {
        let words: [&[u8]; 9] = [
            b"beads:/home/ann/shop/.beads",
            b"beads:/a b/.beads",
            b"beads:/it's/''/.beads",
            b"'",
            b"''",
            b"lock:/a\nb'c\\d\x7f\x01",
            b"lock:/\xff\xfe 7",
            "lock:/sch\u{f6}n/\u{202e}x".as_bytes(),
            br"lock:/\'",
        ];
        for word in words.map(OsStr::from_bytes) {
            assert_eq!(
                unquoted(OsStr::new(&crate::words::quoted(word))),
                word,
                "{word:?}"
            );
        }
    }

    #[test]
    fn what_is_not_quoted_as_a_whole_is_as_it_is() {
        for plain in [
            ".beads", "'", "$'", "'a", "a'", "'a'b'", "'a' 'b'", r"'a\'b'", "$'a'b'", r"$'\'",
            r"$'\1'", r"$'\x41'", r"$'\777'", r"$'\+12'", r#""a""#, "./'a'", "$a", "",
        ] {
            assert_eq!(unquoted(OsStr::new(plain)), plain, "{plain}");
        }
        let target = |value| {
            Environment::of(&[("BEADLOCK_TARGET", value)])
                .of_database()
                .target
        };
        assert_eq!(
            target(r"'beads:/it'\''s/.beads'"),
            Some("beads:/it's/.beads".into())
        );
        assert_eq!(target(r"$'lock:/a\012b'"), Some("lock:/a\nb".into()));
        assert_eq!(target(""), None);
    }

    #[test]
    fn a_command_gets_each_name_once() {
        let environment = Environment::of(&[("A", "1"), ("B", "2")]);
        assert_eq!(
            environment.with(&[("A", "3".into())]),
            [("B".into(), "2".into()), ("A".into(), "3".into())]
        );
    }
}
