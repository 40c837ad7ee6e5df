//! Pushes the commits ahead to the place, when all of them are ours to push.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use beadlock_base::secrets::masked;

use crate::route::{Route, Tips};
use crate::signing::{self, Quiet};
use crate::{Event, Part, escaped, held, join, to_type};
use beadlock_repository::upstream::tell_refusal;
use beadlock_repository::{
    Asking, Distance, Git, GitOutput, GitReason, HindranceKind, Repository, SyncMessage, SyncStop,
    Upstream, counted, hooks, say, short,
};

pub(crate) enum Pushed {
    /// The place has all commits of the branch.
    Done,
    /// Somebody else has pushed meanwhile, or is about to, as far as the remote's words say.
    Rejected { why: String, took: Duration },
    /// The remote or a hook has refused the push, or it could not be signed; with the output of git.
    Refused(SyncStop, GitOutput),
    /// The push has failed for another cause; with the output of git.
    Failed(SyncStop, GitOutput),
}

/// How much is kept of what a remote or a hook says, in characters.
const WORDS: usize = 400;
/// How much is shown of a commit's subject, in characters.
const SUBJECT: usize = 60;

/// Pushes, from a branch that is not behind. Returns how it went.
pub(crate) fn push(
    repository: &Repository,
    network: &Git,
    route: &Route,
    distance: &Distance,
) -> Result<Pushed, SyncStop> {
    let place = route.place.as_ref();
    let place = place.map_err(|no| no.stop(repository, &distance.head.branch))?;
    let commit = &distance.head.commit;
    // This very commit: what comes onto the branch now was not looked at.
    let what = format!("{commit}:{}", place.branch);
    let options = [
        "--porcelain",
        "--no-follow-tags",
        "--recurse-submodules=no",
        "--no-force",
    ];
    // The remote must be where it was when the commits were looked at: nothing that it has given up comes back. Where
    // the URLs of a push have different commits, git takes one lease for all: then each goes forward, or not at all.
    let known = match distance.places.split_first() {
        Some((Some(first), rest)) if rest.iter().all(|it| it.as_ref() == Some(first)) => {
            Some(first)
        }
        _ => None,
    };
    let lease = known.map(|known| format!("--force-with-lease={}:{known}", place.branch));
    let options = options.into_iter().chain(lease.as_deref());
    let quiet = signing::of_pushes(repository)?;
    let args = ["push"].into_iter().chain(options);
    let args = args.chain([place.remote.as_str(), &what]);
    let before = quiet.iter().flat_map(Quiet::settings);
    let mut call = network.call(before.chain(args.map(OsString::from)));
    if quiet.is_some() {
        call = Quiet::in_environment(call);
    }
    say(&SyncMessage::Asks(Asking::Push));
    let call = call
        .within(repository.request.for_the_network())
        .of_strangers();
    let begun = Instant::now();
    let answer = match hooks::may_be_there(repository, "pre-push")? {
        true => hooks::timed("pre-push", || call.run())?,
        false => call.run()?,
    };
    if !answer.status.success() {
        tell_refusal(&answer);
        return failed(
            repository,
            network,
            route,
            distance,
            (answer, begun.elapsed()),
        );
    }
    say(&SyncMessage::Reached);
    note(repository, route.places(), commit)?;
    if place.sets_upstream {
        set_upstream(repository, &distance.head.branch, route)?;
    }
    let to = short(commit);
    let range = known.map_or_else(|| to.to_owned(), |known| format!("{}..{to}", short(known)));
    let (ahead, name) = (counted(distance.ahead, "commit"), route.place_name());
    let follows = match route.first().name() {
        first if first == name || !route.follows_another() => String::new(),
        first => format!("; it follows {first}"),
    };
    say(&SyncMessage::Pushed(
        Event::Pushed.line(format_args!("{ahead} to {name} ({range}){follows}")),
    ));
    Ok(Pushed::Done)
}

