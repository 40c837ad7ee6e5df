//! beadlock-checker.
pub mod dialect;
mod error;
pub mod escape;
mod verdict;
pub use error::{Error, Result};
pub use verdict::{Decision, Proceed, Reason, Skip, Verdict};
