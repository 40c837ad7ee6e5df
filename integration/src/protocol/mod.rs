//! The protocols: everything that differs between the kinds of lock, one folder each. This page is the only place that
//! lists them; it delegates to the folders.

mod arguments;
pub mod beads;
pub mod file;
pub mod help;
pub mod listing;
pub mod lock;
pub mod memory;
pub mod named_claim;
mod process;
mod resolve;
pub mod tower;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_core::database::{Directories, Suggest};
use beadlock_core::{dialect::Record, target::Scheme};
use beads::any_directory_is_for_databases;
use help::{Offered, ProtocolHelp};

use crate::claim::protocol::{MakeRecord, Protocol};
use crate::claim::record_claim::{ClaimOrder, RecordClaim};
use crate::claim::target::{Target, prefixed};
use crate::output::refuse_lock_file;
use crate::{
    claim::kernel_claim::KernelClaim, claim::nested, claim::session_claim::SessionClaim,
    error::Error, output::trail::Trail, settings::Claim, settings::arguments::ClaimArgs,
    settings::environment::Environment, settings::labels::Labels,
};

pub use arguments::{Args, HoldOnlyArgs, LookArgs, ReleaseArgs};
pub use beads::{Acceptance, target as of_database};
pub use process::claim_words as process_words;
pub use resolve::{Unfound, answers_for, answers_for_intent, exact, resolve, root, unresolved};
pub use tower::options::HEADING as NAMED_LOCKS;

pub type Found = Result<Target, Unfound>;

/// The folder of a protocol: its rules and words, and how its targets are found and claimed.
pub trait Folder: Protocol {
    /// The target that `rest`, which stands behind the colon, names.
    fn find(&self, rest: &Path, environment: &Environment, acceptance: Acceptance<'_>) -> Found;

    /// The target of an absolute name, as it is. `given` is for lines.
    fn exact(&self, rest: &Path, given: &str) -> Found;

    /// Where the lock file and the target itself lie by the letters of `rest` alone: nothing is looked at.
    fn by_letters(&self, rest: &Path, environment: &Environment) -> (PathBuf, PathBuf) {
        let at = environment.of_database().cwd.join(rest);
        (at.clone(), at)
    }

    /// What `beadlock help` says of it. The default has only its name.
    fn help(&self) -> ProtocolHelp {
        ProtocolHelp {
            about: self.rules().kind,
            ..ProtocolHelp::default()
        }
    }

    /// What a shell offers behind the colon.
    fn offered(&self) -> Offered {
        Offered::Directories
    }

    /// What a claim of `target` says.
    fn intended(
        &self,
        target: Target,
        _typed: &Args,
        _environment: &Environment,
    ) -> Result<Intended, Error> {
        Ok(Intended::Claim(target.into(), process::claim_words()))
    }
}

/// The one list of the protocols.
pub fn folder(scheme: Scheme) -> &'static dyn Folder {
    match scheme {
        Scheme::Beads => &beads::Beads,
        Scheme::Lock => &lock::LockAtPath,
        Scheme::Tower => &tower::Tower,
        Scheme::Memory => &memory::Memory,
        Scheme::File => &file::File,
    }
}

fn folder_of(target: &Target) -> &'static dyn Folder {
    let prefix = target.protocol.prefix().as_bytes();
    folder(Scheme::split(prefix).map_or(Scheme::Beads, |(scheme, _)| scheme))
}

pub enum Intended {
    /// Nothing: by its mode, or for want of a name; the sentence that warns of it.
    Nothing(Option<&'static str>),
    Claim(Box<Target>, ClaimWords),
}

pub struct ClaimWords {
    /// The name of the holder; `None`: the command's, or what `--holder` says.
    pub holder: Option<String>,
    /// The id of the claim; `None`: a random one.
    pub id: Option<String>,
    /// How a lock without a record is shared.
    pub mode: file::Mode,
    make: MakeWords,
}

/// The claimer, and what the record is to say of that.
pub struct Claimant {
    pub holder: String,
    pub id: String,
    pub labels: Labels,
}

type MakeWords = Box<dyn Fn(&Claimant, u32) -> Result<Record, Error>>;

impl ClaimWords {
    pub fn new(make: impl Fn(&Claimant, u32) -> Result<Record, Error> + 'static) -> Self {
        Self {
            holder: None,
            id: None,
            mode: file::Mode::Exclusive,
            make: Box::new(make),
        }
    }

