//! `beadlock status --agent ADDR`: what a running agent says of its databases (docs/design.md#looking).

pub(crate) mod client;
pub(crate) mod ending;
pub(crate) mod report;
pub mod watch;

use std::time::Duration;

use beadlock_base::address::Address;
use serde::Deserialize;
use serde_json::Value;

use beadlock_claim::error::{Code, Exit};
use beadlock_console::Console;
use beadlock_console::answers::{conclude, ended, print_answer};
use beadlock_console::program_end::ProgramEnd;

use self::client::NoAnswer;
use self::report::AgentAnswer;

/// Asks the agent that listens at this address, and prints what it says: a table, or the envelope with its own JSON.
///
/// With `has_exit_code` the code says how the databases fare (`AgentAnswer::exit`); no answer is 5.
pub fn run(address: &Address, has_exit_code: bool, common: &Console) -> ProgramEnd {
    match look(address, client::PATIENCE) {
        Ok((status, said)) => {
            let exit = if has_exit_code {
                status.exit()
            } else {
                Exit::Done
            };
            ended(
                print_answer(common, said, None, || status.text(&common.talk)),
                exit.code(),
            )
        }
        Err(error) => {
            let exit = if has_exit_code {
                Exit::Unreadable
            } else {
                Exit::Failed
            };
            conclude(common, Err((ProgramEnd::Code(exit.code()), error.into())))
        }
    }
}

/// Asks the agent at `address` for its status, and returns it with the JSON that the agent sent. The agent must answer
/// within `patience`.
///
/// # Errors
/// When no agent answers there, or when the answer is not a status that this version can read.
pub(crate) fn look(
    address: &Address,
    patience: Duration,
) -> Result<(AgentAnswer, Value), NoAnswer> {
    let body = client::get(address, "/status", patience)?;
    let no_agent = |why: serde_json::Error| {
        let message = format!(
            "what answers at {address} is not a beadlock-agent of this version: {why}; is the address right?"
        );
        NoAnswer::new(Code::Io, message)
    };
    let said: Value = serde_json::from_slice(&body).map_err(no_agent)?;
    let status = AgentAnswer::deserialize(&said).map_err(no_agent)?;
    Ok((status, said))
}
