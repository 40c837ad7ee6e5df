//! The request for a sync. Its process reads it from a pipe: settings of git's may hold a secret, and everybody on the
//! machine may read a command line. Only paths, which need not be text, are there.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use beadlock_base::helper;
use beadlock_base::sys;
use serde::{Deserialize, Serialize};

use crate::{GitReason, LookedIndex, RepositoryFacts, SyncStop};

/// The hidden first argument: the agent hands the rest to the `main` of `beadlock-git` before it reads any command
/// line.
pub const ARGUMENT: &str = "__sync-git";
/// A move of the working tree is not begun with less time left than this.
const TIME_FOR_A_MOVE: Duration = Duration::from_secs(5);

/// Which requests a sync may make to the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// A fetch is due.
    Use,
    /// A fetch is due. The remote did not answer the last time, and git's words for that were logged.
    UseQuietly,
    /// No fetch is due. Commits are pushed at once.
    Push,
    /// No request: the remote has failed a short time ago, or its host takes no more pushes for a moment.
    Leave,
}

/// How a repository is tidied up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Upkeep {
    /// git looks whether anything is to be tidied up, by its own settings.
    Daily,
    /// The loose objects are packed first.
    Pack,
}

/// One sync. In the pipe this is JSON, but for the paths, which need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncRequest {
    /// The database's directory.
    #[serde(skip)]
    pub dir: PathBuf,
    /// The repository may be a linked working tree.
    pub allow_worktree: bool,
    /// The repository may belong to anybody.
    pub any_owner: bool,
    /// Which requests it may make to the remote.
    pub network: Network,
    /// The time after which the sync is ended.
    pub timeout: Duration,
    /// The agent's log and audit trail, which may lie in the database.
    #[serde(skip)]
    pub own_files: Vec<PathBuf>,
    /// The index in which every tracked file was looked at.
    pub looked: Option<LookedIndex>,
    /// The repository as an earlier sync has found it, where that is still so.
    pub known: Option<RepositoryFacts>,
    /// Nothing has changed here since the last sync: only a fetch is made, unless it brings something.
    pub only_fetch: bool,
    /// The times of files are not trusted: contents are compared.
    pub contents: bool,
    /// No other cycle of this agent comes: `--once`.
    #[serde(default)]
    pub is_once: bool,
    /// `Some`: the repository is tidied up, and not synced.
    #[serde(default)]
    pub upkeep: Option<Upkeep>,
    /// The sync says how long each call of git has taken.
    pub is_timed: bool,
    /// Other databases whose gates the sync has entered: their directories.
    #[serde(skip)]
    pub entered: Vec<PathBuf>,
    /// When the sync began; `None` in the agent.
    #[serde(skip)]
    pub begun: Option<Instant>,
}

impl SyncRequest {
    /// A request to tidy up the repository around a database.
    pub fn to_tidy(dir: PathBuf, upkeep: Upkeep, timeout: Duration) -> Self {
        Self {
            allow_worktree: true,
            upkeep: Some(upkeep),
            ..Self::to_measure(dir, timeout)
        }
    }

    /// A request of which nothing else is known, and that asks no remote.
    fn to_measure(dir: PathBuf, timeout: Duration) -> Self {
        Self {
            dir,
            allow_worktree: false,
            any_owner: false,
            network: Network::Leave,
            timeout,
            own_files: Vec::new(),
            looked: None,
            known: None,
            only_fetch: false,
            contents: false,
            is_once: false,
            upkeep: None,
            is_timed: false,
            entered: Vec::new(),
            begun: None,
        }
    }

    /// The command line of the sync's process: this program, with [`ARGUMENT`]. The process must inherit `pipe`, out of
    /// which it reads [`Self::text`].
    pub fn command(&self, pipe: BorrowedFd<'_>) -> Vec<OsString> {
        let mut command = vec![
            helper::THIS.into(),
            ARGUMENT.into(),
            pipe.as_raw_fd().to_string().into(),
            self.dir.clone().into(),
        ];
        command.extend(self.own_files.iter().map(OsString::from));
        command
    }

