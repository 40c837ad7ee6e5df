//! The protocols: everything that differs between the kinds of lock, one folder each. This page is the only place that
//! lists them; it delegates to the folders.
//!
//! ```text
//! mod.rs         this page: the list, the options, what a command line means
//! resolve.rs     from the words of a command line to a target
//! unresolved.rs  a target by its letters alone, for file systems that may hang
//! listing.rs     what `list` finds
//! process/       what the two protocols share whose locks name a process
//! beads/ lock/ tower/ memory/ file/
//! ```

pub mod beads;
pub mod file;
pub mod listing;
pub mod lock;
pub mod memory;
mod process;
mod resolve;
pub mod tower;
mod unresolved;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use beadlock_checker::Options;
use beadlock_checker::internal::database::{Database, Directories, Suggest};
use beadlock_checker::internal::dialect::Record;
use clap::{Args as ClapArgs, ValueEnum};

pub use beads::Acceptance;
pub use resolve::{exact, resolve, root};
pub use unresolved::{answers_for, answers_for_intent, unresolved};

use crate::claim::nested;
use crate::claim::protocol::{MakeRecord, Protocol};
use crate::claim::record_claim::{ClaimOrder, RecordClaim};
use crate::claim::session_claim::SessionClaim;
use crate::claim::target::{Target, not_found, prefixed};
use crate::error::Error;
use crate::output::files::{Output, refuse};
use crate::output::trail::Trail;
use crate::settings::Claim;
use crate::settings::arguments::ClaimArgs;
use crate::settings::environment::Environment;
use beads::any_directory_is_for_databases;

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Beads,
    Lock,
    Tower,
    Memory,
    File,
}

impl Kind {
    /// All of them, in the order in which they are listed for people.
    pub const ALL: [Self; 5] = [Self::Beads, Self::Lock, Self::Tower, Self::Memory, Self::File];

    /// Its rules and words.
    pub fn protocol(self) -> &'static dyn Protocol {
        match self {
            Self::Beads => &beads::Beads,
            Self::Lock => &lock::LockAtPath,
            Self::Tower => &tower::Tower,
            Self::Memory => &memory::Memory,
            Self::File => &file::File,
        }
    }

    /// The protocol of a target.
    pub fn of(target: &Target) -> Self {
        let is_it = |kind: &Self| kind.protocol().prefix() == target.protocol.prefix();
        Self::ALL.into_iter().find(is_it).unwrap_or(Self::Beads)
    }

    /// What a claim of `target` says; of a protocol that names its lock in another way, of that lock.
    fn intended<'a>(
        self,
        target: Option<Target>,
        typed: &Args,
        environment: &Environment,
    ) -> Result<Intended<'a>, Error> {
        let Some(target) = target else { return tower::claim::intended(None, &typed.tower, environment) };
        match self {
            Self::Beads | Self::Lock => Ok(Intended::Claim(target, process::claim_words())),
            Self::Tower => tower::claim::intended(Some(target), &typed.tower, environment),
            Self::Memory => memory::claim::intended(target, &typed.memory, environment),
            Self::File => Ok(Intended::Claim(target, file::claim_words(typed.file.mode()))),
        }
    }
}

/// What is to be claimed.
#[derive(Debug)]
pub enum Intended<'a> {
    /// Nothing: by its mode, or for want of a name; the sentence that warns of it.
    Nothing(Option<&'static str>),
    /// This target, and what its record is to say.
    Claim(Target, ClaimWords<'a>),
}

/// What the record of a claim says.
pub struct ClaimWords<'a> {
    /// The name of the holder; `None`: the command's, or what `--holder` says.
    pub holder: Option<String>,
    /// The id of the claim; `None`: a random one.
    pub id: Option<String>,
    /// How a lock without a record is shared.
    pub mode: file::Mode,
    /// Makes the record, from the holder, the id and the process.
    make: MakeWords<'a>,
}

type MakeWords<'a> = Box<dyn Fn(&str, &str, u32) -> Result<Record, Error> + 'a>;

impl std::fmt::Debug for ClaimWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimWords")
            .field("holder", &self.holder)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl<'a> ClaimWords<'a> {
    /// With this record.
    pub fn new(make: impl Fn(&str, &str, u32) -> Result<Record, Error> + 'a) -> Self {
        Self { holder: None, id: None, mode: file::Mode::Exclusive, make: Box::new(make) }
    }

    /// Makes the record of the claim `id` of `holder`.
    pub fn of(self, holder: String, id: String) -> MakeRecord<'a> {
        Box::new(move |pid| (self.make)(&holder, &id, pid))
    }
}

