//! What only beadlock's own crates use. It carries no stability promise: any release may change it.
//!
//! Each module here shows what is public in the one of its name.

pub use crate::error::{Result, words as system_words};
pub use crate::facts::is_process_alive;
pub use crate::filesystem::{FileSystem, Reach, shared_file_system};
pub use crate::gate::{Gate, PassedOn};
pub use crate::gate_loss::{GateLossCause, GateWatch};
pub use crate::gates::{GateHolder, Gates, Role, flock_of};
pub use crate::look::{Look, first_bytes, look, look_all, raw};
pub use crate::namespace::{Member, Namespaces};
pub use crate::on_disk::{FileKind, OnDisk};
pub use crate::opened::{OpenDirectory, up};
pub use crate::place::Names;
pub use crate::refresh::RefreshWatch;
pub use crate::zombie::Zombie;

pub mod address {
    pub use crate::address::*;
}
pub mod audit {
    pub use crate::audit::*;
}
pub mod beside {
    pub use crate::beside::*;
}
pub mod closed {
    pub use crate::closed::*;
}
pub mod database {
    pub use crate::database::*;
}
pub mod dialect {
    pub use crate::dialect::*;
}
pub mod digest {
    pub use crate::digest::*;
}
pub mod duration {
    pub use crate::duration::*;
}
pub mod escape {
    pub use crate::escape::*;
}
pub mod facts {
    pub use crate::facts::*;
}
pub mod git {
    pub use crate::git::*;
}
pub mod log_line {
    pub use crate::log_line::*;
}
pub mod mounts {
    pub use crate::mounts::*;
}
pub mod obstacle {
    pub use crate::obstacle::*;
}
pub mod outputs {
    pub use crate::outputs::*;
}
pub mod process {
    pub use crate::process::*;
}
pub mod redirect {
    pub use crate::redirect::*;
}
pub mod runner {
    pub use crate::runner::*;
}
pub mod shell {
    pub use crate::shell::*;
}
pub mod sys {
    pub use crate::sys::*;
}
pub mod take {
    pub use crate::take::*;
}
pub mod target {
    pub use crate::target::*;
}