/// Notes in the refs of our own what the place has now. git notes it in those that it fetches.
fn note<'a>(
    repository: &Repository,
    places: impl Iterator<Item = &'a Upstream>,
    commit: &str,
) -> Result<(), SyncStop> {
    let own = places.filter(|place| place.is_own());
    let lines: Vec<_> = own
        .map(|place| format!("update {} {commit}\n", place.tracking))
        .collect();
    if !lines.is_empty() {
        let logged = [
            "-c",
            "core.logAllRefUpdates=always",
            "update-ref",
            "-m",
            "push (beadlock-agent)",
            "--stdin",
        ];
        repository.git.call(logged).stdin(lines.concat()).done()?;
    }
    Ok(())
}

/// Sets the upstream of the branch, as `git push` does with `push.autoSetupRemote`.
fn set_upstream(repository: &Repository, branch: &str, route: &Route) -> Result<(), SyncStop> {
    let (git, first) = (&repository.git, route.first());
    if !first.is_own() {
        let name = format!("--set-upstream-to={}", first.tracking);
        let args = ["branch", "--quiet", &name, "--", branch];
        if git.call(args).run()?.status.success() {
            return Ok(());
        }
    }
    let set = |name: &str, value: &str| {
        git.call(["config", &format!("branch.{branch}.{name}"), value])
            .done()
            .map(|_| ())
    };
    set("remote", &first.remote)?;
    set("merge", &first.branch)
}

/// Why a push has failed, and at which URL.
fn failed(
    repository: &Repository,
    network: &Git,
    route: &Route,
    distance: &Distance,
    (answer, took): (GitOutput, Duration),
) -> Result<Pushed, SyncStop> {
    let places: Vec<_> = route.places().collect();
    let mut at = route.first();
    if let [first, rest @ ..] = places.as_slice() {
        at = first;
        if !rest.is_empty() && !answer.timed_out {
            // git pushes to one URL after the other. Which of them have it, only they can tell.
            let commit = &distance.head.commit;
            let (mut have, mut others) = (Vec::new(), Vec::new());
            for place in &places {
                match place.look(repository, network)? {
                    Some(Some(there)) if there == *commit => have.push(*place),
                    _ => others.push(*place),
                }
            }
            note(repository, have.into_iter(), commit)?;
            at = others.first().unwrap_or(first);
        }
    }
    let stdout = String::from_utf8_lossy(&answer.stdout).into_owned();
    let is_raced = |why: &&str| why.starts_with("[rejected]") || is_race(why);
    let failures = || {
        stdout
            .lines()
            .filter_map(|line| line.strip_prefix("!\t")?.split('\t').nth(1))
    };
    // What one URL refuses is not tried again because another one was only too slow.
    let why = failures().find(|why| !is_raced(why)).or(failures().next());
    if let Some(why) = why.filter(is_raced) {
        let why = why.to_owned();
        return Ok(Pushed::Rejected { why, took });
    }
    if let Some(why) = why {
        let words = refusal(why, &String::from_utf8_lossy(&answer.stderr));
        let stop = at.stop(Event::PushRefused, &words);
        return Ok(Pushed::Refused(stop.with_words(answer.said()), answer));
    }
    if signing::is_of_push(&answer.said()) {
        let stop = signing::refused_push(repository, &answer);
        return Ok(Pushed::Refused(stop, answer));
    }
    // git has said nothing of the branch at the last of these URLs, and has not failed: a hook has.
    let told = stdout
        .lines()
        .filter(|line| line.starts_with("To "))
        .count();
    let is_hook = answer.status.code() == Some(1) && told < places.len().max(1);
    if is_hook && !answer.timed_out && hooks::may_be_there(repository, "pre-push")? {
        let words = hook_words(&String::from_utf8_lossy(&answer.stderr), &stdout);
        let why = format!("the hook pre-push refuses the push: {words}");
        let kind = HindranceKind::NotPushing;
        let stop = SyncStop::unreachable(
            Event::PushRefused,
            kind,
            GitReason::Hook,
            format_args!("the hook pre-push: {words}"),
            why,
        );
        return Ok(Pushed::Refused(stop, answer));
    }
    let event = match answer.timed_out {
        true => Event::CannotReach,
        false => Event::CannotPush,
    };
    let stop = at
        .stop(event, &answer.last_line())
        .with_words(answer.said());
    Ok(Pushed::Failed(stop, answer))
}

