//! `beadlock check`: what a daemon does at the start of a cycle. It may remove a stale lock (docs/design.md#looking).

use std::ffi::{OsStr, OsString};

use beadlock_core::{Decision, Options, Skip, check};
use beadlock_core::{decision::NotChecked, gate_holders::GateHolders, look::look};
use clap::Args;
use serde_json::Value;

use crate::settings::audit;
use crate::targets::{LookArgs, ignores};
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::protocol::rules::ProtocolKind;
use beadlock_claim::protocol::{Acceptance, resolve, unresolved};
use beadlock_claim::report::{CHECK, Report};
use beadlock_console::{
    Console,
    answers::{Answers, each},
};
use beadlock_explain::{
    checked::{Checked, message},
    lines,
    observed::Observed,
};

const EXAMPLES: &str = "\
Examples:
  beadlock check .beads && ./my-sync.sh
  beadlock check --dry-run --explain";

const EXITS: &str = "\
A check may remove a stale lock, but never one of tower:NAME. To run the work itself, use beadlock cycle: it keeps \
claims away until the work has ended.

Exit codes:
  0  the targets are free
  1  beadlock failed
  2  the command line is wrong
  4  a target is held or busy: do not touch it
  5  a lock could not be checked: do not touch the target";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct CheckArgs {
    /// The databases' directories, [beads:]DIR, dir:PATH, lock:PATH, tower:NAME, memory:DIR, file:PATH, or flock:PATH
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
pub fn run(typed: &CheckArgs, environment: &Environment, common: &Console) -> Answers {
    let mut answers = Answers::default();
    for target in each(&typed.targets) {
        let answer = answer(target, typed, environment, common)
            .or_else(|error| unanswered(error, target, typed, environment));
        match answer {
            Ok((exit, data, text)) => answers.add(exit, data, &text),
            Err(error) => answers.failed(error),
        }
    }
    answers
}

/// The exit, the row and the text of one target.
fn answer(
    target: Option<&OsStr>,
    typed: &CheckArgs,
    environment: &Environment,
    common: &Console,
) -> Result<(Exit, Value, String), Error> {
    let talk = &common.talk;
    let target = resolve(target, environment, Acceptance::ToLookAt(talk))?;
    let options = Options {
        reap_proven_dead: typed.reap_proven_dead,
        dry_run: typed.dry_run,
        ..Options::default()
    };
    let options = typed.protocol.look().of(&target, options)?;
    if let Some(why) =
        ignores(target.scheme, "--reap-proven-dead").filter(|_| options.reap_proven_dead)
    {
        // It is for all the targets of a command line: no reason not to answer.
        talk.note(&format!(
            "--reap-proven-dead means nothing to {}; {why}",
            target.given
        ));
    }
    let (explain, is_one_of_many) = (typed.explain, typed.targets.len() > 1);
    if let ProtocolKind::Kernel(kernel) = target.rules().kind {
        let observed = Observed::of(target, kernel, &GateHolders::now());
        let report = observed.checked(explain);
        let text = observed.checked_text(&report, is_one_of_many);
        return Ok((observed.exit(), report.json(CHECK), text));
    }
    target.refuse_tracked()?;
    target.warn(talk);
    let audit = audit(None, environment);
    let trail = target.trail(audit.as_deref(), (None, None), &common.request, talk)?;
    let before = look(&target.place, &options);
    let decision = check(&target.place, &options);
    if let Some(removed) = decision.removed() {
        trail.removed(removed);
    }
    let checked = Checked {
        target,
        before,
        decision,
        options,
    };
    let report = checked.report(explain);
    let text = checked.text(&report, is_one_of_many);
    Ok((checked.exit(), report.json(CHECK), text))
}

/// A target that could not be looked up. A file system that does not answer is an answer: skip, as for a lock that
/// cannot be read.
fn unanswered(
    error: Error,
    target: Option<&OsStr>,
    typed: &CheckArgs,
    environment: &Environment,
) -> Result<(Exit, Value, String), Error> {
    if error.code() != Code::LockUnreadable {
        return Err(error);
    }
    let Some(unresolved) = unresolved(target, environment) else {
        return Err(error);
    };
    let decision = Decision::from(Skip::from(NotChecked::Unanswered(error.to_string())));
    let next = "look at the file system's server, then check again";
    let report = Report {
        skips: true,
        verdict: Some(decision.verdict()),
        reason: Some(decision.reason()),
        message: message(&decision, unresolved.speaks_of_databases),
        witnesses: typed.explain.then(Vec::new),
        lease_unavailable: typed.explain.then_some(false),
        next: typed.explain.then(|| next.to_owned()),
        ..Report::at(unresolved.name, unresolved.path)
    };
    let text = lines::checked(&report, &unresolved.given, typed.targets.len() > 1);
    Ok((Exit::Unreadable, report.json(CHECK), text))
}
