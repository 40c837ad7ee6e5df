//! `--print-config`: what would hold, as a file for `--config`. Reading it and printing it again gives the same.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::address::Address;
use beadlock_checker::database::Directories;
use beadlock_checker::escape::escaped_path;
use clap::ValueEnum;
use serde::Serialize;

use super::failure::Failure;
use super::named::Named;
use super::policy::{Action, Policy};
use super::settings::Settings;
use crate::log::own;
use crate::roots::{Look, Trouble};

/// The keys in the order in which they are printed.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Printed<'a> {
    #[serde(flatten)]
    policy: PrintedPolicy<'a>,
    jobs: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_file: Option<String>,
    log_format: String,
    log_size: String,
    log_keep: u32,
    log_level: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    audit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,
    listen_anywhere: bool,
    root: Vec<String>,
    allow_foreign_owner: bool,
    any_directory: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    database: Vec<PrintedDatabase<'a>>,
}

#[derive(Serialize)]
struct PrintedDatabase<'a> {
    dir: &'a str,
    #[serde(flatten)]
    policy: PrintedPolicy<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PrintedPolicy<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    debounce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exec: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cycle_timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip_warn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reap_proven_dead: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_worktree: Option<bool>,
}

/// The settings as a file, with a comment for each database that is found below the roots.
///
/// # Errors
/// When something in them is not UTF-8: TOML is.
pub(crate) fn print(settings: &Settings, cwd: &Path, below: &Look) -> Result<String, Failure> {
    let absolute = |path: &PathBuf| utf8(cwd.join(path).as_os_str()).map(str::to_owned);
    let printed = Printed {
        policy: PrintedPolicy::new(&settings.defaults, None)?,
        jobs: settings.jobs.get(),
        log_file: settings.log.shared.as_ref().map(absolute).transpose()?,
        log_format: name(&settings.log.format),
        log_size: size(settings.log.size),
        log_keep: settings.log.keep,
        log_level: name(&settings.log_level),
        audit: settings.audit.as_ref().map(absolute).transpose()?,
        listen: settings.listen.as_ref().map(listen).transpose()?,
        listen_anywhere: settings.listen_anywhere,
        root: settings.roots.iter().map(absolute).collect::<Result<_, _>>()?,
        allow_foreign_owner: settings.allow_foreign_owner,
        any_directory: settings.directories == Directories::Any,
        database: settings
            .named
            .iter()
            .map(|named| PrintedDatabase::new(named, &settings.defaults))
            .collect::<Result<_, _>>()?,
    };
    let mut text = toml::to_string(&printed)
        .map_err(|error| Failure::new(1, format!("cannot print the configuration: {error}")))?;
    let found = below.found.iter().map(|found| own::found(&found.database.dir));
    for line in found.chain(below.troubles.iter().map(Trouble::line)) {
        let _ = writeln!(text, "# {}", line.message);
    }
    Ok(text)
}

impl<'a> PrintedDatabase<'a> {
    fn new(named: &'a Named, defaults: &Policy) -> Result<Self, Failure> {
        let dir = utf8(named.database.dir.as_os_str())?;
        Ok(Self { dir, policy: PrintedPolicy::new(&named.policy, Some(defaults))? })
    }
}

impl<'a> PrintedPolicy<'a> {
    /// All of a policy, or what differs from the defaults.
    fn new(policy: &'a Policy, defaults: Option<&Policy>) -> Result<Self, Failure> {
        let differs =
            |is_same: fn(&Policy, &Policy) -> bool| !defaults.is_some_and(|other| is_same(policy, other));
        let (action, exec) = match &policy.action {
            _ if !differs(|one, other| one.action == other.action) => (None, None),
            Action::Exec(command) => (None, Some(utf8(command)?)),
            Action::Git => (Some("git"), None),
            Action::None => (Some("none"), None),
        };
        Ok(Self {
            interval: differs(|one, other| one.interval == other.interval).then(|| typed(policy.interval)),
            debounce: differs(|one, other| one.debounce == other.debounce).then(|| typed(policy.debounce)),
            action,
            exec,
            cycle_timeout: differs(|one, other| one.cycle_timeout == other.cycle_timeout)
                .then(|| typed(policy.cycle_timeout)),
            skip_warn: differs(|one, other| one.skip_warn == other.skip_warn)
                .then(|| typed(policy.skip_warn)),
            reap_proven_dead: differs(|one, other| one.reap_proven_dead == other.reap_proven_dead)
                .then_some(policy.reap_proven_dead),
            allow_worktree: differs(|one, other| one.allow_worktree == other.allow_worktree)
                .then_some(policy.allow_worktree),
        })
    }
}

/// An address, as it is typed.
fn listen(address: &Address) -> Result<String, Failure> {
    match address {
        Address::Tcp(address) => Ok(address.to_string()),
        Address::Unix(path) => Ok(format!("unix:{}", utf8(path.as_os_str())?)),
    }
}

/// A duration to the nanosecond, as it is typed.
fn typed(duration: Duration) -> String {
    jiff::SignedDuration::try_from(duration)
        .map_or_else(|_| format!("{}s", duration.as_secs()), |d| format!("{d:#}"))
}

/// The name that the command line has for it.
fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// A size to the byte, as it is typed.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

fn utf8(text: &OsStr) -> Result<&str, Failure> {
    let refused = || {
        let shown = escaped_path(Path::new(text));
        Failure::new(1, format!("cannot print the configuration: {shown} is not UTF-8, and TOML is"))
    };
    text.to_str().ok_or_else(refused)
}
