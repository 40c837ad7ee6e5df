//! `beadlock status --agent ADDR`: what a running agent says of its databases (docs/design.md#looking).

mod client;
mod report;

use beadlock_checker::internal::address::Address;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Code, End, Error, Exit};
use crate::output::Common;
use crate::output::answers::{conclude, not_printed};
use crate::output::envelope::Request;
use crate::output::talk::print;

use self::report::AgentStatus;

/// Asks the agent that listens at this address, and prints what it says: a table, or the envelope with its own JSON.
pub fn run(address: &Address, common: &Common, request: &Request) -> End {
    match look(address) {
        Ok((status, said)) => {
            match print(&if common.json { String::new() } else { status.text(&common.talk) }) {
                Ok(()) => conclude(common, request, Ok(said)),
                Err(why) => not_printed(common, &why),
            }
        }
        Err(error) => conclude(common, request, Err((End::Code(Exit::Failed.code()), error))),
    }
}

fn look(address: &Address) -> Result<(AgentStatus, Value), Error> {
    let body = client::get(address, "/status")?;
    let no_agent = |why: serde_json::Error| {
        let message = format!("what answers at {address} is no beadlock-agent: {why}; is the address right?");
        Error::new(Code::Io, message)
    };
    let said: Value = serde_json::from_slice(&body).map_err(no_agent)?;
    let status = AgentStatus::deserialize(&said).map_err(no_agent)?;
    Ok((status, said))
}
