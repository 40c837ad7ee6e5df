//! A branch of a remote: the one that a branch follows, or the one that it is pushed to.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use beadlock_base::secrets::masked;

use crate::HindranceKind::{NotPushing, Unreachable};
use crate::host::HostRefusal;
use crate::place::{PushPlace, UpstreamSetting};
use crate::{
    Asking, BranchHead, Event, Git, GitOutput, GitReason, GitSettings, Network, Part, Repository,
    SyncMessage, SyncStop, Unpushed, UpstreamFacts, escaped, say, steady, to_type,
};

/// A branch of a remote that this branch follows or is pushed to, and its copy here.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The remote, or the URL, as git is given it.
    pub remote: String,
    /// Its branch there: `refs/heads/main`.
    pub branch: String,
    /// Its copy here: `refs/remotes/origin/main`, or a ref of our own ([`OWN`]).
    pub tracking: String,
    /// Its name in a line: `origin/main`, or a URL.
    name: String,
    /// Where git's settings for `remote` lead elsewhere: the URL to ask.
    pub(crate) url: Option<String>,
    /// Settings of the calls that ask it.
    settings: Vec<(String, String)>,
}

/// The refs for copies of branches that no fetch refspec names: the place, where it is pushed to by another URL.
const OWN: &str = "refs/beadlock/place/";
/// The most committers that are told. The message is a line of bounded length.
const MOST_COMMITTERS: usize = 600;
/// The name that a URL has for git. A remote of this name has the settings of one call alone.
const ASKED: &str = "beadlock-place";
/// The settings of a remote by which it is reached.
const TRANSPORT: [&str; 5] = [
    "proxy",
    "proxyauthmethod",
    "uploadpack",
    "vcs",
    "serveroption",
];

/// How far a branch is from where it is pulled from and pushed to.
#[derive(Debug, Clone)]
pub struct Distance {
    /// The branch here.
    pub head: BranchHead,
    /// The upstream's commit; `None` when the remote has no such branch.
    pub upstream: Option<String>,
    /// The commit of the place at each URL of a push; `None` where it has no such branch.
    pub places: Vec<Option<String>>,
    /// Commits that the place has not; all, without one and without an upstream commit.
    pub ahead: u64,
    /// Commits of the upstream and of the place that the branch has not.
    pub behind: u64,
    /// When the oldest of those ahead was committed.
    pub oldest: Option<i64>,
    /// Whether the only commit ahead is one that this very sync has made.
    pub is_ours: bool,
}

impl Distance {
    /// The upstream's commit; empty where the remote has no such branch.
    pub fn commit(&self) -> &str {
        self.upstream.as_deref().unwrap_or_default()
    }

    /// There is something to push: commits, or the branch itself.
    pub fn is_ahead(&self) -> bool {
        self.ahead > 0 || self.places.contains(&None)
    }

    /// The commits ahead, as the agent's state shows them.
    pub fn unpushed(&self) -> Unpushed {
        Unpushed {
            commits: self.ahead,
            oldest: self.oldest,
        }
    }
}

impl Upstream {
    /// The upstream that the settings name.
    pub fn followed(settings: &GitSettings, setting: &UpstreamSetting) -> Self {
        let (remote, branch) = (&setting.remote, &setting.branch);
        let url = (!setting.is_named).then_some(setting.url.as_str());
        let tracking = setting.tracking.clone();
        Self::new(settings, remote, branch, tracking.ok_or(&*setting.url), url)
    }

    /// The place at one of the URLs of a push.
    pub fn pushed_to(settings: &GitSettings, place: &PushPlace, url: &str) -> Self {
        let (remote, branch) = (&place.remote, &place.branch);
        let elsewhere = match place.tracking {
            Some(_) => None,
            None => Some(url),
        };
        Self::new(
            settings,
            remote,
            branch,
            place.tracking.clone().ok_or(url),
            elsewhere,
        )
    }

