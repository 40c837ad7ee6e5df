//! One sync: its steps, and what it finds out on the way.

use std::thread;
use std::time::Duration;

use beadlock_base::secrets::masked;

use crate::changes::CommitSeen;
use crate::commit::Committed;
use crate::route::{Fetched, Route, Tips};
use crate::truth::{self, PlaceClaim};
use crate::{
    Event, Pushed, begin, commit, exclude, kept, open_files, other_databases, pull, push, stage,
};
use beadlock_repository::{
    BranchHead, Distance, GitReason, HindranceKind, Network, Repository, RepositoryFacts,
    SyncMessage, SyncReport, SyncRequest, SyncStop, Unpushed, Upstream, UpstreamFacts, cause, dolt,
    names, owners, say, upstream,
};

/// For how many other databases of its repository a sync waits.
const NEIGHBOURS: usize = 3;

/// How long a push waits, again and again, for another push of the same branch to end, before it is refused.
const WHILE_LOCKED: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(900),
];

/// A push that took longer is not tried again in the same sync: it may send much, or have a hook that works for long.
const SHORT_PUSH: Duration = Duration::from_secs(2);

/// The findings of a sync so far: its report, and what the agent is told beside it.
#[derive(Debug, Default)]
struct Findings {
    report: SyncReport,
    is_measured: bool,
    head: Option<BranchHead>,
    upstream: Option<UpstreamFacts>,
    /// The parent of the one commit that this sync has made, and that commit.
    sole: Option<(String, String)>,
    /// Whether a pull has merged in what somebody wrote meanwhile: it is to be committed.
    is_to_be_committed: bool,
}

/// Syncs, and tells the agent all about it.
pub(crate) fn report(mut request: SyncRequest) {
    let mut findings = Findings::default();
    let mut ended = match request.known.as_ref().filter(|_| request.only_fetch) {
        Some(known) => match only_fetch(&request, known) {
            Ok(false) => {
                request.network = Network::Push;
                sync(&request, &mut findings)
            }
            ended => {
                say(&SyncMessage::Found(Box::new(known.clone())));
                ended.map(|_| ())
            }
        },
        None => sync(&request, &mut findings),
    };
    if ended.as_ref().is_err_and(SyncStop::is_unseen) {
        request.contents = true;
        ended = sync(&request, &mut findings);
    }
    if ended.as_ref().is_err_and(SyncStop::is_moved) || findings.is_to_be_committed {
        ended = sync(&request, &mut findings);
    }
    let mut entered = Vec::new();
    while let Some(neighbour) = ended.as_ref().err().and_then(SyncStop::neighbour)
        && entered.len() < NEIGHBOURS
        && let Some(cycle) = other_databases::enter_after(neighbour)
    {
        entered.push(cycle);
        request.entered.push(neighbour.to_owned());
        ended = sync(&request, &mut findings);
    }
    findings.report.hindrance = ended.err().map(SyncStop::say);
    say(&SyncMessage::Report(findings.report));
}

/// Fetches into a repository in which nothing has changed. Returns true when the remote has brought nothing either.
fn only_fetch(request: &SyncRequest, known: &RepositoryFacts) -> Result<bool, SyncStop> {
    let Some(upstream) = &known.upstream else {
        return Ok(false);
    };
    let repository = Repository::known(request, known)?;
    // The whole sync says so.
    if owners::refuse(&repository).is_err() {
        return Ok(false);
    }
    let git = repository
        .git
        .clone()
        .with_ssh(upstream.ssh.as_ref().map(Into::into));
    let commit = Upstream::known(upstream).fetch(&repository, &git)?;
    Ok(commit.as_deref() == Some(&upstream.commit))
}

