//! One sync: its steps, and what it finds out on the way.

use crate::commit::Committed;
use crate::secrets::masked;
use crate::{
    BranchHead, Distance, Event, GitReason, HindranceKind, KnownRepository, KnownUpstream, Network,
    Pushed, Repository, Stop, SyncMessage, SyncReport, SyncRequest, Unpushed, Upstream, begin,
    commit, exclude, names, pull, push, say, turn, upstream,
};

/// What a sync has found out so far.
#[derive(Debug, Default)]
struct Findings {
    report: SyncReport,
    is_measured: bool,
    head: Option<BranchHead>,
    upstream: Option<KnownUpstream>,
    /// The one commit that was made, after its parent.
    sole: Option<(String, String)>,
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
    if ended.as_ref().is_err_and(Stop::is_moved) {
        ended = sync(&request, &mut findings);
    }
    findings.report.hindrance = ended.err().map(Stop::say);
    say(&SyncMessage::Report(findings.report));
}

/// Fetches into a repository in which nothing has changed. Returns true when the remote has brought nothing either.
fn only_fetch(request: &SyncRequest, known: &KnownRepository) -> Result<bool, Stop> {
    let Some(upstream) = &known.upstream else {
        return Ok(false);
    };
    let repository = Repository::known(request, known)?;
    let git = repository
        .git
        .clone()
        .with_ssh(upstream.ssh.as_ref().map(Into::into));
    let commit = Upstream::known(upstream).fetch(&repository, &git)?;
    Ok(commit.as_deref() == Some(&upstream.commit))
}

fn sync(request: &SyncRequest, findings: &mut Findings) -> Result<(), Stop> {
    let repository = match Repository::of(request) {
        Ok(repository) => repository,
        Err(stop) => {
            let nowhere =
                KnownRepository::nowhere(&request.dir).filter(|_| stop.is_without_repository());
            nowhere
                .into_iter()
                .for_each(|known| say(&SyncMessage::Found(Box::new(known))));
            return Err(stop);
        }
    };
    exclude::write(&repository);
    let ended = findings.sync(&repository);
    if ended.is_err() && !findings.is_measured {
        let report = &mut findings.report;
        (report.unpushed, report.behind) = upstream::waiting(&repository);
    }
    let known = KnownRepository::of(
        &repository,
        findings.head.as_ref(),
        findings.upstream.take(),
    );
    known
        .into_iter()
        .for_each(|known| say(&SyncMessage::Found(Box::new(known))));
    ended
}

impl Findings {
    fn sync(&mut self, repository: &Repository) -> Result<(), Stop> {
        let request = &repository.request;
        if turn::is_left(repository) {
            drop(begin(repository)?);
        }
        repository.check_quiet()?;
        let head = repository.head()?;
        self.head = Some(head.clone());
        repository.check_index()?;
        let looked = names::refuse_tracked(repository, request.looked.as_ref())?;
        if let Some(looked) = &looked {
            say(&SyncMessage::Looked(looked.clone()));
        }
        let Committed { head, parent } = commit::commit(repository, head, looked.as_ref())?;
        self.sole = parent.map(|parent| (parent, head.commit.clone()));
        let settings = repository.settings()?;
        let upstream = Upstream::of(repository, settings, &head)?;
        let network = repository
            .git
            .clone()
            .with_batch_ssh(settings.get("core.sshcommand"));
        let known = repository.commit_of(&upstream.tracking)?;
        let ssh = network.ssh().map(|ssh| ssh.to_str().map(str::to_owned));
        let url = settings
            .get(&format!("remote.{}.url", upstream.remote))
            .map(masked);
        let mut ended = Ok(());
        if request.network == Network::Leave {
            self.measure(repository, &upstream, head, known)?;
        } else {
            let conversation = Conversation {
                repository,
                network: &network,
                upstream: &upstream,
            };
            ended = conversation.exchange(self, head, known);
        }
        // Where the tracking branch is now, the next fetch shows nothing new.
        if let Some(commit) = repository.commit_of(&upstream.tracking)?
            && ssh != Some(None)
        {
            self.upstream = Some(KnownUpstream::of(&upstream, commit, ssh.flatten(), url));
        }
        ended
    }

    fn measure(
        &mut self,
        repository: &Repository,
        upstream: &Upstream,
        head: BranchHead,
        commit: Option<String>,
    ) -> Result<Distance, Stop> {
        let is_sole = |(parent, new): &(String, String)| {
            commit.as_ref() == Some(parent) && head.commit == *new
        };
        let distance = match self.sole.as_ref().is_some_and(is_sole) {
            true => Distance::of_one(head, commit),
            false => upstream.distance(&repository.git, head, commit)?,
        };
        self.is_measured = true;
        (self.report.unpushed, self.report.behind) = (distance.unpushed(), distance.behind);
        Ok(distance)
    }
}

