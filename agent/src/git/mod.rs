//! `--action git`: a sync that never harms the repository (docs/design.md#the-git-action).
//!
//! A sync is a process of its own, this binary again with a hidden first argument, so that it runs under the gate and
//! comes to its end also when the agent does not. It tells the agent what it does in [`word`]s. Everything is done by
//! the `git` program ([`program`]).
//!
//! Order: where it is and whether anything is in progress ([`repository`]); what must not be tracked ([`names`]); the
//! commit ([`commit`], of the [`changes`]); then over the network the upstream ([`upstream`]): fetch, [`pull`] (a rebase
//! of what may come in ([`arriving`]) in the object store, [`replay`], and one step of the working tree, [`travel`]), [`push`]. The [`index`] is changed as
//! git changes it, by one sync at a time ([`turn`]). What hinders it is found before anything has changed; what is ended
//! in the middle is finished by the next sync.
//!
//! # Limits
//! - A person who is in the editor of `git commit` while the agent commits is told by git that the branch has moved,
//!   and commits again. A claim keeps the agent away: `beadlock hold -- git commit`.
//! - It has no merges of its own: a conflict is left to a person, and so are merges and signed commits ahead.
//! - A linked worktree and a submodule are repositories like others; what is in them is not pulled from above.

mod arriving;
mod blobs;
mod changes;
mod commit;
mod conversation;
mod descendants;
mod embedded;
mod entries;
mod hooks;
mod index;
mod names;
mod neighbours;
mod program;
mod pull;
mod push;
mod replay;
mod repository;
mod resume;
mod secrets;
mod sqlite;
pub(crate) mod told;
mod travel;
mod turn;
mod upstream;
mod word;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use beadlock_checker::escape::escaped_path;
use beadlock_checker::shell::{Part, to_type};
use beadlock_checker::{Place, runner, system_words};

use self::names::Names;
use self::push::Pushed;
use self::repository::Repository;
use self::turn::Turn;
use self::upstream::Upstream;
pub(crate) use self::word::Word;
use self::word::say;
use crate::owner::Owners;

/// The hidden first argument: `main` hands the rest to [`main`] before it reads any command line.
pub const ARGUMENT: &str = "__sync-git";

/// On a sync's command line: repositories of others are synced, too.
const ANY_OWNER: &str = "any-owner";

/// On a sync's command line: it says how long each call of git has taken.
const STEPS: &str = "steps";

/// A move of the working tree is not begun with less time left than this.
const TIME_FOR_A_MOVE: Duration = Duration::from_secs(5);

/// What to do about the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Use,
    /// It did not answer the last time: what git says to that was said.
    UseQuietly,
    /// It is not its turn yet.
    Leave,
}

/// Whether a sync says how long each call of git has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    Told,
    Untold,
}

/// One sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    /// The database's directory.
    pub(crate) dir: PathBuf,
    pub(crate) allow_worktree: bool,
    /// Whose repository may be synced.
    pub(crate) owners: Owners,
    pub(crate) network: Network,
    /// After which it is ended.
    pub(crate) timeout: Duration,
    /// The agent's log and audit trail, which may lie in the database.
    pub(crate) own_files: Vec<PathBuf>,
    /// The index in which every tracked file was looked at.
    pub(crate) looked: Option<String>,
    pub(crate) steps: Steps,
    begun: Option<Instant>,
}

impl Order {
    pub(crate) fn new(
        dir: PathBuf,
        allow_worktree: bool,
        owners: Owners,
        network: Network,
        timeout: Duration,
    ) -> Self {
        let (own_files, steps) = (Vec::new(), Steps::Untold);
        Self { dir, allow_worktree, owners, network, timeout, own_files, looked: None, steps, begun: None }
    }