fn sync(request: &SyncRequest, findings: &mut Findings) -> Result<(), SyncStop> {
    let repository = match Repository::of(request) {
        Ok(repository) => repository,
        Err(stop) => {
            let nowhere =
                RepositoryFacts::nowhere(&request.dir).filter(|_| stop.is_without_repository());
            nowhere
                .into_iter()
                .for_each(|known| say(&SyncMessage::Found(Box::new(known))));
            let instead = dolt::instead(&request.dir).filter(|_| stop.is_without_repository());
            return Err(instead.unwrap_or(stop));
        }
    };
    let ended = owners::refuse(&repository);
    // Then nothing more is asked of git.
    let is_refused = ended.is_err();
    let ended = ended.and_then(|()| {
        exclude::write(&repository);
        let ended = findings.sync(&repository);
        ended.map_err(|stop| cause::explain(&repository, stop))
    });
    if ended.is_err() && !findings.is_measured && !is_refused {
        let report = &mut findings.report;
        (report.unpushed, report.behind) = upstream::waiting(&repository);
    }
    let known = RepositoryFacts::of(
        &repository,
        findings.head.as_ref(),
        findings.upstream.take(),
    );
    // To files that somebody still writes to each cycle looks.
    known
        .into_iter()
        .filter(|_| !open_files::are_there(&repository))
        .for_each(|known| say(&SyncMessage::Found(Box::new(known))));
    ended
}

impl Findings {
    fn sync(&mut self, repository: &Repository) -> Result<(), SyncStop> {
        let request = &repository.request;
        if stage::anything_is_left(repository) {
            drop(begin(repository)?);
        }
        repository.check_quiet()?;
        dolt::refuse_alone(repository)?;
        let head = repository.head()?;
        self.head = Some(head.clone());
        repository.check_unlocked(&head)?;
        repository.check_index()?;
        let looked = names::refuse_tracked(repository, request.looked.as_ref())?;
        if let Some(looked) = &looked {
            say(&SyncMessage::Looked(looked.clone()));
        }
        let Committed { head, parent, seen } = commit::commit(repository, head, looked.as_ref())?;
        self.sole = parent.map(|parent| (parent, head.commit.clone()));
        let settings = repository.settings()?;
        let route = Route::of(repository, settings, &head.branch)?;
        let network = repository
            .git
            .clone()
            .with_batch_ssh(settings.get("core.sshcommand"));
        let known = route.known(repository)?;
        let ssh = network.ssh().map(|ssh| ssh.to_str().map(str::to_owned));
        let url = settings
            .get(&format!("remote.{}.url", route.first().remote))
            .map(masked);
        let branch = head.branch.clone();
        let mut ended = Ok(());
        if request.network == Network::Leave {
            self.measure(repository, &route, head, &known)?;
            ended = refuse_nowhere(repository, &route, &branch);
        } else {
            let conversation = Conversation {
                repository,
                network: &network,
                route: &route,
            };
            ended = conversation.push_or_pull(self, head, known).and(ended);
        }
        self.tell_committers(repository, &route)?;
        if ended.is_ok() && self.report.unpushed.commits == 0 {
            ended = prove(repository, &route, &seen);
        }
        // What waits for a person is told where there is nothing else.
        ended = ended.and_then(|()| kept::refuse(repository));
        // Where the copies are now, the next fetch shows nothing new.
        if let Some(commit) = repository.commit_of(&route.first().tracking)?
            && ssh != Some(None)
        {
            let mut known = UpstreamFacts::of(route.first(), commit, ssh.flatten(), url);
            for place in route.others() {
                known.add(place, repository.commit_of(&place.tracking)?);
            }
            self.upstream = Some(known);
        }
        ended
    }

    /// Tells the agent who has committed what came to the remote since the last sync. Where nothing came but the commit
    /// of this sync, no git is asked.
    fn tell_committers(&self, repository: &Repository, route: &Route) -> Result<(), SyncStop> {
        let request = &repository.request;
        let Some(tip) = repository.commit_of(&route.first().tracking)? else {
            return Ok(());
        };
        let known = request.known.as_ref();
        let known = known.and_then(|known| known.upstream.as_ref());
        let before = known.map(|upstream| upstream.commit.as_str());
        let is_ours = |(parent, new): &(String, String)| *new == tip && before == Some(parent);
        let is_known = before == Some(&tip) || self.sole.as_ref().is_some_and(is_ours);
        if !request.is_once && !is_known {
            let committers = upstream::committers(&repository.git, &tip, before);
            say(&SyncMessage::Committers(committers));
        }
        Ok(())
    }

    fn measure(
        &mut self,
        repository: &Repository,
        route: &Route,
        head: BranchHead,
        tips: &Tips,
    ) -> Result<Distance, SyncStop> {
        let sole = self.sole.as_ref().filter(|(_, new)| head.commit == *new);
        let parent = sole.map(|(parent, _)| parent.as_str());
        let distance = route.distance(&repository.git, head, tips, parent)?;
        self.is_measured = true;
        (self.report.unpushed, self.report.behind) = (distance.unpushed(), distance.behind);
        Ok(distance)
    }
}

