//! `beadlock status --agent ADDR`: what a running agent says of its databases (docs/design.md#looking).

mod client;
pub mod ending;
pub mod report;
pub mod watch;

use beadlock_checker::internal::address::Address;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Code, End, Error, Exit};
use crate::output::Common;
use crate::output::answers::{conclude, ended, print_answer};

use self::report::AgentStatus;

/// Asks the agent that listens at this address, and prints what it says: a table, or the envelope with its own JSON.
pub fn run(address: &Address, common: &Common) -> End {
    match look(address) {
        Ok((status, said)) => ended(
            print_answer(common, said, None, || status.text(&common.talk)),
            Exit::Done.code(),
        ),
        Err(error) => conclude(common, Err((End::Code(Exit::Failed.code()), error))),
    }
}

/// What the agent says that listens there, and its own JSON.
///
/// # Errors
/// When none answers there.
pub fn look(address: &Address) -> Result<(AgentStatus, Value), Error> {
    let body = client::get(address, "/status")?;
    let no_agent = |why: serde_json::Error| {
        let message = format!(
            "what answers at {address} is not a beadlock-agent of this version: {why}; is the address right?"
        );
        Error::new(Code::Io, message)
    };
    let said: Value = serde_json::from_slice(&body).map_err(no_agent)?;
    let status = AgentStatus::deserialize(&said).map_err(no_agent)?;
    Ok((status, said))
}
