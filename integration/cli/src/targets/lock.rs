//! `lock:PATH` on a command line.

use super::ProtocolHelp;

/// The page of `beadlock help lock`.
pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "A lock file at any path: lock:PATH",
    text: "\
PATH is the lock file itself. The record in it, and the rule for it, are those of a beads database. No sync daemon \
runs cycles on it.

lock:@NAME is one lock for all working trees of the git repository here: beadlock/NAME.lock in the directory that they \
share. Outside of a repository it is $XDG_RUNTIME_DIR/beadlock/NAME.lock.

A lock is valid as long as its process lives. A check removes the lock of a process that has ended. A claim waits up \
to 10 seconds for the holder.",
    examples: "\
beadlock hold lock:run/import.lock -- ./import.sh
beadlock hold lock:@staging -- ./deploy.sh
beadlock status lock:run/import.lock",
    heading: "",
};