/// A remote's refusal in its own words: `pre-receive: no direct pushes to main`. `status` is git's.
fn refusal(status: &str, stderr: &str) -> String {
    let reason = status
        .strip_prefix("[remote rejected] (")
        .and_then(|it| it.strip_suffix(')'));
    let reason = reason.unwrap_or(status);
    let hook = match reason {
        "hook declined" => "update",
        reason => reason.strip_suffix(" hook declined").unwrap_or(reason),
    };
    let said = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("remote:"));
    let said = said.map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("error: ").unwrap_or(line);
        line.strip_prefix("fatal: ").unwrap_or(line)
    });
    let is_progress = |line: &str| {
        let begins = [
            "Resolving deltas: ",
            "Counting objects: ",
            "Compressing objects: ",
            "Unpacking objects: ",
        ];
        begins.iter().any(|begin| line.starts_with(begin))
    };
    let said: Vec<_> = said
        .filter(|line| !line.is_empty() && !is_progress(line))
        .collect();
    match said.is_empty() {
        true => status.to_owned(),
        false => format!("{hook}: {}", cut(&said.join("; "), WORDS)),
    }
}

/// The last line of what a pre-push hook has said. git's own line comes after it.
fn hook_words(stderr: &str, stdout: &str) -> String {
    let is_said = |line: &&str| !line.is_empty();
    let mut lines = stderr.lines().map(str::trim).filter(is_said).rev().skip(1);
    let last = lines
        .next()
        .or_else(|| stdout.lines().map(str::trim).rfind(is_said));
    match last {
        Some(last) => cut(&escaped(last).to_string(), WORDS),
        None => "it says nothing".to_owned(),
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Refuses to make the branch there, where `git push` would not, or where somebody has deleted it.
pub(crate) fn refuse_absent(
    repository: &Repository,
    route: &Route,
    distance: &Distance,
    tips: &Tips,
) -> Result<(), SyncStop> {
    let Ok(place) = &route.place else {
        return Ok(());
    };
    if !distance.places.contains(&None) {
        return Ok(());
    }
    let branch = &distance.head.branch;
    let name = place
        .branch
        .strip_prefix("refs/heads/")
        .unwrap_or(&place.branch);
    let (remote, name) = (masked(&place.remote), escaped(name));
    let why = match (place.must_be_there, tips.is_deleted(distance)) {
        (true, _) => format!(
            "{remote} has no branch {name}, and git push makes none (push.default is matching)"
        ),
        (false, true) => {
            format!("{remote} has no branch {name} any more: it was deleted or renamed there")
        }
        (false, false) => return Ok(()),
    };
    let stop = SyncStop::notice(
        Event::NotPushing,
        HindranceKind::NotPushing,
        GitReason::NoPlace,
        why,
    );
    let what =
        match place.branch == format!("refs/heads/{branch}") && !branch.starts_with(['-', '+']) {
            true => branch.clone(),
            false => format!("refs/heads/{branch}:{}", place.branch),
        };
    let words = [&place.remote, &what].map(|word| Part::Words(vec![word.into()]));
    let [remote, what] = words;
    let parts = [Part::Path(&repository.git.dir), remote, what];
    Err(stop.next(to_type("git -C {} push {} {}", &parts)))
}

/// Refuses when not all of the commits ahead are ours to push.
pub(crate) fn refuse_foreign(
    repository: &Repository,
    distance: &Distance,
    tips: &Tips,
) -> Result<(), SyncStop> {
    if distance.is_ours {
        return Ok(());
    }
    let mut range = vec![distance.head.commit.clone()];
    range.extend(tips.without());
    let Some((first, commits)) = foreign(repository, &range)? else {
        return held::refuse_ahead(repository, distance);
    };
    let git = &repository.git;
    let show = [
        "rev-list",
        "--no-walk",
        "--no-commit-header",
        "--format=%s",
        &first,
    ];
    let subject = git.text(show)?;
    let subject = cut(&escaped(&subject).to_string(), SUBJECT);
    let more = match commits {
        1 => String::new(),
        commits => format!(" and {} more", commits - 1),
    };
    let count = counted(commits, "commit");
    let are = if commits == 1 { "is" } else { "are" };
    // The words are the contract's (docs/design.md#the-log).
    let words = format!(
        "{count} that {are} not ours: {} {subject}{more}",
        short(&first)
    );
    let stop = SyncStop::notice(
        Event::NotPushing,
        HindranceKind::NotPushing,
        GitReason::ForeignCommits,
        words,
    );
    Err(stop.next(to_type("git -C {} push", &[Part::Path(&git.dir)])))
}

/// The oldest commit of a range that changes something outside databases, or is a merge of a person, and how many such
/// commits there are.
fn foreign(repository: &Repository, range: &[String]) -> Result<Option<(String, u64)>, SyncStop> {
    let git = &repository.git;
    let list = |options: &[&str]| {
        let args = ["rev-list", "--reverse", "--topo-order"]
            .iter()
            .chain(options);
        git.call(args).paths(range)
    };
    let all = list(&["--parents"]).text()?;
    let mut others = BTreeSet::new();
    if let Some(outside) = repository.outside() {
        let call = list(&["--no-merges", "--full-history"])
            .paths(["--"])
            .paths(outside);
        others = call.text()?.lines().map(str::to_owned).collect();
    }
    let (mut first, mut count) = (None, 0);
    for line in all.lines() {
        let mut words = line.split(' ');
        let commit = words.next().unwrap_or_default();
        let is_merge = words.count() > 1;
        if others.contains(commit) || (is_merge && !join::is_join(repository, commit)?) {
            first.get_or_insert_with(|| commit.to_owned());
            count += 1;
        }
    }
    Ok(first.map(|first| (first, count)))
}

/// Whether a remote says that its branch has moved while it took the commits in. It says the same when it cannot write.
fn is_race(why: &str) -> bool {
    let words = ["incorrect old value", "fetch first"];
    is_locked(why) || words.iter().any(|words| why.contains(words))
}

/// Whether a remote says that it cannot change its branch: another push may have it locked.
pub(crate) fn is_locked(why: &str) -> bool {
    let words = ["failed to update ref", "cannot lock ref"];
    words.iter().any(|words| why.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_in_the_words_of_the_remote() {
        let stderr = "remote: Resolving deltas: 100% (1/1)\nremote: \nremote: no direct pushes to main        \n\
            To /r.git\nerror: failed to push some refs to '/r.git'\n";
        for (status, expected) in [
            (
                "[remote rejected] (pre-receive hook declined)",
                "pre-receive: no direct pushes to main",
            ),
            (
                "[remote rejected] (hook declined)",
                "update: no direct pushes to main",
            ),
            (
                "[remote rejected] (protected branch hook declined)",
                "protected branch: no direct pushes to main",
            ),
            (
                "[remote rejected] (unpacker error)",
                "unpacker error: no direct pushes to main",
            ),
        ] {
            assert_eq!(refusal(status, stderr), expected);
        }
        let silent = "[remote rejected] (hook declined)";
        assert_eq!(refusal(silent, "error: failed to push some refs\n"), silent);
        let fsck = "remote: error: object 1234: hasDotgit: contains '.git'\nremote: fatal: fsck error in packed object\n";
        assert_eq!(
            refusal("[remote rejected] (unpacker error)", fsck),
            "unpacker error: object 1234: hasDotgit: contains '.git'; fsck error in packed object"
        );
        let long = format!("remote: {}\n", "é".repeat(500));
        assert_eq!(
            refusal(silent, &long).chars().count(),
            "update: ".len() + WORDS + 1
        );
    }

    #[test]
    fn a_hook_has_the_last_word_before_git() {
        let git = "error: failed to push some refs to '/r.git'\n";
        assert_eq!(hook_words(&format!("one\ntwo\n\n{git}"), "out\n"), "two");
        assert_eq!(hook_words(git, "To say\nout\n"), "out");
        assert_eq!(hook_words(git, ""), "it says nothing");
    }
}
