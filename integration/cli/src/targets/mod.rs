//! Targets on a command line: the options of each protocol, its page of help, what a shell offers behind its colon, and
//! what a claim is asked to be. Each list is a `match` over all schemes; what belongs to one protocol is in its file.

mod arguments;
pub mod beads;
pub mod dir;
pub mod file;
pub mod lock;
pub mod memory;
pub mod tower;

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_core::database::{Directories, Suggest};
use beadlock_core::take::Durability;
use beadlock_core::{facts::random_id, target::Scheme};

use crate::settings::{ClaimSettings, arguments::ClaimArgs};
use beadlock_claim::audit_trail::refuse_lock_file;
use beadlock_claim::draft::RecordDraft;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::protocol::file::File;
use beadlock_claim::protocol::tower::lock_dir;
use beadlock_claim::protocol::{
    Acceptance, answers_for_intent, any_directory_is_for_databases, option_of, resolve, rules,
};
use beadlock_claim::request::{ClaimRequest, LockDraft};
use beadlock_claim::{outer, target::Target};

pub use arguments::{Args, HoldOnlyArgs, LookArgs, ReleaseArgs};
pub use tower::HEADING as NAMED_LOCKS;

/// The page of one protocol.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProtocolHelp {
    /// One line: the kind of target that the protocol locks, and how to type it.
    pub about: &'static str,
    /// Paragraphs: when a lock is valid, how long a claim waits, what keeps it up.
    pub text: &'static str,
    /// Commands to type, one a line.
    pub examples: &'static str,
    /// The heading of its options in the help of a command; empty: it has none of its own.
    pub heading: &'static str,
}

/// The kind of completions that a shell offers behind the colon of a target.
#[derive(Debug, Clone, Copy)]
pub enum Offered {
    Directories,
    Files,
    /// The names of the locks in a directory, which this function reads.
    Names(fn(&Path) -> Vec<String>),
}

/// The page of a protocol, for `beadlock help PROTOCOL`.
pub fn help(scheme: Scheme) -> ProtocolHelp {
    match scheme {
        Scheme::Beads => beads::HELP,
        Scheme::Dir => dir::HELP,
        Scheme::Lock => lock::HELP,
        Scheme::Tower => tower::HELP,
        Scheme::Memory => memory::HELP,
        Scheme::File => file::HELP,
        Scheme::Flock => file::FLOCK_HELP,
    }
}

/// The kind of completions that a shell offers for the targets of this protocol.
pub fn offered(scheme: Scheme) -> Offered {
    match scheme {
        Scheme::Beads | Scheme::Dir | Scheme::Memory => Offered::Directories,
        Scheme::Lock | Scheme::File | Scheme::Flock => Offered::Files,
        Scheme::Tower => Offered::Names(lock_dir::names),
    }
}

/// The options that a protocol understands beside those of every claim. Every other protocol refuses them.
pub fn options(scheme: Scheme) -> &'static [&'static str] {
    match scheme {
        Scheme::Beads => beads::OPTIONS,
        Scheme::Dir | Scheme::Lock => &[],
        Scheme::Tower => tower::OPTIONS,
        Scheme::Memory => memory::OPTIONS,
        Scheme::File | Scheme::Flock => file::OPTIONS,
    }
}

/// Why an option of every claim does nothing with this protocol; `None`: it does what it says.
pub fn ignores(scheme: Scheme, option: &str) -> Option<&'static str> {
    match scheme {
        Scheme::Beads | Scheme::Dir | Scheme::Lock => None,
        Scheme::Tower => tower::ignores(option),
        Scheme::Memory => memory::ignores(option),
        Scheme::File | Scheme::Flock => file::ignores(option),
    }
}

/// The request of a command line: a claim, or no lock.
#[derive(Debug)]
pub enum Requested {
    Claim(Box<ClaimRequest>),
    /// No lock at all, by its mode or for want of a name; the sentence that warns of it.
    NoLock(Option<&'static str>),
}

impl From<ClaimRequest> for Requested {
    fn from(request: ClaimRequest) -> Self {
        Self::Claim(Box::new(request))
    }
}

/// The claimer and its settings, the same for every target of a command line.
#[derive(Debug, Clone, Copy)]
pub struct Claimer<'a> {
    pub settings: &'a ClaimSettings,
    /// The name of the holder where nothing else names it.
    pub name: &'a str,
    pub environment: &'a Environment,
}

