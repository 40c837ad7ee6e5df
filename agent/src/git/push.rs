//! What is ahead goes to the upstream, when all of it is ours to push.

use super::{
    Distance, Event, Git, HindranceKind, Repository, Stop, SyncMessage, Upstream, counted, foreign, say, short,
};

#[derive(Debug, PartialEq)]
pub(super) enum Pushed {
    NothingToPush,
    /// The remote has it all.
    Done,
    /// Somebody else has pushed meanwhile, as far as the remote's words say.
    Rejected(String),
}

/// Pushes, from a branch that is not behind.
pub(super) fn push(
    repository: &Repository,
    network: &Git,
    upstream: &Upstream,
    distance: &Distance,
) -> Result<Pushed, Stop> {
    if distance.ahead == 0 {
        return Ok(Pushed::NothingToPush);
    }
    let (known, commit) = (distance.upstream.as_deref(), &distance.head.commit);
    let range = known.map_or_else(|| commit.clone(), |known| format!("{known}..{commit}"));
    let commits = foreign(repository, &range)?;
    if commits > 0 {
        // The words are the contract's (docs/design.md#the-log).
        let words = format_args!("{commits} commits that are not ours");
        let stop = Stop::notice(Event::NotPushing, HindranceKind::NotPushing, "foreign_commits", words);
        let (commits, are) = (counted(commits, "commit"), if commits == 1 { "is" } else { "are" });
        return Err(stop.because(format!("the branch has {commits} that {are} not ours")));
    }
    // This very commit: what comes onto the branch now was not looked at.
    let what = format!("{commit}:{}", upstream.branch);
    let options = ["--porcelain", "--no-signed", "--no-follow-tags", "--recurse-submodules=no", "--no-force"];
    let args = ["push"].into_iter().chain(options).chain([upstream.remote.as_str(), &what]);
    let answer = network.call(args).within(repository.request.for_the_network()).run()?;
    if answer.status.success() {
        let to = short(commit);
        let range = known.map_or_else(|| to.to_owned(), |known| format!("{}..{to}", short(known)));
        let (ahead, name) = (counted(distance.ahead, "commit"), upstream.name());
        say(&SyncMessage::Pushed(Event::Pushed.line(format_args!("{ahead} to {name} ({range})"))));
        return Ok(Pushed::Done);
    }
    let stdout = String::from_utf8_lossy(&answer.stdout);
    let why = stdout.lines().find_map(|line| line.strip_prefix("!\t")?.split('\t').nth(1));
    if let Some(why) = why.filter(|why| why.starts_with("[rejected]") || is_race(why)) {
        return Ok(Pushed::Rejected(why.to_owned()));
    }
    answer.show();
    if let Some(why) = why {
        return Err(upstream.stop(Event::PushRefused, why));
    }
    Err(upstream.stop(Event::CannotPush, &answer.last_line()))
}

/// What a remote says whose branch has moved while it took the commits in. It says the same when it cannot write.
fn is_race(why: &str) -> bool {
    ["failed to update ref", "cannot lock ref", "incorrect old value", "fetch first"]
        .iter()
        .any(|words| why.contains(words))
}
