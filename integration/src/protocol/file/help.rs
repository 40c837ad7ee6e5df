//! `beadlock help file`.

use super::command::HEADING;
use crate::protocol::help::ProtocolHelp;

pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "A file and the lock beside it: file:PATH",
    text: "\
The lock is a flock on the file PATH.lock. The kernel releases it when the holder ends, so it is never stale. \
PATH.lock stays where it is. Do not delete it.

A claim waits up to 30 seconds for the holder. When the wait runs out, the exit code is 8. With --shared several \
readers hold the lock together.",
    examples: "\
beadlock hold file:todo.json -- ./edit.sh
beadlock update file:todo.json -- jq '.open += 1'
beadlock append file:events.jsonl < line.json",
    heading: HEADING,
};
