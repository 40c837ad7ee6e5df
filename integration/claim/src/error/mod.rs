//! Why something failed, as a code and in words, and how the program ends.

mod exit;
mod failure;

pub use exit::Exit;
pub use failure::{Code, Error, Holder, Problem, detail_of, holder_of_record};
