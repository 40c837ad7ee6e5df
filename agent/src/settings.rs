//! What the agent does: how it is set, and how each of its databases is served. Made of the command line, the
//! environment and the file (docs/design.md#settings), at the start and again at each reload.

use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use beadlock_checker::address::Address;
use beadlock_checker::database::{Directories, NoDatabase};
use beadlock_checker::mounts::Mounts;
use beadlock_checker::outputs::Taken;
use beadlock_checker::{Options, Place, system_words};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::beside;
use crate::cli::Typed;
use crate::config::File;
use crate::diagnostics::LogLevel;
use crate::log::{self, shown};
use crate::named::{Arrived, Awaited, Databases, Named};
use crate::owner::Owners;
use crate::roots::Ground;

/// How a database is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The time between two cycles.
    pub(crate) interval: Duration,
    /// How long nothing more must change before a change starts a cycle.
    pub(crate) debounce: Duration,
    pub(crate) action: Action,
    /// How long the work of a cycle may take.
    pub(crate) cycle_timeout: Duration,
    /// For how long it may be skipped before that is worth a warning.
    pub(crate) skip_warn: Duration,
    /// Whether locks whose holder is proved dead in other ways than by its PID are removed.
    pub(crate) reap_proven_dead: bool,
    /// Whether a linked worktree of git is synced.
    pub(crate) allow_worktree: bool,
}

impl Policy {
    /// How the check before a cycle is made.
    pub(crate) fn check(&self) -> Options {
        Options { reap_proven_dead: self.reap_proven_dead, ..Options::default() }
    }
}

/// What a cycle does when it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Sync through git.
    Git,
    /// Check, log, let go.
    None,
    /// A command for `sh -c`.
    Exec(OsString),
}

impl Action {
    /// A command; `None` when it is empty.
    pub(crate) fn exec(command: OsString) -> Option<Self> {
        (!command.is_empty()).then_some(Self::Exec(command))
    }
}

/// When cycles start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One for each database, then the end.
    Once,
    /// By the clock alone.
    Clock,
    /// By the clock, by changes, and when a lock goes away.
    Watch,
}

/// What the agent was told to do.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The databases that are named, or else the one that is found up the tree; each once.
    pub(crate) named: Vec<Named>,
    /// Those of them whose file system does not answer.
    pub(crate) awaited: Vec<Awaited>,
    /// Where these arrive.
    pub(crate) arrivals: Option<UnboundedReceiver<Arrived>>,
    /// The directories below which databases are looked for.
    pub(crate) roots: Vec<PathBuf>,
    /// How the databases below the roots are served.
    pub(crate) defaults: Arc<Policy>,
    pub(crate) mode: Mode,
    /// Whether the first cycles of many databases are spread over the interval.
    pub(crate) spreads: bool,
    pub(crate) jobs: NonZeroUsize,
    pub(crate) log: log::Settings,
    /// Which of the agent's own diagnostics are written.
    pub(crate) log_level: LogLevel,
    pub(crate) audit: Option<PathBuf>,
    /// Where it answers who asks how it fares; a path in it is absolute.
    pub(crate) listen: Option<Address>,
    /// Whether that may be where other machines reach it.
    pub(crate) listen_anywhere: bool,
    /// Whether databases of other users are served.
    pub(crate) allow_foreign_owner: bool,
    /// Which named directories are taken for databases.
    pub(crate) directories: Directories,
}

impl Settings {
    /// Whose databases are served.
    pub(crate) fn owners(&self) -> Owners {
        Owners::of_this_user(self.allow_foreign_owner)
    }

    /// Where databases are looked for.
    pub(crate) fn ground(&self) -> Ground {
        let named = self.named.iter().map(|named| named.database.dir.clone()).collect();
        Ground { roots: self.roots.clone(), named, owners: self.owners() }
    }

    /// What holds now. A root that is not there is a mistake, unless it is one of `known`, which may come back.
    ///
    /// # Errors
    /// When the file is wrong, a database or a root cannot be served, or none is found.
    pub(crate) fn read(typed: &Typed, known: &[PathBuf]) -> Result<Self, Failure> {
        let cwd = &typed.environment.cwd;
        let file = match &typed.config {
            Some(path) => File::read(cwd, path)?,
            None => File::default(),
        };
        let agent = typed.agent.clone().over(file.agent.clone());
        let allow_foreign_owner = agent.allow_foreign_owner.unwrap_or(false);
        let listen_anywhere = agent.listen_anywhere.unwrap_or(false);
        let directories = Directories::any(agent.any_directory.unwrap_or(false));
        let owners = Owners::of_this_user(allow_foreign_owner);
        let listen = listen(agent.listen.clone(), cwd, listen_anywhere)?;
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
            Databases::of(typed, &file, (owners, directories), !roots.is_empty())?;
        let audit = agent.audit.clone().or_else(|| typed.audit_of_all.clone());
        for (option, path) in [("audit", &audit), ("log-file", &agent.log_file)] {
            refuse_lock(option, path.as_deref(), &named)?;
        }
        let may_become_several = !roots.is_empty() || typed.config.is_some();
        let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Ok(Self {
            named,
            awaited,
            arrivals,
            roots,
            defaults: Arc::new(typed.policy.clone().over(&file.policy).policy()),
            mode: typed.mode,
            spreads: typed.spreads,
            jobs: agent.jobs.unwrap_or_else(processors),
            log: log::Settings { may_become_several, ..agent.log() },
            log_level: agent.log_level.unwrap_or_default(),
            audit,
            listen,
            listen_anywhere,
            allow_foreign_owner,
            directories,
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

/// Why there are no settings: one line, and for a mistake in the file the line with it. `Display` is both.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// 2 when the command line or the file is wrong, else 1.
    pub(crate) code: u8,
    /// What is wrong, where, and what to do.
    pub(crate) message: String,
    excerpt: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: String) -> Self {
        Self { code, message, excerpt: String::new() }
    }

    /// With the line that it is about.
    pub(crate) fn with_excerpt(self, excerpt: String) -> Self {
        Self { excerpt, ..self }
    }
}

impl From<NoDatabase> for Failure {
    fn from(error: NoDatabase) -> Self {
        // The library's advice is for who claims.
        let message =
            error.to_string().replace("beadlock hold path/.beads -- …", "beadlock-agent --db path/.beads");
        Self::new(error.exit_code(), message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.message, self.excerpt)
    }
}
