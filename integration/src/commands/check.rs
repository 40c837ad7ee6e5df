//! `beadlock check`: what a daemon does at the start of a cycle. It may remove a stale lock (docs/design.md#looking).

use std::ffi::OsString;

use beadlock_checker::internal::{Gates, look};
use beadlock_checker::{Decision, Options, Reason, Skip, check};
use clap::Args;
use serde_json::json;

use crate::claim::target::Target;
use crate::error::{Code, Error, Exit};
use crate::explain::{checked::Checked, checked::message_line, observed::Observed};
use crate::output::{answers::Answers, answers::each, envelope::Request, talk::Talk};
use crate::protocol::{Acceptance, LookArgs, resolve, unresolved};
use crate::settings::{audit, environment::Environment};

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
    pub protocol: LookArgs,
}

/// Checks every target; one that cannot be answered does not stop the others.
pub fn run(typed: &CheckArgs, environment: &Environment, talk: &Talk, request: &Request) -> Answers {
    let options = Options { reap_proven_dead: typed.reap_proven_dead, dry_run: typed.dry_run, ..Options::default() };
    let (mut answers, is_one_of_many) = (Answers::default(), typed.targets.len() > 1);
    for target in each(&typed.targets) {
        let named = target.map(OsString::as_os_str);
        let found = resolve(named, environment, Acceptance::ToLookAt(talk));
        let checked = found.and_then(|found| {
            let options = typed.protocol.options(&found, options)?;
            if let Some(why) = found.protocol.ignores("--reap-proven-dead").filter(|_| options.reap_proven_dead) {
                // It is for all the targets of a command line: no reason not to answer.
                talk.note(&format!("--reap-proven-dead means nothing to {}; {why}", found.given));
            }
            match found.protocol.without_record() {
                Some(kernel) => {
                    let observed = Observed::of(found, kernel, &Gates::now());
                    let text = observed.checked_text(typed.explain, is_one_of_many);
                    Ok((observed.exit(), observed.checked(typed.explain), text))
                }
                None => {
                    let checked = checked(found, options, environment, (talk, request))?;
                    let text = checked.text(typed.explain, is_one_of_many);
                    Ok((checked.exit(), checked.json(typed.explain), text))
                }
            }
        });
        match checked {
            Ok((exit, data, text)) => {
                answers.exits.push(exit);
                answers.data.push(data);
                answers.text.push_str(&text);
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

/// Looks, then checks.
fn checked(
    target: Target,
    options: Options,
    environment: &Environment,
    (talk, request): (&Talk, &Request),
) -> Result<Checked, Error> {
    target.refuse_tracked()?;
    target.warn(talk);
    let trail = target.trail(audit(None, environment).as_deref(), (None, None), request, talk)?;
    let before = look(&target.place, &options);
    let decision = check(&target.place, &options);
    if let Some(removed) = decision.removed() {
        trail.removed(removed);
    }
    Ok(Checked { target, before, decision, options })
}
