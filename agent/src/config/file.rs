//! The file of `--config` (docs/design.md#settings): TOML whose keys are the names of the options. The keys at its top
//! are the agent's, or the defaults of every database; a `[[database]]` names a database and overrides these.

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Arg;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, ConfigMistake, OptionReader, TableKeys};
use super::options::{AgentOptions, GivenOptions, Policy, options};
use super::page::{ConfigFailure, ConfigPage};

/// The content of the file. Its paths are absolute.
#[derive(Debug, Default)]
pub(super) struct ConfigFile {
    /// From the top of the file.
    pub(super) agent: GivenOptions,
    /// From the top of the file: the defaults of every database.
    pub(super) policy: GivenOptions,
    /// The directories of `root`, each with its place.
    pub(super) roots: Vec<(PathBuf, Range<usize>)>,
    pub(super) databases: Vec<DatabaseTable>,
    page: ConfigPage,
}

/// A `[[database]]`.
#[derive(Debug)]
pub(super) struct DatabaseTable {
    pub(super) dir: PathBuf,
    pub(super) policy: GivenOptions,
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
                error.span().unwrap_or(0..0),
                error.message().replace('\n', "; "),
            )
        });
        match tree.and_then(|tree| parse(tree.get_ref(), base)) {
            Ok(file) => Ok(Self { page, ..file }),
            Err((at, what)) => Err(page.wrong(2, &at, &what)),
        }
    }

    /// What is wrong with a database, as a mistake in this file.
    pub(super) fn wrong(&self, table: &DatabaseTable, code: u8, what: &str) -> ConfigFailure {
        self.page.wrong(code, &table.at, what)
    }

    /// What is wrong with a root; as a mistake in this file when the root is from here.
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

fn parse(tree: &DeTable<'_>, base: &Path) -> Result<ConfigFile, ConfigMistake> {
    let mut file = ConfigFile::default();
    let mut keys = TableKeys::of(tree);
    let (of_database, mut reader) = (options::<Policy>(), OptionReader::new());
    file.policy = keys.given(&of_database, &mut reader, base)?;
    file.agent = keys.given(&options::<AgentOptions>(), &mut reader, base)?;
    if let Some(list) = keys.take_spanned("root") {
        for value in keys::list("root", list, "root = [\"/srv\"]")? {
            let dir = keys::path(value.get_ref(), base);
            let dir = dir.map_err(|what| (value.span(), format!("root: {what}")))?;
            file.roots.push((dir, value.span()));
        }
    }
    if let Some(list) = keys.take_spanned("database") {
        for table in keys::list("database", list, "[[database]] above the keys of each")? {
            file.databases
                .push(database(table, &of_database, &mut reader, base)?);
        }
    }
    keys.end(keys::TableKind::Top)?;
    Ok(file)
}

fn database(
    table: &Spanned<DeValue<'_>>,
    options: &[Arg],
    reader: &mut OptionReader,
    base: &Path,
) -> Result<DatabaseTable, ConfigMistake> {
    let DeValue::Table(keys) = table.get_ref() else {
        return Err((
            table.span(),
            "database is a list of tables; write [[database]]".to_owned(),
        ));
    };
    let mut keys = TableKeys::of(keys);
    let policy = keys.given(options, reader, base)?;
    let at = keys.span("dir");
    let dir = keys.take("dir", |value| keys::path(value, base))?;
    keys.end(keys::TableKind::Database)?;
    match (dir, at) {
        (Some(dir), Some(at)) => Ok(DatabaseTable { dir, policy, at }),
        _ => Err((
            table.span(),
            "a [[database]] without dir; write dir = \"path/.beads\"".to_owned(),
        )),
    }
}
