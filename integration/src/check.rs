//! `beadlock check`: what a daemon does at the start of a cycle. It may remove a stale lock (DESIGN 8).

use std::ffi::OsString;

use beadlock_checker::dialect::memory::Limits;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::{Decision, Gates, Look, Options, Reason, Skip, Verdict, Watched, check, look};
use clap::Args;
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::envelope::Request;
use crate::environment::Environment;
use crate::exit::Exit;
use crate::failure::{Code, Error};
use crate::file::{self, FileTarget};
use crate::memory::options::Ages;
use crate::next;
use crate::settings::audit;
use crate::talk::Talk;
use crate::target::{Found, unresolved};
use crate::trail::Trail;
use crate::witnesses::Witnesses;

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
    for target in crate::answers::each(&typed.targets) {
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
        match Checked::new(target, &options, &typed.ages, environment, (talk, request)) {
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

/// A target that could not be looked up. Where its file system does not answer, that is an answer: skip, as for a lock that
/// cannot be read.
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

/// `--reap-proven-dead` is for all the targets of a command line, and does nothing for this one: no reason not to answer,
/// but whoever types an option believes that it does something.
fn say_nothing_to_reap(target: &str, why: &str, talk: &Talk) {
    talk.note(&format!("--reap-proven-dead means nothing to {target}; {why}"));
}

/// A log line, with its target's name where there are several; nothing where there is none.
fn message_line(message: &str, target: &str, is_one_of_many: bool) -> String {
    match (message.is_empty(), is_one_of_many) {
        (true, _) => String::new(),
        (false, true) => format!("{target}: {message}\n"),
        (false, false) => format!("{message}\n"),
    }
}

/// A target and what a daemon does about it.
pub(crate) struct Checked {
    pub target: Found,
    /// What was to be seen before: the check itself may have removed it.
    pub before: Look,
    pub decision: Decision,
    /// How old a lock that is judged by its age may be.
    pub limits: Limits,
}

impl Checked {
    fn new(
        target: Option<&OsString>,
        options: &Options,
        ages: &Ages,
        environment: &Environment,
        (talk, request): (&Talk, &Request),
    ) -> Result<Self, Error> {
        let target = Found::to_look_at(target.map(OsString::as_os_str), environment, talk)?;
        target.refuse_tracked()?;
        let options = &Options { limits: ages.for_target(&target)?, ..*options };
        target.warn(talk);
        if let Some(why) = target.nothing_to_reap().filter(|_| options.reap_proven_dead) {
            say_nothing_to_reap(&target.given, why, talk);
        }
        let trail = Trail::open(audit(None, environment).as_deref(), None, &target, request, talk)?;
        let before = look(&target.place, options);
        let decision = check(&target.place, options);
        if let Some(removed) = decision.removed() {
            trail.removed(removed);
        }
        Ok(Self { target, before, decision, limits: options.limits })
    }

    fn exit(&self) -> Exit {
        match (self.decision.verdict(), &self.decision) {
            _ if !self.decision.is_skip() => Exit::Done,
            (Verdict::Held(_), _) | (_, Decision::Skip(Skip::Stale { .. })) => Exit::Conflict,
            _ => Exit::Unreadable,
        }
    }

    /// The id of the lock that the decision is about.
    fn id(&self) -> Option<String> {
        let record = self.decision.record();
        if let Some(id) = record.and_then(|record| record.id()) {
            return Some(id.to_owned());
        }
        if self.decision.verdict() == Verdict::Free {
            return None;
        }
        let of_it = |look: &Look| look.id.clone().filter(|_| look.record.as_ref() == record);
        // What a crash had left aside is back in its place now.
        of_it(&self.before).or_else(|| of_it(&look(&self.target.place, &Options::default())))
    }

    /// The fields of the contract.
    pub fn json(&self, explain: bool) -> Value {
        let mut data = json!({
            "target": self.target.name(),
            "path": self.target.path().to_string_lossy(),
            "decision": if self.decision.is_skip() { "skip" } else { "proceed" },
            "verdict": self.decision.verdict().as_str(),
            "removed": self.decision.removed().is_some(),
            "holder": self.decision.record().map(|record| record.holder()),
            "id": self.id(),
            "reason": self.decision.reason().as_str(),
            "message": self.decision.to_string(),
        });
        if explain && let Some(fields) = data.as_object_mut() {
            fields.insert("witnesses".to_owned(), self.witnesses(&self.before).json());
            fields.insert("lease_unavailable".to_owned(), self.lease_unavailable().into());
            fields.insert("next".to_owned(), self.next().into());
        }
        data
    }

    fn text(&self, explain: bool, is_one_of_many: bool) -> String {
        let mut text = message_line(&self.decision.to_string(), &self.target.given, is_one_of_many);
        if explain {
            let (verdict, reason) = (self.decision.verdict(), self.decision.reason());
            let path = escaped_path(&self.target.path());
            let holder =
                self.decision.record().map(|record| format!(", holder {}", escaped(record.holder())));
            let holder = holder.unwrap_or_default();
            text.push_str(&format!("  {path}: {} ({reason}){holder}\n", verdict.as_str()));
            for line in self.witnesses(&self.before).lines() {
                text.push_str(&format!("  {line}\n"));
            }
            if self.lease_unavailable() {
                text.push_str("  lease_unavailable: the lock was compared before and after instead; two writers at once could lose a claim\n");
            }
            text.push_str(&format!("  next: {}\n", self.next()));
        }
        text
    }

    /// A stale lock was removed without a lease to watch it by (DESIGN 6.7).
    fn lease_unavailable(&self) -> bool {
        self.decision.removed().is_some_and(|removed| removed.watched == Watched::ByComparison)
    }

    /// After the check: what it removed needs nothing any more.
    fn next(&self) -> String {
        let now = look(&self.target.place, &Options { limits: self.limits, ..Options::default() });
        next::next(&self.witnesses(&now))
    }

    fn witnesses<'a>(&'a self, look: &'a Look) -> Witnesses<'a> {
        Witnesses::gather(look, &self.target).by(self.limits)
    }
}
