//! A lock that is judged by time: it stands only for as long as somebody keeps it up.
//!
//! ```text
//! limits.rs     how often it is kept up, and when it is given up
//! heartbeat.rs  the thread that does it
//! ```

pub mod heartbeat;
pub mod limits;

/// So many failures in a row are written down: the document of named locks has the number.
pub const FAILURES_IN_A_ROW: u32 = 3;
