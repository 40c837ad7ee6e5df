//! The keys of a table. Each is taken once; one that is left in the end is unknown.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};

use beadlock_base::address::Address;
use beadlock_base::escape::escaped;
use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::cli::grammar;
use super::options::{AgentOptions, GivenOptions, Policy, names};

/// A known name that is at least this similar to an unknown one is suggested (as clap does).
const NEAR: f64 = 0.7;

/// Where a mistake is, and what.
pub(super) type ConfigMistake = (Range<usize>, String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableKind {
    Top,
    Database,
}

/// The keys of a table that were not taken yet.
pub(super) struct TableKeys<'a> {
    left: BTreeMap<&'a str, (Range<usize>, &'a Spanned<DeValue<'a>>)>,
}

impl<'a> TableKeys<'a> {
    pub(super) fn of(table: &'a DeTable<'_>) -> Self {
        let left = table
            .iter()
            .map(|(key, value)| (key.get_ref().as_ref(), (key.span(), value)))
            .collect();
        Self { left }
    }

    /// The place of a key that was not taken yet.
    pub(super) fn span(&self, key: &str) -> Option<Range<usize>> {
        self.left.get(key).map(|(at, _)| at.clone())
    }

    /// Takes the value of a key; `None` when the key is not there.
    pub(super) fn take_spanned(&mut self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.left.remove(key).map(|(_, value)| value)
    }

    /// Takes the value of a key, read by `read`; its error gets the key's name and place.
    pub(super) fn take<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigMistake> {
        let Some(value) = self.take_spanned(key) else {
            return Ok(None);
        };
        read(value.get_ref())
            .map(Some)
            .map_err(|what| (value.span(), format!("{key}: {what}")))
    }

    /// Takes the keys of these options, as the command line would read them. Relative paths begin in `base`.
    ///
    /// # Errors
    /// When one has a wrong value, or two exclude each other.
    pub(super) fn given(
        &mut self,
        options: &[Arg],
        reader: &mut OptionReader,
        base: &Path,
    ) -> Result<GivenOptions, ConfigMistake> {
        if let (Some(exec), Some(action)) = (self.span("exec"), self.span("action")) {
            let at = if exec.start > action.start {
                exec
            } else {
                action
            };
            return Err((
                at,
                "exec and action exclude each other; leave one out".to_owned(),
            ));
        }
        let (mut given, mut places) = (Vec::new(), Vec::new());
        for arg in options {
            let Some(key) = arg.get_long().filter(|key| *key != "root") else {
                continue;
            };
            let at = self.left.get(key).map(|(_, value)| value.span());
            given.extend(self.take(key, |value| argument(key, arg, value, base))?);
            places.extend(at.map(|at| (key.to_owned(), at)));
        }
        if given.is_empty() {
            return Ok(GivenOptions::default());
        }
        reader.read(&given).map(GivenOptions::of).map_err(|error| {
            // One by one, to find which of them is wrong.
            let wrong = given.iter().zip(places).find_map(|(given, (key, at))| {
                let what = in_words(&key, given, &reader.read([given]).err()?);
                Some((at, format!("{key}: {what}")))
            });
            wrong.unwrap_or((0..0, error.to_string()))
        })
    }

    /// # Errors
    /// The first key that is left, and what may be meant.
    pub(super) fn end(self, table: TableKind) -> Result<(), ConfigMistake> {
        let first = self.left.into_iter().min_by_key(|(_, (at, _))| at.start);
        first.map_or(Ok(()), |(key, (at, _))| Err((at, unknown(key, table))))
    }
}

fn unknown(key: &str, table: TableKind) -> String {
    let shown = escaped(key);
    let (of_database, of_agent) = (names::<Policy>(), names::<AgentOptions>());
    if table == TableKind::Database && of_agent.iter().any(|known| known == key) {
        return format!(
            "{shown} is the whole agent's; move it to the top, above the first [[database]]"
        );
    }
    if key == "db" {
        return "unknown key db; did you mean [[database]] and dir?".to_owned();
    }
    let known: Vec<String> = match table {
        TableKind::Top => [of_database, of_agent, vec!["database".to_owned()]].concat(),
        TableKind::Database => [vec!["dir".to_owned()], of_database].concat(),
    };
    let is_option = key == "help"
        || key == "version"
        || grammar()
            .get_arguments()
            .any(|arg| arg.get_long() == Some(key));
    if is_option && !known.iter().any(|known| known == key) {
        return format!("{shown} is for the command line only");
    }
    let near = known
        .iter()
        .map(|known| (strsim::jaro(key, known), known.as_str()));
    let nearest = near
        .filter(|(near, _)| *near > NEAR)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match nearest {
        Some((_, "database")) => format!("unknown key {shown}; did you mean [[database]]?"),
        Some((_, meant)) => format!("unknown key {shown}; did you mean {meant}?"),
        None => format!("unknown key {shown}; the keys are {}", known.join(", ")),
    }
}

