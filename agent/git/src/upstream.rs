//! The branch of a remote that this one follows.

use beadlock_checker::internal::facts;

use crate::HindranceKind::{NotPushing, Unreachable};
use crate::{
    BranchHead, Event, Git, GitReason, GitSettings, KnownUpstream, Network, Part, Repository, Stop,
    SyncMessage, Unpushed, escaped, say, steady, to_type,
};

/// The upstream, as `git branch --set-upstream-to` has set it.
pub(crate) struct Upstream {
    pub(crate) remote: String,
    /// Its branch there: `refs/heads/main`.
    pub(crate) branch: String,
    /// Its copy here: `refs/remotes/origin/main`.
    pub(crate) tracking: String,
}

pub(crate) struct Distance {
    pub(crate) head: BranchHead,
    /// The upstream's commit; `None` when the remote has no such branch.
    pub(crate) upstream: Option<String>,
    /// Commits that only the branch has; all, without an upstream commit.
    pub(crate) ahead: u64,
    pub(crate) behind: u64,
    /// When the oldest of those ahead was committed.
    oldest: Option<i64>,
    /// What is ahead is one commit that this very sync has made.
    pub(crate) is_ours: bool,
}

impl Distance {
    pub(crate) fn commit(&self) -> &str {
        self.upstream.as_deref().unwrap_or_default()
    }

    /// To a commit that was just made, on what the remote has.
    pub(crate) fn of_one(head: BranchHead, upstream: Option<String>) -> Self {
        let oldest = Some(facts::now().0.as_secs());
        Self {
            head,
            upstream,
            ahead: 1,
            behind: 0,
            oldest,
            is_ours: true,
        }
    }

    pub(crate) fn unpushed(&self) -> Unpushed {
        Unpushed {
            commits: self.ahead,
            oldest: self.oldest,
        }
    }
}

impl Upstream {
    pub(crate) fn of(
        repository: &Repository,
        settings: &GitSettings,
        head: &BranchHead,
    ) -> Result<Self, Stop> {
        if let Some(plain) = Self::plain(settings, &head.branch) {
            return Ok(plain);
        }
        let format = "--format=%(upstream)%00%(upstream:remotename)%00%(upstream:remoteref)";
        let name = format!("refs/heads/{}", head.branch);
        let fields = repository.git.text(["for-each-ref", format, &name])?;
        match fields.split('\0').collect::<Vec<_>>().as_slice() {
            [tracking, remote, branch]
                if tracking.starts_with("refs/remotes/") && !remote.is_empty() =>
            {
                let [remote, branch, tracking] =
                    [remote, branch, tracking].map(|&field| field.to_owned());
                Ok(Self {
                    remote,
                    branch,
                    tracking,
                })
            }
            _ if repository.git.text(["remote"])?.is_empty() => {
                let stop = Stop::notice(
                    Event::OnlyCommitting,
                    NotPushing,
                    GitReason::NoRemote,
                    "there is no remote",
                );
                Err(stop.next("git remote add origin URL".to_owned()))
            }
            _ => {
                let branch = escaped(&head.branch);
                // A branch that would be an option or a forced push has its full name.
                let is_odd = head.branch.starts_with(['-', '+']);
                let word = if is_odd { &name } else { &head.branch };
                let command = to_type("git push -u REMOTE {}", &[Part::Word(word.as_ref())]);
                let why = format_args!("the branch {branch} has no upstream");
                Err(Stop::notice(
                    Event::OnlyCommitting,
                    NotPushing,
                    GitReason::NoUpstream,
                    why,
                )
                .next(command))
            }
        }
    }

    pub(crate) fn known(known: &KnownUpstream) -> Self {
        let KnownUpstream {
            remote,
            branch,
            tracking,
            ..
        } = known.clone();
        Self {
            remote,
            branch,
            tracking,
        }
    }

    /// As `git clone` sets it; `None` for any other.
    fn plain(settings: &GitSettings, branch: &str) -> Option<Self> {
        let merged = settings.all(&format!("branch.{branch}.merge"));
        let (Some(remote), [merged]) = (
            settings.get(&format!("branch.{branch}.remote")),
            merged.as_slice(),
        ) else {
            return None;
        };
        let specs = settings.all(&format!("remote.{remote}.fetch"));
        let name = merged.strip_prefix("refs/heads/")?;
        let is_plain = specs.as_slice() == [format!("+refs/heads/*:refs/remotes/{remote}/*")];
        let [remote, branch] = [remote, merged].map(str::to_owned);
        is_plain.then(|| Self {
            tracking: format!("refs/remotes/{remote}/{name}"),
            remote,
            branch,
        })
    }

    /// `origin/main`.
    pub(crate) fn name(&self) -> &str {
        self.tracking
            .strip_prefix("refs/remotes/")
            .unwrap_or(&self.tracking)
    }

