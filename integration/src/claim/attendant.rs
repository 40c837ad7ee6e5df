//! What looks after a wait, what a wait is for, and how it is stopped.

pub use crate::observe::{NOTICE_AFTER, Stopped, TICK, Unattended, WaitControl, Waited};