    /// An upstream by its parts. `tracking` is the copy here, or else the URL by which a ref of our own is named.
    fn new(
        settings: &GitSettings,
        remote: &str,
        branch: &str,
        tracking: Result<String, &str>,
        url: Option<&str>,
    ) -> Self {
        let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
        let name = match (&tracking, url) {
            (Ok(tracking), _) => tracking
                .strip_prefix("refs/remotes/")
                .unwrap_or(tracking)
                .to_owned(),
            (Err(_), None) => format!("{remote}/{short}"),
            (Err(_), Some(url)) => masked(url),
        };
        let own = |url: &str| {
            let mut hasher = DefaultHasher::new();
            (url, branch).hash(&mut hasher);
            format!("{OWN}{:016x}", hasher.finish())
        };
        let mut with = Vec::new();
        if tracking.is_err() {
            // Without a log nobody could tell that a branch there was set back.
            with.push(("core.logAllRefUpdates".to_owned(), "always".to_owned()));
        }
        if let Some(url) = url {
            with.push((format!("remote.{ASKED}.url"), url.to_owned()));
            // It is rewritten already, and not a second time.
            with.push((format!("url.{url}.insteadOf"), url.to_owned()));
            for name in TRANSPORT {
                let values = settings.all(&format!("remote.{remote}.{name}"));
                let key = format!("remote.{ASKED}.{name}");
                with.extend(
                    values
                        .iter()
                        .map(|value| (key.clone(), (*value).to_owned())),
                );
            }
        }
        Self {
            remote: remote.to_owned(),
            branch: branch.to_owned(),
            tracking: tracking.unwrap_or_else(own),
            name,
            url: url.map(str::to_owned),
            settings: with,
        }
    }

    /// The upstream that an earlier sync has found.
    pub fn known(known: &UpstreamFacts) -> Self {
        let UpstreamFacts {
            remote,
            branch,
            tracking,
            ..
        } = known;
        Self::new(
            &GitSettings::default(),
            remote,
            branch,
            Ok(tracking.clone()),
            None,
        )
    }

    /// Its name in a line: `origin/main`, or a URL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This upstream with another name for lines.
    pub fn called(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// The copy is a ref of our own, which no git but ours brings up to date.
    pub fn is_own(&self) -> bool {
        self.tracking.starts_with(OWN)
    }

    /// The remote's name or URL for a line, without secrets.
    pub(crate) fn at(&self) -> String {
        match &self.url {
            Some(url) => masked(url),
            None => masked(&self.remote),
        }
    }

    /// Brings the copy up to date. Returns its commit; `None` when the remote has no such branch.
    pub fn fetch(&self, repository: &Repository, git: &Git) -> Result<Option<String>, SyncStop> {
        let request = &repository.request;
        let remote = self.asked();
        let mut args = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
        ];
        let both = format!("+{}:{}", self.branch, self.tracking);
        args.extend(["--no-write-fetch-head", "--no-prune", remote, &both]);
        let before = repository.commit_of(&self.tracking)?;
        let mut answer = self.ask(repository, git, &args)?;
        if !answer.status.success() && repository.commit_of(&self.tracking)? != before {
            // Somebody has pushed from this clone meanwhile, and this fetch must not take the branch back.
            answer = self.ask(repository, git, &args)?;
        }
        if answer.status.success() {
            say(&SyncMessage::Reached);
            return repository.commit_of(&self.tracking);
        }
        let is_there = !answer.timed_out && self.look(repository, git)? == Some(None);
        if is_there {
            say(&SyncMessage::Reached);
            return match before {
                None => Ok(None),
                Some(_) => Err(self.gone(repository)),
            };
        }
        tell_refusal(&answer);
        if request.network != Network::UseQuietly {
            answer.show();
        }
        Err(self
            .stop(Event::CannotReach, &answer.last_line())
            .with_words(answer.said()))
    }

