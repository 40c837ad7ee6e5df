//! What is ahead goes to the upstream, when all of it is ours to push.

use crate::{
    Distance, Event, Git, GitOutput, GitReason, HindranceKind, Repository, Stop, SyncMessage,
    Upstream, counted, foreign, say, short,
};

pub(crate) enum Pushed {
    /// The remote has it all.
    Done,
    /// Somebody else has pushed meanwhile, as far as the remote's words say.
    Rejected(String),
    /// It could not be pushed, or must not be, and what git has said.
    Failed(Stop, GitOutput),
}

/// Pushes, from a branch that is not behind.
pub(crate) fn push(
    repository: &Repository,
    network: &Git,
    upstream: &Upstream,
    distance: &Distance,
) -> Result<Pushed, Stop> {
    let (known, commit) = (distance.upstream.as_deref(), &distance.head.commit);
    // This very commit: what comes onto the branch now was not looked at.
    let what = format!("{commit}:{}", upstream.branch);
    let options = [
        "--porcelain",
        "--no-signed",
        "--no-follow-tags",
        "--recurse-submodules=no",
        "--no-force",
    ];
    // The remote must be where it was when the commits were looked at: nothing that it has given up comes back.
    let lease = known.map(|known| format!("--force-with-lease={}:{known}", upstream.branch));
    let options = options.into_iter().chain(lease.as_deref());
    let args = ["push"]
        .into_iter()
        .chain(options)
        .chain([upstream.remote.as_str(), &what]);
    let answer = network
        .call(args)
        .within(repository.request.for_the_network())
        .run()?;
    if answer.status.success() {
        say(&SyncMessage::Reached);
        let to = short(commit);
        let range = known.map_or_else(|| to.to_owned(), |known| format!("{}..{to}", short(known)));
        let (ahead, name) = (counted(distance.ahead, "commit"), upstream.name());
        say(&SyncMessage::Pushed(
            Event::Pushed.line(format_args!("{ahead} to {name} ({range})")),
        ));
        return Ok(Pushed::Done);
    }
    let stdout = String::from_utf8_lossy(&answer.stdout);
    let why = stdout
        .lines()
        .find_map(|line| line.strip_prefix("!\t")?.split('\t').nth(1));
    if let Some(why) = why.filter(|why| why.starts_with("[rejected]") || is_race(why)) {
        return Ok(Pushed::Rejected(why.to_owned()));
    }
    let stop = match why {
        Some(why) => upstream.stop(Event::PushRefused, why),
        None if answer.timed_out => upstream.stop(Event::CannotReach, &answer.last_line()),
        None => upstream.stop(Event::CannotPush, &answer.last_line()),
    }
    .with_words(answer.said());
    Ok(Pushed::Failed(stop, answer))
}

/// Refuses when not all of the commits ahead are ours to push.
pub(crate) fn refuse_foreign(repository: &Repository, distance: &Distance) -> Result<(), Stop> {
    if distance.is_ours {
        return Ok(());
    }
    let commit = &distance.head.commit;
    let range = distance
        .upstream
        .as_ref()
        .map_or_else(|| commit.clone(), |known| format!("{known}..{commit}"));
    let commits = foreign(repository, &range)?;
    if commits == 0 {
        return Ok(());
    }
    // The words are the contract's (docs/design.md#the-log).
    let words = format_args!("{commits} commits that are not ours");
    let stop = Stop::notice(
        Event::NotPushing,
        HindranceKind::NotPushing,
        GitReason::ForeignCommits,
        words,
    );
    let (commits, are) = (
        counted(commits, "commit"),
        if commits == 1 { "is" } else { "are" },
    );
    Err(stop.because(format!("the branch has {commits} that {are} not ours")))
}

/// What a remote says whose branch has moved while it took the commits in. It says the same when it cannot write.
fn is_race(why: &str) -> bool {
    [
        "failed to update ref",
        "cannot lock ref",
        "incorrect old value",
        "fetch first",
    ]
    .iter()
    .any(|words| why.contains(words))
}
