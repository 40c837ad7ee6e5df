//! What a Rust program uses.

pub mod file_lock;
pub mod framework;
pub mod hold;
pub mod memory_lock;