    /// The command of a cycle that does it.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let network = match self.network {
            Network::Use => "use",
            Network::UseQuietly => "use-quietly",
            Network::Leave => "leave",
        };
        let worktree = if self.allow_worktree { "allow-worktree" } else { "no-worktree" };
        let owners = if self.owners == Owners::of_this_user(true) { ANY_OWNER } else { "own" };
        let looked = self.looked.as_deref().unwrap_or_default();
        let millis = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX).to_string();
        let mut command =
            vec![runner::THIS.into(), ARGUMENT.into(), network.into(), worktree.into(), owners.into()];
        let steps = if self.steps == Steps::Told { STEPS } else { "quiet" };
        command.extend([looked.into(), millis.into(), steps.into()]);
        command.push(self.dir.clone().into());
        command.extend(self.own_files.iter().map(OsString::from));
        command
    }

    fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let network = match args.next()?.to_str()? {
            "use" => Network::Use,
            "use-quietly" => Network::UseQuietly,
            "leave" => Network::Leave,
            _ => return None,
        };
        let allow_worktree = args.next()? == "allow-worktree";
        let owners = Owners::of_this_user(args.next()? == ANY_OWNER);
        let looked = args.next()?.into_string().ok().filter(|looked| !looked.is_empty());
        let timeout = Duration::from_millis(args.next()?.to_str()?.parse().ok()?);
        let steps = if args.next()? == STEPS { Steps::Told } else { Steps::Untold };
        let dir = args.next()?.into();
        let own_files = args.map(PathBuf::from).collect();
        let begun = Some(Instant::now());
        Some(Self { dir, allow_worktree, owners, network, timeout, own_files, looked, steps, begun })
    }

    /// How long one talk with the remote may take: the rest is for what comes after it.
    fn for_the_network(&self) -> Duration {
        self.left().mul_f64(0.75)
    }

    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.begun.map(|begun| begun.elapsed()).unwrap_or_default())
    }

    /// Refuses when the time-out could come in the middle.
    fn time_for_a_move(&self) -> Result<(), Stop> {
        if self.left() >= TIME_FOR_A_MOVE.min(self.timeout / 2) {
            return Ok(());
        }
        Err(Stop::Refused("too little of --cycle-timeout was left for the working tree".to_owned()))
    }
}

/// Why a sync does nothing more.
#[derive(Debug, PartialEq)]
enum Stop {
    /// There is nothing more to do, and why: that is said once.
    Nothing(String),
    /// The remote does not answer, or does not take it: later again.
    Unreachable(String),
    /// It must not, or could not: the cycle has failed.
    Refused(String),
    /// Somebody else has moved the branch meanwhile: once more from the start.
    Moved(String),
}

impl Stop {
    fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::Refused(format!("{what} {}: {}", escaped_path(path), system_words(error)))
    }
}

/// The sync's `main`, with the arguments after [`ARGUMENT`]. Its last word says how it ended.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(order) = Order::parse(args) else {
        eprintln!("this is for beadlock-agent's own use");
        return ExitCode::from(2);
    };
    program::end_in_order();
    program::tell_steps(order.steps);
    let once_more = |stop| if matches!(stop, Stop::Moved(_)) { sync(&order) } else { Err(stop) };
    match sync(&order).or_else(once_more) {
        Ok(()) => {}
        Err(Stop::Nothing(why)) => say(&Word::Notice(why)),
        Err(Stop::Unreachable(why)) => say(&Word::Unreachable(why)),
        Err(Stop::Refused(why) | Stop::Moved(why)) => say(&Word::Refused(why)),
    }
    say(&Word::Done);
    ExitCode::SUCCESS
}