/// Reads values as the command line would. One grammar serves all: making it costs more than reading by it.
pub(super) struct OptionReader(Command);

impl OptionReader {
    /// In the file a flag has a value: true or false.
    pub(super) fn new() -> Self {
        Self(grammar().mut_args(|arg| match arg.get_action() {
            ArgAction::SetTrue => arg.action(ArgAction::Set).num_args(1),
            _ => arg,
        }))
    }

    fn read(
        &mut self,
        given: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<ArgMatches, clap::Error> {
        let args = given.into_iter().map(|given| given.as_ref().to_owned());
        self.0
            .try_get_matches_from_mut(std::iter::once(OsString::new()).chain(args))
    }
}

/// Why the command line would refuse the value.
fn in_words(key: &str, given: &OsStr, error: &clap::Error) -> String {
    let why = error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string);
    if key != "jobs" {
        return why;
    }
    let text = given.to_string_lossy();
    format!(
        "{:?} is no number of cycles: {why}",
        text.split_once('=').map_or("", |(_, text)| text)
    )
}

/// A key and its value as an argument.
fn argument(key: &str, arg: &Arg, value: &DeValue<'_>, base: &Path) -> Result<OsString, String> {
    let value = match arg.get_action() {
        ArgAction::SetTrue => value
            .as_bool()
            .ok_or("must be true or false")?
            .to_string()
            .into(),
        _ if key == "action" => {
            named(arg, value).map_err(|what| format!("{what}; a command goes into exec"))?
        }
        _ if !arg.get_possible_values().is_empty() => named(arg, value)?,
        _ if arg.get_value_hint() == ValueHint::AnyPath => path(value, base)?.into(),
        _ if key == "listen" => address(value, base)?,
        _ if key == "exec" => exec(value)?,
        _ => text(value)
            .ok_or("must be a text in quotes, or a number")?
            .into_owned()
            .into(),
    };
    let mut argument = OsString::from(format!("--{key}="));
    argument.push(value);
    Ok(argument)
}

/// The items of a list; what to write when the value is not a list.
pub(super) fn list<'a>(
    key: &str,
    value: &'a Spanned<DeValue<'a>>,
    example: &str,
) -> Result<&'a DeArray<'a>, ConfigMistake> {
    let wrong = || {
        (
            value.span(),
            format!("{key} must be a list; write {example}"),
        )
    };
    value.get_ref().as_array().ok_or_else(wrong)
}

/// A path, made absolute.
pub(super) fn path(value: &DeValue<'_>, base: &Path) -> Result<PathBuf, String> {
    match value.as_str() {
        Some(text) if text.contains('\0') => Err("no path has a NUL in it".to_owned()),
        Some(text) if !text.is_empty() => Ok(base.join(text)),
        _ => Err("must be a path, in quotes".to_owned()),
    }
}

/// An address to listen at; a path in it made absolute.
fn address(value: &DeValue<'_>, base: &Path) -> Result<OsString, String> {
    let text = value.as_str().ok_or("must be an address, in quotes")?;
    Ok(match Address::parse(OsStr::new(text))?.below(base)? {
        Address::Tcp(address) => address.to_string().into(),
        Address::Unix(path) => [OsStr::new("unix:"), path.as_os_str()]
            .into_iter()
            .collect(),
    })
}

/// One of the values that the command line accepts.
fn named(arg: &Arg, value: &DeValue<'_>) -> Result<OsString, String> {
    let possible = arg.get_possible_values();
    let is_named = |text: &str| possible.iter().any(|value| value.get_name() == text);
    value
        .as_str()
        .filter(|text| is_named(text))
        .map(OsString::from)
        .ok_or_else(|| {
            let names = possible
                .iter()
                .map(|value| format!("{:?}", value.get_name()));
            format!("must be {}", names.collect::<Vec<_>>().join(" or "))
        })
}

fn exec(value: &DeValue<'_>) -> Result<OsString, String> {
    match value.as_str() {
        Some(command) if command.contains('\0') => Err("no command has a NUL in it".to_owned()),
        Some("") => Err("has no command; write exec = './sync.sh'".to_owned()),
        Some(command) => Ok(command.into()),
        None => Err("must be a command, in quotes".to_owned()),
    }
}

/// The text of a string or a number, as it would be typed.
fn text<'a>(value: &'a DeValue<'_>) -> Option<Cow<'a, str>> {
    match value {
        DeValue::String(text) => Some(text.as_ref().into()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().into()),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok()?;
            Some(number.to_string().into())
        }
        DeValue::Float(number) => Some(number.as_str().into()),
        _ => None,
    }
}
