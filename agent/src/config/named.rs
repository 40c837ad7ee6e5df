//! The databases that are named: by the file, by the command line, or as the nearest one up the tree.
//!
//! One may lie on a file system that does not answer. Where there are such file systems ([`Mounts`]), each database is
//! looked up beside the others, and one that does not answer is awaited: the agent serves the others, says which one
//! it is, and serves it from when it answers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use beadlock_checker::internal::database::{Database, Directories, Environment, NoDatabase, Suggest};
use beadlock_checker::internal::mounts::Mounts;
use beadlock_checker::internal::redirect;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::cli::CommandLine;
use super::failure::Failure;
use super::file::{File, Section};
use super::options::Policy;
use crate::beside::{self, silence};
use crate::owner::{Owners, Refusal};

/// A database that is named, and how it is served.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) database: Database,
    pub(crate) policy: Arc<Policy>,
}

/// One whose file system does not answer.
#[derive(Debug, Clone)]
pub(crate) struct Awaited {
    /// As it is named, absolute.
    pub(crate) dir: PathBuf,
    /// What does not answer, and what to do.
    pub(crate) why: String,
    policy: Arc<Policy>,
}

/// One that has answered after all.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) dir: PathBuf,
    pub(crate) found: Result<Named, String>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Databases {
    /// Each once.
    pub(crate) named: Vec<Named>,
    pub(crate) awaited: Vec<Awaited>,
    /// Where the awaited ones arrive.
    pub(crate) arrivals: Option<UnboundedReceiver<Arrived>>,
}

/// What is to be looked up.
enum Name<'a> {
    Section(&'a Section),
    Typed(&'a Path),
    Nearest,
}

/// What was found, and why each of its cycles is refused for now.
struct LookedUp {
    database: Database,
    replaceable: Option<Refusal>,
}

/// Why there is nothing to serve.
enum Objection {
    NoDatabase(NoDatabase),
    Foreign(Refusal),
}

type LookUpAnswer = Result<LookedUp, Objection>;

impl Databases {
    /// The databases of the file with their own policies, then those of the command line that the file does not name;
    /// where none is named and none may be found below a root, the nearest one.
    ///
    /// A database that is another user's is an error. One beside others, where another user could put something else
    /// in its place, is not: each of its cycles is refused, and no other user keeps the agent from serving the
    /// others.
    ///
    /// # Errors
    /// When one is not there, or is not to be served.
    pub(crate) fn of(
        typed: &CommandLine,
        file: &File,
        accepted: (Owners, Directories),
        have_roots: bool,
    ) -> Result<Self, Failure> {
        let mut names: Vec<Name<'_>> = file.databases.iter().map(Name::Section).collect();
        names.extend(typed.databases.iter().map(|dir| Name::Typed(dir)));
        if names.is_empty() && !have_roots {
            names.push(Name::Nearest);
        }
        let mounts = Mounts::now();
        let calls = names.iter().map(|name| name.look_up(&typed.environment, accepted));
        let (answers, late) = if mounts.are_local() {
            (calls.map(|call| Some(call())).collect(), None)
        } else {
            let (answers, late) = beside::call_each(calls.collect());
            (answers, Some(late))
        };
        let defaults = Arc::new(typed.policy.clone().of([&file.policy, &typed.said]));
        let mut all = Self::default();
        let (mut sections, mut refusals, mut missing) = (HashMap::new(), Vec::new(), HashMap::new());
        for (number, (name, answer)) in names.iter().zip(answers).enumerate() {
            let policy = match name {
                Name::Section(section) => {
                    Arc::new(typed.policy.clone().of([&file.policy, &section.policy, &typed.said]))
                }
                Name::Typed(_) | Name::Nearest => Arc::clone(&defaults),
            };
            let Some(answer) = answer else {
                let awaited = Awaited::of(name, &typed.environment, &mounts, policy);
                missing.insert(number, awaited.clone());
                all.awaited.push(awaited);
                continue;
            };
            let LookedUp { database, replaceable } =
                answer.map_err(|objection| objection.failure(name, file))?;
            match name {
                Name::Section(section) => {
                    if let Some(first) = sections.insert(database.inode(), *section) {
                        let line = file.line(first);
                        let message =
                            format!("the same directory as the [[database]] of line {line}; leave one out");
                        return Err(file.wrong(section, 2, &message));
                    }
                }
                _ if all.named.iter().any(|known| known.database.is_same(&database)) => continue,
                _ => {}
            }
            refusals.extend(replaceable.map(|refusal| Objection::Foreign(refusal).failure(name, file)));
            all.named.push(Named { database, policy });
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
    late: std::sync::mpsc::Receiver<(usize, LookUpAnswer)>,
    mut missing: HashMap<usize, Awaited>,
) -> UnboundedReceiver<Arrived> {
    let (sender, receiver) = unbounded_channel();
    // Without a thread they stay awaited until the configuration is read again.
    let _ = thread::Builder::new().name("arrivals".to_owned()).spawn(move || {
        for (number, answer) in late {
            let Some(Awaited { dir, policy, .. }) = missing.remove(&number) else { continue };
            let found = match answer {
                Ok(LookedUp { database, .. }) => Ok(Named { database, policy }),
                Err(objection) => Err(objection.to_string()),
            };
            if sender.send(Arrived { dir, found }).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Name<'_> {
    /// As a call that may hang.
    fn look_up(
        &self,
        environment: &Environment,
        (owners, directories): (Owners, Directories),
    ) -> Box<dyn FnOnce() -> LookUpAnswer + Send> {
        let environment = environment.clone();
        let dir = match self {
            Self::Section(section) => Some(section.dir.clone()),
            Self::Typed(dir) => Some(dir.to_path_buf()),
            Self::Nearest => None,
        };
        Box::new(move || {
            let found = match dir {
                Some(dir) => Database::named(&dir, &environment),
                None => Database::find(&environment),
            };
            let accepted = found.and_then(|found| found.accepted(directories, Suggest::Path, &environment));
            let database = accepted.and_then(Database::to_stay_with).map_err(Objection::NoDatabase)?;
            let replaceable = match owners.check(&database) {
                Ok(()) => None,
                Err(refusal) if refusal.is_of_ancestor => Some(refusal),
                Err(refusal) => return Err(Objection::Foreign(refusal)),
            };
            // After the owners: git is asked.
            redirect::refuse_tracked(&database).map_err(Objection::NoDatabase)?;
            Ok(LookedUp { database, replaceable })
        })
    }
}

impl Objection {
    fn failure(self, name: &Name<'_>, file: &File) -> Failure {
        match (self, name) {
            (Self::NoDatabase(error), Name::Section(section)) => {
                file.wrong(section, error.exit_code(), &error.to_string())
            }
            (Self::NoDatabase(error), _) => error.into(),
            (Self::Foreign(refusal), Name::Section(section)) => file.wrong(section, 1, &refusal.to_string()),
            (Self::Foreign(refusal), _) => Failure::new(1, refusal.to_string()),
        }
    }
}

impl std::fmt::Display for Objection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoDatabase(error) => error.fmt(f),
            Self::Foreign(refusal) => refusal.fmt(f),
        }
    }
}

impl Awaited {
    fn of(name: &Name<'_>, environment: &Environment, mounts: &Mounts, policy: Arc<Policy>) -> Self {
        let dir = match name {
            Name::Section(section) => section.dir.clone(),
            Name::Typed(dir) => environment.cwd.join(dir),
            Name::Nearest => environment.cwd.clone(),
        };
        let why = silence(mounts, &dir) + "; it is served as soon as that answers";
        Self { dir, why, policy }
    }
}
