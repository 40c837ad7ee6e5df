//! A lock that is judged by time: it stands only for as long as somebody keeps it up.
//!
//! ```text
//! limits.rs     how often it is kept up, and when it is given up
//! heartbeat.rs  the thread that does it
//! ```

pub mod heartbeat;
pub mod limits;

use std::{fmt, time::Duration};

/// Hears of each heartbeat, to stop the work where there is none.
pub trait HearHeartbeats: fmt::Debug + Send {
    /// One that was begun at this time of the clock that counts a suspend has succeeded.
    fn beat(&mut self, begun: Duration);
    /// The lock is lost: there is nothing to be kept up any more.
    fn over(&mut self);
}

/// So many failures in a row are written down: the document of named locks has the number.
pub const FAILURES_IN_A_ROW: u32 = 3;
