//! The keys of a table, each taken once; what is left in the end nobody knows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};

use beadlock_checker::address::Address;
use beadlock_checker::duration;
use beadlock_checker::escape::escaped;
use clap::ValueEnum;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::cli::BuiltIn;
use super::layer::PolicyLayer;
use super::policy::Action;

/// The keys of a database; at the top they are every database's.
pub(super) const OF_DATABASE: [&str; 8] = [
    "interval",
    "debounce",
    "action",
    "exec",
    "cycle-timeout",
    "skip-warn",
    "reap-proven-dead",
    "allow-worktree",
];

/// The keys of the agent: at the top alone.
pub(super) const OF_AGENT: [&str; 12] = [
    "jobs",
    "log-file",
    "log-format",
    "log-size",
    "log-keep",
    "log-level",
    "audit",
    "listen",
    "listen-anywhere",
    "root",
    "allow-foreign-owner",
    "any-directory",
];

/// The options that are no keys.
pub(super) const OF_COMMAND_LINE: [&str; 8] =
    ["config", "print-config", "once", "no-watch", "no-spread", "help", "version", "db"];

/// A name that is nearer to the one that is written is meant (as the command line has it).
const NEAR: f64 = 0.7;

/// A mistake, and where.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: Range<usize>,
    pub(super) what: String,
}

/// Which table it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Top,
    Database,
}

/// The keys of a table that were not taken yet.
pub(super) struct Keys<'a> {
    left: BTreeMap<&'a str, (Range<usize>, &'a Spanned<DeValue<'a>>)>,
}

impl<'a> Keys<'a> {
    pub(super) fn of(table: &'a DeTable<'_>) -> Self {
        let left = table.iter().map(|(key, value)| (key.get_ref().as_ref(), (key.span(), value))).collect();
        Self { left }
    }

    /// Where a key that was not taken yet is.
    pub(super) fn span(&self, key: &str) -> Option<Range<usize>> {
        self.left.get(key).map(|(at, _)| at.clone())
    }

    /// Takes the value of a key as it is; `None` when it is not there.
    pub(super) fn take_spanned(&mut self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.left.remove(key).map(|(_, value)| value)
    }

    /// Takes the value of a key, read by `read`; `None` when it is not there.
    ///
    /// # Errors
    /// What `read` says is wrong, with the key.
    pub(super) fn take<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&DeValue<'_>) -> Result<T, String>,
    ) -> Result<Option<T>, Wrong> {
        let Some(value) = self.take_spanned(key) else { return Ok(None) };
        let wrong = |what| Wrong { at: value.span(), what: format!("{key}: {what}") };
        read(value.get_ref()).map(Some).map_err(wrong)
    }

    /// Takes all keys of a database but `dir`.
    ///
    /// # Errors
    /// When one has a wrong value, or two exclude each other.
    pub(super) fn policy(&mut self) -> Result<PolicyLayer, Wrong> {
        if let (Some(exec), Some(action)) = (self.span("exec"), self.span("action")) {
            let at = if exec.start > action.start { exec } else { action };
            return Err(Wrong { at, what: "exec and action exclude each other; leave one out".to_owned() });
        }
        let above_zero = |value: &DeValue<'_>| typed(value, duration::parse_above_zero);
        Ok(PolicyLayer {
            interval: self.take("interval", above_zero)?,
            debounce: self.take("debounce", |value| typed(value, duration::parse))?,
            action: self.take("exec", exec)?.or(self.take("action", action)?),
            cycle_timeout: self.take("cycle-timeout", above_zero)?,
            skip_warn: self.take("skip-warn", above_zero)?,
            reap_proven_dead: self.take("reap-proven-dead", boolean)?,
            allow_worktree: self.take("allow-worktree", boolean)?,
        })
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// The first key that is, and what may be meant.
    pub(super) fn end(self, table: Table) -> Result<(), Wrong> {
        let Some((key, (at, _))) = self.left.into_iter().min_by_key(|(_, (at, _))| at.start) else {
            return Ok(());
        };
        Err(Wrong { at, what: unknown(key, table) })
    }
}