/// Refuses where the branch has no place.
fn refuse_nowhere(repository: &Repository, route: &Route, branch: &str) -> Result<(), SyncStop> {
    match &route.place {
        Ok(_) => Ok(()),
        Err(no) => Err(no.stop(repository, branch)),
    }
}

/// Proves that the files here are at each place, byte for byte.
fn prove(repository: &Repository, route: &Route, seen: &CommitSeen) -> Result<(), SyncStop> {
    let mut proved = Vec::new();
    for place in route.places() {
        let Some(commit) = repository.commit_of(&place.tracking)? else {
            continue;
        };
        if proved.contains(&commit) {
            continue;
        }
        let claim = PlaceClaim {
            commit: &commit,
            name: place.name(),
            remote: &place.remote,
            seen,
        };
        truth::prove(repository, &claim)?;
        proved.push(commit);
    }
    Ok(())
}

/// A sync's talk with the remotes.
struct Conversation<'a> {
    repository: &'a Repository,
    /// git for the network.
    network: &'a beadlock_repository::Git,
    route: &'a Route,
}

/// Why a push was rejected, and where the remotes were then, as far as was known here.
struct Rejection {
    tips: Tips,
    why: String,
    took: Duration,
}

/// A push that a remote or a hook has refused.
struct Refusal {
    commit: String,
    stop: SyncStop,
}

