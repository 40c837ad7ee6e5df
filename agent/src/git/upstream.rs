//! The branch of a remote that this one follows.

use super::{BranchHead, Event, Git, Network, Part, Repository, Stop, SyncMessage, SyncRequest, escaped, say, to_type};

/// The upstream, as `git branch --set-upstream-to` has set it.
pub(super) struct Upstream {
    pub(super) remote: String,
    /// Its branch there: `refs/heads/main`.
    pub(super) branch: String,
    /// Its copy here: `refs/remotes/origin/main`.
    pub(super) tracking: String,
}

pub(super) struct Distance {
    pub(super) head: BranchHead,
    /// The upstream's commit; `None` when the remote has no such branch.
    pub(super) upstream: Option<String>,
    /// Commits that only the branch has; all, without an upstream commit.
    pub(super) ahead: u64,
    pub(super) behind: u64,
}

impl Distance {
    pub(super) fn commit(&self) -> &str {
        self.upstream.as_deref().unwrap_or_default()
    }
}

impl Upstream {
    pub(super) fn of(repository: &Repository, head: &BranchHead) -> Result<Self, Stop> {
        let format = "--format=%(upstream)%00%(upstream:remotename)%00%(upstream:remoteref)";
        let name = format!("refs/heads/{}", head.branch);
        let fields = repository.git.text(["for-each-ref", format, &name])?;
        match fields.split('\0').collect::<Vec<_>>().as_slice() {
            [tracking, remote, branch] if tracking.starts_with("refs/remotes/") && !remote.is_empty() => {
                let [remote, branch, tracking] = [remote, branch, tracking].map(|&field| field.to_owned());
                Ok(Self { remote, branch, tracking })
            }
            _ if repository.git.text(["remote"])?.is_empty() => {
                let why = "there is no remote; type: git remote add origin URL";
                Err(Stop::nothing(Event::OnlyCommitting, why))
            }
            _ => {
                let branch = escaped(&head.branch);
                // A branch that would be an option or a forced push has its full name.
                let is_odd = head.branch.starts_with(['-', '+']);
                let word = if is_odd { &name } else { &head.branch };
                let command = to_type("git push -u REMOTE {}", &[Part::Word(word.as_ref())]);
                let why = format_args!("the branch {branch} has no upstream; type: {command}");
                Err(Stop::nothing(Event::OnlyCommitting, why))
            }
        }
    }

    /// `origin/main`.
    pub(super) fn name(&self) -> &str {
        self.tracking.strip_prefix("refs/remotes/").unwrap_or(&self.tracking)
    }

    /// Brings the tracking branch up to date. Returns its commit; `None` when the remote has no such branch.
    pub(super) fn fetch(&self, git: &Git, request: &SyncRequest) -> Result<Option<String>, Stop> {
        let bound = request.for_the_network();
        let mut args = vec!["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"];
        let both = format!("+{}:{}", self.branch, self.tracking);
        args.extend(["--no-write-fetch-head", "--no-prune", &self.remote, &both]);
        let answer = git.call(args).within(bound).run()?;
        if answer.status.success() {
            say(&SyncMessage::Reached);
            let commit = format!("{}^{{commit}}", self.tracking);
            return Ok(Some(git.text(["rev-parse", "--verify", &commit])?));
        }
        let ls_remote = ["ls-remote", "--exit-code", &self.remote, &self.branch];
        if !answer.timed_out && git.call(ls_remote).within(bound).run()?.status.code() == Some(2) {
            say(&SyncMessage::Reached);
            return Ok(None);
        }
        if request.network != Network::UseQuietly {
            answer.show();
        }
        let why = format!("{}: {}", self.remote, answer.last_line());
        Err(Stop::Unreachable(Event::CannotReach.line(why)))
    }

    /// How far the branch is from the upstream's commit.
    pub(super) fn distance(&self, git: &Git, head: BranchHead, upstream: Option<String>) -> Result<Distance, Stop> {
        let count = |range: &str| Ok(git.text(["rev-list", "--count", range])?.parse().unwrap_or(0));
        let here = &head.commit;
        let (ahead, behind) = match &upstream {
            Some(there) => (count(&format!("{there}..{here}"))?, count(&format!("{here}..{there}"))?),
            None => (count(here)?, 0),
        };
        Ok(Distance { head, upstream, ahead, behind })
    }
}

/// How many commits of a range change something outside databases, or are merges.
pub(super) fn foreign(repository: &Repository, range: &str) -> Result<u64, Stop> {
    let git = &repository.git;
    let merges = git.text(["rev-list", "--count", "--merges", range])?.parse().unwrap_or(u64::MAX);
    let Some(outside) = repository.outside() else { return Ok(merges) };
    let others = git.call(["rev-list", "--count", "--no-merges", "--full-history", range, "--"]);
    Ok(merges.saturating_add(others.paths(outside).text()?.parse().unwrap_or(u64::MAX)))
}