impl Claimer<'_> {
    fn request(self, target: Target, draft: LockDraft) -> ClaimRequest {
        let ClaimSettings {
            holder, options, ..
        } = self.settings;
        let (wait, drain) = self.settings.patience(target.rules().default_wait);
        ClaimRequest {
            holder: holder.clone().unwrap_or_else(|| self.name.to_owned()),
            id: random_id(),
            outer: outer::outer_claim(&target, self.environment),
            draft,
            wait,
            drain,
            durability: Durability::Synced,
            options: *options,
            target,
        }
    }

    fn about(self) -> Option<String> {
        self.settings.labels.about.clone()
    }
}

/// The claim of this target; `None`: of the lock that an intent names. Makes the target's directory where an option asks
/// for that.
pub fn request(
    target: Option<Target>,
    typed: &Args,
    claimer: Claimer<'_>,
) -> Result<Requested, Error> {
    let Some(target) = target else {
        return tower::request(None, &typed.tower, claimer);
    };
    match target.scheme {
        Scheme::Beads | Scheme::Dir | Scheme::Lock => {
            let labels = claimer.settings.labels.clone();
            let draft = LockDraft::Record(RecordDraft::Process { labels });
            Ok(claimer.request(target, draft).into())
        }
        Scheme::Tower => tower::request(Some(target), &typed.tower, claimer),
        Scheme::Memory => memory::request(target, &typed.memory, claimer),
        Scheme::File | Scheme::Flock => {
            let draft = LockDraft::Kernel(&File, typed.file.mode());
            Ok(claimer.request(target, draft).into())
        }
    }
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
        and.is_empty() || named.is_none_or(|named| rules(scheme(named)).has_cycles)
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
    let protocols: Vec<(Scheme, &str)> = targets
        .iter()
        .map(|target| match target {
            Some(target) => (target.scheme, target.given.as_str()),
            None => (Scheme::Tower, OF_INTENT),
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
            .map(|(scheme, shown)| refuse_options(*scheme, shown, &[option]));
        // The first one's words, where no target understands it.
        refused
            .reduce(|first, next| first.or_else(|error| next.map_err(|_| error)))
            .unwrap_or(Ok(()))?;
    }
    refuse_own_gate(&targets)?;
    Ok(targets)
}

/// Refuses the flock on a directory together with a lock that lies in it: the flock is the gate of that lock, which
/// would be waited for in vain.
fn refuse_own_gate(targets: &[Option<Target>]) -> Result<(), Error> {
    let all = || targets.iter().flatten();
    let flocks = all().filter(|target| target.scheme == Scheme::Flock);
    for (flock, other) in flocks.flat_map(|flock| all().map(move |other| (flock, other))) {
        if other.has_record() && flock.path() == other.dir() {
            let (flock, other) = (&flock.given, &other.given);
            return Err(Error::usage(format!(
                "{flock} is the gate of {other}, which would wait for it; leave {flock} out"
            )));
        }
    }
    Ok(())
}

/// The words for the lock that an intent names, for messages.
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

/// Refuses what was typed and does nothing for this protocol: a user that types an option relies on it.
pub fn refuse_options(scheme: Scheme, target: &str, given: &[&'static str]) -> Result<(), Error> {
    for option in given
        .iter()
        .filter(|option| !options(scheme).contains(option))
    {
        let owners: Vec<Scheme> = Scheme::ALL
            .into_iter()
            .filter(|scheme| options(*scheme).contains(option))
            .collect();
        if !owners.is_empty() {
            return Err(option_of(option, &owners, target));
        }
        if let Some(why) = ignores(scheme, option) {
            return Err(Error::usage(format!(
                "{option} means nothing to {}; {why}",
                rules(scheme).locks
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
        Ok(found) => found.own_files(),
        Err(_) => Vec::new(),
    };
    refuse_lock_file("--report", file, &locks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_a_protocol_is_refused_with_the_others() {
        for owner in Scheme::ALL {
            for option in options(owner) {
                for other in Scheme::ALL {
                    let refused = refuse_options(other, "x", &[option]);
                    let understands = options(other).contains(option);
                    assert_eq!(refused.is_ok(), understands, "{option} {other:?}");
                    let words = refused
                        .map_err(|error| error.to_string())
                        .err()
                        .unwrap_or_default();
                    let names_it = words.starts_with(&format!("{option} is for "))
                        && words.contains(rules(owner).locks)
                        && words.contains(", and the target is x");
                    assert!(understands || names_it, "{words}");
                }
            }
        }
    }
}