impl Conversation<'_> {
    /// Pushes what is ahead. Fetches and pulls first when that is due, or when a remote has something else; and
    /// pushes once more. `known` is where the copies are.
    fn push_or_pull(
        &self,
        findings: &mut Findings,
        mut head: BranchHead,
        known: Tips,
    ) -> Result<(), SyncStop> {
        let repository = self.repository;
        let mut is_fetch_due = repository.request.is_fetch_due() || !known.are_complete();
        let (mut rejected, mut refused) = (None::<Rejection>, None::<Refusal>);
        if known.are_complete() {
            let distance = findings.measure(repository, self.route, head.clone(), &known)?;
            // A remote that did not answer the last time is asked once, not twice. It may be one of two.
            let is_out =
                repository.request.network == Network::UseQuietly && !self.route.follows_another();
            let is_ahead = distance.is_ahead() && distance.behind == 0 && !is_out;
            match self.refuse(&distance, &known, is_ahead) {
                Ok(()) if is_ahead => match self.push(findings, &distance)? {
                    // Of an upstream that is not the place it tells nothing.
                    Pushed::Done if is_fetch_due && self.route.follows_another() => {}
                    Pushed::Done => return Ok(()),
                    // Somebody was faster, and this clone does not know it yet.
                    Pushed::Rejected { why, took } => {
                        let tips = known.clone();
                        rejected = Some(Rejection { tips, why, took });
                        is_fetch_due = true;
                    }
                    Pushed::Refused(stop, output) => {
                        output.show();
                        if !is_fetch_due {
                            return Err(stop);
                        }
                        let commit = head.commit.clone();
                        refused = Some(Refusal { commit, stop });
                    }
                    Pushed::Failed(stop, output) if output.timed_out => return Err(stop),
                    // The fetch tells whether the remote can be reached, and brings what is there.
                    Pushed::Failed(..) => is_fetch_due = true,
                },
                Err(stop) if !is_fetch_due && distance.behind == 0 => return Err(stop),
                _ if !is_fetch_due && distance.behind == 0 => return Ok(()),
                _ => {}
            }
        }
        let (mut rounds, mut pauses, mut has_waited) = (0, WHILE_LOCKED.iter(), false);
        while rounds < 2 {
            let mut fetched = match is_fetch_due {
                true => self.route.fetch(repository, self.network, &known)?,
                false => Fetched::known(&known),
            };
            let tips = fetched.tips;
            is_fetch_due = true;
            if let Some(rejected) = &rejected
                && rejected.tips == tips
            {
                if !has_waited {
                    self.wait_out(rejected, fetched.missing.take(), &mut pauses)?;
                    has_waited = true;
                    continue;
                }
            } else {
                rounds += 1;
            }
            has_waited = false;
            let distance = self.pull(findings, head, &tips)?;
            // What did not answer the last time is not asked for a push, too. Another URL may take it.
            let is_out = repository.request.network == Network::UseQuietly && !fetched.has_place;
            match fetched.missing {
                Some(missing) if is_out || !distance.is_ahead() => return Err(missing),
                _ => self.refuse(&distance, &tips, distance.is_ahead())?,
            }
            if !distance.is_ahead() {
                return Ok(());
            }
            if let Some(refused) = refused.take_if(|it| it.commit == distance.head.commit) {
                return Err(refused.stop);
            }
            match self.push(findings, &distance)? {
                Pushed::Done => return Ok(()),
                Pushed::Rejected { why, took } => rejected = Some(Rejection { tips, why, took }),
                Pushed::Refused(stop, output) | Pushed::Failed(stop, output) => {
                    output.show();
                    return Err(stop);
                }
            }
            head = distance.head;
        }
        Err(self.outrun())
    }

    fn outrun(&self) -> SyncStop {
        let why = format_args!("others were faster at {}, twice", self.route.place_name());
        let (event, kind) = (Event::NotPushing, HindranceKind::NotPushing);
        SyncStop::notice(event, kind, GitReason::Raced, why)
    }

    /// After a push was rejected by a remote that has not moved: waits where another push of the branch may be under
    /// way there, and refuses where it takes its time.
    fn wait_out<'a>(
        &self,
        rejected: &Rejection,
        missing: Option<SyncStop>,
        pauses: &mut impl Iterator<Item = &'a Duration>,
    ) -> Result<(), SyncStop> {
        // It may say why: the branch is gone there.
        if let Some(missing) = missing {
            return Err(missing);
        }
        if push::is_locked(&rejected.why)
            && rejected.took < SHORT_PUSH
            && let Some(pause) = pauses.next()
        {
            thread::sleep(*pause);
            return Ok(());
        }
        let at = self.route.places().next().unwrap_or(self.route.first());
        Err(at.stop(Event::PushRefused, &rejected.why))
    }

    /// Refuses to push: the branch has no place, or commits that are not ours.
    fn refuse(&self, distance: &Distance, tips: &Tips, is_ahead: bool) -> Result<(), SyncStop> {
        refuse_nowhere(self.repository, self.route, &distance.head.branch)?;
        match is_ahead {
            true => {
                push::refuse_absent(self.repository, self.route, distance, tips)?;
                push::refuse_foreign(self.repository, distance, tips)
            }
            false => Ok(()),
        }
    }

    /// Brings here what the upstream and the place have. Returns how far the branch is from them then.
    fn pull(
        &self,
        findings: &mut Findings,
        head: BranchHead,
        tips: &Tips,
    ) -> Result<Distance, SyncStop> {
        let Self {
            repository, route, ..
        } = self;
        let mut measure = |head: BranchHead| findings.measure(repository, route, head, tips);
        let mut distance = measure(head)?;
        if distance.ahead > 0 {
            for (at, tip) in route.found(tips) {
                let mut there = distance.clone();
                there.upstream = Some(tip.to_owned());
                let known = route.misleading(&distance);
                pull::refuse_rewritten(repository, at, &there, &known)?;
            }
        }
        if distance.behind > 0 {
            let turn = begin(repository)?;
            // Another database's sync may have had its turn meanwhile.
            distance = measure(repository.head_of(&distance.head.branch)?)?;
            if distance.behind > 0 {
                let (from, onto) = route.onto(repository, &distance.head, tips)?;
                distance.upstream = Some(onto);
                let sources: Vec<_> = route.found(tips).collect();
                let pulled = pull::pull(&turn, &from, &distance, &sources)?;
                distance = measure(pulled.head)?;
                findings.is_to_be_committed |= pulled.is_to_be_committed;
            }
        }
        Ok(distance)
    }

    fn push(&self, findings: &mut Findings, distance: &Distance) -> Result<Pushed, SyncStop> {
        let pushed = push::push(self.repository, self.network, self.route, distance)?;
        if matches!(pushed, Pushed::Done) {
            (findings.report.unpushed, findings.report.has_pushed) = (Unpushed::default(), true);
        }
        Ok(pushed)
    }
}
