//! The file of `--config` (docs/design.md#settings): TOML whose keys are the names of the options. What stands at its
//! top holds for the agent, or is the default of every database; a `[[database]]` names one and overrides that.

use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Arg;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::failure::Failure;
use super::given::{GivenOptions, options};
use super::keys::{self, ConfigMistake, Reader, TableKeys};
use super::options::{Agent, Policy};
use super::page::Page;

/// What the file says. Its paths are absolute.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// At its top: of the agent, and the defaults of every database.
    pub(super) agent: GivenOptions,
    pub(super) policy: GivenOptions,
    pub(crate) roots: Vec<Root>,
    pub(crate) databases: Vec<Section>,
    page: Page,
}

/// A directory of `root`.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) dir: PathBuf,
    at: Range<usize>,
}

/// A `[[database]]`.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) dir: PathBuf,
    pub(super) policy: GivenOptions,
    at: Range<usize>,
}

impl File {
    /// Reads it. Its relative paths begin in the directory that it lies in.
    ///
    /// # Errors
    /// When it cannot be read (1), or is wrong (2): with line, column and what to write instead.
    pub(crate) fn read(cwd: &Path, path: &Path) -> Result<Self, Failure> {
        let page = Page::read(cwd, path)?;
        let absolute = cwd.join(path);
        let base = absolute.parent().unwrap_or(&absolute);
        Self::parse(page, base)
    }

    pub(super) fn parse(page: Page, base: &Path) -> Result<Self, Failure> {
        let tree = match DeTable::parse(&page.text) {
            Ok(tree) => tree,
            Err(error) => {
                let at = error.span().unwrap_or(0..0);
                return Err(page.wrong(2, &at, &error.message().replace('\n', "; ")));
            }
        };
        let mut file = match parse(tree.get_ref(), base) {
            Ok(file) => file,
            Err(wrong) => return Err(page.wrong(2, &wrong.at, &wrong.what)),
        };
        file.page = page;
        Ok(file)
    }

    /// What is wrong with a database, as a mistake in this file.
    pub(crate) fn wrong(&self, section: &Section, code: u8, what: &str) -> Failure {
        self.page.wrong(code, &section.at, what)
    }

    /// What is wrong with a root, as a mistake in this file when it is from here.
    pub(crate) fn wrong_root(&self, dir: &Path, code: u8, what: String) -> Failure {
        match self.roots.iter().find(|root| root.dir == dir) {
            Some(root) => self.page.wrong(code, &root.at, &what),
            None => Failure::new(code, what),
        }
    }

    /// The line of a database, counted from 1.
    pub(crate) fn line(&self, section: &Section) -> usize {
        self.page.line(section.at.start)
    }
}

fn parse(tree: &DeTable<'_>, base: &Path) -> Result<File, ConfigMistake> {
    let mut file = File::default();
    let mut keys = TableKeys::of(tree);
    let (of_database, mut reader) = (options::<Policy>(), Reader::new());
    file.policy = keys.said(&of_database, &mut reader, base)?;
    file.agent = keys.said(&options::<Agent>(), &mut reader, base)?;
    let root = |value: &Spanned<DeValue<'_>>| match keys::path(value.get_ref(), base) {
        Ok(dir) => Ok(Root { dir, at: value.span() }),
        Err(what) => Err((value.span(), what)),
    };
    file.roots = match keys.take_spanned("root") {
        Some(list) => {
            keys::list("root", list, "root = [\"/srv\"]")?.iter().map(root).collect::<Result<_, _>>()
        }
        None => Ok(Vec::new()),
    }
    .map_err(|(at, what)| ConfigMistake { at, what: format!("root: {what}") })?;
    if let Some(list) = keys.take_spanned("database") {
        let tables = keys::list("database", list, "[[database]] above the keys of each")?;
        file.databases = tables
            .iter()
            .map(|table| section(table, &of_database, &mut reader, base))
            .collect::<Result<_, _>>()?;
    }
    keys.end(keys::Table::Top)?;
    Ok(file)
}

fn section(
    table: &Spanned<DeValue<'_>>,
    options: &[Arg],
    reader: &mut Reader,
    base: &Path,
) -> Result<Section, ConfigMistake> {
    let DeValue::Table(keys) = table.get_ref() else {
        return Err(ConfigMistake {
            at: table.span(),
            what: "database is a list of tables; write [[database]]".to_owned(),
        });
    };
    let mut keys = TableKeys::of(keys);
    let policy = keys.said(options, reader, base)?;
    let at = keys.span("dir");
    let dir = keys.take("dir", |value| keys::path(value, base))?;
    keys.end(keys::Table::Database)?;
    match (dir, at) {
        (Some(dir), Some(at)) => Ok(Section { dir, policy, at }),
        _ => Err(ConfigMistake {
            at: table.span(),
            what: "a [[database]] without dir; write dir = \"path/.beads\"".to_owned(),
        }),
    }
}