    pub fn of(self, holder: String, id: String, labels: Labels) -> MakeRecord<'static> {
        let claimant = Claimant { holder, id, labels };
        Box::new(move |pid| (self.make)(&claimant, pid))
    }
}

/// What names the database in `dir` on a command line, whatever its path looks like.
pub fn directory(dir: &Path) -> OsString {
    prefixed(Scheme::Beads.prefix(), dir)
}

/// The lock file at `path`, by the rule of a database's lock.
pub fn lock_at(path: &Path, environment: &Environment) -> Result<Target, Error> {
    Ok(lock::target(path, &environment.of_database().cwd)?)
}

/// What a command line claims: the target, or else what is found; `None`: the lock that an intent names. `besides` are
/// more options. Makes nothing, so that a command line that is refused leaves nothing behind.
pub fn target_of_claim(
    named: Option<&OsStr>,
    (typed, claim): (&Args, &ClaimArgs),
    (holder, besides): (Option<&String>, &[&'static str]),
    environment: &Environment,
) -> Result<Option<Target>, Error> {
    let targets = targets_of_claim(named, &[], (typed, claim), (holder, besides), environment)?;
    Ok(targets.into_iter().next().flatten())
}

/// The same for several targets: the first, and those of `and`. What was typed must mean something to one of them.
pub fn targets_of_claim(
    named: Option<&OsStr>,
    and: &[OsString],
    (typed, claim): (&Args, &ClaimArgs),
    (holder, besides): (Option<&String>, &[&'static str]),
    environment: &Environment,
) -> Result<Vec<Option<Target>>, Error> {
    let mut given = [typed.given().as_slice(), besides].concat();
    given.extend(arguments::given([
        ("--holder", holder.is_some()),
        ("--holder-version", claim.holder_version.is_some()),
        ("--about", claim.about.is_some()),
        ("--drain", claim.drain.is_some()),
        ("--reap-proven-dead", claim.reap_proven_dead),
    ]));
    let named = [named]
        .into_iter()
        .chain(and.iter().map(|target| Some(target.as_os_str())));
    // Where others are typed, too, it is for the databases among them.
    let is_for = |named: Option<&OsStr>| {
        let scheme = |named: &OsStr| {
            Scheme::split(named.as_bytes()).map_or(Scheme::Beads, |(scheme, _)| scheme)
        };
        and.is_empty() || named.is_none_or(|named| folder(scheme(named)).rules().has_cycles)
    };
    let find = |named: Option<&OsStr>| {
        let directories = if is_for(named) {
            claim.directories()
        } else {
            Directories::any(false)
        };
        find_to_claim(named, typed, directories, environment)
    };
    let targets = named.clone().map(find).collect::<Result<Vec<_>, _>>()?;
    let protocols: Vec<(&dyn Protocol, &str)> = targets
        .iter()
        .map(|target| match target {
            Some(target) => (target.protocol, target.given.as_str()),
            None => (&tower::Tower as &dyn Protocol, OF_INTENT),
        })
        .collect();
    if let (Directories::Any, Some((_, shown)), false) = (
        claim.directories(),
        protocols.first(),
        named.into_iter().any(is_for),
    ) {
        return Err(any_directory_is_for_databases(shown));
    }
    for option in &given {
        let refused = protocols
            .iter()
            .map(|(protocol, shown)| refuse_options(*protocol, shown, &[option]));
        // The first one's words, where no target understands it.
        refused
            .reduce(|first, next| first.or_else(|error| next.map_err(|_| error)))
            .unwrap_or(Ok(()))?;
    }
    Ok(targets)
}

/// How the lock is called that an intent names.
const OF_INTENT: &str = "that of --intent";

/// `None`: the lock that an intent names.
fn find_to_claim(
    named: Option<&OsStr>,
    typed: &Args,
    directories: Directories,
    environment: &Environment,
) -> Result<Option<Target>, Error> {
    if named.is_none() && typed.files().is_some() {
        if directories == Directories::Any {
            return Err(any_directory_is_for_databases(OF_INTENT));
        }
        answers_for_intent(environment)?;
        return Ok(None);
    }
    let target = resolve(
        named,
        environment,
        Acceptance::ToClaim(directories, Suggest::PathOrScheme),
    )?;
    target.refuse_tracked()?;
    Ok(Some(target))
}

/// What a claim of this target says. Makes the target's directory where an option asks for that.
pub fn intended(
    target: Option<Target>,
    typed: &Args,
    environment: &Environment,
) -> Result<Intended, Error> {
    match target {
        Some(target) => folder_of(&target).intended(target, typed, environment),
        None => tower::fields::intended(None, &typed.tower, environment),
    }
}

pub fn session_claim<'a>(
    target: Target,
    words: ClaimWords,
    (holder, id, outer): (String, String, Option<String>),
    settings: &Claim,
    trail: &'a Trail<'a>,
    environment: &'a Environment,
) -> Result<Box<dyn SessionClaim + 'a>, Error> {
    let (wait, drain) = settings.patience(target.protocol.rules().default_wait);
    if let Some(kernel) = target.protocol.without_record() {
        return Ok(Box::new(KernelClaim::new(
            (target, kernel),
            words.mode,
            wait,
            trail,
            environment,
        )?));
    }
    nested::refuse_inside_a_cycle(&target, environment)
        .inspect_err(|error| trail.blocked(error, &target.place))?;
    let says = words.of(holder.clone(), id.clone(), settings.labels.clone());
    let options = settings.options;
    let order = ClaimOrder {
        target,
        holder,
        id,
        says,
        wait,
        drain,
        options,
        trail,
        environment,
    };
    Ok(Box::new(RecordClaim::new(order, outer)))
}

/// Refuses what was typed and does nothing for this protocol: a user that types an option relies on it.
pub fn refuse_options(
    protocol: &dyn Protocol,
    target: &str,
    given: &[&'static str],
) -> Result<(), Error> {
    for option in given
        .iter()
        .filter(|option| !protocol.rules().options.contains(option))
    {
        let mut folders = Scheme::ALL.into_iter().map(folder);
        if let Some(owner) = folders.find(|folder| folder.rules().options.contains(option)) {
            let kind = owner.rules().kind;
            return Err(Error::usage(format!(
                "{option} is for {kind}, and the target is {target}; leave it out"
            )));
        }
        if let Some(why) = protocol.ignores(option) {
            return Err(Error::usage(format!(
                "{option} means nothing to {}; {why}",
                protocol.rules().kind
            )));
        }
    }
    Ok(())
}

/// Refuses a report that is the lock of the target. A target that is not found has no lock: that is said elsewhere.
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
    refuse_lock_file("--report", file, &locks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_a_protocol_is_refused_with_the_others() {
        for owner in Scheme::ALL.map(folder) {
            for option in owner.rules().options {
                for other in Scheme::ALL.map(folder) {
                    let refused = refuse_options(other, "x", &[option]);
                    let understands = other.rules().options.contains(option);
                    assert_eq!(refused.is_ok(), understands, "{option} {other:?}");
                    let words = refused
                        .map_err(|error| error.to_string())
                        .err()
                        .unwrap_or_default();
                    let wanted = format!(
                        "{option} is for {}, and the target is x",
                        owner.rules().kind
                    );
                    assert!(understands || words.starts_with(&wanted), "{words}");
                }
            }
        }
    }
}
