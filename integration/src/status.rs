//! `beadlock status`: who, since when, valid or not and why, what to type next. Never changes anything
//! (docs/design.md#looking).

use std::ffi::OsString;

use beadlock_checker::internal::address::Address;
use beadlock_checker::internal::dialect::memory::Limits;
use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::{Gates, look, raw};
use beadlock_checker::{Options, Verdict};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use crate::claim::nested;
use crate::error::{Code, Error, Exit};
use crate::explain::seen::Seen;
use crate::explain::witnesses::Witnesses;
use crate::file::{self, FileTarget};
use crate::memory::options::Ages;
use crate::memory::status::Status;
use crate::output::answers::{Answers, each, not_written};
use crate::output::talk::{Talk, print_bytes};
use crate::settings::environment::Environment;
use crate::target::Found;

/// `beadlock status [TARGET…]`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The databases' directories, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH
    pub targets: Vec<OsString>,
    /// Print the lock file's own bytes, unchanged, and nothing else; of memory:DIR its document's status object
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Ask the agent that listens at ADDR how all its databases fare: IP:PORT, or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = address(), conflicts_with_all = ["raw", "targets", "stale_after", "stale_after_remote"])]
    pub agent: Option<Address>,
    #[command(flatten)]
    pub ages: Ages,
}

fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(|text| Address::parse(&text))
}

/// Looks at every target; one that cannot be answered does not stop the others.
pub fn run(targets: &[OsString], ages: &Ages, environment: &Environment, talk: &Talk) -> Answers {
    let mut answers = Answers::default();
    for target in each(targets) {
        match FileTarget::meant(target.map(OsString::as_os_str), environment) {
            Ok(None) => {}
            Ok(Some(file)) => {
                if let Err(error) = ages.refuse_for(&file.given()) {
                    answers.failed(error);
                    continue;
                }
                let look = file::Look::at(file, &Gates::now());
                answers.exits.push(Exit::Done);
                answers.data.push(look.json());
                answers.text.push_str(&look.text(talk));
                continue;
            }
            Err(error) => {
                answers.failed(error);
                continue;
            }
        }
        let found = Found::to_look_at(target.map(OsString::as_os_str), environment, talk);
        match found.and_then(|target| Ok((ages.for_target(&target)?, target))) {
            Ok((limits, target)) => {
                target.warn(talk);
                // The one is what stops every claim; the other is still what is there.
                if let Err(error) = target.refuse_tracked() {
                    talk.warn(&error.to_string());
                }
                let options = Options { limits, ..Options::default() };
                let seen = Seen { look: look(&target.place, &options), target };
                let witnesses = Witnesses::gather(&seen.look, &seen.target).by(limits);
                answers.exits.push(Exit::Done);
                answers.data.push(seen.json(&witnesses));
                answers.text.push_str(&seen.text(&witnesses, talk));
            }
            Err(error) => answers.failed(error),
        }
    }
    answers
}

/// `status --raw`: the bytes of every target's lock file, one after the other, as they are; of one that is not there
/// none. What cannot be read is a failure: whoever keeps a copy must not take an empty one for it. Of the lock of a
/// directory it is the document's status object.
pub fn run_raw(targets: &[OsString], ages: &Ages, environment: &Environment, talk: &Talk) -> Answers {
    let mut answers = Answers::default();
    for target in each(targets) {
        let found = Found::to_look_at(target.map(OsString::as_os_str), environment, talk);
        let bytes = found.and_then(|target| {
            target.warn(talk);
            let limits = ages.for_target(&target)?;
            if target.has_age() {
                return of_memory(&target, limits, environment);
            }
            let not_read = |words| format!("{} was not read: {words}", escaped_path(&target.path()));
            let bytes = raw(&target.place).map_err(|words| Error::new(Code::Io, not_read(words)))?;
            Ok(bytes.unwrap_or_default())
        });
        match bytes.and_then(|bytes| print_bytes(&bytes).map_err(|error| not_written(&error))) {
            Ok(()) => answers.exits.push(Exit::Done),
            Err(error) => answers.failed(error),
        }
    }
    answers
}

fn of_memory(target: &Found, limits: Limits, environment: &Environment) -> Result<Vec<u8>, Error> {
    let look = look(&target.place, &Options { limits, ..Options::default() });
    if let Verdict::Unreadable(_) = look.verdict {
        let path = escaped_path(&target.path());
        return Err(Error::new(
            Code::LockUnreadable,
            format!("{path} cannot be understood: {}", look.detail),
        ));
    }
    let we_hold_it = nested::outer_claim(target, environment).is_some();
    let status = Status::of(&look, &limits, we_hold_it);
    let mut json = serde_json::to_vec_pretty(&status).unwrap_or_default();
    json.push(b'\n');
    Ok(json)
}
