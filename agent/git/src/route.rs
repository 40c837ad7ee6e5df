//! The sources of a branch's commits, and where they go to: its upstream and its place
//! ([`place`](beadlock_repository::place)). Mostly they are the same branch of the same remote. In a fork, or on a
//! feature branch, they are not: then both are fetched, and both are taken in.

use beadlock_core::facts;

use crate::join;
use beadlock_repository::place::{NoPlace, PushPlace, UpstreamSetting, find};
use beadlock_repository::upstream::both_sides;
use beadlock_repository::{
    BranchHead, Distance, Git, GitSettings, Repository, SyncStop, Unpushed, Upstream,
};

/// The upstream of a branch, and the place that it is pushed to.
pub(crate) struct Route {
    /// The upstream comes first, where there is one. Then the place at each URL of a push, unless it is the upstream.
    sources: Vec<Source>,
    /// Where `git push` would push, or why it would not.
    pub(crate) place: Result<PushPlace, NoPlace>,
    /// Whether a push to the place moves the copy of the upstream, which is at another URL.
    misleads: bool,
}

struct Source {
    at: Upstream,
    is_place: bool,
}

/// The commit of each source of a [`Route`], as it is known here; `None` where there is none, or none is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tips {
    commits: Vec<Option<String>>,
    /// The remote at which the branch will be made. The place has no such branch, and never had one, as far as is known
    /// here.
    new_at: Option<String>,
}

/// Result of a fetch from the upstream and the place.
pub(crate) struct Fetched {
    pub(crate) tips: Tips,
    /// Why the place could not be asked; `None` without such a failure.
    pub(crate) missing: Option<SyncStop>,
    /// Whether the place has answered, at one of its URLs at least.
    pub(crate) has_place: bool,
}

impl Fetched {
    /// The result without a fetch: the commits as the copies here have them.
    pub(crate) fn known(tips: &Tips) -> Self {
        Self {
            tips: tips.clone(),
            missing: None,
            has_place: true,
        }
    }
}

impl Tips {
    pub(crate) fn are_complete(&self) -> bool {
        self.commits.iter().all(Option::is_some)
    }

    /// Whether the place has lost the branch.
    pub(crate) fn is_deleted(&self, distance: &Distance) -> bool {
        distance.places.contains(&None) && self.new_at.is_none()
    }

    /// Arguments that take the remotes' commits out of a range. Where the branch is new at its remote, all branches
    /// there count.
    pub(crate) fn without(&self) -> Vec<String> {
        let tips = self.commits.iter().flatten();
        let mut all: Vec<_> = tips.map(|tip| format!("^{tip}")).collect();
        all.dedup();
        let at = self
            .new_at
            .as_ref()
            .filter(|at| !at.contains(['*', '?', '[', '\\']));
        if let Some(at) = at {
            all.extend(["--not".to_owned(), format!("--remotes={at}")]);
        }
        all
    }
}

impl Route {
    /// The way of a branch, given without `refs/heads/`. Refuses where it neither follows one nor is pushed.
    pub(crate) fn of(
        repository: &Repository,
        settings: &GitSettings,
        branch: &str,
    ) -> Result<Self, SyncStop> {
        let top = &repository.git.dir;
        let place = find(settings, branch, &|word| top.join(word).is_dir());
        let upstream = UpstreamSetting::of(settings, branch);
        let mut sources = Vec::new();
        let mut misleads = false;
        if let Some(upstream) = &upstream
            && !matches!(place, Err(NoPlace::NoFetch { .. }))
        {
            let is_place = place.as_ref().is_ok_and(|place| {
                let is_same =
                    (&place.remote, &place.branch) == (&upstream.remote, &upstream.branch);
                misleads = is_same && place.urls != [upstream.url.clone()];
                is_same && !misleads
            });
            let at = Upstream::followed(settings, upstream);
            sources.push(Source { at, is_place });
        }
        if let Ok(place) = &place
            && !sources.iter().any(|source| source.is_place)
        {
            let at = |url: &String| Source {
                at: Upstream::pushed_to(settings, place, url),
                is_place: true,
            };
            sources.extend(place.urls.iter().map(at));
        }
        match &place {
            Err(no) if sources.is_empty() => Err(no.stop(repository, branch)),
            _ => Ok(Self {
                sources,
                place,
                misleads,
            }),
        }
    }

