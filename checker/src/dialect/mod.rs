//! The five dialects; beads is the first.
pub mod beads;
