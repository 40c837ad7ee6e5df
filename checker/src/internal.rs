//! What only beadlock's own crates use. It carries no stability promise: any release may change it.
//!
//! Each module here shows what is public in the one of its name.

pub use crate::{
    check::has_fleet_mark, error::Result, error::words as system_words, facts::is_process_alive,
    filesystem::shared_file_system,
};
pub use crate::{
    filesystem::FileKind, filesystem::FileSystem, filesystem::Reach, gate::Gate, gate::PassedOn,
};
pub use crate::{
    gate_loss::GateLossCause, gate_loss::GateWatch, gates::GateHolder, gates::Gates,
    gates::flock_of,
};
pub use crate::{
    gates::Role, look::Look, look::first_bytes, look::look, look::look_all, look::raw,
    namespace::Member,
};
pub use crate::{
    namespace::Namespaces, on_disk::OnDisk, opened::OpenDirectory, opened::up, place::Names,
};
pub use crate::{refresh::RefreshWatch, zombie::Zombie};

macro_rules! shown {
    ($($module:ident)*) => {
        $(pub mod $module {
            pub use crate::$module::*;
        })*
    };
}

shown! {
    address agent_process audit beside children closed database deadline dialect dolt duration escape facts git log_line
    mounts obstacle outputs process redirect regular runner secrets shell sys take target
}
