//! `--print-config`: the settings as a file for `--config`. Reading that file and printing it again gives the same.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::escape::escaped_path;
use clap::ValueEnum;
use serde::ser::{Error, Serializer};
use toml::{Table, Value};

use super::options::Policy;
use super::page::ConfigFailure;
use super::settings::AgentSettings;
use crate::log::own;
use crate::roots::{RootScan, ScanProblem};

/// The settings as a file, with a comment for each database that is found below the roots.
///
/// # Errors
/// When a value is not UTF-8: TOML is.
pub(crate) fn print(
    settings: &AgentSettings,
    cwd: &Path,
    below: &RootScan,
) -> Result<String, ConfigFailure> {
    let printed = table(settings, cwd).and_then(|table| toml::to_string(&table));
    let mut text = printed.map_err(|error| {
        ConfigFailure::new(1, format!("cannot print the configuration: {error}"))
    })?;
    let found = below
        .found
        .iter()
        .map(|found| own::found(&found.database.dir));
    for line in found.chain(below.problems.iter().map(ScanProblem::line)) {
        let _ = writeln!(text, "# {}", line.message);
    }
    Ok(text)
}

fn table(settings: &AgentSettings, cwd: &Path) -> Result<Table, toml::ser::Error> {
    let mut agent = settings.agent.clone();
    let absolute = |path: &mut PathBuf| *path = cwd.join(&path);
    agent
        .log_file
        .iter_mut()
        .chain(&mut agent.audit)
        .chain(&mut agent.root)
        .for_each(absolute);
    let defaults = policy_table(&settings.defaults)?;
    let databases = settings.named.iter().map(|named| {
        let dir = utf8::<toml::ser::Error>(named.database.dir.as_os_str())?;
        let mut table = Table::from_iter([("dir".to_owned(), dir.into())]);
        let policy = policy_table(&named.policy)?.into_iter();
        table.extend(policy.filter(|(key, value)| defaults.get(key) != Some(value)));
        Ok(Value::Table(table))
    });
    let databases: Vec<Value> = databases.collect::<Result<_, toml::ser::Error>>()?;
    let mut all = defaults.clone();
    all.extend(Table::try_from(&agent)?);
    if !databases.is_empty() {
        all.insert("database".to_owned(), Value::Array(databases));
    }
    Ok(all)
}

/// A command stands for the action, which is not printed beside it.
fn policy_table(policy: &Policy) -> Result<Table, toml::ser::Error> {
    let mut table = Table::try_from(policy)?;
    table.retain(|key, _| key != "action" || policy.exec.is_none());
    Ok(table)
}

/// A duration to the nanosecond.
pub(super) fn duration<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    let exact = jiff::SignedDuration::try_from(*duration);
    to.serialize_str(&exact.map_or_else(
        |_| format!("{}s", duration.as_secs()),
        |exact| format!("{exact:#}"),
    ))
}

/// A duration that is given.
#[expect(clippy::ref_option, reason = "serde hands a reference")]
pub(super) fn some_duration<S: Serializer>(
    given: &Option<Duration>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match given {
        Some(given) => duration(given, to),
        None => to.serialize_none(),
    }
}

/// The name that the command line has for the value.
pub(super) fn name<S: Serializer>(value: &impl ValueEnum, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(
        value
            .to_possible_value()
            .as_ref()
            .map_or("", |value| value.get_name()),
    )
}

/// A size to the byte.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
pub(super) fn size<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units
        .into_iter()
        .find(|(shift, _)| bytes.trailing_zeros() >= *shift)
    {
        Some((shift, unit)) => to.collect_str(&format_args!("{}{unit}", bytes >> shift)),
        None => to.collect_str(bytes),
    }
}

/// A path or a command.
pub(super) fn some_words<S: Serializer>(
    words: &Option<impl AsRef<OsStr>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match words {
        Some(words) => to.serialize_str(utf8(words.as_ref())?),
        None => to.serialize_none(),
    }
}

/// Paths.
pub(super) fn all_words<S: Serializer>(
    all: &[impl AsRef<OsStr>],
    to: S,
) -> Result<S::Ok, S::Error> {
    let all: Vec<&str> = all
        .iter()
        .map(|words| utf8(words.as_ref()))
        .collect::<Result<_, S::Error>>()?;
    to.collect_seq(all)
}

pub(super) fn some_address<S: Serializer>(
    address: &Option<Address>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match address {
        Some(Address::Tcp(address)) => to.collect_str(address),
        Some(Address::Unix(path)) => {
            to.collect_str(&format_args!("unix:{}", utf8(path.as_os_str())?))
        }
        None => to.serialize_none(),
    }
}

fn utf8<E: Error>(text: &OsStr) -> Result<&str, E> {
    let refused = || {
        E::custom(format!(
            "{} is not UTF-8, and TOML is",
            escaped_path(Path::new(text))
        ))
    };
    text.to_str().ok_or_else(refused)
}
