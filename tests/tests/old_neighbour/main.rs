//! Tools that have the protocols' own code, beside ours.

mod tower;
