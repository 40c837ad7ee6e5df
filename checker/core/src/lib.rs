//! Lock files: what one says, what that means, and the one way it is made and removed.
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Its face with a promise is `beadlock-checker`.
//!
//! From bottom to top: a record is read ([`read`], [`record`]) and judged with the [`facts`] about its process
//! ([`verdict`]); a [`place`](target) is where it lies; the [`gate`] keeps cycles and claims apart; [`take`] makes and
//! removes lock files; [`fn@check`] decides for a daemon.

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod agent_process;
pub mod audit;
pub mod check;
pub mod database;
pub mod decision;
pub mod directory;
pub mod dolt;
pub mod facts;
pub mod find_watchdog;
pub mod gate;
pub mod gate_holders;
pub mod gate_loss;
pub mod helper_request;
pub mod lock_file_stat;
pub mod log_line;
pub mod look;
pub mod obstacle;
pub mod options;
pub mod own_cycle;
pub mod place;
pub mod read;
pub mod record;
pub mod redirect;
pub mod renewal_watch;
pub mod reserved;
pub mod take;
pub mod target;
pub mod unread;
pub mod verdict;
pub mod zombie;

pub use check::{Cycle, Entered, check, should_skip_database};
pub use decision::{Decision, NotChecked, Proceed, Removed, Skip, Watched};
pub use gate_loss::GateLoss;
pub use options::Options;
pub use place::Place;
pub use record::{Record, StartedAt};
pub use verdict::{Reason, Verdict};
