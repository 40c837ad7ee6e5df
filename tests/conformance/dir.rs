//! `dir:PATH`: any directory, by the lock and the rule of a database. The rest is as in `beads`.

use crate::beads::BEADS;
use crate::protocol::{Audit, HOLDER, Protocol, Refusal};

const DIR: Protocol = Protocol {
    target: "dir:data",
    shown: "dir:data",
    directory: "data",
    gate: "data",
    refusal: Refusal {
        at_once: |pid| format!("data/.exclusive-lock is held by {HOLDER} (PID {pid}"),
        ..BEADS.refusal
    },
    audit: Audit {
        lock_name: "dir:data",
        ..BEADS.audit
    },
    ..BEADS
};

stories!(DIR);
