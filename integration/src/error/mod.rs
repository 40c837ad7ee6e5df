//! Why something failed, as a code and in words, and how the program ends.
//!
//! ```text
//! failure.rs   Error and its Code
//! exit.rs      the exit codes, and the End of the program
//! holder.rs    who was in the way, for programs
//! retry.rs     when to come back
//! ```

mod exit;
mod failure;
mod holder;
mod retry;

pub use exit::{End, Exit, Replaced};
pub use failure::{Code, Error};
pub use holder::Holder;
