//! `beadlock status`: the holder, since when, valid or not and why, what to type next. Never changes anything
//! (docs/design.md#looking).

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::time::Duration;

use beadlock_base::{
    address::Address,
    escape::{escaped, escaped_path},
};
use beadlock_core::Options;
use beadlock_core::{
    gates::Gates,
    look::{look, raw},
};
use clap::{Args, builder::OsStringValueParser, builder::TypedValueParser};
use serde_json::Value;

use crate::claim::target::Target;
use crate::error::{Code, Error, Exit};
use crate::explain::{explanation::Explanation, observed::Observed, seen::Seen};
use crate::output::answers::{Answers, each, not_written};
use crate::output::table::{fitted, terminal_width};
use crate::output::{talk::Talk, talk::print};
use crate::protocol::named_claim::{LostClaim, stands};
use crate::protocol::{Acceptance, LookArgs, resolve};
#[cfg(feature = "fleet")]
use crate::run::fleet::look::FleetSight;
use crate::settings::environment::Environment;

mod sync;

use self::sync::SyncSight;

const EXAMPLES: &str = "\
Examples:
  beadlock status
  beadlock status --agent unix:agent.sock
  beadlock status --agent localhost:19187 --exit-code   # for probes and cron";

const EXITS: &str = "\
status changes nothing. It exits with 0 when it could look, whatever it found; with --id only while that claim
stands, else with 9. With --exit-code: 0 all is well, 1 the work of a database does not arrive, 4 one is skipped,
5 no agent answers.";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = EXITS)]
pub struct StatusArgs {
    /// The databases' directories, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH
    pub targets: Vec<OsString>,
    /// Print the lock file's own bytes, unchanged, and nothing else; of memory:DIR its document's status object
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Exit with 0 while the claim with this id stands, else with 9; of one target
    #[arg(long, value_name = "ID", conflicts_with_all = ["raw", "agent"])]
    pub id: Option<String>,
    /// Ask the agent that listens at ADDR how all its databases fare: IP:PORT, localhost:PORT,
    /// or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = address(),
          conflicts_with_all = ["raw", "targets", "stale_after", "stale_after_remote"])]
    pub agent: Option<Address>,
    /// With --agent: exit with 0 when all is well, 1 when one fails or is not served, 4 when one is skipped, 5 when no
    /// agent answers
    #[arg(long, requires = "agent", conflicts_with_all = ["watch", "targets", "id", "raw"])]
    pub exit_code: bool,
    /// Print what changes, a line each, until a signal ends it
    #[arg(long, requires = "agent", conflicts_with_all = ["json", "targets", "id", "raw"])]
    pub watch: bool,
    /// With --watch: the time between two looks
    #[arg(long, value_name = "DUR", default_value = "2s", requires = "watch",
          value_parser = crate::settings::arguments::interval)]
    pub interval: Duration,
    #[command(flatten)]
    pub protocol: LookArgs,
}

fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(|text| Address::parse(&text))
}

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusScope {
    Lock,
    /// Of a database its sync, too.
    LockAndSync,
}

/// Looks at every target; one that cannot be answered does not stop the others.
pub fn run(
    targets: &[OsString],
    scope: StatusScope,
    protocol: &LookArgs,
    environment: &Environment,
    talk: &Talk,
) -> Answers {
    let mut answers = Answers::default();
    for target in each(targets) {
        match seen(target, scope, protocol, environment, talk) {
            Ok((data, text)) => answers.add(Exit::Done, data, &fitted(&text, terminal_width())),
            Err(error) => answers.failed(error),
        }
    }
    answers
}

/// [`run`] for one target, that exits with 9 where the claim `id` does not stand.
pub fn run_id(
    targets: &[OsString],
    id: &str,
    protocol: &LookArgs,
    environment: &Environment,
    talk: &Talk,
) -> Answers {
    if targets.len() > 1 {
        let mut answers = Answers::default();
        answers.failed(Error::usage("--id is of one claim, and so of one target"));
        return answers;
    }
    let scope = StatusScope::LockAndSync;
    let mut answers = run(targets, scope, protocol, environment, talk);
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
    scope: StatusScope,
    protocol: &LookArgs,
    environment: &Environment,
    talk: &Talk,
) -> Result<(Value, String), Error> {
    let target = resolve(target, environment, Acceptance::ToLookAt(talk))?;
    let options = protocol.options(&target, Options::default())?;
    if let Some(kernel) = target.protocol.without_record() {
        let observed = Observed::of(target, kernel, &Gates::now());
        return Ok((observed.json(), observed.text(talk)));
    }
    target.warn(talk);
    // A tracked lock stops every claim; status still shows what is there.
    if let Err(error) = target.refuse_tracked() {
        talk.warn(&error.to_string());
    }
    let seen = Seen {
        look: look(&target.place, &options),
        target,
    };
    let explanation = Explanation::of(&seen.look, &seen.target, &options);
    let text = if talk.is_verbose() {
        Seen::text
    } else {
        Seen::brief
    };
    let mut data = seen.json(&explanation);
    let sync = sync_of(&seen.target, scope);
    let line = sync.as_ref().and_then(|sync| sync.line(talk));
    if let (Some(object), Some(sync)) = (data.as_object_mut(), sync) {
        object.insert("sync".to_owned(), sync.json());
    }
    let answer = (data, text(&seen, &explanation, line, talk));
    Ok(with_fleet(&seen.target, answer, environment))
}

/// What the agent of a database says of its sync, else its log.
fn sync_of(target: &Target, scope: StatusScope) -> Option<SyncSight> {
    match scope {
        StatusScope::LockAndSync if target.has_cycles() => SyncSight::of(target.dir()),
        StatusScope::Lock | StatusScope::LockAndSync => None,
    }
}

/// With what the fleet of a database says of it.
#[cfg(feature = "fleet")]
fn with_fleet(
    target: &Target,
    (mut data, mut text): (Value, String),
    environment: &Environment,
) -> (Value, String) {
    if let Some(fleet) = FleetSight::of(target, environment) {
        text.push_str(&format!("  {}\n", fleet.line()));
        if let Some(object) = data.as_object_mut() {
            object.insert("fleet".to_owned(), fleet.json());
        }
    }
    (data, text)
}

#[cfg(not(feature = "fleet"))]
fn with_fleet(_: &Target, seen: (Value, String), _: &Environment) -> (Value, String) {
    seen
}

/// `status --raw`: the bytes of every target's lock file, one after the other; none for a lock that is not there. A
/// file that cannot be read is a failure: a copy of it must not be empty. Where the protocol's document has a status
/// object, this prints that.
pub fn run_raw(
    targets: &[OsString],
    protocol: &LookArgs,
    environment: &Environment,
    talk: &Talk,
) -> Answers {
    let mut answers = Answers::default();
    for target in each(targets) {
        let found = resolve(target, environment, Acceptance::ToLookAt(talk));
        let bytes = found.and_then(|target| {
            target.warn(talk);
            let options = protocol.options(&target, Options::default())?;
            if let Some(document) = target
                .protocol
                .document_status(&target, &options, environment)
            {
                return document;
            }
            let not_read =
                |why: &dyn Display| format!("{} was not read: {why}", escaped_path(&target.path()));
            if target.protocol.without_record().is_some() {
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
