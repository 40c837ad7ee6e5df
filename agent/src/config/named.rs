//! The databases that are named: by the file, by the command line, or as the nearest one up the tree.
//!
//! A database may lie on a file system that does not answer. Where there are such file systems ([`Mounts`]), the
//! databases are looked up side by side. One that does not answer is awaited: the agent serves the others meanwhile.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;

use beadlock_base::mounts::Mounts;
use beadlock_core::database::{Database, DatabaseVariables, Directories, Suggest};
use beadlock_core::redirect;
use beadlock_core::target::{ParsedTarget, Scheme};
use beadlock_trust::{Owners, Refusal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::cli::CommandLine;
use super::file::{ConfigFile, DatabaseTable};
use super::options::{CycleAction, Policy};
use super::page::ConfigFailure;
use crate::hang::{self, silence};

/// A database that is named, and how it is served.
#[derive(Debug, Clone)]
pub(crate) struct NamedDatabase {
    pub(crate) database: Database,
    pub(crate) policy: Arc<Policy>,
}

/// A named database whose file system does not answer.
#[derive(Debug, Clone)]
pub(crate) struct AwaitedDatabase {
    /// The directory as the user named it, made absolute.
    pub(crate) dir: PathBuf,
    /// Why the database is not served yet, and what to do: its file system does not answer.
    pub(crate) why: String,
    policy: Arc<Policy>,
}

/// An awaited database that has answered after all.
#[derive(Debug)]
pub(crate) struct ArrivedDatabase {
    pub(crate) dir: PathBuf,
    pub(crate) found: Result<NamedDatabase, String>,
}

#[derive(Debug, Default)]
pub(crate) struct NamedDatabases {
    /// The databases that answer, each once.
    pub(crate) named: Vec<NamedDatabase>,
    pub(crate) awaited: Vec<AwaitedDatabase>,
    /// Receives each awaited database when it answers; `None`: none is awaited.
    pub(crate) arrivals: Option<UnboundedReceiver<ArrivedDatabase>>,
}

/// A name to look up.
struct DatabaseName<'a> {
    /// `None`: the nearest database.
    dir: Option<&'a Path>,
    /// The `[[database]]` that has the name; `None`: the name is not from the file.
    table: Option<&'a DatabaseTable>,
}

/// The database, and why each of its cycles is refused for now.
type LookUpAnswer = Result<(Database, Option<Refusal>), ConfigFailure>;

impl NamedDatabases {
    /// The databases of the file with their own policies, then those of the command line that the file does not name.
    /// The nearest one, when none is named and there are no roots.
    ///
    /// A database that belongs to another user is an error. A database that another user could replace is only an
    /// error when all are so: its cycles are refused, and the others are served.
    ///
    /// # Errors
    /// When one is not there, or is not to be served.
    pub(crate) fn of(
        typed: &CommandLine,
        file: &ConfigFile,
        accepted: (Owners, Directories),
        have_roots: bool,
    ) -> Result<Self, ConfigFailure> {
        let from_file = file.databases.iter();
        let mut names: Vec<DatabaseName<'_>> = from_file
            .map(|table| DatabaseName {
                dir: Some(&table.dir),
                table: Some(table),
            })
            .collect();
        names.extend(typed.cli.db.iter().map(|dir| DatabaseName {
            dir: Some(dir),
            table: None,
        }));
        if names.is_empty() && !have_roots {
            names.push(DatabaseName {
                dir: None,
                table: None,
            });
        }
        let mounts = Mounts::now();
        let calls = names
            .iter()
            .map(|name| name.look_up(&typed.environment, accepted));
        let (answers, late) = if mounts.are_local() {
            (calls.map(|call| Some(call())).collect(), None)
        } else {
            let (answers, late) = hang::call_each(calls.collect());
            (answers, Some(late))
        };
        let defaults = Arc::new(typed.policy(&file.policy));
        let mut all = Self::default();
        let (mut tables, mut refusals, mut missing) = (HashMap::new(), Vec::new(), HashMap::new());
        for (number, (name, answer)) in names.iter().zip(answers).enumerate() {
            let policy = match name.table {
                Some(table) => Arc::new(typed.policy(&table.policy)),
                None => Arc::clone(&defaults),
            };
            let Some(answer) = answer else {
                let dir = typed.environment.cwd.join(name.path());
                let why = silence(&mounts, &dir) + "; it is served as soon as that answers";
                let awaited = AwaitedDatabase { dir, why, policy };
                missing.insert(number, awaited.clone());
                all.awaited.push(awaited);
                continue;
            };
            let (database, replaceable) = answer.map_err(|failure| name.failure(failure, file))?;
            refuse_git(&database, &policy).map_err(|failure| name.failure(failure, file))?;
            if let Some(table) = name.table {
                if let Some(first) = tables.insert(database.inode(), table) {
                    let line = file.line(first);
                    let message = format!(
                        "the same directory as the [[database]] of line {line}; leave one out"
                    );
                    return Err(file.wrong(table, 2, &message));
                }
            } else if all
                .named
                .iter()
                .any(|known| known.database.is_same(&database))
            {
                continue;
            }
            refusals.extend(replaceable.map(|refusal| name.failure(refusal.into(), file)));
            all.named.push(NamedDatabase { database, policy });
        }
        let are_all = refusals.len() == all.named.len() && all.awaited.is_empty() && !have_roots;
        if let (true, Some(first)) = (are_all, refusals.into_iter().next()) {
            return Err(first);
        }
        if let (Some(late), false) = (late, missing.is_empty()) {
            all.arrivals = Some(arrivals(late, missing));
        }
        Ok(all)
    }
}

