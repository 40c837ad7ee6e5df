//! `beadlock help memory`.

use super::claim::HEADING;
use crate::protocol::help::ProtocolHelp;

pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "A directory with one lock: memory:DIR",
    text: "\
The lock is one file in DIR. It says which session holds it, and for which operation.

A lock is valid while its process lives and it is younger than --stale-after. beadlock renews it while the command \
runs. A claim takes a stale lock, unless --no-break-stale is given. It waits up to 5 seconds for the holder.",
    examples: "\
beadlock hold memory:state --operation compact -- ./compact.sh
beadlock status memory:state",
    heading: HEADING,
};
