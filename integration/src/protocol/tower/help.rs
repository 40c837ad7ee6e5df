//! `beadlock help tower`.

use super::options::HEADING;
use crate::protocol::help::ProtocolHelp;

pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "A named lock: tower:NAME",
    text: "\
The lock is the file NAME.lock in the lock directory. It says who runs what, and since when.

A lock is valid as long as its heartbeat is fresh. beadlock writes the heartbeat while the command runs. After --ttl \
seconds without a heartbeat the lock is stale. A stale lock is taken only with --force-lock. Its PID is never asked.

A claim does not wait for the holder, unless --wait says so.",
    examples: "\
beadlock hold tower:app --intent-name deploy --intent-version 2 -- ./deploy.sh
beadlock hold --intent deploy.yaml -- ./deploy.sh
beadlock list tower:",
    heading: HEADING,
};