/// Hands on late answers, for as long as the receiver is there.
fn arrivals(
    late: Receiver<(usize, LookUpAnswer)>,
    mut missing: HashMap<usize, AwaitedDatabase>,
) -> UnboundedReceiver<ArrivedDatabase> {
    let (sender, receiver) = unbounded_channel();
    // Without a thread they stay awaited until the configuration is read again.
    let _ = thread::Builder::new()
        .name("arrivals".to_owned())
        .spawn(move || {
            for (number, answer) in late {
                let Some(AwaitedDatabase { dir, policy, .. }) = missing.remove(&number) else {
                    continue;
                };
                let found = answer.and_then(|(database, _)| {
                    refuse_git(&database, &policy)?;
                    Ok(NamedDatabase { database, policy })
                });
                let found = found.map_err(|failure| failure.message);
                if sender.send(ArrivedDatabase { dir, found }).is_err() {
                    return;
                }
            }
        });
    receiver
}

impl DatabaseName<'_> {
    /// The path in the name.
    fn path(&self) -> PathBuf {
        match self
            .dir
            .map(|dir| (dir, ParsedTarget::parse(dir.as_os_str())))
        {
            Some((_, Ok(target))) if target.scheme == Scheme::Dir => target.rest,
            Some((dir, _)) => dir.to_owned(),
            None => PathBuf::new(),
        }
    }

    /// Looks the name up, in a call that may hang.
    fn look_up(
        &self,
        environment: &DatabaseVariables,
        (owners, directories): (Owners, Directories),
    ) -> Box<dyn FnOnce() -> LookUpAnswer + Send> {
        let (environment, dir) = (environment.clone(), self.dir.map(Path::to_path_buf));
        Box::new(move || {
            let found = match dir {
                Some(dir) => match ParsedTarget::parse(dir.as_os_str()) {
                    Ok(target) if target.scheme == Scheme::Dir => {
                        Database::plain(&target.rest, &environment)
                    }
                    Err(error) if dir.as_os_str() == "dir:" => Err(error),
                    _ => Database::named(&dir, &environment),
                },
                None => Database::find(&environment),
            };
            let accepted =
                found.and_then(|found| found.accepted(directories, Suggest::Path, &environment));
            let database = accepted.and_then(Database::to_stay_with)?;
            let replaceable = match owners.check(&database) {
                Ok(()) => None,
                Err(refusal) if refusal.is_of_ancestor => Some(refusal),
                Err(refusal) => return Err(refusal.into()),
            };
            // After the owners: this runs git.
            redirect::refuse_tracked(&database)?;
            Ok((database, replaceable))
        })
    }

    /// The failure of this name. The place in the file is added when the file has the name.
    fn failure(&self, failure: ConfigFailure, file: &ConfigFile) -> ConfigFailure {
        match self.table {
            Some(table) => file.wrong(table, failure.code, &failure.message),
            None => failure,
        }
    }
}

/// Refuses to sync a directory through git that need not be a database: there is nothing in it to sync.
fn refuse_git(database: &Database, policy: &Policy) -> Result<(), ConfigFailure> {
    if !database.is_plain() || policy.action() != CycleAction::Git {
        return Ok(());
    }
    let message = format!(
        "{} is no database, and nothing of it is synced through git; name its work (--exec CMD), or none \
         (--action none)",
        database.given
    );
    Err(ConfigFailure::new(2, message))
}

impl From<Refusal> for ConfigFailure {
    fn from(refusal: Refusal) -> Self {
        Self::new(1, refusal.to_string())
    }
}