    /// Brings the tracking branch up to date. Returns its commit; `None` when the remote has no such branch.
    pub(crate) fn fetch(&self, repository: &Repository, git: &Git) -> Result<Option<String>, Stop> {
        let request = &repository.request;
        let bound = request.for_the_network();
        let mut args = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
        ];
        let both = format!("+{}:{}", self.branch, self.tracking);
        args.extend(["--no-write-fetch-head", "--no-prune", &self.remote, &both]);
        let before = repository.commit_of(&self.tracking)?;
        let mut answer = git.call(&args).within(bound).run()?;
        if !answer.status.success() && repository.commit_of(&self.tracking)? != before {
            // Somebody has pushed from this clone meanwhile, and this fetch must not take the branch back.
            answer = git.call(&args).within(bound).run()?;
        }
        if answer.status.success() {
            say(&SyncMessage::Reached);
            return repository.commit_of(&self.tracking);
        }
        let ls_remote = ["ls-remote", "--exit-code", &self.remote, &self.branch];
        if !answer.timed_out && git.call(ls_remote).within(bound).run()?.status.code() == Some(2) {
            say(&SyncMessage::Reached);
            return match before {
                None => Ok(None),
                Some(_) => Err(self.gone(repository)),
            };
        }
        if request.network != Network::UseQuietly {
            answer.show();
        }
        Err(self
            .stop(Event::CannotReach, &answer.last_line())
            .with_words(answer.said()))
    }

    /// The remote had the branch, and no longer has it: to make it anew may be as wrong as to follow another one.
    fn gone(&self, repository: &Repository) -> Stop {
        let (remote, branch) = (&self.remote, self.branch.trim_start_matches("refs/heads/"));
        let why = format!(
            "{} has no branch {} any more: it was deleted or renamed there",
            escaped(remote),
            escaped(branch)
        );
        let here = format!("HEAD:{}", self.branch);
        let [remote, here] = [remote, &here].map(|word| Part::Word(word.as_ref()));
        let parts = [Part::Path(&repository.git.dir), remote, here];
        Stop::notice(Event::NotPushing, NotPushing, GitReason::UpstreamGone, why)
            .next(to_type("git -C {} push {} {}", &parts))
    }

    /// The remote cannot be used now: the line of `event`, in the words of git or of the remote.
    pub(crate) fn stop(&self, event: Event, words: &str) -> Stop {
        let (remote, words) = (&self.remote, steady(words));
        let (kind, reason, why) = match event {
            Event::PushRefused => (
                NotPushing,
                GitReason::PushRefused,
                format!("{remote} refuses the push: {words}"),
            ),
            Event::CannotPush => (
                Unreachable,
                GitReason::CannotPush,
                format!("{remote} cannot be pushed to: {words}"),
            ),
            _ => (
                Unreachable,
                GitReason::RemoteUnreachable,
                format!("{remote} cannot be reached: {words}"),
            ),
        };
        Stop::unreachable(event, kind, reason, format_args!("{remote}: {words}"), why)
    }

    /// How far the branch is from the upstream's commit.
    pub(crate) fn distance(
        &self,
        git: &Git,
        head: BranchHead,
        upstream: Option<String>,
    ) -> Result<Distance, Stop> {
        if upstream.as_ref() == Some(&head.commit) {
            return Ok(Distance {
                head,
                upstream,
                ahead: 0,
                behind: 0,
                oldest: None,
                is_ours: false,
            });
        }
        let range = upstream.as_ref().map_or_else(
            || head.commit.clone(),
            |there| format!("{there}...{}", head.commit),
        );
        let args = ["rev-list", "--timestamp", "--left-right", &range];
        let (unpushed, behind) = both_sides(&git.call(args).done()?.stdout);
        Ok(Distance {
            head,
            upstream,
            ahead: unpushed.commits,
            behind,
            oldest: unpushed.oldest,
            is_ours: false,
        })
    }
}

/// What is known here of the commits that wait, in whatever state the repository is: those of the upstream's tracking
/// branch count, or of all remotes where there is none.
pub(crate) fn waiting(repository: &Repository) -> (Unpushed, u64) {
    let ask = |args: &[&str]| {
        let answer = repository
            .git
            .call([&["rev-list", "--timestamp", "--left-right"], args].concat())
            .run()
            .ok()?;
        answer.status.success().then(|| both_sides(&answer.stdout))
    };
    ask(&["@{upstream}...HEAD", "--"])
        .or_else(|| ask(&["HEAD", "--not", "--remotes", "--"]))
        .unwrap_or_default()
}

/// Reads `rev-list --timestamp --left-right`: what only the right side has, and how many commits only the left has.
fn both_sides(printed: &[u8]) -> (Unpushed, u64) {
    let (mut right, mut left) = (Unpushed::default(), 0);
    for line in String::from_utf8_lossy(printed).lines() {
        let Some((time, commit)) = line.split_once(' ') else {
            continue;
        };
        if commit.starts_with('<') {
            left += 1;
            continue;
        }
        right.commits += 1;
        right.oldest = right.oldest.into_iter().chain(time.parse().ok()).min();
    }
    (right, left)
}

/// How many commits of a range change something outside databases, or are merges.
pub(crate) fn foreign(repository: &Repository, range: &str) -> Result<u64, Stop> {
    let git = &repository.git;
    let merges = git
        .text(["rev-list", "--count", "--merges", range])?
        .parse()
        .unwrap_or(u64::MAX);
    let Some(outside) = repository.outside() else {
        return Ok(merges);
    };
    let others = git.call([
        "rev-list",
        "--count",
        "--no-merges",
        "--full-history",
        range,
        "--",
    ]);
    Ok(merges.saturating_add(others.paths(outside).text()?.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_the_right_side_is_told() {
        let printed = b"300 >aa\n100 >bb\n50 <cc\n200 >dd\n";
        assert_eq!(
            both_sides(printed),
            (
                Unpushed {
                    commits: 3,
                    oldest: Some(100)
                },
                1
            )
        );
        assert_eq!(
            both_sides(b"7 aa\n"),
            (
                Unpushed {
                    commits: 1,
                    oldest: Some(7)
                },
                0
            ),
            "without a left side"
        );
        assert_eq!(both_sides(b""), (Unpushed::default(), 0));
    }
}
