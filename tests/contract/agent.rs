//! beadlock-agent.
