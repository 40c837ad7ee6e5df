//! The request for a sync: the command line of its process.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use beadlock_checker::internal::runner;

use super::stop::Stop;
use crate::owner::Owners;

/// The hidden first argument: `main.rs` hands the rest to `git::main` before it reads any command line.
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
pub(crate) enum StepReports {
    Sent,
    Off,
}

/// One sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncRequest {
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
    pub(crate) steps: StepReports,
    /// When the sync began; `None` in the agent.
    pub(crate) begun: Option<Instant>,
}

impl SyncRequest {
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
        let steps = if self.steps == StepReports::Sent { STEPS } else { "quiet" };
        command.extend([looked.into(), millis.into(), steps.into()]);
        command.push(self.dir.clone().into());
        command.extend(self.own_files.iter().map(OsString::from));
        command
    }

    pub(super) fn parse(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
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
        let steps = if args.next()? == STEPS { StepReports::Sent } else { StepReports::Off };
        let dir = args.next()?.into();
        let own_files = args.map(PathBuf::from).collect();
        let begun = Some(Instant::now());
        Some(Self { dir, allow_worktree, owners, network, timeout, own_files, looked, steps, begun })
    }

    /// How long one talk with the remote may take: the rest is for what comes after it.
    pub(super) fn for_the_network(&self) -> Duration {
        self.left().mul_f64(0.75)
    }

    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.begun.map(|begun| begun.elapsed()).unwrap_or_default())
    }

    /// Refuses when the time-out could come in the middle.
    pub(super) fn time_for_a_move(&self) -> Result<(), Stop> {
        if self.left() >= TIME_FOR_A_MOVE.min(self.timeout / 2) {
            return Ok(());
        }
        Err(Stop::Refused("too little of --cycle-timeout was left for the working tree".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_command_line() {
        for network in [Network::Use, Network::UseQuietly, Network::Leave] {
            let is_first = network == Network::Use;
            let request = SyncRequest {
                dir: "/x y/.beads".into(),
                allow_worktree: is_first,
                owners: Owners::of_this_user(is_first),
                network,
                timeout: Duration::from_secs(7),
                own_files: vec!["/x y/.beads/sync.log".into()],
                looked: is_first.then(|| "1.2.3".to_owned()),
                steps: if is_first { StepReports::Sent } else { StepReports::Off },
                begun: None,
            };
            let command = request.command();
            assert_eq!(command[..2], [OsString::from(runner::THIS), ARGUMENT.into()]);
            let read = SyncRequest::parse(command[2..].to_vec()).unwrap();
            assert!(read.begun.is_some());
            assert_eq!(SyncRequest { begun: None, ..read }, request);
        }
        assert_eq!(SyncRequest::parse(["use".into()]), None);
    }
}
