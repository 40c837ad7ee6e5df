//! The file of `--config` (docs/design.md#settings): TOML whose keys are the names of the options. The keys at its top
//! are the agent's, or the defaults of every database; a `[[database]]` names a database and overrides these.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_base::escape::escaped;
use beadlock_core::target::Scheme;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};

use super::cli::grammar;
use super::options::{AgentOptions, Policy, names};
use super::page::{ConfigFailure, ConfigPage};
use super::value;

/// A known name that is at least this similar to an unknown one is suggested (as clap does).
const NEAR: f64 = 0.7;

/// The place of a mistake, in bytes of the file, and the words for it.
type Mistake = (Range<usize>, String);

/// The content of the file, over the built-in values. Its paths are absolute.
#[derive(Debug, Default)]
pub(super) struct ConfigFile {
    /// The agent's options at the top of the file.
    pub(super) agent: AgentOptions,
    /// The policy at the top of the file: the default of every database.
    pub(super) policy: Policy,
    /// The directories of `root`, each with its place.
    pub(super) roots: Vec<(PathBuf, Range<usize>)>,
    pub(super) databases: Vec<DatabaseTable>,
    page: ConfigPage,
}

/// A `[[database]]`.
#[derive(Debug)]
pub(super) struct DatabaseTable {
    pub(super) dir: PathBuf,
    /// Its own keys, over those at the top of the file.
    pub(super) policy: Policy,
    at: Range<usize>,
}

impl ConfigFile {
    /// Reads the file. Its relative paths begin in the directory that it lies in.
    ///
    /// # Errors
    /// When it cannot be read (1), or is wrong (2): with line, column and what to write instead.
    pub(super) fn read(cwd: &Path, path: &Path) -> Result<Self, ConfigFailure> {
        let absolute = cwd.join(path);
        Self::parse(
            ConfigPage::read(cwd, path)?,
            absolute.parent().unwrap_or(&absolute),
        )
    }

    pub(super) fn parse(page: ConfigPage, base: &Path) -> Result<Self, ConfigFailure> {
        let tree = DeTable::parse(&page.text).map_err(|error| {
            (
                error.span().unwrap_or_default(),
                error.message().replace('\n', "; "),
            )
        });
        match tree.and_then(|tree| parse(tree.get_ref(), base)) {
            Ok(file) => Ok(Self { page, ..file }),
            Err((at, what)) => Err(page.wrong(2, &at, &what)),
        }
    }

    /// A failure of the database of `table`: `what` is wrong, at the place of that table in this file.
    pub(super) fn wrong(&self, table: &DatabaseTable, code: u8, what: &str) -> ConfigFailure {
        self.page.wrong(code, &table.at, what)
    }

    /// A failure of the root `dir`. The place in this file is added when the file names the root.
    pub(super) fn wrong_root(&self, dir: &Path, code: u8, what: String) -> ConfigFailure {
        match self.roots.iter().find(|(root, _)| root == dir) {
            Some((_, at)) => self.page.wrong(code, at, &what),
            None => ConfigFailure::new(code, what),
        }
    }

    /// The line of a database, counted from 1.
    pub(super) fn line(&self, table: &DatabaseTable) -> usize {
        self.page.line(table.at.start)
    }
}

fn parse(top: &DeTable<'_>, base: &Path) -> Result<ConfigFile, Mistake> {
    let (of_policy, of_agent) = (names::<Policy>(), names::<AgentOptions>());
    let of_top = [&of_policy[..], &of_agent, &["database".to_owned()]].concat();
    refuse_keys(top, &of_top)?;
    let mut file = ConfigFile::default();
    for value in list(top, "root", "root = [\"/srv\"]")? {
        file.roots.push((path("root", value, base)?, value.span()));
    }
    file.agent = options(&only(top, &of_agent))?;
    let AgentOptions {
        log_file, audit, ..
    } = &mut file.agent;
    for path in log_file.iter_mut().chain(audit) {
        *path = base.join(&path);
    }
    if let (Some(address), Some(value)) = (file.agent.listen.take(), top.get("listen")) {
        let absolute = address
            .below(base)
            .map_err(|what| (value.span(), in_words("listen", &what)))?;
        file.agent.listen = Some(absolute);
    }
    let defaults = only(top, &of_policy);
    file.policy = options(&defaults)?;
    for value in list(top, "database", "[[database]] above the keys of each")? {
        file.databases
            .push(database(value, &defaults, &of_policy, base)?);
    }
    Ok(file)
}

