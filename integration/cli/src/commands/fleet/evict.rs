//! `beadlock fleet evict SESSION`: somebody's session is to end. It is marked, never revoked: the work under it may
//! still run, and its owner ends that first.

use beadlock_base::escape::{escaped, is_harmless};
use beadlock_claim::error::Problem;
use beadlock_core::facts;
use beadlock_fleet::{BrokenValue, Evicted, Fleet, Lease, SessionValue, Who};
use clap::Args;
use serde_json::{Value, json};

use crate::fleet::config::config;
use crate::fleet::error::fleet_error;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, answers::conclude};

const EXAMPLES: &str = "\
Examples:
  beadlock fleet evict 163f04009f12e5c7 --reason \"build-3 hangs\"";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = super::EXITS)]
pub struct EvictArgs {
    /// The session, as beadlock fleet status shows it: 16 digits
    #[arg(value_name = "SESSION", value_parser = session)]
    pub session: Lease,
    /// Why: its owner is told
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
}

fn session(text: &str) -> Result<Lease, String> {
    Lease::parse(text)
        .ok_or_else(|| "a session is 16 of 0-9 a-f, as beadlock fleet status shows it".to_owned())
}

fn reason(text: &str) -> Result<String, String> {
    let is_fit = (1..=500).contains(&text.chars().count()) && text.chars().all(is_harmless);
    if is_fit {
        Ok(text.to_owned())
    } else {
        Err("a reason is 1 to 500 printable characters in one line".to_owned())
    }
}

pub fn run(typed: &EvictArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let evicted = evict(typed, environment, common)
        .map_err(|error| (ProgramEnd::Code(error.exit().code()), error));
    conclude(common, evicted)
}

fn evict(typed: &EvictArgs, environment: &Environment, common: &Console) -> Result<Value, Error> {
    let fleet = Fleet::open(&config(environment)?).map_err(fleet_error)?;
    let session = typed.session;
    let Evicted::Marked(SessionValue { who, .. }) = fleet
        .evict(
            session,
            &why(typed.reason.as_deref().unwrap_or("no reason given")),
        )
        .map_err(fleet_error)?
    else {
        let message = format!(
            "there is no session {session} in the fleet at {}; type: beadlock fleet status",
            fleet.url()
        );
        return Err(Error::new(Code::NoTarget, message));
    };
    let (host, pid) = (escaped(&who.host), who.pid);
    common.talk.say(&format!(
        "told session {session} (PID {pid} on {host}) to end; if it does not hear that, it is gone within 15s"
    ));
    Ok(json!({"session": session.to_string(), "host": who.host, "pid": who.pid, "marked": true}))
}

/// The user that wants the session to end, and why.
pub fn why(reason: &str) -> BrokenValue {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .ok()
        .flatten();
    let by = user.map_or_else(
        || format!("user {}", nix::unistd::getuid()),
        |user| user.name,
    );
    BrokenValue {
        by,
        host: Who::this_process().host,
        why: reason.to_owned(),
        at: facts::now(),
    }
}