    /// The remote had the branch, and no longer has it: to make it anew may be as wrong as to follow another one.
    fn gone(&self, repository: &Repository) -> SyncStop {
        let (remote, branch) = (&self.remote, self.branch.trim_start_matches("refs/heads/"));
        let why = format!(
            "{} has no branch {} any more: it was deleted or renamed there",
            escaped(remote),
            escaped(branch)
        );
        let here = format!("HEAD:{}", self.branch);
        let [remote, here] = [remote, &here].map(|word| Part::Word(word.as_ref()));
        let parts = [Part::Path(&repository.git.dir), remote, here];
        SyncStop::notice(Event::NotPushing, NotPushing, GitReason::UpstreamGone, why)
            .next(to_type("git -C {} push {} {}", &parts))
    }

    /// Which commit the remote has there: `Some(None)` when it has no such branch, `None` when it does not answer.
    pub fn look(
        &self,
        repository: &Repository,
        git: &Git,
    ) -> Result<Option<Option<String>>, SyncStop> {
        let args = ["ls-remote", "--exit-code", self.asked(), &self.branch];
        let answer = self.ask(repository, git, &args)?;
        let text = answer.ok_text();
        let commit = text.and_then(|line| Some(line.split_once('\t')?.0.to_owned()));
        Ok(match answer.status.code() {
            Some(0) => Some(commit),
            Some(2) => Some(None),
            _ => None,
        })
    }

    fn asked(&self) -> &str {
        match self.url {
            Some(_) => ASKED,
            None => &self.remote,
        }
    }

    fn ask(
        &self,
        repository: &Repository,
        git: &Git,
        args: &[&str],
    ) -> Result<GitOutput, SyncStop> {
        let bound = repository.request.for_the_network();
        say(&SyncMessage::Asks(Asking::Fetch));
        let call = git.call(args).with_settings(&self.settings);
        call.within(bound).of_strangers().run()
    }

    /// The remote cannot be used now: the line of `event`, in the words of git or of the remote.
    pub fn stop(&self, event: Event, words: &str) -> SyncStop {
        let (remote, words) = (self.at(), steady(words));
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
        SyncStop::unreachable(event, kind, reason, format_args!("{remote}: {words}"), why)
    }
}

/// Tells the agent when the host refuses to be asked, or asks for less.
pub fn tell_refusal(answer: &GitOutput) {
    if let Some(refusal) = HostRefusal::of(&answer.said()) {
        say(&SyncMessage::HostRefuses(refusal));
    }
}

/// The committers of the last hour, as hashes: of the commits that are in `tip` and not in `before`, or of all in
/// `tip`.
pub fn committers(git: &Git, tip: &str, before: Option<&str>) -> Vec<u32> {
    let mut args = vec![
        "rev-list".to_owned(),
        "--since=1.hour.ago".to_owned(),
        "--max-count=10000".to_owned(),
        "--no-commit-header".to_owned(),
        "--format=%cn <%ce>".to_owned(),
        tip.to_owned(),
    ];
    args.extend(before.map(|before| format!("^{before}")));
    args.push("--".to_owned());
    let Ok(answer) = git.call(args).run() else {
        return Vec::new();
    };
    let hash = |name: &[u8]| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        (hasher.finish() >> 32) as u32
    };
    let all: BTreeSet<u32> = answer
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|name| !name.is_empty())
        .map(hash)
        .collect();
    all.into_iter().take(MOST_COMMITTERS).collect()
}

/// The commits that wait to be pushed, and how many of the upstream's are not here, as far as is known here, in
/// whatever state the repository is. The upstream's tracking branch counts, or all remotes where there is none.
pub fn waiting(repository: &Repository) -> (Unpushed, u64) {
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

/// Reads `rev-list --timestamp --left-right`: the commits that only the right side has, and how many only the left has.
pub fn both_sides(printed: &[u8]) -> (Unpushed, u64) {
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
