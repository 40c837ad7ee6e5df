//! beadlock.
fn main() {}