/// A sync's talk with the remote.
struct Conversation<'a> {
    repository: &'a Repository,
    /// git for the network.
    network: &'a crate::Git,
    upstream: &'a Upstream,
}

/// Why a push was rejected, and where the upstream was then, as far as was known here.
struct Rejection {
    upstream: Option<String>,
    why: String,
}

impl Conversation<'_> {
    /// Pushes what is ahead. Fetches and pulls first when that is due, or when the remote has something else; and
    /// pushes once more. `known` is where the tracking branch is.
    fn exchange(
        &self,
        findings: &mut Findings,
        mut head: BranchHead,
        known: Option<String>,
    ) -> Result<(), Stop> {
        let Self {
            repository,
            upstream,
            ..
        } = self;
        let mut is_fetch_due = repository.request.is_fetch_due() || known.is_none();
        let mut rejected: Option<Rejection> = None;
        if known.is_some() {
            let distance = findings.measure(repository, upstream, head.clone(), known.clone())?;
            // A remote that did not answer the last time is asked once, not twice.
            let is_ahead = distance.ahead > 0
                && distance.behind == 0
                && repository.request.network != Network::UseQuietly;
            match if is_ahead {
                push::refuse_foreign(repository, &distance)
            } else {
                Ok(())
            } {
                Ok(()) if is_ahead => match self.push(findings, &distance)? {
                    Pushed::Done => return Ok(()),
                    // Somebody was faster, and this clone does not know it yet.
                    Pushed::Rejected(why) => {
                        (rejected, is_fetch_due) = (
                            Some(Rejection {
                                upstream: known.clone(),
                                why,
                            }),
                            true,
                        );
                    }
                    Pushed::Failed(stop, output) if output.timed_out => return Err(stop),
                    // The fetch tells whether the remote can be reached, and brings what is there.
                    Pushed::Failed(..) => is_fetch_due = true,
                },
                Err(stop) if !is_fetch_due => return Err(stop),
                _ if !is_fetch_due && distance.behind == 0 => return Ok(()),
                _ => {}
            }
        }
        for _ in 0..2 {
            let commit = if is_fetch_due {
                upstream.fetch(repository, self.network)?
            } else {
                known.clone()
            };
            is_fetch_due = true;
            if let Some(rejected) = &rejected
                && rejected.upstream == commit
            {
                return Err(upstream.stop(Event::PushRefused, &rejected.why));
            }
            let distance = self.pull(findings, head, commit)?;
            if distance.ahead == 0 {
                return Ok(());
            }
            push::refuse_foreign(repository, &distance)?;
            match self.push(findings, &distance)? {
                Pushed::Done => return Ok(()),
                Pushed::Rejected(why) => {
                    rejected = Some(Rejection {
                        upstream: distance.upstream,
                        why,
                    })
                }
                Pushed::Failed(stop, output) => {
                    output.show();
                    return Err(stop);
                }
            }
            head = distance.head;
        }
        let why = format_args!("others were faster at {}, twice", upstream.name());
        Err(Stop::notice(
            Event::NotPushing,
            HindranceKind::NotPushing,
            GitReason::Raced,
            why,
        ))
    }

    /// Brings here what the upstream has. Returns how far the branch is from it then.
    fn pull(
        &self,
        findings: &mut Findings,
        head: BranchHead,
        commit: Option<String>,
    ) -> Result<Distance, Stop> {
        let Self {
            repository,
            upstream,
            ..
        } = self;
        let mut measure =
            |head: BranchHead| findings.measure(repository, upstream, head, commit.clone());
        let mut distance = measure(head)?;
        if distance.ahead > 0 && commit.is_some() {
            pull::refuse_rewritten(repository, upstream, &distance)?;
        }
        if distance.behind > 0 {
            let mut turn = begin(repository)?;
            // Another database's sync may have had its turn meanwhile.
            distance = measure(repository.head_of(&distance.head.branch)?)?;
            if distance.behind > 0 {
                distance = measure(pull::pull(&mut turn, upstream, &distance)?)?;
            }
        }
        Ok(distance)
    }

    fn push(&self, findings: &mut Findings, distance: &Distance) -> Result<Pushed, Stop> {
        let pushed = push::push(self.repository, self.network, self.upstream, distance)?;
        if matches!(pushed, Pushed::Done) {
            (findings.report.unpushed, findings.report.has_pushed) = (Unpushed::default(), true);
        }
        Ok(pushed)
    }
}
