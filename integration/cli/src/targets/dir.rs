//! `dir:PATH` on a command line.

use super::ProtocolHelp;

/// The page of `beadlock help dir`.
pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "Any directory, with cycles: dir:PATH",
    text: "\
PATH is a directory that need not be a database. The lock is the file .exclusive-lock in it, by the rule of a beads \
database, and `beadlock cycle` runs commands on it that a claim waits for and then keeps out.

A lock is valid as long as its process lives. A check removes the lock of a process that has ended. A claim waits up \
to 10 seconds for the holder, and up to 130 seconds for a cycle that is running.",
    examples: "\
beadlock cycle dir:. -- make
beadlock hold dir:. -- git switch main
beadlock status dir:.",
    heading: "",
};
