//! `beadlock status`: the holder, since when, valid or not and why, what to type next. Never changes anything
//! (docs/design.md#looking).

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::Options;
use beadlock_core::{
    gate_holders::GateHolders,
    look::{look, raw},
};
use serde_json::Value;

use beadlock_base::stdout::print;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::protocol::named_claim::{LostClaim, stands};
use beadlock_claim::protocol::{Acceptance, LookOptions, resolve, worktrees};
use beadlock_claim::report::{Report, STATUS};
use beadlock_claim::{protocol::rules::ProtocolKind, target::Target};
use beadlock_console::answers::{Answers, each, not_written};
use beadlock_console::table::{fitted, terminal_width};
use beadlock_console::talk::Talk;
use beadlock_explain::{explanation::Explanation, observed::Observed, seen::SeenTarget};

mod sync;

use self::sync::SyncSight;

/// How much of a target `status` looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusScope {
    /// The lock alone.
    Lock,
    /// The lock, and the sync of a database.
    LockAndSync,
}

/// The answer of a database's fleet about the database.
#[derive(Debug)]
pub struct FleetSight {
    /// The answer in one line, for people.
    pub line: String,
    /// The answer in JSON, for programs.
    pub json: Value,
}

/// Asks the fleet of a target; `None`: it has joined none.
pub type LookAtFleet = fn(&Target, &Environment) -> Option<FleetSight>;

/// Looks at every target; one that cannot be answered does not stop the others.
pub fn run(
    targets: &[OsString],
    (scope, fleet): (StatusScope, LookAtFleet),
    options: LookOptions,
    environment: &Environment,
    talk: &Talk,
) -> Answers {
    let is_here = targets.is_empty() && environment.get("BEADLOCK_TARGET").is_none();
    looked_at(targets, is_here, (scope, fleet), options, environment, talk)
}

/// The answers of [`run`]; `is_here`: with the claims of the repository of the working directory.
fn looked_at(
    targets: &[OsString],
    is_here: bool,
    (scope, fleet): (StatusScope, LookAtFleet),
    options: LookOptions,
    environment: &Environment,
    talk: &Talk,
) -> Answers {
    let mut answers = Answers::default();
    let look = |target: Option<&OsStr>| seen(target, (scope, fleet), options, environment, talk);
    let add = |answers: &mut Answers, seen: Result<(Value, String), Error>| match seen {
        Ok((data, text)) => answers.add(Exit::Done, data, &fitted(&text, terminal_width())),
        Err(error) => answers.failed(error),
    };
    for target in each(targets) {
        let seen = look(target);
        let answers_here = !matches!(&seen, Err(error) if error.code() != Code::NoTarget);
        let of_worktrees = match is_here && answers_here {
            true => names_of_worktrees(environment),
            false => Vec::new(),
        };
        // Where there is no database, the claims of the repository are the answer.
        if of_worktrees.is_empty() || seen.is_ok() {
            add(&mut answers, seen);
        }
        for name in of_worktrees {
            add(&mut answers, look(Some(&name)));
        }
    }
    answers
}

/// The locks `lock:@NAME` of the repository here.
fn names_of_worktrees(environment: &Environment) -> Vec<OsString> {
    let target = |name: OsString| [OsStr::new("lock:@"), &name].into_iter().collect();
    let there = worktrees::there(environment);
    let names = there.into_iter().flat_map(|(_, names)| names);
    names.map(target).collect()
}

/// [`run`] for one target, that exits with 9 where the claim `id` does not stand.
pub fn run_id(
    targets: &[OsString],
    (id, fleet): (&str, LookAtFleet),
    options: LookOptions,
    environment: &Environment,
    talk: &Talk,
) -> Answers {
    if targets.len() > 1 {
        let mut answers = Answers::default();
        answers.failed(Error::usage("--id is of one claim, and so of one target"));
        return answers;
    }
    let scope = StatusScope::LockAndSync;
    let mut answers = looked_at(targets, false, (scope, fleet), options, environment, talk);
    if answers.errors.is_empty() {
        let named = targets.first().map(OsString::as_os_str);
        match resolve(named, environment, Acceptance::Any)
            .map(|target| claim_of(id, &target, environment))
        {
            Ok(None) => {}
            Ok(Some(lost)) => {
                talk.say(&lost);
                answers.exits.push(Exit::Lost);
            }
            Err(error) => answers.failed(error),
        }
    }
    answers
}

