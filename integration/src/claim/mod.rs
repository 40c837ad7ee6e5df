//! Claims (docs/design.md#holding): what every command shares that makes one, waits for one, watches one or ends one,
//! and the command that runs under it.

pub mod asking;
pub mod claiming;
mod command_error;
pub mod draft;
pub mod event;
pub mod explained;
pub mod fleet;
pub mod gate;
pub mod interactive_wait;
pub mod keeping;
pub mod kernel_claim;
pub mod kernel_lock;
pub mod lease;
pub mod leaving;
pub mod loss;
pub mod nested;
pub mod on_loss;
pub mod patience;
pub mod protocol;
pub mod record_claim;
pub mod release;
pub mod report;
pub mod request;
pub mod session_claim;
pub mod settling;
pub mod supervise;
pub mod target;
pub mod under;