    /// The text for the pipe: the request as JSON, without the paths.
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a request from the arguments after [`ARGUMENT`] and from its pipe, to the end; `None` where these are not
    /// valid.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut args = args.into_iter();
        let number = args.next()?.to_str()?.parse().ok()?;
        let mut text = Vec::new();
        let mut pipe = File::from(sys::inherited(number).ok()?);
        pipe.read_to_end(&mut text).ok()?;
        Self::parse(&text, args)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(dir: &std::path::Path) -> Self {
        Self {
            any_owner: true,
            ..Self::to_measure(dir.to_owned(), Duration::from_secs(60))
        }
    }

    fn parse(text: &[u8], mut paths: impl Iterator<Item = OsString>) -> Option<Self> {
        let request: Self = serde_json::from_slice(text).ok()?;
        let dir = paths.next()?.into();
        Some(Self {
            dir,
            own_files: paths.map(PathBuf::from).collect(),
            begun: Some(Instant::now()),
            ..request
        })
    }

    /// How long one talk with the remote may take: the rest is for what comes after it.
    pub fn for_the_network(&self) -> Duration {
        self.left().mul_f64(0.75)
    }

    /// Whether the remote is asked for its commits.
    pub fn is_fetch_due(&self) -> bool {
        matches!(self.network, Network::Use | Network::UseQuietly)
    }

    fn left(&self) -> Duration {
        self.timeout
            .saturating_sub(self.begun.map(|begun| begun.elapsed()).unwrap_or_default())
    }

    /// Refuses when the time-out could come in the middle of a move of the working tree.
    pub fn time_for_a_move(&self) -> Result<(), SyncStop> {
        if self.left() >= TIME_FOR_A_MOVE.min(self.timeout / 2) {
            return Ok(());
        }
        Err(SyncStop::failed(
            GitReason::TimedOut,
            "too little of --cycle-timeout was left for the working tree",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::{AsFd, IntoRawFd};
    use std::path::Path;

    #[test]
    fn a_request_survives_the_command_line_and_the_pipe() {
        for network in [
            Network::Use,
            Network::UseQuietly,
            Network::Push,
            Network::Leave,
        ] {
            let is_first = network == Network::Use;
            let request = SyncRequest {
                dir: "/x y/.beads".into(),
                allow_worktree: is_first,
                any_owner: is_first,
                network,
                timeout: Duration::from_secs(7),
                own_files: vec!["/x y/.beads/sync.log".into()],
                looked: is_first.then(|| LookedIndex {
                    stamp: "1.2.3".to_owned(),
                    copy_of: None,
                    warning: None,
                }),
                known: RepositoryFacts::nowhere(Path::new("/x y/.beads")).filter(|_| is_first),
                only_fetch: is_first,
                contents: is_first,
                is_once: is_first,
                upkeep: is_first.then_some(Upkeep::Pack),
                is_timed: is_first,
                entered: Vec::new(),
                begun: None,
            };
            let (reader, mut writer) = std::io::pipe().unwrap();
            let command = request.command(reader.as_fd());
            assert_eq!(
                command[..2],
                [OsString::from(helper::THIS), ARGUMENT.into()]
            );
            writer.write_all(&request.text()).unwrap();
            drop(writer);
            let inherited = reader.into_raw_fd();
            assert_eq!(command[2], OsString::from(inherited.to_string()));
            let read = SyncRequest::read(command[2..].to_vec()).unwrap();
            assert!(read.begun.is_some());
            assert_eq!(
                SyncRequest {
                    begun: None,
                    ..read
                },
                request
            );
        }
        assert_eq!(SyncRequest::parse(b"{}", ["/x".into()].into_iter()), None);
        assert_eq!(SyncRequest::read(["x".into(), "/x".into()]), None);
    }
}
