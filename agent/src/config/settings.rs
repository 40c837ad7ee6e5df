//! What the agent does: how it is set, and how each of its databases is served. Made of the command line, the
//! environment and the file (docs/design.md#settings), at the start and again at each reload.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use beadlock_checker::Place;
use beadlock_checker::internal::address::Address;
use beadlock_checker::internal::mounts::Mounts;
use beadlock_checker::internal::outputs::Taken;
use beadlock_checker::internal::system_words;
use tokio::sync::mpsc::UnboundedReceiver;

use super::cli::{CommandLine, Mode};
use super::failure::Failure;
use super::file::File;
use super::named::{Arrived, Awaited, Databases, Named};
use super::options::{Agent, Policy};
use crate::beside;
use crate::log::{self, shown};
use crate::roots::Ground;

/// What the agent was told to do.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The databases that are named, or else the one that is found up the tree; each once.
    pub(crate) named: Vec<Named>,
    /// Those of them whose file system does not answer.
    pub(crate) awaited: Vec<Awaited>,
    /// Where these arrive.
    pub(crate) arrivals: Option<UnboundedReceiver<Arrived>>,
    /// How the databases below the roots are served.
    pub(crate) defaults: Arc<Policy>,
    pub(crate) mode: Mode,
    /// Whether the first cycles of many databases are spread over the interval.
    pub(crate) spreads: bool,
    /// All others of the agent: a path to listen at and the roots are absolute, and the audit trail is where it is.
    pub(crate) agent: Agent,
    pub(crate) log: log::LogSettings,
}

impl Settings {
    /// Where databases are looked for.
    pub(crate) fn ground(&self) -> Ground {
        let named = self.named.iter().map(|named| named.database.dir.clone()).collect();
        Ground { roots: self.agent.root.clone(), named, owners: self.agent.owners() }
    }

    /// What holds now. A root that is not there is a mistake, unless it is one of `known`, which may come back.
    ///
    /// # Errors
    /// When the file is wrong, a database or a root cannot be served, or none is found.
    pub(crate) fn read(typed: &CommandLine, known: &[PathBuf]) -> Result<Self, Failure> {
        let cwd = &typed.environment.cwd;
        let file = match &typed.config {
            Some(path) => File::read(cwd, path)?,
            None => File::default(),
        };
        let mut agent = typed.agent.clone().of([&file.agent, &typed.said]);
        agent.listen = listen(agent.listen.take(), cwd, agent.listen_anywhere)?;
        let mut roots: Vec<PathBuf> = Vec::new();
        for root in typed
            .roots
            .iter()
            .map(|root| cwd.join(root))
            .chain(file.roots.iter().map(|root| root.dir.clone()))
        {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        for root in roots.iter().filter(|root| !known.contains(root)) {
            is_directory(root).map_err(|what| file.wrong_root(root, 1, what))?;
        }
        let Databases { named, awaited, arrivals } =
            Databases::of(typed, &file, (agent.owners(), agent.directories()), !roots.is_empty())?;
        agent.audit = agent.audit.take().or_else(|| typed.audit_of_all.clone());
        for (option, path) in [("audit", &agent.audit), ("log-file", &agent.log_file)] {
            refuse_lock(option, path.as_deref(), &named)?;
        }
        let may_become_several = !roots.is_empty() || typed.config.is_some();
        agent.root = roots;
        Ok(Self {
            named,
            awaited,
            arrivals,
            defaults: Arc::new(typed.policy.clone().of([&file.policy, &typed.said])),
            mode: typed.mode,
            spreads: typed.spreads,
            log: agent.log(may_become_several),
            agent,
        })
    }
}

/// A trail or a log that is one of the locks would make it malformed.
fn refuse_lock(option: &str, file: Option<&Path>, named: &[Named]) -> Result<(), Failure> {
    let locks: Vec<PathBuf> =
        named.iter().map(|named| Place::beads(named.database.dir.as_path()).path()).collect();
    let locks: Vec<&Path> = locks.iter().map(PathBuf::as_path).collect();
    let refused = file.and_then(|file| Some((file, Taken::of(file, &locks)?)));
    refused.map_or(Ok(()), |(file, taken)| {
        Err(Failure::new(2, format!("{option}: {} {}", shown(file), taken.words())))
    })
}

/// Where to listen, when nobody else hears it or that is what is wanted.
fn listen(address: Option<Address>, cwd: &Path, is_anywhere: bool) -> Result<Option<Address>, Failure> {
    let Some(address) = address else { return Ok(None) };
    let address = address.below(cwd).map_err(|what| Failure::new(2, format!("listen: {what}")))?;
    if !(is_anywhere || address.is_local()) {
        let message = format!(
            "listen: other machines may reach {address} and learn which databases there are and who holds them; \
             name 127.0.0.1, or add --listen-anywhere"
        );
        return Err(Failure::new(2, message));
    }
    Ok(Some(address))
}

/// One on a file system that does not answer may be one: the search waits for it.
fn is_directory(root: &Path) -> Result<(), String> {
    if let Some(mount) = Mounts::now().on_the_way(root)
        && !beside::answers(&mount.point)
    {
        return Ok(());
    }
    let what = match std::fs::metadata(root) {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => "is not a directory".to_owned(),
        Err(error) => format!("cannot be reached: {}", system_words(&error)),
    };
    Err(format!("the root {} {what}; name a directory to look below", shown(root)))
}
