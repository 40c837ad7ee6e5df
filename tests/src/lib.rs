//! The harness of the tests that no single crate can promise.
//!
//! A test gets a [`Scene`]: a temporary directory with a `.beads` in it, both programs started there from an
//! empty environment, and the promise that nothing it started outlives it. It waits for what can be seen
//! ([`wait_until`]) and never for time alone. What a machine lacks is said in one line and skipped
//! ([`skip`](mod@skip)); where `CI` is set it fails instead.

pub mod alone;
pub mod binaries;
pub mod dice;
pub mod executable;
pub mod hostile;
pub mod kind;
pub mod over;
pub mod part;
pub mod process;
pub mod protocol;
pub mod pulse;
pub mod scene;
pub mod seed;
pub mod skip;
pub mod spread;
pub mod stepwise;
pub mod wait;

pub use dice::Dice;
pub use executable::write_program;
pub use kind::Kind;
pub use over::OverAtLast;
pub use part::part;
pub use process::{Running, become_subreaper, dead_pid, reap, reap_all, run, this_host};
pub use pulse::Pulse;
pub use scene::{Ended, Scene, lock_text};
pub use skip::{may_be_root, root, shared, tool};
pub use spread::Spread;
pub use wait::{fastest, wait_until};