/// Why the claim `id` does not stand; `None`: it does.
fn claim_of(id: &str, target: &Target, environment: &Environment) -> Option<String> {
    match LostClaim::of(id, target, environment) {
        Some(lost) => Some(lost.to_string()),
        None if stands(id, target) => None,
        None => Some(format!(
            "it cannot be told whether the claim {} stands",
            escaped(id)
        )),
    }
}

fn seen(
    target: Option<&OsStr>,
    (scope, fleet): (StatusScope, LookAtFleet),
    options: LookOptions,
    environment: &Environment,
    talk: &Talk,
) -> Result<(Value, String), Error> {
    let target = resolve(target, environment, Acceptance::ToLookAt(talk))?;
    let options = options.of(&target, Options::default())?;
    if let ProtocolKind::Kernel(kernel) = target.rules().kind {
        let observed = Observed::of(target, kernel, &GateHolders::now());
        let report = observed.report();
        return Ok((report.json(STATUS), observed.text(&report, talk)));
    }
    target.warn(talk);
    // A tracked lock stops every claim; status still shows what is there.
    if let Err(error) = target.refuse_tracked() {
        talk.warn(&error.to_string());
    }
    let seen = SeenTarget {
        look: look(&target.place, &options),
        target,
    };
    let explanation = Explanation::of(&seen.look, &seen.target, &options);
    let report = seen.report(explanation);
    let sync = sync_of(&seen.target, scope);
    let line = sync.as_ref().and_then(|sync| sync.line(talk));
    let fleet = fleet(&seen.target, environment);
    let line_of_fleet = fleet.as_ref().map(|fleet| format!("  {}\n", fleet.line));
    let report = Report {
        sync: sync.map(SyncSight::json),
        fleet: fleet.map(|fleet| fleet.json),
        ..report
    };
    let text = if talk.is_verbose() {
        SeenTarget::text
    } else {
        SeenTarget::brief
    };
    let text = text(&seen, &report, line, talk) + &line_of_fleet.unwrap_or_default();
    Ok((report.json(STATUS), text))
}

/// The sync of a database by its agent, else by its log. `None`: it is not asked for, or neither tells of it.
fn sync_of(target: &Target, scope: StatusScope) -> Option<SyncSight> {
    match scope {
        StatusScope::LockAndSync if target.has_cycles() => SyncSight::of(target.dir()),
        StatusScope::Lock | StatusScope::LockAndSync => None,
    }
}

/// `status --raw`: the bytes of every target's lock file, one after the other; none for a lock that is not there. A
/// file that cannot be read is a failure: a copy of it must not be empty. Where the protocol's document has a status
/// object, this prints that.
pub fn run_raw(
    targets: &[OsString],
    options: LookOptions,
    environment: &Environment,
    talk: &Talk,
) -> Answers {
    let mut answers = Answers::default();
    for target in each(targets) {
        let found = resolve(target, environment, Acceptance::ToLookAt(talk));
        let bytes = found.and_then(|target| {
            target.warn(talk);
            let options = options.of(&target, Options::default())?;
            if let Some(document) = target.document_status(&options, environment) {
                return document;
            }
            let not_read =
                |why: &dyn Display| format!("{} was not read: {why}", escaped_path(&target.path()));
            if !target.has_record() {
                return Err(Error::usage(not_read(
                    &"this lock has no record, and its file no content",
                )));
            }
            let bytes = raw(&target.place).map_err(|why| Error::new(Code::Io, not_read(&why)))?;
            Ok(bytes.unwrap_or_default())
        });
        match bytes.and_then(|bytes| print(&bytes).map_err(|error| not_written(&error))) {
            Ok(()) => answers.exits.push(Exit::Done),
            Err(error) => answers.failed(error),
        }
    }
    answers
}
