//! `[beads:]DIR` on a command line.

use super::ProtocolHelp;

/// The options that it understands beside those of every claim.
pub const OPTIONS: &[&str] = &["--any-directory"];

/// The page of `beadlock help beads`.
pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "A beads database: [beads:]DIR",
    text: "\
DIR is the directory of the database, usually .beads. The lock is the file .exclusive-lock in it. Sync daemons skip \
the database while the lock is valid.

A lock is valid as long as its process lives. A check removes the lock of a process that has ended. A lock of another \
host stays until its holder releases it, or until somebody breaks it.

A claim waits up to 10 seconds for the holder, and up to 130 seconds for a sync cycle that is running.

Without a target, beadlock takes $BEADLOCK_TARGET, then $BEADS_DIR, then the nearest .beads directory up the tree.",
    examples: "\
beadlock hold -- make release
beadlock hold path/to/.beads -- ./import.sh
beadlock status .beads",
    heading: "",
};