fn unknown(key: &str, table: Table) -> String {
    let shown = escaped(key);
    if table == Table::Database && OF_AGENT.contains(&key) {
        return format!("{shown} is the whole agent's; move it to the top, above the first [[database]]");
    }
    if key == "db" {
        return "unknown key db; did you mean [[database]] and dir?".to_owned();
    }
    if OF_COMMAND_LINE.contains(&key) {
        return format!("{shown} is for the command line only");
    }
    let known: &[&[&str]] = match table {
        Table::Top => &[&OF_DATABASE, &OF_AGENT, &["database"]],
        Table::Database => &[&["dir"], &OF_DATABASE],
    };
    let near = known.concat().into_iter().map(|known| (strsim::jaro(key, known), known));
    let nearest = near.filter(|(near, _)| *near > NEAR).max_by(|one, other| one.0.total_cmp(&other.0));
    match nearest {
        Some((_, "database")) => format!("unknown key {shown}; did you mean [[database]]?"),
        Some((_, meant)) => format!("unknown key {shown}; did you mean {meant}?"),
        None => format!("unknown key {shown}; the keys are {}", known.concat().join(", ")),
    }
}

/// The items of a list.
///
/// # Errors
/// When it is none: what to write.
pub(super) fn list<'a>(
    key: &str,
    value: &'a Spanned<DeValue<'a>>,
    example: &str,
) -> Result<&'a DeArray<'a>, Wrong> {
    match value.get_ref() {
        DeValue::Array(list) => Ok(list),
        _ => Err(Wrong { at: value.span(), what: format!("{key} must be a list; write {example}") }),
    }
}

/// true or false.
pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, String> {
    match value {
        DeValue::Boolean(value) => Ok(*value),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A path, made absolute.
pub(super) fn path(value: &DeValue<'_>, base: &Path) -> Result<PathBuf, String> {
    match value {
        DeValue::String(text) if text.contains('\0') => Err("no path has a NUL in it".to_owned()),
        DeValue::String(text) if !text.is_empty() => Ok(base.join(text.as_ref())),
        _ => Err("must be a path, in quotes".to_owned()),
    }
}

/// An address to listen at; a path in it made absolute.
pub(super) fn address(value: &DeValue<'_>, base: &Path) -> Result<Address, String> {
    match value {
        DeValue::String(text) => Address::parse(OsStr::new(text.as_ref()))?.below(base),
        _ => Err("must be an address, in quotes".to_owned()),
    }
}

/// What the command line reads from the same text, which may be a bare number here.
pub(super) fn typed<T>(value: &DeValue<'_>, parse: fn(&str) -> Result<T, String>) -> Result<T, String> {
    parse(&text(value).ok_or("must be a text in quotes, or a number")?)
}

/// One of the names that the command line has for it.
pub(super) fn named<T: ValueEnum>(value: &DeValue<'_>) -> Result<T, String> {
    let named = match value {
        DeValue::String(name) => T::from_str(name, false).ok(),
        _ => None,
    };
    let possible = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let names = || possible.map(|value| format!("{:?}", value.get_name())).collect::<Vec<_>>().join(" or ");
    named.ok_or_else(|| format!("must be {}", names()))
}

fn exec(value: &DeValue<'_>) -> Result<Action, String> {
    let DeValue::String(command) = value else { return Err("must be a command, in quotes".to_owned()) };
    if command.contains('\0') {
        return Err("no command has a NUL in it".to_owned());
    }
    Action::exec(OsString::from(command.as_ref()))
        .ok_or("has no command; write exec = './sync.sh'".to_owned())
}

fn action(value: &DeValue<'_>) -> Result<Action, String> {
    let named = named::<BuiltIn>(value).map(Action::from);
    named.map_err(|what| format!("{what}; a command goes into exec"))
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
