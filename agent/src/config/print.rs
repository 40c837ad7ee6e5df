//! `--print-config`: the settings as a file for `--config`. Reading that file and printing it again gives the same.

use std::fmt::Write as _;
use std::path::Path;

use toml::{Table, Value};

use super::cli::CommandLine;
use super::options::Policy;
use super::page::ConfigFailure;
use super::settings::AgentSettings;
use super::value::utf8;
use crate::log::agent_lines;
use crate::roots::{RootScan, ScanProblem};

/// What `beadlock-agent --config FILE --print-config` prints in the directory `cwd`: a file that gives the same settings.
/// Environment variables do not count, and the databases below the roots are not looked for.
///
/// # Errors
/// What that program would end with: a mistake in the file, or a database or a root that cannot be served.
pub fn print_config(cwd: &Path, file: &Path) -> Result<String, ConfigFailure> {
    let settings = AgentSettings::read(&CommandLine::of_file(cwd, file)?, &[])?;
    print(&settings, cwd, &RootScan::default())
}

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
        .map(|found| agent_lines::found(&found.database.dir));
    for line in found.chain(below.problems.iter().map(ScanProblem::line)) {
        let _ = writeln!(text, "# {}", line.message);
    }
    Ok(text)
}

fn table(settings: &AgentSettings, cwd: &Path) -> Result<Table, toml::ser::Error> {
    let mut agent = settings.agent.clone();
    let paths = agent.log_file.iter_mut().chain(&mut agent.audit);
    for path in paths.chain(&mut agent.root) {
        *path = cwd.join(&path);
    }
    let defaults = policy_table(&settings.defaults)?;
    let databases = settings.named.iter().map(|named| {
        let dir = utf8::<toml::ser::Error>(&named.database.dir)?;
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
