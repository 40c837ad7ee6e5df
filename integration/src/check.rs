//! `beadlock check`: what a daemon does at the start of a cycle. It may remove a stale lock (docs/design.md#looking).

use std::ffi::OsString;

use beadlock_checker::internal::{Gates, look};
use beadlock_checker::{Decision, Options, Reason, Skip, check};
use clap::Args;
use serde_json::json;

use crate::error::{Code, Error, Exit};
use crate::explain::checked::{Checked, message_line};
use crate::file::{self, FileTarget};
use crate::memory::options::Ages;
use crate::output::answers::{Answers, each};
use crate::output::envelope::Request;
use crate::output::talk::Talk;
use crate::output::trail::Trail;
use crate::settings::audit;
use crate::settings::environment::Environment;
use crate::target::{Found, unresolved};

/// `beadlock check [TARGET…]`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The databases' directories, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH
    pub targets: Vec<OsString>,
    /// Remove nothing; say what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Name every witness, and what to type next
    #[arg(long)]
    pub explain: bool,
    /// Remove a lock also when its holder is proved dead by more than its PID: of a database, or lock:PATH
    #[arg(long)]
    pub reap_proven_dead: bool,
    #[command(flatten)]
    pub ages: Ages,
}

/// Checks every target; one that cannot be answered does not stop the others.
pub fn run(typed: &CheckArgs, environment: &Environment, talk: &Talk, request: &Request) -> Answers {
    let options =
        Options { reap_proven_dead: typed.reap_proven_dead, dry_run: typed.dry_run, ..Options::default() };
    let mut answers = Answers::default();
    for target in each(&typed.targets) {
        match FileTarget::meant(target.map(OsString::as_os_str), environment) {
            Ok(None) => {}
            Ok(Some(file)) => {
                of_file(file, typed, talk, &mut answers);
                continue;
            }
            Err(error) => {
                failed(error, target, typed, environment, &mut answers);
                continue;
            }
        }
        match checked(target, &options, &typed.ages, environment, (talk, request)) {
            Ok(checked) => {
                answers.exits.push(checked.exit());
                answers.data.push(checked.json(typed.explain));
                answers.text.push_str(&checked.text(typed.explain, typed.targets.len() > 1));
            }
            Err(error) => failed(error, target, typed, environment, &mut answers),
        }
    }
    answers
}

/// A target that could not be looked up. Where its file system does not answer, that is an answer: skip, as for a
/// lock that cannot be read.
fn failed(
    error: Error,
    target: Option<&OsString>,
    typed: &CheckArgs,
    environment: &Environment,
    answers: &mut Answers,
) {
    let unresolved = match error.code() {
        Code::LockUnreadable => unresolved(target.map(OsString::as_os_str), environment),
        _ => None,
    };
    let Some(unresolved) = unresolved else { return answers.failed(error) };
    let reason = Reason::Unreadable;
    let detail = format!("failed to read lock file: {error}");
    let decision = Decision::Skip(Skip::CheckFailed { reason, detail, record: None });
    answers.exits.push(Exit::Unreadable);
    let mut row = json!({
        "target": unresolved.name,
        "path": unresolved.path.to_string_lossy(),
        "decision": "skip",
        "verdict": decision.verdict().as_str(),
        "removed": false,
        "holder": null,
        "id": null,
        "reason": decision.reason().as_str(),
        "message": decision.to_string(),
    });
    let next = "look at the file system's server, then check again";
    if typed.explain
        && let Some(fields) = row.as_object_mut()
    {
        fields.insert("witnesses".to_owned(), json!([]));
        fields.insert("lease_unavailable".to_owned(), false.into());
        fields.insert("next".to_owned(), next.into());
    }
    answers.data.push(row);
    answers.text.push_str(&message_line(&decision.to_string(), &unresolved.given, typed.targets.len() > 1));
    if typed.explain {
        answers.text.push_str(&format!("  next: {next}\n"));
    }
}

/// Whether a file is locked: there is nothing to remove.
fn of_file(target: FileTarget, typed: &CheckArgs, talk: &Talk, answers: &mut Answers) {
    if typed.reap_proven_dead {
        say_nothing_to_reap(&target.given(), file::options::NOTHING_TO_REAP, talk);
    }
    if let Err(error) = typed.ages.refuse_for(&target.given()) {
        return answers.failed(error);
    }
    let look = file::Look::at(target, &Gates::now());
    answers.exits.push(look.exit());
    answers.data.push(look.checked(typed.explain));
    answers.text.push_str(&message_line(&look.message(), &look.target.given(), typed.targets.len() > 1));
    if typed.explain {
        answers.text.push_str(&look.below());
    }
}

/// `--reap-proven-dead` is for all the targets of a command line, and does nothing for this one: no reason not to
/// answer, but whoever types an option believes that it does something.
fn say_nothing_to_reap(target: &str, why: &str, talk: &Talk) {
    talk.note(&format!("--reap-proven-dead means nothing to {target}; {why}"));
}

/// Looks, then checks.
fn checked(
    target: Option<&OsString>,
    options: &Options,
    ages: &Ages,
    environment: &Environment,
    (talk, request): (&Talk, &Request),
) -> Result<Checked, Error> {
    let target = Found::to_look_at(target.map(OsString::as_os_str), environment, talk)?;
    target.refuse_tracked()?;
    let options = &Options { limits: ages.for_target(&target)?, ..*options };
    target.warn(talk);
    if let Some(why) = target.nothing_to_reap().filter(|_| options.reap_proven_dead) {
        say_nothing_to_reap(&target.given, why, talk);
    }
    let trail = Trail::open(audit(None, environment).as_deref(), None, target.for_trail(), request, talk)?;
    let before = look(&target.place, options);
    let decision = check(&target.place, options);
    if let Some(removed) = decision.removed() {
        trail.removed(removed);
    }
    Ok(Checked { target, before, decision, limits: options.limits })
}