/// The options of `hold` and `acquire` that mean something to one protocol.
#[derive(Debug, Clone, ClapArgs)]
#[group(skip)]
pub struct Args {
    /// Of a named lock that is held or stale print what its document answers, and nothing else
    #[arg(long, conflicts_with = "json", help_heading = tower::options::HEADING)]
    raw: bool,
    #[command(flatten)]
    file: file::options::FileArgs,
    #[command(flatten)]
    memory: memory::options::MemoryArgs,
    #[command(flatten)]
    tower: tower::options::TowerArgs,
}

impl Args {
    /// What they say of which locks count as dead.
    pub fn options(&self) -> Options {
        Options {
            force_lock: self.tower.force_lock,
            keep_stale: self.memory.no_break_stale,
            limits: self.memory.ages.limits(),
            ..Options::default()
        }
    }

    /// Of a lock that is held or stale print what its document answers, and nothing else.
    pub fn raw(&self) -> bool {
        self.raw
    }

    /// The files that are read beside the targets.
    pub fn files(&self) -> Option<&Path> {
        self.tower.intent.as_deref()
    }

    fn given(&self) -> Vec<&'static str> {
        let raw = self.raw.then_some("--raw").into_iter().collect();
        [self.file.given(), self.memory.given(), self.tower.given(), raw].concat()
    }
}

/// The options of `hold` alone that mean something to one protocol.
#[derive(Debug, Clone, ClapArgs)]
#[group(skip)]
pub struct HoldOnlyArgs {
    #[command(flatten)]
    failure: tower::options::FailureStep,
    #[command(flatten)]
    rollback: tower::options::Rollback,
}

impl HoldOnlyArgs {
    /// Those that were typed.
    pub fn given(&self) -> Vec<&'static str> {
        let step = self.failure.failure_step.is_some().then_some("--failure-step");
        step.into_iter().chain(self.rollback.rollback.is_some().then_some("--rollback")).collect()
    }

    /// The step that fails, and the command that undoes the work.
    pub fn steps(self) -> (Option<String>, Option<OsString>) {
        (self.failure.failure_step, self.rollback.rollback)
    }
}

/// What became of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkResult {
    /// It is done.
    Success,
    /// It is not.
    Failure,
}

/// The options of `release` that mean something to one protocol.
#[derive(Debug, Clone, ClapArgs)]
#[group(skip)]
pub struct ReleaseArgs {
    /// What became of the work, for the audit: success, failure [default: success, with --failure-step failure]
    #[arg(long, value_name = "RESULT", hide_possible_values = true, help_heading = tower::options::HEADING)]
    result: Option<WorkResult>,
    #[command(flatten)]
    failure: tower::options::FailureStep,
}

impl ReleaseArgs {
    /// Those that were typed.
    pub fn given(&self) -> Vec<&'static str> {
        let result = self.result.map(|_| "--result");
        let step = self.failure.failure_step.is_some().then_some("--failure-step");
        result.into_iter().chain(step).collect()
    }

    /// The step that has failed, as it was typed, and whether the work has failed.
    ///
    /// # Errors
    /// Exit 2 when the two options contradict each other.
    pub fn outcome(&self) -> Result<(Option<&str>, bool), Error> {
        let step = self.failure.failure_step.as_deref();
        if self.result == Some(WorkResult::Success) && step.is_some() {
            return Err(Error::usage("--result success, and --failure-step: which of the two is it?"));
        }
        Ok((step, self.result == Some(WorkResult::Failure)))
    }
}

/// The options of a look that mean something to one protocol.
#[derive(Debug, Clone, Default, ClapArgs)]
#[group(skip)]
pub struct LookArgs {
    #[command(flatten)]
    ages: memory::options::Ages,
}

impl LookArgs {
    /// The rules by which this target is judged.
    ///
    /// # Errors
    /// Exit 2 for an option that its protocol does not understand.
    pub fn options(&self, target: &Target, options: Options) -> Result<Options, Error> {
        refuse_options(target.protocol, &target.given, &self.ages.given())?;
        Ok(Options { limits: self.ages.limits(), ..options })
    }
}

/// The words of a claim whose record names a process.
pub fn process_words<'a>() -> ClaimWords<'a> {
    process::claim_words()
}

/// What names the database in `dir` on a command line, whatever its path looks like.
pub fn directory(dir: &Path) -> OsString {
    prefixed(Kind::Beads.protocol().prefix(), dir)
}

/// A database that was found.
pub fn of_database(database: Database) -> Target {
    beads::target(database)
}

/// The lock file at `path`, by the rule of a database's lock.
///
/// # Errors
/// As [`not_found`].
pub fn lock_at(path: &Path, environment: &Environment) -> Result<Target, Error> {
    lock::target(path, &environment.of_database().cwd).map_err(|error| not_found(&error))
}

