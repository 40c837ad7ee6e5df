//! Tools that claim.
