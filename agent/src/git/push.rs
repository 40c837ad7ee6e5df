//! What is ahead goes to the upstream, when all of it is ours to push.

use std::time::Duration;

use beadlock_checker::internal::log_line::Event;

use super::branch::short;
use super::message::{SyncMessage, say};
use super::program::Git;
use super::repository::{Head, Repository};
use super::stop::{Stop, counted};
use super::upstream::{Distance, Upstream, foreign};

/// What became of it.
#[derive(Debug, PartialEq)]
pub(super) enum Pushed {
    /// The remote has it all, or is not to have it.
    Done,
    /// Somebody else has pushed meanwhile, as far as the remote's words say.
    Rejected { why: String },
}

/// Pushes, from a branch that is not behind.
pub(super) fn push(
    repository: &Repository,
    network: &Git,
    upstream: &Upstream,
    head: &Head,
    distance: &Distance,
    bound: Duration,
) -> Result<Pushed, Stop> {
    if distance.ahead == 0 {
        return Ok(Pushed::Done);
    }
    let known = distance.upstream.as_deref();
    let range = known.map_or_else(|| head.commit.clone(), |known| format!("{known}..{}", head.commit));
    match foreign(repository, &range)? {
        0 => {}
        // The words are the contract's (docs/design.md#the-log).
        commits => {
            say(&SyncMessage::Notice(
                Event::NotPushing.line(format_args!("{commits} commits that are not ours")),
            ));
            return Ok(Pushed::Done);
        }
    }
    // This very commit: whatever comes onto the branch now was not looked at.
    let what = format!("{}:{}", head.commit, upstream.branch);
    let options = ["--porcelain", "--no-signed", "--no-follow-tags", "--recurse-submodules=no", "--no-force"];
    let args = ["push"].into_iter().chain(options).chain([upstream.remote.as_str(), &what]);
    let answer = network.call(args).within(bound).run()?;
    let (ahead, name) = (distance.ahead, upstream.name());
    if answer.status.success() {
        let to = short(&head.commit);
        let range = known.map_or_else(|| to.to_owned(), |known| format!("{}..{to}", short(known)));
        say(&SyncMessage::Pushed(
            Event::Pushed.line(format_args!("{} to {name} ({range})", counted(ahead, "commit"))),
        ));
        return Ok(Pushed::Done);
    }
    let stdout = String::from_utf8_lossy(&answer.stdout);
    match stdout.lines().find_map(|line| line.strip_prefix("!\t")?.split('\t').nth(1)) {
        Some(why) if why.starts_with("[rejected]") || is_race(why) => {
            Ok(Pushed::Rejected { why: why.to_owned() })
        }
        Some(why) => {
            answer.show();
            Err(refused(upstream, why))
        }
        None => {
            answer.show();
            let why = format!("{}: {}", upstream.remote, answer.last_line());
            Err(Stop::Unreachable(Event::CannotPush.line(why)))
        }
    }
}

/// The remote does not take it.
pub(super) fn refused(upstream: &Upstream, why: &str) -> Stop {
    Stop::Unreachable(Event::PushRefused.line(format_args!("{}: {why}", upstream.remote)))
}

/// What a remote says whose branch has moved while it took the commits in; and, alas, when it cannot write.
fn is_race(why: &str) -> bool {
    ["failed to update ref", "cannot lock ref", "incorrect old value", "fetch first"]
        .iter()
        .any(|words| why.contains(words))
}
