//! What the agent does, and how each of its databases is served. Made of the command line, the environment and the
//! file (docs/design.md#settings), at the start and again at each reload.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use beadlock_base::address::Address;
use beadlock_base::error::system_words;
use beadlock_base::mounts::Mounts;
use beadlock_core::Place;
use beadlock_core::reserved::Reserved;
use tokio::sync::mpsc::UnboundedReceiver;

use super::cli::{CommandLine, RunMode};
use super::file::ConfigFile;
use super::named::{ArrivedDatabase, AwaitedDatabase, NamedDatabase, NamedDatabases};
use super::options::{AgentOptions, Policy};
use super::page::ConfigFailure;
use crate::hang;
use crate::log::{self, shown};
use crate::roots::SearchScope;

#[derive(Debug)]
pub(crate) struct AgentSettings {
    /// The databases that are named, or else the nearest one up the tree; each once.
    pub(crate) named: Vec<NamedDatabase>,
    /// Named databases whose file system does not answer.
    pub(crate) awaited: Vec<AwaitedDatabase>,
    /// Receives each awaited database when it answers; `None`: none is awaited.
    pub(crate) arrivals: Option<UnboundedReceiver<ArrivedDatabase>>,
    /// The policy of the databases below the roots.
    pub(crate) defaults: Arc<Policy>,
    pub(crate) mode: RunMode,
    /// Whether the first cycles of many databases are spread over the interval.
    pub(crate) spreads: bool,
    /// The other options. The roots and a socket to listen at are absolute; the audit file is the one in use.
    pub(crate) agent: AgentOptions,
    pub(crate) log: log::LogSettings,
}

impl AgentSettings {
    /// Where databases are searched.
    pub(crate) fn scope(&self) -> SearchScope {
        let named = self
            .named
            .iter()
            .map(|named| named.database.dir.clone())
            .collect();
        SearchScope {
            roots: self.agent.root.clone(),
            named,
            owners: self.agent.owners(),
        }
    }

    /// Reads all places. A root that is not there is a mistake, unless it is one of `known`, which may come back.
    ///
    /// # Errors
    /// When the file is wrong, a database or a root cannot be served, or none is found.
    pub(crate) fn read(typed: &CommandLine, known: &[PathBuf]) -> Result<Self, ConfigFailure> {
        let cwd = &typed.environment.cwd;
        let file = match &typed.cli.config {
            Some(path) => ConfigFile::read(cwd, path)?,
            None => ConfigFile::default(),
        };
        let mut agent = typed.agent(&file.agent);
        agent.listen = listen(agent.listen.take(), cwd, agent.listen_anywhere)?;
        let mut roots: Vec<PathBuf> = Vec::new();
        let typed_roots = typed.cli.agent.root.iter().map(|root| cwd.join(root));
        for root in typed_roots.chain(file.roots.iter().map(|(root, _)| root.clone())) {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        for root in roots.iter().filter(|root| !known.contains(root)) {
            is_directory(root).map_err(|what| file.wrong_root(root, 1, what))?;
        }
        let NamedDatabases {
            named,
            awaited,
            arrivals,
        } = NamedDatabases::of(
            typed,
            &file,
            (agent.owners(), agent.directories()),
            !roots.is_empty(),
        )?;
        agent.audit = agent.audit.take().or_else(|| typed.audit_of_all.clone());
        for (option, path) in [("audit", &agent.audit), ("log-file", &agent.log_file)] {
            refuse_lock(option, path.as_deref(), &named)?;
        }
        let may_become_several = !roots.is_empty() || typed.cli.config.is_some();
        agent.root = roots;
        Ok(Self {
            named,
            awaited,
            arrivals,
            defaults: Arc::new(typed.policy(&file.policy)),
            mode: typed.mode(),
            spreads: typed.spreads(),
            log: agent.log(may_become_several),
            agent,
        })
    }
}

/// An audit trail or a log that is one of the locks would make that lock malformed.
fn refuse_lock(
    option: &str,
    file: Option<&Path>,
    named: &[NamedDatabase],
) -> Result<(), ConfigFailure> {
    let locks: Vec<PathBuf> = named
        .iter()
        .map(|named| Place::beads(named.database.dir.as_path()).path())
        .collect();
    let locks: Vec<&Path> = locks.iter().map(PathBuf::as_path).collect();
    let refused = file.and_then(|file| Some((file, Reserved::of(file, &locks)?)));
    refused.map_or(Ok(()), |(file, taken)| {
        Err(ConfigFailure::new(
            2,
            format!("{option}: {} {}", shown(file), taken.words()),
        ))
    })
}

/// Refuses an address that other machines reach, unless `is_anywhere`.
fn listen(
    address: Option<Address>,
    cwd: &Path,
    is_anywhere: bool,
) -> Result<Option<Address>, ConfigFailure> {
    let Some(address) = address else {
        return Ok(None);
    };
    let address = address
        .below(cwd)
        .map_err(|what| ConfigFailure::new(2, format!("listen: {what}")))?;
    if !(is_anywhere || address.is_local()) {
        let message = format!(
            "listen: other machines may reach {address} and learn which databases there are and who holds them; \
             name 127.0.0.1, or add --listen-anywhere"
        );
        return Err(ConfigFailure::new(2, message));
    }
    Ok(Some(address))
}

/// A root on a file system that does not answer counts as a directory: the search waits for it.
fn is_directory(root: &Path) -> Result<(), String> {
    let mounts = Mounts::now();
    if mounts
        .on_the_way(root)
        .is_some_and(|mount| !hang::answers(&mount.point))
    {
        return Ok(());
    }
    let what = match std::fs::metadata(root) {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => "is not a directory".to_owned(),
        Err(error) => format!("cannot be reached: {}", system_words(&error)),
    };
    Err(format!(
        "the root {} {what}; name a directory to look below",
        shown(root)
    ))
}
