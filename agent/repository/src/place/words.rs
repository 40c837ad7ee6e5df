//! The sentences and commands for a branch that has no place.

use crate::HindranceKind::NotPushing;
use crate::{Event, GitReason, Part, Repository, SyncStop, escaped, to_type};

use super::NoPlace;

/// The name of the command that refuses, for sentences. Nobody is told to type it.
const PUSH: &str = "git push";

impl NoPlace {
    /// Nothing is pushed: why, and what to type. `branch` is without `refs/heads/`.
    pub fn stop(&self, repository: &Repository, branch: &str) -> SyncStop {
        let (event, reason) = self.kind();
        let stop = SyncStop::notice(event, NotPushing, reason, self.why(branch));
        match self.next(repository, branch) {
            Some(next) => stop.next(next),
            None => stop,
        }
    }

    fn kind(&self) -> (Event, GitReason) {
        match self {
            Self::NoRemote => (Event::OnlyCommitting, GitReason::NoRemote),
            Self::NoUpstream { .. } | Self::UpstreamIsHere { .. } | Self::NoFetch { .. } => {
                (Event::OnlyCommitting, GitReason::NoUpstream)
            }
            Self::Nothing | Self::Off { .. } => (Event::NotPushing, GitReason::PushOff),
            Self::SeveralUpstreams { .. }
            | Self::OtherName { .. }
            | Self::OtherRemote { .. }
            | Self::Gone { .. }
            | Self::NoUrl { .. }
            | Self::Mirror { .. }
            | Self::NotNamed { .. }
            | Self::NotABranch { .. }
            | Self::SeveralBranches { .. } => (Event::NotPushing, GitReason::NoPlace),
        }
    }

    fn why(&self, branch: &str) -> String {
        let branch = escaped(branch);
        let shown = |text: &str| escaped(text).to_string();
        match self {
            Self::NoRemote => "there is no remote".to_owned(),
            Self::NoUpstream { .. } => format!("the branch {branch} has no upstream"),
            Self::UpstreamIsHere { .. } => format!(
                "the branch {branch} has no upstream at a remote: it follows a branch of this repository"
            ),
            Self::SeveralUpstreams { .. } => {
                format!("{PUSH} refuses: the branch {branch} has several upstreams")
            }
            Self::OtherName { upstream, remote } => format!(
                "{PUSH} refuses: its upstream is {} at {}, and {branch} goes only to a branch of its name (push.default is simple)",
                shown(upstream),
                shown(remote)
            ),
            Self::OtherRemote { remote, upstream } => format!(
                "{PUSH} refuses: {branch} is pushed to {}, and its upstream is at {} (push.default is upstream)",
                shown(remote),
                shown(upstream)
            ),
            Self::Nothing => "push.default is nothing: git push pushes nothing here".to_owned(),
            Self::Off { setting, value } => format!(
                "{} is {}: pushing is switched off here",
                shown(setting),
                shown(value)
            ),
            Self::Gone { setting, value } => format!(
                "{} is {}, and there is no such remote",
                shown(setting),
                shown(value)
            ),
            Self::NoUrl { remote } => format!("the remote {} has no URL", shown(remote)),
            Self::NoFetch { remote, .. } => format!(
                "{} has no fetch refspec (a bare clone has none)",
                shown(remote)
            ),
            Self::Mirror { remote } => format!(
                "{0} is a mirror (remote.{0}.mirror): git push overwrites everything there, which is for a person to do",
                shown(remote)
            ),
            Self::NotNamed { remote } => {
                format!("remote.{}.push does not name {branch}", shown(remote))
            }
            Self::NotABranch { remote, to } => format!(
                "{PUSH} brings {branch} to {} at {}, which is not a branch: that is for a person to do",
                shown(to),
                shown(remote)
            ),
            Self::SeveralBranches { remote } => format!(
                "remote.{}.push brings {branch} to several branches: that is for a person to do",
                shown(remote)
            ),
        }
    }

    fn next(&self, repository: &Repository, branch: &str) -> Option<String> {
        let top = || Part::Path(&repository.git.dir);
        let full = format!("refs/heads/{branch}");
        // A branch that would be an option or a forced push has its full name.
        let name: &str = match branch.starts_with(['-', '+']) {
            true => &full,
            false => branch,
        };
        let name = || Part::Word(name.as_ref());
        let remote = |remote: &str| Part::Words(vec![remote.into()]);
        let set = |word: &str| {
            let words = Part::Words(vec![word.into()]);
            to_type("git -C {} config push.default {}", &[top(), words])
        };
        Some(match self {
            Self::NoRemote => to_type("git -C {} remote add origin URL", &[top()]),
            Self::NoUpstream { remote: None } | Self::UpstreamIsHere { remote: None } => {
                to_type("git -C {} push -u REMOTE {}", &[top(), name()])
            }
            Self::NoUpstream { remote: Some(at) }
            | Self::UpstreamIsHere { remote: Some(at) }
            | Self::OtherName { remote: at, .. } => {
                to_type("git -C {} push -u {} {}", &[top(), remote(at), name()])
            }
            Self::SeveralUpstreams { remote: at } => {
                let merge = format!("branch.{branch}.merge");
                to_type(
                    "git -C {} config --unset-all {} && git -C {} push -u {} {}",
                    &[top(), Part::Word(merge.as_ref()), top(), remote(at), name()],
                )
            }
            Self::OtherRemote { .. } => set("current"),
            Self::Nothing => set("simple"),
            Self::NoFetch {
                remote: at,
                upstream,
            } => {
                let key = format!("remote.{at}.fetch");
                let spec = format!("+refs/heads/*:refs/remotes/{at}/*");
                let upstream = format!("{at}/{upstream}");
                to_type(
                    "git -C {} config {} {} && git -C {} fetch {} && git -C {} branch -u {}",
                    &[
                        top(),
                        Part::Word(key.as_ref()),
                        Part::Word(spec.as_ref()),
                        top(),
                        remote(at),
                        top(),
                        Part::Word(upstream.as_ref()),
                    ],
                )
            }
            Self::NotABranch { .. } | Self::NotNamed { .. } | Self::SeveralBranches { .. } => {
                to_type("git -C {} push", &[top()])
            }
            Self::Gone { .. } | Self::NoUrl { .. } | Self::Off { .. } | Self::Mirror { .. } => {
                return None;
            }
        })
    }
}
