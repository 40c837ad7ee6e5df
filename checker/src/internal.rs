//! What only beadlock's own crates use. It carries no stability promise: any release may change it.
//!
//! Each module here shows what is public in the one of its name.

pub use crate::gates::{GateHolder, Gates, Role, flock_of};
pub use crate::look::{Look, first_bytes, look, look_all, raw};
pub use crate::{error::Result, error::words as system_words, facts::is_process_alive, filesystem::shared_file_system};
pub use crate::{
    filesystem::FileKind, filesystem::FileSystem, filesystem::Reach, gate::Gate, gate::PassedOn,
    gate_loss::GateLossCause,
};
pub use crate::{gate_loss::GateWatch, namespace::Member, namespace::Namespaces, on_disk::OnDisk};
pub use crate::{opened::OpenDirectory, opened::up, place::Names, refresh::RefreshWatch, zombie::Zombie};

macro_rules! shown {
    ($($module:ident)*) => {
        $(pub mod $module {
            pub use crate::$module::*;
        })*
    };
}

shown! {
    address audit beside closed database dialect duration escape facts git log_line mounts obstacle
    outputs process redirect runner shell sys take target
}