fn sync(order: &Order) -> Result<(), Stop> {
    let repository = Repository::find(order)?;
    if turn::is_left(&repository) {
        drop(begin(&repository)?);
    }
    repository.check_quiet()?;
    let names = Names::of(&repository, order);
    let head = repository.head()?;
    repository.check_index()?;
    if let Some(index) = names.refuse_tracked(&repository, order.looked.as_deref())? {
        say(&Word::Looked(index));
    }
    let mut head = commit::commit(&repository, &names, head)?;
    let upstream = Upstream::of(&repository, &head)?;
    if order.network == Network::Leave {
        return Ok(());
    }
    let network = repository.git.clone().with_batch_ssh()?;
    // By which upstream commit, and why.
    let mut rejected: Option<(Option<String>, String)> = None;
    loop {
        let is_quiet = order.network == Network::UseQuietly;
        let commit = upstream.fetch(&network, order.for_the_network(), is_quiet)?;
        if let Some((known, why)) = &rejected
            && *known == commit
        {
            return Err(push::refused(&upstream, why));
        }
        let git = &repository.git;
        let mut distance = upstream.distance(git, &head.commit, commit.clone())?;
        if distance.ahead > 0 && commit.is_some() {
            pull::refuse_rewritten(&repository, &upstream, &head, &distance)?;
        }
        if distance.behind > 0 {
            let mut turn = begin(&repository)?;
            // Another database's sync may have had its turn meanwhile; another branch has another upstream.
            head = repository.head_of(&head.branch)?;
            distance = upstream.distance(git, &head.commit, commit.clone())?;
            if distance.behind > 0 {
                head = pull::pull(order, &mut turn, &names, &upstream, &head, &distance)?;
                distance = upstream.distance(git, &head.commit, commit)?;
            }
        }
        let bound = order.for_the_network();
        match push::push(&repository, &network, &upstream, &head, &distance, bound)? {
            Pushed::Done => return Ok(()),
            Pushed::Rejected { why } if rejected.is_none() => rejected = Some((distance.upstream, why)),
            Pushed::Rejected { .. } => {
                let name = upstream.name();
                return Err(Stop::Nothing(format!("Not pushing: others were faster at {name}, twice")));
            }
        }
    }
}

/// The turn, with nothing left to finish and nobody in the middle of something.
fn begin(repository: &Repository) -> Result<Turn<'_>, Stop> {
    let mut turn = Turn::take(repository)?;
    let unfinished = turn.unfinished()?;
    repository.check_quiet()?;
    if let Some(way) = unfinished {
        resume::resume(&mut turn, &way)?;
    }
    Ok(turn)
}

/// Refuses when a lock has come meanwhile, of somebody who does not ask for the gate.
fn lock_came(repository: &Repository) -> Result<(), Stop> {
    let lock = Place::beads(repository.database.as_path()).path();
    match std::fs::symlink_metadata(&lock) {
        Err(_) => Ok(()),
        Ok(_) => Err(Stop::Refused(format!(
            "{} has come meanwhile; the next cycle looks at it",
            escaped_path(&lock)
        ))),
    }
}

/// What only a person can do.
fn by_hand(repository: &Repository, why: &str) -> Stop {
    let command = to_type("git -C {} pull", &[Part::Path(&repository.git.dir)]);
    Stop::Nothing(format!("Not pulling: {why}; type: {command}"))
}

/// `1 file`, `2 files`.
fn counted(count: impl TryInto<u64>, what: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The first paths, as they are typed: what is left over is named when these are done.
fn typed_all(paths: &[impl AsRef<[u8]>]) -> Part<'_> {
    Part::Paths(paths.iter().take(8).map(|path| Path::new(OsStr::from_bytes(path.as_ref()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_command_line() {
        for network in [Network::Use, Network::UseQuietly, Network::Leave] {
            let owners = Owners::of_this_user(network == Network::Use);
            let (dir, timeout) = ("/x y/.beads".into(), Duration::from_secs(7));
            let mut order = Order::new(dir, network == Network::Use, owners, network, timeout);
            order.looked = (network == Network::Use).then(|| "1.2.3".to_owned());
            order.steps = if network == Network::Use { Steps::Told } else { Steps::Untold };
            order.own_files = vec!["/x y/.beads/sync.log".into()];
            let command = order.command();
            assert_eq!(command[..2], [OsString::from(runner::THIS), ARGUMENT.into()]);
            let read = Order::parse(command[2..].to_vec()).unwrap();
            assert!(read.begun.is_some());
            assert_eq!(Order { begun: None, ..read }, order);
        }
        assert_eq!(Order::parse(["use".into()]), None);
    }
}