    /// The upstream, or the place of a branch without one.
    pub(crate) fn first(&self) -> &Upstream {
        &self.sources[0].at
    }

    /// Whether the branch follows another branch than the place.
    pub(crate) fn follows_another(&self) -> bool {
        self.sources.first().is_some_and(|first| !first.is_place)
    }

    /// The sources besides [`Self::first`].
    pub(crate) fn others(&self) -> impl Iterator<Item = &Upstream> {
        self.sources.iter().skip(1).map(|source| &source.at)
    }

    /// The place at each of its URLs.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Upstream> {
        let places = self.sources.iter().filter(|source| source.is_place);
        places.map(|source| &source.at)
    }

    /// The place in a line: `fork/main`.
    pub(crate) fn place_name(&self) -> String {
        let names: Vec<_> = self.places().map(Upstream::name).collect();
        names.join(" and ")
    }

    /// The commit of each source, as its copy here has it.
    pub(crate) fn known(&self, repository: &Repository) -> Result<Tips, SyncStop> {
        let tips = self.sources.iter();
        let tips = tips.map(|source| repository.commit_of(&source.at.tracking));
        self.tips(repository, tips.collect::<Result<_, _>>()?)
    }

    fn tips(
        &self,
        repository: &Repository,
        commits: Vec<Option<String>>,
    ) -> Result<Tips, SyncStop> {
        let mut new_at = None;
        for (source, tip) in self.sources.iter().zip(&commits) {
            let is_missing = source.is_place && tip.is_none();
            if is_missing && repository.commit_of(&source.at.tracking)?.is_none() {
                new_at = Some(source.at.remote.clone());
            }
        }
        Ok(Tips { commits, new_at })
    }

    /// Asks the remotes. Where only the place does not answer, it is as `known`, and the upstream can be pulled.
    pub(crate) fn fetch(
        &self,
        repository: &Repository,
        git: &Git,
        known: &Tips,
    ) -> Result<Fetched, SyncStop> {
        let (mut tips, mut missing, mut has_place) = (Vec::new(), None, false);
        for (number, source) in self.sources.iter().enumerate() {
            match source.at.fetch(repository, git) {
                Ok(tip) => {
                    has_place |= source.is_place;
                    tips.push(tip);
                }
                Err(stop) if number == 0 => return Err(stop),
                Err(stop) => {
                    tips.push(known.commits.get(number).cloned().flatten());
                    missing.get_or_insert(stop);
                }
            }
        }
        let tips = self.tips(repository, tips)?;
        Ok(Fetched {
            tips,
            missing,
            has_place,
        })
    }

    /// How far the branch is from its sources. `parent`: its last commit is one that this very sync has made, on that
    /// one.
    pub(crate) fn distance(
        &self,
        git: &Git,
        head: BranchHead,
        tips: &Tips,
        parent: Option<&str>,
    ) -> Result<Distance, SyncStop> {
        let commit = head.commit.clone();
        let sources = self.sources.iter().zip(&tips.commits);
        let places = sources.filter(|(source, _)| source.is_place);
        let mut distance = Distance {
            head,
            upstream: tips.commits.first().cloned().flatten(),
            places: places.map(|(_, tip)| tip.clone()).collect(),
            ahead: 0,
            behind: 0,
            oldest: None,
            is_ours: false,
        };
        // What waits to be pushed is counted from these.
        let mut from = distance.places.clone();
        if from.is_empty() {
            from.push(distance.upstream.clone());
        }
        let is_on = |tip: &Option<String>| tip.is_some() && tip.as_deref() == parent;
        distance.is_ours = from.iter().all(is_on);
        let unpushed = match (distance.is_ours, tips.commits.as_slice()) {
            (true, _) => Unpushed {
                commits: 1,
                oldest: Some(facts::now().0.as_secs()),
            },
            (false, [Some(tip)]) if *tip == commit => Unpushed::default(),
            (false, [Some(tip)]) => {
                let (unpushed, behind) = both(git, &[&format!("{tip}...{commit}")])?;
                distance.behind = behind;
                unpushed
            }
            _ => unpushed(git, &commit, from, tips)?,
        };
        (distance.ahead, distance.oldest) = (unpushed.commits, unpushed.oldest);
        if tips.commits.len() > 1 {
            distance.behind = behind(git, &commit, tips, parent)?;
        }
        Ok(distance)
    }

    /// Each source with its commit, where it has one.
    pub(crate) fn found<'a>(
        &'a self,
        tips: &'a Tips,
    ) -> impl Iterator<Item = (&'a Upstream, &'a str)> {
        let all = self.sources.iter().zip(&tips.commits);
        all.filter_map(|(source, tip)| Some((&source.at, tip.as_deref()?)))
    }

    /// Commits that may be in the log of the upstream's copy though the upstream never had them.
    pub(crate) fn misleading<'a>(&'a self, distance: &'a Distance) -> Vec<&'a str> {
        let places = distance.places.iter().flatten().map(String::as_str);
        places.filter(|_| self.misleads).collect()
    }

    /// The commit that has all of the upstream and of the place, and how that is called in a line. Nothing of what they
    /// have is made anew: where both have something, they are merged.
    pub(crate) fn onto(
        &self,
        repository: &Repository,
        head: &BranchHead,
        tips: &Tips,
    ) -> Result<(Upstream, String), SyncStop> {
        let git = &repository.git;
        let mut found: Vec<_> = self.found(tips).collect();
        // The place's side goes on: it comes first.
        if found.len() > 1 && self.follows_another() {
            found.rotate_left(1);
        }
        if let [(at, tip)] = found.as_slice() {
            return Ok(((*at).clone(), (*tip).to_owned()));
        }
        let tips = found.iter().map(|(_, tip)| *tip);
        let left = git.text(["merge-base", "--independent"].into_iter().chain(tips))?;
        let mut names: Vec<&str> = Vec::new();
        let (mut onto, mut joined) = (None::<String>, Vec::new());
        for (at, tip) in &found {
            let has_more = git.text(["rev-list", "--count", tip, &format!("^{}", head.commit)])?;
            if has_more != "0" && !names.contains(&at.name()) {
                names.push(at.name());
            }
            if left.lines().any(|line| line == *tip) && !joined.contains(tip) {
                joined.push(*tip);
                onto = Some(match onto {
                    None => (*tip).to_owned(),
                    Some(onto) => join::join(repository, &onto, at, tip)?,
                });
            }
        }
        let name = names.join(" and ");
        let onto = onto.unwrap_or_else(|| head.commit.clone());
        Ok((self.first().clone().called(name), onto))
    }
}