fn database(
    value: &Spanned<DeValue<'_>>,
    defaults: &DeTable<'_>,
    of_policy: &[String],
    base: &Path,
) -> Result<DatabaseTable, Mistake> {
    let wrong = |what: &str| (value.span(), what.to_owned());
    let table = value.get_ref().as_table();
    let table = table.ok_or_else(|| wrong("database is a list of tables; write [[database]]"))?;
    refuse_keys(table, &[&["dir".to_owned()], of_policy].concat())?;
    let mut all = defaults.clone();
    if table.contains_key("exec") || table.contains_key("action") {
        // They are one setting: each overrides the other.
        all.remove("exec");
        all.remove("action");
    }
    all.extend(only(table, of_policy));
    let policy = options(&all)?;
    let dir = table.get_key_value("dir");
    let (key, dir) =
        dir.ok_or_else(|| wrong("a [[database]] without dir; write dir = \"path/.beads\""))?;
    Ok(DatabaseTable {
        dir: path("dir", dir, base)?,
        policy,
        at: key.span(),
    })
}

/// The keys of these names.
fn only<'i>(table: &DeTable<'i>, names: &[String]) -> DeTable<'i> {
    let keys = table.iter().filter(|(key, _)| is_in(names, key.get_ref()));
    keys.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

fn is_in(names: &[String], key: &str) -> bool {
    names.iter().any(|name| name == key)
}

/// The options that these are the keys of, over the built-in values.
fn options<T: DeserializeOwned>(table: &DeTable<'_>) -> Result<T, Mistake> {
    let spanned = Spanned::new(0..0, table.clone());
    T::deserialize(Deserializer::from(spanned)).map_err(|error| {
        let at = error.span().unwrap_or_default();
        let key = table.iter().find(|(_, value)| value.span() == at);
        let key = key.map_or("", |(key, _)| key.get_ref());
        let what = in_words(key, error.message());
        (at, what)
    })
}

/// The items of a list, if the key is there; what to write when its value is not a list.
fn list<'a, 'i>(
    table: &'a DeTable<'i>,
    key: &str,
    example: &str,
) -> Result<&'a [Spanned<DeValue<'i>>], Mistake> {
    let Some(value) = table.get(key) else {
        return Ok(&[]);
    };
    let wrong = || {
        (
            value.span(),
            format!("{key} must be a list; write {example}"),
        )
    };
    value
        .get_ref()
        .as_array()
        .map(|list| &list[..])
        .ok_or_else(wrong)
}

/// A path, made absolute.
fn path(key: &str, value: &Spanned<DeValue<'_>>, base: &Path) -> Result<PathBuf, Mistake> {
    let absolute = |path: PathBuf| match path.as_os_str().as_bytes().strip_prefix(b"dir:") {
        Some(rest) if key == "dir" && !rest.is_empty() => {
            let mut target = OsString::from(Scheme::Dir.prefix());
            target.push(base.join(OsStr::from_bytes(rest)));
            PathBuf::from(target)
        }
        Some(_) if key == "dir" => path,
        _ => base.join(path),
    };
    value::read_path(ValueDeserializer::from(value.clone()))
        .map(absolute)
        .map_err(|error| (value.span(), in_words(key, error.message())))
}

fn in_words(key: &str, what: &str) -> String {
    match key {
        "action" => format!("action: {what}; a command goes into exec"),
        _ => format!("{key}: {what}"),
    }
}

/// # Errors
/// The first key that has none of these names, and what may be meant; the later one of two that exclude each other.
fn refuse_keys(table: &DeTable<'_>, names: &[String]) -> Result<(), Mistake> {
    if let Some(key) = table.keys().find(|key| !is_in(names, key.get_ref())) {
        return Err((key.span(), unknown(key.get_ref(), names)));
    }
    let mut actions = table
        .keys()
        .filter(|key| ["exec", "action"].contains(&key.get_ref().as_ref()));
    match actions.nth(1) {
        Some(key) => Err((
            key.span(),
            "exec and action exclude each other; leave one out".to_owned(),
        )),
        None => Ok(()),
    }
}

fn unknown(key: &str, known: &[String]) -> String {
    let shown = escaped(key);
    if is_in(&names::<AgentOptions>(), key) {
        return format!(
            "{shown} is the whole agent's; move it to the top, above the first [[database]]"
        );
    }
    if key == "db" {
        return "unknown key db; did you mean [[database]] and dir?".to_owned();
    }
    let of_command_line = grammar();
    let mut options = of_command_line.get_arguments();
    if ["help", "version"].contains(&key) || options.any(|arg| arg.get_long() == Some(key)) {
        return format!("{shown} is for the command line only");
    }
    let near = known.iter().map(|name| (strsim::jaro(key, name), name));
    let near = near.filter(|(near, _)| *near > NEAR);
    match near.max_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((_, name)) if name == "database" => {
            format!("unknown key {shown}; did you mean [[database]]?")
        }
        Some((_, meant)) => format!("unknown key {shown}; did you mean {meant}?"),
        None => format!("unknown key {shown}; the keys are {}", known.join(", ")),
    }
}
