//! Tools that have the protocols' own code, beside ours.

mod memory;
mod race;
mod tower;