/// The commits that wait to be pushed, to the place that has least. Where the branch is new there, the commits that its
/// remote has do not count.
fn unpushed(
    git: &Git,
    commit: &str,
    mut places: Vec<Option<String>>,
    tips: &Tips,
) -> Result<Unpushed, SyncStop> {
    let mut most = Unpushed::default();
    places.dedup();
    for place in places {
        if place.as_deref() == Some(commit) {
            continue;
        }
        let without = match place {
            Some(place) => vec![format!("^{place}")],
            None => tips.without(),
        };
        let without = without.iter().map(String::as_str);
        let range: Vec<_> = [commit].into_iter().chain(without).collect();
        let (unpushed, _) = both(git, &range)?;
        if unpushed.commits >= most.commits {
            most = unpushed;
        }
    }
    Ok(most)
}

/// How many commits the remotes have that the branch has not. It has its `parent`.
fn behind(git: &Git, commit: &str, tips: &Tips, parent: Option<&str>) -> Result<u64, SyncStop> {
    let mut theirs: Vec<_> = tips.commits.iter().flatten().map(String::as_str).collect();
    theirs.retain(|tip| *tip != commit && Some(*tip) != parent);
    if theirs.is_empty() {
        return Ok(0);
    }
    let without = format!("^{commit}");
    let args = ["rev-list", "--count"].into_iter().chain(theirs);
    let count = git.text(args.chain([without.as_str()]))?;
    Ok(count.parse().unwrap_or(u64::MAX))
}

/// The commits that only the right side of a range has, and how many only the left side has.
fn both(git: &Git, range: &[&str]) -> Result<(Unpushed, u64), SyncStop> {
    let call = git.call([&["rev-list", "--timestamp", "--left-right"], range].concat());
    Ok(both_sides(&call.done()?.stdout))
}
