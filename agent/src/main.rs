//! beadlock-agent.
fn main() {}
