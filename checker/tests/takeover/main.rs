//! Removal, recovery, creation and release (docs/design.md#changing-a-lock-file), with something bad happening between
//! any two steps: a writer that knows nothing of the gate, in place or by rename, or a crash. Each with leases and with
//! the portable means.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as it must be"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools do to a lock file"
)]

mod broken;
mod claim;
mod heartbeat;
mod held;
mod lease;
mod recovery;
mod release;
mod removal;
mod scene;
mod tower;
mod whole;