/// What a command line is to claim: the target that is typed, else the lock of an intent, else what is found.
/// `besides` are options that were typed and are not in `typed` or `claim`.
///
/// # Errors
/// Exit 2 for an option that the protocol does not understand, and what the protocol's folder says.
pub fn intended<'a>(
    named: Option<&OsStr>,
    (typed, claim): (&Args, &ClaimArgs),
    (holder, besides): (Option<&String>, &[&'static str]),
    environment: &Environment,
) -> Result<Intended<'a>, Error> {
    let directories = claim.directories();
    let mut given = [typed.given().as_slice(), besides].concat();
    let of_all = [
        ("--holder", holder.is_some()),
        ("--drain", claim.drain.is_some()),
        ("--reap-proven-dead", claim.reap_proven_dead),
    ];
    given.extend(of_all.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option));
    let target = if named.is_none() && typed.files().is_some() {
        if directories == Directories::Any {
            return Err(any_directory_is_for_databases("that of --intent"));
        }
        answers_for_intent(environment)?;
        None
    } else {
        let acceptance = Acceptance::ToClaim(directories, Suggest::PathOrScheme);
        Some(resolve(named, environment, acceptance)?)
    };
    if let Some(target) = &target {
        target.refuse_tracked()?;
    }
    let kind = target.as_ref().map_or(Kind::Tower, Kind::of);
    let given_target = target.as_ref().map_or("that of --intent", |target| target.given.as_str());
    refuse_options(kind.protocol(), given_target, &given)?;
    kind.intended(target, typed, environment)
}

/// The claim of a session: of the kind that the lock is.
///
/// # Errors
/// Inside a cycle of the target; where the file of a lock cannot be opened.
pub fn session_claim<'a>(
    target: Target,
    words: ClaimWords<'a>,
    (holder, id, outer): (String, String, Option<String>),
    settings: &Claim,
    trail: &'a Trail<'a>,
    environment: &'a Environment,
) -> Result<Box<dyn SessionClaim + 'a>, Error> {
    let (wait, drain) = settings.patience(target.protocol.default_wait());
    if Kind::of(&target) == Kind::File {
        return Ok(Box::new(file::claim::FlockClaim::new(target, words.mode, wait, trail, environment)?));
    }
    nested::refuse_inside_a_cycle(&target, environment)
        .inspect_err(|error| trail.blocked(error, &target.place))?;
    let says = words.of(holder.clone(), id.clone());
    let options = settings.options;
    let order = ClaimOrder { target, holder, id, says, wait, drain, options, trail, environment };
    Ok(Box::new(RecordClaim::new(order, outer)))
}

/// Refuses what was typed and does nothing for this protocol: whoever types an option relies on it.
///
/// # Errors
/// Exit 2.
pub fn refuse_options(protocol: &dyn Protocol, target: &str, given: &[&'static str]) -> Result<(), Error> {
    for option in given.iter().filter(|option| !protocol.options().contains(option)) {
        let has_it = |kind: &Kind| kind.protocol().options().contains(option);
        if let Some(owner) = Kind::ALL.into_iter().find(has_it) {
            let kind = owner.protocol().kind();
            return Err(Error::usage(format!(
                "{option} is for {kind}, and the target is {target}; leave it out"
            )));
        }
        if let Some(why) = protocol.ignores(option) {
            return Err(Error::usage(format!("{option} means nothing to {}; {why}", protocol.kind())));
        }
    }
    Ok(())
}

/// Refuses a report, before anything is said or written, that is the lock of the target of a command line. A target
/// that is not found has no lock: that is said elsewhere.
///
/// # Errors
/// Exit 2.
pub fn refuse_report(
    file: Option<&Path>,
    target: Option<&OsStr>,
    environment: &Environment,
) -> Result<(), Error> {
    let Some(path) = file else { return Ok(()) };
    let locks: Vec<PathBuf> = match resolve(target, environment, Acceptance::Any) {
        // Its file system does not answer: that is said elsewhere, too.
        Err(_) if !environment.remote().may_touch(path) => return Ok(()),
        Ok(found) => found.protocol.own_files(&found),
        Err(_) => Vec::new(),
    };
    refuse(Output::Report, file, &locks.iter().map(PathBuf::as_path).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_a_protocol_is_refused_with_the_others() {
        for owner in Kind::ALL {
            for option in owner.protocol().options() {
                for kind in Kind::ALL {
                    let refused = refuse_options(kind.protocol(), "x", &[option]);
                    let understands = kind.protocol().options().contains(option);
                    assert_eq!(refused.is_ok(), understands, "{option} {kind:?}");
                    let words = refused.map_err(|error| error.to_string()).err().unwrap_or_default();
                    let wanted = format!("{option} is for {}, and the target is x", owner.protocol().kind());
                    assert!(understands || words.starts_with(&wanted), "{words}");
                }
            }
        }
    }
}
