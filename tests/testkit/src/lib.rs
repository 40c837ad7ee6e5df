//! What every test needs, of whatever crate.
//!
//! A test gets a [`Scene`]: a temporary directory with a `.beads` in it, programs started there from an empty
//! environment, and the promise that nothing it started outlives it. It waits for what can be seen ([`until`],
//! [`wait_until`]) and never for time alone. What a machine lacks is said in one line and skipped
//! ([`skip`](mod@skip)); where `CI` is set it fails instead.
//!
//! The testkit knows no crate that it tests, so each of them can have it as a dev-dependency.

pub mod alone;
pub mod binaries;
pub mod dice;
pub mod ended;
pub mod etcd;
pub mod executable;
pub mod git;
pub mod memory;
pub mod over;
pub mod part;
pub mod process;
pub mod proxy;
pub mod pulse;
pub mod record;
pub mod running;
pub mod scene;
pub mod schema;
pub mod shown;
pub mod skip;
pub mod spread;
mod stage;
pub mod terminal;
pub mod tmux;
pub mod wait;

pub use dice::Dice;
pub use ended::Ended;
pub use etcd::Etcd;
pub use executable::write_program;
pub use git::gits;
pub use memory::memory;
pub use over::OverAtLast;
pub use part::part;
pub use process::{
    become_subreaper, children, dead_pid, is_inside, lives, process_is_gone, reap, reap_all, runs,
    this_host,
};
pub use proxy::{Passing, Proxy};
pub use pulse::Pulse;
pub use record::{is_request_id, lock_text, shell_lock_text};
pub use running::{Running, run, sleeper};
pub use scene::{Scene, read};
pub use skip::{as_nobody, has_program, may_be_root, root, shared, tool};
pub use spread::Spread;
pub use terminal::Terminal;
pub use tmux::Tmux;
pub use wait::{PATIENCE, fastest, until, wait_until};
