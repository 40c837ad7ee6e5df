//! `--print-config`: what would hold, as a file for `--config`. Reading it and printing it again gives the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use toml::{Table, Value};

use super::failure::Failure;
use super::given::names;
use super::options::{Agent, Policy};
use super::settings::Settings;
use super::text;
use crate::log::own;
use crate::roots::{Look, Trouble};

/// The keys in the order in which they are printed.
#[derive(Serialize)]
struct Printed {
    #[serde(flatten)]
    policy: PrintedKeys,
    #[serde(flatten)]
    agent: PrintedKeys,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    database: Vec<PrintedDatabase>,
}

#[derive(Serialize)]
struct PrintedDatabase {
    dir: String,
    #[serde(flatten)]
    policy: PrintedKeys,
}

/// Options with their values, in the order of the options.
#[derive(Clone, PartialEq)]
struct PrintedKeys(Vec<(String, Value)>);

impl Serialize for PrintedKeys {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// The settings as a file, with a comment for each database that is found below the roots.
///
/// # Errors
/// When something in them is not UTF-8: TOML is.
pub(crate) fn print(settings: &Settings, cwd: &Path, below: &Look) -> Result<String, Failure> {
    let mut text = file(settings, cwd)
        .map_err(|error| Failure::new(1, format!("cannot print the configuration: {error}")))?;
    let found = below.found.iter().map(|found| own::found(&found.database.dir));
    for line in found.chain(below.troubles.iter().map(Trouble::line)) {
        let _ = writeln!(text, "# {}", line.message);
    }
    Ok(text)
}

fn file(settings: &Settings, cwd: &Path) -> Result<String, toml::ser::Error> {
    let mut agent = settings.agent.clone();
    let absolute = |path: &mut PathBuf| *path = cwd.join(&path);
    agent.log_file.iter_mut().chain(&mut agent.audit).chain(&mut agent.root).for_each(absolute);
    let names_of_policy = names::<Policy>();
    let defaults = of_policy(&settings.defaults, &names_of_policy)?;
    let databases = settings.named.iter().map(|named| {
        let dir = text::utf8::<toml::ser::Error>(named.database.dir.as_os_str())?.to_owned();
        let mut policy = of_policy(&named.policy, &names_of_policy)?;
        policy.0.retain(|option| !defaults.0.contains(option));
        Ok(PrintedDatabase { dir, policy })
    });
    let database = databases.collect::<Result<_, toml::ser::Error>>()?;
    toml::to_string(&Printed { agent: keys(&agent, &names::<Agent>())?, policy: defaults, database })
}

/// A command stands for the action, which says nothing beside it.
fn of_policy(policy: &Policy, names: &[String]) -> Result<PrintedKeys, toml::ser::Error> {
    let mut keys = keys(policy, names)?;
    keys.0.retain(|(key, _)| key != "action" || policy.exec.is_none());
    Ok(keys)
}

fn keys(options: &impl Serialize, names: &[String]) -> Result<PrintedKeys, toml::ser::Error> {
    let mut table = Table::try_from(options)?;
    let take = |key: &String| Some((key.clone(), table.remove(key)?));
    Ok(PrintedKeys(names.iter().filter_map(take).collect()))
}
