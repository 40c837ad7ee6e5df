//! The tasks of this repository that are programs. A test of `beadlock-tests` looks at the same tables without running
//! them.

pub mod check;
pub mod protocol;
pub mod schemas;
