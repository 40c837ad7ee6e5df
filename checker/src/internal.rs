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

macro_rules! shown {
    ($($module:ident)*) => {
        $(pub mod $module {
            pub use crate::$module::*;
        })*
    };
}

shown! {
    address audit beside closed database dialect digest duration escape facts git log_line mounts obstacle
    outputs process redirect runner shell sys take target
}
